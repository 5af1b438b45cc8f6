"""Every number that was fitted or guessed and not learned: where it comes from, and what it does.

What releases of an account say moves most of what is made of these: they are where learning begins, how far it may go,
and when nothing is shown. `hatstream evaluate --learned` tells what a changed one does to figures, on real and made-up
days. No other file of `dpops.learning` and `dpops.levels` holds such a number
(tests/dpops/test_fitted.py).

"Real" is Austin's four days, with parts and sums of them; "made-up" are drawn cities, of even seeds.
"""

# How strongly the effects of counts are held together before any release, as precisions of logarithms of weight. A
# Gamma prior worth six effects (a day, for days) leads from here to what releases say, by expectation-maximisation.
COUNT_CELLS, COUNT_HOURS, COUNT_PARENTS, COUNT_DAYS_OFF = 0.2, 1.5, 3.0, 10.0
"""Real. Learned from the first day on, each by itself."""
NIGHT = (-1.5, -2.0, -2.0, -2.0, -1.5, -0.7)
"""Guessed: the logarithm of what fleets do from midnight to six, before anything is known."""
OVERDISPERSION = 0.1
"""Real: variance of a group's own weight around the surface, per sum of squared HATs, and of a day's in one hour around
the city's habit. The less there is, the closer heavy groups are followed."""
ANCHOR_SD = 0.7
"""Guessed, for cells and places: how far, in logarithms, a day's whole weight may be from what the declared fleet makes
of it. A fleet is declared to one digit, and clipping takes weight away."""
COUNTED_KEPT, COUNTED_SD = 0.66, 0.25
"""Sixteen made-up cities (even seeds from 440 on): what clips, and a least number of reports, leave of what counted
vehicles would weigh; and how far, in logarithms, a city may be from that."""
KEPT = 0.9
"""Real: share of a vehicle's weight that clipping leaves. It moves the anchor alone."""
FORGOTTEN = 0.1
"""Guessed: of what was folded in before, each time that older days are (every fourth day). So forty days count, and a
season is followed."""

# The same of means, as precisions in (km/h)^-2.
MEAN_CELLS, MEAN_OTHERS = 0.006, 0.3
"""Real. Cells lie 13 km/h around their neighbours' mean; hours, parents in a part of the day, days off and a day's own
hours 2, and so do all deviations of a day while it lasts. Learned as the counts' are; where noise is heavy the first of
them decides how flat a map is."""
OF_SMALL_CELLS = 0.2
"""Real and made-up: of H3 resolution 8 and finer, so much of these precisions of cells, of means and counts alike."""
SLOPE_KMH = -2.0
"""Three real cities agree: where e times as many vehicles report, they are so much slower (stops, centres), before any
release give or take as much. Learned."""
FACTOR_SD = 0.5
"""Guessed: how far, as a factor, a live slot's weight may be from what is not clipped of a day's. Twelve made-up cities
and Austin have 1.3 to 2.4 times a day's released weights."""

# How far a HAT's own mean lies from what describes it (`dpops.spread`), in (km/h)^2 at 20 km/h.
OF_VEHICLES, OF_REPORTS, LEAST_SPREAD = 40.0, 280.0, 1.0
"""Real, all buses and a third and a sixth of them, without noise: variance of one vehicle's usual mean, of one report
around it, and of the mean of many. Most of an interval's width where few drive, which goes
with their root."""
SPREAD_POWER = 0.75
"""Real: the first two grow with the speed to this power; from 80 (km/h)^2 below 12 km/h to 450 above 34."""
REPORTS, DWELL_POWER = 2.5, 1 / 3
"""Real: reports of a vehicle in a HAT at 20 km/h where their number is secret, and how they fall with the speed."""
FLOOR, FLOOR_SD = 2.0, 0.5
"""Real (1.2 to 1.7) and made-up, of even seeds from 440 on: the variance of the mean of many vehicles that intervals
begin with, and how far, as a factor, it may be from that. At 2.64 releases of a city of Austin's size tell next to
nothing of it."""
LEFT = 0.45
"""Real and made-up: what a clip leaves of what few vehicles add to a released sum."""

# How many vehicles there are behind a weight (measurements/estimates.md, "Intervals").
MORE_VEHICLES = 2.0
"""For a weight of one vehicle of the declared profile there are so many: what is clipped takes weight away. Chosen on
eleven made-up cities (even seeds from 632 on), whose HATs hold .93 to .96. The more, the narrower are intervals."""
WEIGHT_DOUBT = 0.1
"""Made-up: variance of the logarithm of what a cell's day weighs, that the count model does not tell."""
UNSAID = 0.05
"""Five made-up cities (seeds 102 to 130): of a HAT's own variance what a release of single HATs says nothing of."""

# What is shown, and as what (measurements/estimates.md, "What is held back").
MOST_LOG_VARIANCE, MOST_OF_CELL = 0.5, 0.3
"""Real and made-up: beyond it the number of vehicles of a HAT, or of a cell's day, is hardly known: `unreliable`."""
MOST_MISSED, LEAST_EXPLAINED, MOST_CITY_VARIANCE = 0.55, 3.0, 0.15
"""61 feeds, a third of them with hardly any pattern, moved once on 28 more: the part of the constant's squared error,
the squares that a pattern explains over those of noise, the variance of the logarithm of the whole weight: beyond one
of them a day is held back. The third was moved from .05 on eighteen made-up cities (even seeds from 440 on), the first
from .75 on 25 (even seeds from 582 on), and from .65 on fifty (703 to 751, 808 to 856)."""
MOST_OFF_CENTRE_KMH = 4.0
"""Real and made-up: a day's mean that lies so far from its last look's centres was divided by another day's weight. It
held 7 bad days and none of 145 good ones, and was chosen on these; a stopgap until days have a weight of their own."""

# Groups of HATs (measurements/estimates.md, "Coarser products").
APART = 0.2
"""24 made-up cities (seeds 300 to 323): a release weighs HATs otherwise than their reports do, which may move a group's
mean by so much of how far its HATs lie apart, as standard deviations."""
STANDS_KMH, MISWEIGHED = 6.0, 0.5
"""Guessed: a place at v km/h is one where vehicles stand as far as exp(-(v / 6)^2); a group is `unreliable` where what
they may weigh adds so much to all other variance. In a made-up city with a depot 1 of 96 hours is `ok`; in Austin
nothing changes."""

# What a plan expects (`dpops.levels.strategy`, `dpops.learning.expected`, `dpops.learning.half_widths`).
CITY_SPREAD, GRANDPARENTS, PARENTS, CELLS, HOURS, PARENT_PARTS = 5.0, 3.8, 4.1, 4.1, 2.5, 1.5
"""Guessed for any city: standard deviations of the parts that describe a HAT before any release, km/h; estimates begin
with the first around 20 km/h. Places lie 7 km/h around their city."""
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
NORM_KMH = 6.5
"""Real: the norm of a vehicle's residual speeds, by which a plan knows what a bound leaves of its weight."""
UNKNOWN_LOG_VARIANCE, ROUGH_FLOOR = 1.2, 4.0
"""Made-up: of the logarithm of a HAT's vehicles, and the least spread, that a plan takes where only releases will tell:
it must not promise too much. The second also what an interval of traffic takes at least: with the learned one .857 held
in 1,200 made-up cabs, where .936 do."""
OTHERS = 2.0
"""Guessed; judged on cities of seeds 33 to 39 (docs/release.md): a report's HAT holds its own vehicle and others, so
many times as many as an average HAT of its cell."""

# Places inside cells (measurements/streets.md).
PLACE_SDS_KMH, PLACE_GROUP_SD_KMH = (0.5, 2.5, 6.0, 12.0, 20.0), 4.0
"""Guessed: how far places may lie from their cell, a mixture whose parts are learned (the first says that a place is as
its cell); and groups of them, at first."""
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
PLACE_OWN, PLACE_COMMON, MOST_PLACE_OWN = 60.0, 3.0, 400.0
"""Real: before two days tell, variance of a vehicle's own mean at a place on a day, and of what all have in common,
(km/h)^2; and the most that is believed of the first."""
MOST_PLACE_COMMON = 50.0
"""Guessed: the most that is believed of the second."""
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
