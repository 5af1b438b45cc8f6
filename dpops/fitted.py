"""Fitted or guessed numbers, each with origin and effect.

Learning begins at most of these; others bound it, or decide when nothing is shown. `python -m benchmarks.fitted` tells
what each does to figures, on real and made-up days. No other file of `dpops.learning` and `dpops.levels` holds such
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
PLACE_SLOWED_RATIO = 3.0
"""Guessed: of segments that vehicles pass, one that weighs so many times what is expected, or more, is slower than its
cell as one that weighs as much."""
PLACE_EVIDENCE = 5.0
"""Kass and Raftery's (1995) "very strong": so much likelier, as a logarithm, releases must be if places differ from
their cells than if none does, before any is published otherwise. In cities where none does it stayed below 5."""
PLACE_WIDTH_KMH, PLACE_VEHICLES = 8.0, 1.0
"""Chosen: a place is `ok` where half its interval is narrower, and its weight exceeds this number of vehicle-days a day
by 95 % of what is believed: a place of a single vehicle never is."""
SPREAD_PLACES, FEW_PLACES = 1.5, 2.6
"""Real, for plans: standard deviation of places' log busyness, where traffic is spread over places, and where few have
most of it. Of 500 taxis 2 of 100 places have three quarters of all reports."""
EVEN_PLACES = 0.5
"""Made-up (one town of lines; judged on another), for plans: likewise of segments of streets, which all of a line's
buses pass: they differ far less than hexagons."""
FIRST_CELL_SD_KMH = 5.0
"""Guessed, for plans: standard error of a cell's value after the first released day; after n days an n-th of it."""

# Distributions of cells (measurements/distributions.md).
CLASS_TILT, CLASS_OTHERWISE, CLASSES_ALIKE = 2.0, 0.5, 1.5
"""Real and made-up: standard deviations of cells around the city: of the multiple of the speed in log shares, where the
upper bound is 1; of log weights of any class. And the distance in classes at which these correlate by e^-1/2. Twice or
half of them changes errors by 3 % at most, and learning them gains nothing."""
CLASS_VISITS = 0.5
"""Three made-up cities (seeds 210, 222, 228): part of the variance that a share below a speed would have if all reports
of a visit were alike. They are not."""
