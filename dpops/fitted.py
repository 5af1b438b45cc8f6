"""Fitted or guessed, not learned numbers, each with origin and effect.

Learning begins at most of these; others bound it, or decide when nothing is shown. `hatstream evaluate days` tells what
a changed one does to figures, on real and made-up days. No other file of `dpops.learning` and `dpops.levels` holds such
a number (tests/dpops/test_fitted.py).

"Real" is Austin's four days, with parts and sums of them; "made-up" are drawn cities, of even seeds.
"""

# The latent Gaussian fields (docs/released.md). Strengths are precisions, each learned by Fellner-Schall steps.
PRIOR_WORTH = 6.0
"""Guessed: number of effects that a strength's prior counts as; 2 in its place changes nothing."""
WEIGHT_PRECISIONS = 0.2, 6.0
"""Real: prior precisions of log weights: of cells, and of all other effects."""
SPEED_PRECISIONS = 0.006, 0.3
"""Real: prior precisions, (km/h)^-2: of cells (13 km/h around their neighbours), and of all other effects (2 km/h)."""
OF_SMALL_CELLS = 0.2
"""Real and made-up: factor of cells' precisions at H3 resolution 8 and finer."""
FLAT, DAY_PRECISION = 1e-3, 0.25
"""Prior precisions of the city's log weight, of which nothing is known, and of a day's around it, weak: with less, a
city takes longer to recover from quiet first days."""
CITY_KMH = 20.0, 5.0
"""Guessed for any city: prior mean and standard deviation of its mean speed."""
SLOPE_KMH = -2.0
"""Three real cities agree: change of speed where e times as many vehicles report (stops, centres), and its prior
standard deviation. Learned."""
NIGHT, NIGHT_ENDS = -2.0, 5
"""Guessed: prior log weight of night slots over others, and the hour at which night ends."""
RETAINED, RETAINED_SD = 0.66, 0.25
"""Sixteen made-up cities (even seeds from 440 on): part of counted vehicles' weight that clips and a least norm leave,
and prior standard deviation of its logarithm. Learned."""
FLEET_SD = 0.7
"""Guessed: standard deviation of a declared fleet's logarithm around the true one: it has one digit."""
TOTAL_WORTH = 2.0
"""Guessed: degrees of freedom of the Student law of a day's log weight around its vehicles', with RETAINED_SD as scale:
clips and a least norm may take nearly all weight of one day."""
HAT_LOG_VARIANCE = 0.1
"""Real: variance of a HAT's log weight around the field, per HAT and in an hour of the city."""
FORGOTTEN = 0.05
"""Guessed: part of folded information that each folding (every second day) forgets, so that forty days count, and a
season is followed."""

# Residual variances of HATs' means (`dpops.spread`), in (km/h)^2 at 20 km/h.
VEHICLE_VARIANCE, VEHICLE_VARIANCE_SD = 152.0, 0.35
"""Real: variance of one vehicle's mean, and prior standard deviation of its log in a city. Learned, never below."""
FLOOR_VARIANCE = 1.0
"""Real: variance of the mean of very many vehicles, likewise."""
VEHICLE_FACTOR, FLOOR_FACTOR = 1.9, 4.0
"""Real and made-up, even seeds: factors of these variances in intervals. Releases are clipped and sum many HATs, so
they show less than HATs vary. No value depends on them."""
DESIGN_EFFECT = 1.3
"""Kish's design effect: vehicles report unevenly, which multiplies the variance of the mean of reports over that of
equal weights, as in a release; 1.1 in Austin, 1.4 to 3.5 in made-up cities."""

# What is shown (measurements/estimates.md, "What is held back").
MAX_RATIO, MAX_TOTAL_SD = 0.55, 0.25
"""Real and made-up, even seeds: a day is held back above this ratio of its expected squared error to the true mean's,
or above this standard deviation of its log weight."""
MAX_MOVED_KMH, FIRST_MOVED_KMH, FIRST_DAYS = 4.0, 2.5, 3
"""Real and made-up, even seeds: a day is held back where its mean lies this far from the centres of its last stage; the
second holds on an account's first days. Without them, after quiet first days 3 to 20 times the constant's error was
shown."""

HAT_SPREAD = 2.0
"""Guessed, judged on seven made-up cities: variance of the logarithm of vehicles in a region's HATs, for plans."""
NUMBER_RATIO = 16.0
"""Chosen: a number of vehicles is reliable up to this ratio of its interval's ends."""

# Groups of HATs (measurements/estimates.md, "Coarser products").
STANDS_KMH, MISWEIGHED = 6.0, 0.5
"""Guessed: at v km/h vehicles stand to the degree exp(-(v / 6)^2); a group is `unreliable` where their weight may add
this part to all other variance. In a made-up city with a depot 1 of 96 hours is `ok`; in Austin nothing changes."""

# What a plan expects (`dpops.levels.strategy`, `dpops.learning.expected`).
PLACES_KMH, HOURS_KMH = 7.0, 2.0
"""Guessed for any city: standard deviations of places around their city, a third of the variance each of grandparents,
parents and cells; and of hours, as of a parent's part of the day."""
BUSIER = 1.0
"""Guessed: standard deviation of cells' log busyness, to which reports are proportional."""
SMOOTHED = 0.6
"""A dozen made-up cities, as for DRAWN: part of a component's noise that neighbours, hours and other days leave."""
DRAWN, FADES = 0.25, 0.4
"""Bias of a vehicle whose residual speeds have the norm R, clipped to B: DRAWN R exp(-FADES (B / R)^2), km/h. With a
larger DRAWN, wider bounds are chosen."""
FEW_IN_HAT = 4.0
"""Real and seven made-up: a release of single HATs resolves at most n^2 / (n^2 + FEW_IN_HAT^2) of n vehicles' mean."""
LEAST_GAIN = 0.012
"""Made-up: expected relative gain from which on a choice replaces the default."""
LIMIT_SD_KMH = 25.0
"""Guessed: expected noise of a mean group after a week, above which a level is too fine for a fleet."""
NORM_TIMES, NORM_NOISE_KMH = 3, (0.04, 0.4)
"""Real: ninetieth percentile of vehicle-days' norms over their median (1.2 in Austin, 3.5 for taxis, 6 for buses): up
to it weights follow reports, where noise of a mean cell after a week is below the first bound. Above the second, equal
weights are better: of 61 buses they take a tenth off the error. In a dense city they make half of reports' bias."""
NORM_KMH = 6.5
"""Real: norm of a vehicle's residual speeds, by which plans compute the weight that a bound leaves."""
FLEETS_DIFFER = 4.0
"""Three real cities, eleven made-up: factor, or divisor, of HATs' residual variance by fleet: taxis more (2.3 to 5.6),
buses of few lines less. The ends of a plan's range."""
OTHERS = 2.0
"""Guessed; judged on cities of seeds 33 to 39 (docs/release.md): other vehicles in a report's HAT, over all in an
average HAT of its cell."""

# Places inside cells (measurements/streets.md).
PLACE_SDS_KMH = 0.5, 3.0, 6.0, 9.0, 12.0
"""Guessed: standard deviations of places around their cell, an even mixture with heavy tails; 7 km/h together."""
MOST_UNVISITED = 0.95
"""Guessed: largest part of unvisited places. All parts up to it count by their likelihood."""
PLACE_TRAFFIC_SDS = 0.3, 3.4
"""Guessed: range of standard deviations of other places' log weights around the expected ones, which count likewise."""
MOST_SLOWED, PLACE_SLOWED_RATIOS = 0.8, (0.33, 3.0)
"""Guessed: slow segments of streets have more reports. One that weighs r times what is expected is slower than its cell
by r to a power up to the first, the likeliest; r is clipped to the others."""
PLACE_EVIDENCE = 6.0
"""Made-up: log likelihood ratio, of places that differ from their cells to places that do not, from which on any is
published. In cities without differences it stays below 5."""
PLACE_OTHER_HOURS, LEAST_PLACE_FLOOR = 0.3, 0.5
"""Made-up: variance of a place that no day shows, as it has its reports in other hours than its cell: this part of the
variance of its cell's hours, and at least the second, (km/h)^2."""
PLACE_OTHERWISE = 0.5
"""Made-up: part of a day's residual variance in a map of the same days, where only vehicles' weights differ."""
PLACE_OWN, PLACE_COMMON, LEAST_PLACE_WEIGHT = 60.0, 3.0, 0.15
"""Real: variances of a vehicle's mean at a place on a day, and of the part common to all, (km/h)^2; no place counts as
fewer vehicles than the third. Learning the first two from squares of sums changes nothing."""
SURE = 5.0
"""Numerical: a weight this many standard deviations above 0 has its grid near the measured value."""
PLACE_WIDTH_KMH, PLACE_VEHICLES, PLACE_CAUTION = 8.0, 1.0, 1.64
"""Chosen: a place is `ok` where half its interval is narrower, and its weight less so many standard errors exceeds this
number of vehicle-days a day: a place of a single vehicle never is."""
FOUR_VEHICLES_DOUBT = 0.05
"""Chosen: chance that any place, on any day, is published with at least four vehicles and had fewer."""
SPREAD_PLACES, FEW_PLACES = 1.5, 2.6
"""Real, for plans: standard deviation of places' log busyness, where traffic is spread over places, and where few have
most of it. Of 500 taxis 2 of 100 places have three quarters of all reports."""
EVEN_PLACES = 0.5
"""Made-up (one town of lines; judged on another), for plans: likewise of segments of streets, which all of a line's
buses pass: they differ far less than hexagons."""
PLANNED_PLACE_FLOOR = 1.5
"""Guessed, for plans: variance of a place's value that no day shows, (km/h)^2."""
PLACES_APART, LEAST_APART, QUIET_PLACES = 32.0, 16.0, 2.4
"""Real, for plans: variance of places around their cell's mean by reports, per factor seven in places, and its least
(in five feeds 20 to 45 at a cell's seven parts, 45 to 110 at its forty-nine); factor of it for quiet places, which the
learner allows all."""
FIRST_CELL_SD_KMH = 5.0
"""Guessed, for plans: standard error of a cell's value after the first released day; after n days an n-th of it."""

# Distributions of cells (measurements/distributions.md).
CLASS_TILT, CLASS_STANDING, CLASS_OTHERWISE, CLASSES_ALIKE = 2.0, 0.7, 0.5, 1.5
"""Real and made-up: standard deviations of cells around the city: of the multiple of the speed in log shares, where the
upper bound is 1; of log standing weight; of that of any class. And the distance in classes at which these correlate by
e^-1/2. Twice or half of them changes errors by 3 % at most, and learning them gains nothing."""
STANDING_SHARE, CLASS_SD = 0.3, 1.0
"""Guessed: prior share of standing reports, the others lie in all classes alike, and standard deviation of
logarithms."""
CLASS_MEAN_FLOOR = 1.0
"""Guessed: variance of the classes' mean around that of reports, (km/h)^2."""
CLASS_VISITS = 0.5
"""Three made-up cities (seeds 210, 222, 228): part of the variance that a share below a speed would have if all reports
of a visit were alike. They are not."""
