"""Fitted or guessed numbers that are not learned, each with origin and effect.

Learning begins at most of these; others bound it, or decide when nothing is shown. `hatstream evaluate days` tells what
a changed one does to figures, on real and made-up days. No other file of `dpops.learning` and `dpops.levels` holds such
a number (tests/dpops/test_fitted.py).

"Real" is Austin's four days, with parts and sums of them; "made-up" are drawn cities, of even seeds.
"""

# The latent Gaussian fields (docs/released.md). A strength is a precision whose prior is worth six effects; from there
# Fellner-Schall steps lead to what releases say, each strength by itself.
PRIOR_WORTH = 6.0
"""Guessed: effects that the prior of a strength is worth; 2 in its place changes nothing."""
WEIGHT_PRECISIONS = 0.2, 6.0
"""Real: of logarithms of weights: of cells, and of all other effects."""
SPEED_PRECISIONS = 0.006, 0.3
"""Real, in (km/h)^-2: of cells (13 km/h around their neighbours), and of all other effects (2 km/h)."""
OF_SMALL_CELLS = 0.2
"""Real and made-up: of H3 resolution 8 and finer, so much of the precisions of cells."""
FLAT, DAY_PRECISION = 1e-3, 0.25
"""Of the city's logarithm of weight: nothing is known before releases and vehicles say it. And of a day's around it,
weak: with less, a city takes longer to recover from quiet first days."""
CITY_KMH = 20.0, 5.0
"""Guessed for any city: its mean speed before any release, give or take as much."""
SLOPE_KMH = -2.0
"""Three real cities agree: where e times as many vehicles report, they are so much slower (stops, centres), before any
release give or take as much. Learned."""
NIGHT, NIGHT_ENDS = -2.0, 5
"""Guessed: the logarithm of what fleets do before five o'clock, before anything is known."""
RETAINED, RETAINED_SD = 0.66, 0.25
"""Sixteen made-up cities (even seeds from 440 on): what clips, and a least number of reports, leave of what counted
vehicles would weigh; and how far, in logarithms, a city may be from that. Learned."""
FLEET_SD = 0.7
"""Guessed: how far, in logarithms, a declared fleet may be from the true one: it has one digit."""
TOTAL_WORTH = 2.0
"""Guessed: a day's logarithm of weight lies around what its vehicles would weigh as cities do around RETAINED, but by a
Student law of so many degrees of freedom: clips and a least norm may take nearly all weight of one day."""
HAT_LOG_VARIANCE = 0.1
"""Real: variance of the logarithm of a HAT's weight around the field, per HAT and in an hour of the city."""
FORGOTTEN = 0.05
"""Guessed: of what was folded in before, each time that older days are (every second day). So forty days count, and a
season is followed."""

# How far a HAT's own mean lies from what describes it (`dpops.spread`), in (km/h)^2 at 20 km/h.
VEHICLE_VARIANCE, VEHICLE_VARIANCE_SD = 152.0, 0.35
"""Real: variance of one vehicle's mean, and how far, in logarithms, a city may be from it. Learned, and never below."""
FLOOR_VARIANCE = 1.0
"""Real: variance of the mean of very many vehicles, likewise."""
VEHICLE_FACTOR, FLOOR_FACTOR = 1.9, 4.0
"""Real and made-up, even seeds: so many times these in intervals. What is released of a vehicle is clipped, and sums
are of many HATs, so they teach less than HATs vary. No value hangs on them."""
DESIGN_EFFECT = 1.3
"""Kish's: vehicles report unevenly, so the mean of their reports varies by so many times what it would if all counted
alike, as they do in a release; 1.1 in Austin, 1.4 to 3.5 in made-up cities."""

# What is shown (measurements/estimates.md, "What is held back").
MAX_RATIO, MAX_TOTAL_SD = 0.55, 0.25
"""Real and made-up, even seeds: a day is held back where its expected squared error is more than this part of the true
mean's, or where the logarithm of its weight is known less well."""
MAX_MOVED_KMH, FIRST_MOVED_KMH, FIRST_DAYS = 4.0, 2.5, 3
"""Real and made-up, even seeds: and where its mean lies so far from the centres of its last look; the second on an
account's first days, when a quiet one may just have been. After quiet first days 3 to 20 times the constant's error was
shown without them."""

HAT_SPREAD = 2.0
"""Guessed, judged on seven made-up cities: variance of the logarithm of vehicles in a region's HATs, for plans."""
NUMBER_RATIO = 16.0
"""Chosen: a number of vehicles is reliable where the upper end of its interval is at most so many times the lower."""

# Groups of HATs (measurements/estimates.md, "Coarser products").
STANDS_KMH, MISWEIGHED = 6.0, 0.5
"""Guessed: a place at v km/h is one where vehicles stand as far as exp(-(v / 6)^2); a group is `unreliable` where what
they may weigh adds so much to all other variance. In a made-up city with a depot 1 of 96 hours is `ok`; in Austin
nothing changes."""

# What a plan expects (`dpops.levels.strategy`, `dpops.learning.expected`, `dpops.learning.expected`).
PLACES_KMH, HOURS_KMH = 7.0, 2.0
"""Guessed for any city: standard deviations of places around their city, a third of the variance each of grandparents,
parents and cells; and of hours, as of a parent's part of the day."""
BUSIER = 1.0
"""Guessed: standard deviation of the logarithm of how busy a cell is, which reports follow."""
SMOOTHED = 0.6
"""A dozen made-up cities, as the next line: what neighbours, hours and other days leave of the noise in a part."""
DRAWN, FADES = 0.25, 0.4
"""A vehicle whose residual speeds have the norm R, clipped to B, draws values by DRAWN R exp(-FADES (B / R)^2), km/h.
More of the first, and wider bounds are chosen."""
FEW_IN_HAT = 4.0
"""Real and seven made-up: of n vehicles' own mean a release of single HATs tells n^2 / (n^2 + FEW_IN_HAT^2) at best."""
LEAST_GAIN = 0.012
"""Made-up: another choice than the usual one is made where it is expected to be so much better."""
LIMIT_SD_KMH = 25.0
"""Guessed: expected noise of a mean group after a week, above which a level is too fine for a fleet."""
NORM_TIMES, NORM_NOISE_KMH = 3, (0.04, 0.4)
"""Real: the ninetieth percentile of vehicle-days' norms over their median (1.2 in Austin, 3.5 for taxis, 6 for buses):
up to it weights follow reports, where noise of a mean cell after a week is below the next. Above the last equal weights
are better: of 61 buses they take a tenth off the error. In a dense city half of reports' bias was of equal weights."""
NORM_KMH = 6.5
"""Real: the norm of a vehicle's residual speeds, by which a plan knows what a bound leaves of its weight."""
FLEETS_DIFFER = 4.0
"""Three real cities, eleven made-up: how many times as far, in variance, or less, a fleet's HATs may lie from what
describes them: taxis more (2.3 to 5.6), buses of few lines less. The ends of a plan's range."""
OTHERS = 2.0
"""Guessed; judged on cities of seeds 33 to 39 (docs/release.md): a report's HAT holds its own vehicle and others, so
many times as many as an average HAT of its cell."""

# Places inside cells (measurements/streets.md).
PLACE_SDS_KMH = 0.5, 3.0, 6.0, 9.0, 12.0
"""Guessed: how far places may lie from their cell, an even mixture: with heavy tails, and 7 km/h as a whole."""
MOST_UNVISITED = 0.95
"""Guessed: the most of places that nobody visits. All parts up to it count, as far as they are likely."""
PLACE_TRAFFIC_SDS = 0.3, 3.4
"""Likewise, from the least to the most: how far others' weights lie from what is expected, as standard deviations of a
logarithm."""
MOST_SLOWED, PLACE_SLOWED_RATIOS = 0.8, (0.33, 3.0)
"""Guessed: of segments that vehicles pass whole, the slow ones have more reports. One that weighs r times what is
expected is slower than its cell by r to a power of at most the first, the likeliest; r is taken between the others."""
PLACE_EVIDENCE = 6.0
"""Made-up: so much likelier, as a logarithm, releases must be if places differ from their cells than if none does,
before any is published otherwise. In cities where none does it stayed below 5."""
PLACE_OTHER_HOURS, LEAST_PLACE_FLOOR = 0.3, 0.5
"""Made-up: what no day tells of a place, as it has its reports in other hours than its cell. So much of the variance of
its cell's hours, and at least so much in (km/h)^2."""
PLACE_OTHERWISE = 0.5
"""Made-up: how much of a day's own mean counts for a map of the same days, where vehicles only weigh otherwise."""
PLACE_OWN, PLACE_COMMON, LEAST_PLACE_WEIGHT = 60.0, 3.0, 0.15
"""Real: variance of a vehicle's own mean at a place on a day, and of what all have in common, (km/h)^2; no place counts
as fewer vehicles than the third. Learning the first two from squares of sums changed nothing."""
SURE = 5.0
"""How exactly it is computed: a weight so many standard deviations above 0 is looked for near what was measured."""
PLACE_WIDTH_KMH, PLACE_VEHICLES, PLACE_CAUTION = 8.0, 1.0, 1.64
"""Chosen: a place is `ok` where half its interval is narrower, and where more vehicle-days a day are expected, even if
its weight is smaller by so many standard deviations: one that a single vehicle visits never is."""
FOUR_VEHICLES_DOUBT = 0.05
"""Chosen: the chance that at any place, on any day, at least four vehicles are spoken of where fewer were."""
SPREAD_PLACES, FEW_PLACES = 1.5, 2.6
"""Real, for plans: standard deviation of the logarithm of how busy a place is, where traffic is spread over places, and
where few have most of it. Of 500 taxis 2 of 100 places have three quarters of all reports."""
EVEN_PLACES = 0.5
"""Made-up (one town of lines; judged on another), for plans: the same of segments of streets, where
all of a line's buses pass: far more alike than hexagons."""
PLANNED_PLACE_FLOOR = 1.5
"""Guessed, for plans: variance of a place's value that no day tells, (km/h)^2."""
PLACES_APART, LEAST_APART, QUIET_PLACES = 32.0, 16.0, 2.4
"""Real, for plans: variance of places around their cell's mean by reports, so much more with each seven places in the
place of one (in five feeds 20 to 45 at a cell's seven parts, 45 to 110 at its forty-nine); and how many times as much
quiet places lie off, which the learner allows all of them."""
FIRST_CELL_SD_KMH = 5.0
"""Guessed, for plans: how far a cell's value lies off after the first released day; after n days an n-th of it."""

# Distributions of cells (measurements/distributions.md).
CLASS_TILT, CLASS_STANDING, CLASS_OTHERWISE, CLASSES_ALIKE = 2.0, 0.7, 0.5, 1.5
"""Real and made-up: how far cells lie from the city, as standard deviations: of the multiple of the speed in the
logarithm of shares, where the upper bound is 1; of the logarithm of what stands; of that of any class. And so many
classes apart, these are correlated by e^-1/2. Twice or half of them changed errors by 3 % at most, and learning them
gained nothing."""
STANDING_SHARE, CLASS_SD = 0.3, 1.0
"""Guessed: of a city of which nothing is known so many reports stand, the others lie in all classes alike; as a
logarithm give or take so much."""
CLASS_MEAN_FLOOR = 1.0
"""Guessed: variance that the mean of classes may lie from that of reports, (km/h)^2."""
CLASS_VISITS = 0.5
"""Three made-up cities (seeds 210, 222, 228): of the variance of a share below a speed that few visits make if all
reports of one are alike. They are not."""
