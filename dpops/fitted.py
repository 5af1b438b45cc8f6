"""Fitted or guessed numbers, each with origin and effect.

Learning begins at most of these; others bound it, or decide when nothing is shown. `python -m benchmarks.fitted` tells
what each does to figures. No other file of `dpops.learning` and `dpops.levels` holds one (tests/dpops/test_fitted.py).

"Real" is Austin's four days, with parts and sums of them; "made-up" are drawn cities, of even seeds.
"""

# The latent Gaussian fields (docs/released.md). Strengths are precisions, each learned by Fellner-Schall steps.
PRIOR_WORTH = 6.0
"""Guessed: number of effects that a strength's prior counts as; 2 in its place changes little. And degrees of freedom
of the Student law of a day's log weight around its vehicles': clips may take nearly all weight of one day, and a fleet
be declared many times too small."""
CITY_SD_KMH = 5.0
"""Guessed for any city: prior standard deviation of its mean speed around 20 km/h."""
PLACES_KMH, HOURS_KMH, BUSIER = 7.0, 2.0, 1.0
"""Guessed for any city: standard deviations of places around their city, a third of the variance each of grandparents,
parents and cells; of hours, as of a parent's part of the day; and of cells' log busyness, to which reports are
proportional. Prior deviations of the fields' effects too: strengths are learned, and half or twice changes nothing."""
RING_RIDGE = 0.5
"""Guessed: precision of an hour's effect by itself, where that of its difference from each neighbour is 1."""
NORM_KMH = 6.5
"""Real: norm of a vehicle's residual speeds, which tells the weight that a bound leaves: .68 (a fit to sixteen made-up
cities: .66). Learned."""
RETAINED_SD = 0.25
"""Sixteen made-up cities (even seeds from 440 on): prior standard deviation of that weight's logarithm in a city. A day
whose weight is less known after its releases is held back."""
THINNING = 2.0
"""Fourteen cities, real and made-up, where it is 1.1 to 4.2: the power of a random walk's steps from a cell to the
region's edge that traffic goes with. Learned, with BUSIER as prior deviation."""
HAT_LOG_VARIANCE = 0.1
"""Real: variance of a HAT's log weight around the field, per HAT and in an hour of the city; prior one of effects other
than cells'."""
FORGOTTEN = 0.05
"""Guessed: part of folded information that each folding (every second day) forgets, so that forty days count, and a
season is followed."""

# Residual variances of HATs' means (`dpops.spread`), in (km/h)^2 at 20 km/h.
VEHICLE_VARIANCE = 152.0
"""Real: variance of one vehicle's mean. Learned, never below."""
FLEETS_DIFFER = 4.0
"""Three real cities, eleven made-up: factor, or divisor, of that variance by fleet: taxis more (2.3 to 5.6), buses of
few lines less. The ends of a plan's range, and of 95 % of priors of a fleet (`dpops.spread.FLEET_SD`)."""
FLOOR_VARIANCE = 1.0
"""Real: variance of the mean of very many vehicles, likewise."""
DESIGN_EFFECT = 1.3
"""Kish's design effect: vehicles report unevenly, which multiplies the variance of the mean of reports over that of
equal weights, as in a release; 1.1 in Austin, 1.4 to 3.5 in made-up cities."""

# What is shown (measurements/estimates.md, "What is held back").
MAX_RATIO = 0.55
"""Real and made-up, even seeds: a day is held back above this ratio of expected squared errors, of its map to those of
the city's true mean."""

# Groups of HATs (measurements/estimates.md, "Coarser products").
STANDS_KMH = 6.0
"""Guessed: at v km/h vehicles stand to the degree exp(-(v / 6)^2)."""

# What a plan expects (`dpops.levels.strategy`, `dpops.learning.expected`).
SMOOTHED = 0.6
"""A dozen made-up cities, as BIAS_OF_NORM: part of a component's noise that neighbours, hours and days leave."""
BIAS_OF_NORM, BIAS_DECAY = 0.25, 0.4
"""Bias of a vehicle whose residual speeds have the norm R, clipped to B: BIAS_OF_NORM R exp(-BIAS_DECAY (B / R)^2),
km/h. With a larger BIAS_OF_NORM, wider bounds are chosen."""
LEAST_GAIN = 0.012
"""Made-up: expected relative gain from which on a choice replaces the default."""
LIMIT_SD_KMH = 25.0
"""Guessed: expected noise of a mean group after a week, above which a level is too fine for a fleet."""
NORM_TIMES, NORM_NOISE_KMH = 3, (0.04, 0.4)
"""Real: ninetieth percentile of vehicle-days' norms over their median (1.2 in Austin, 3.5 for taxis, 6 for buses): up
to it weights follow reports, where noise of a mean cell after a week is below the first bound. Above the second, equal
weights are better: of 61 buses they take a tenth off the error. In a dense city they make half of reports' bias."""
CLASSES_OF_A_VEHICLE = 3.0
"""Guessed: in how many classes of speeds the reports of a vehicle in a cell lie, for the weight of all classes."""
