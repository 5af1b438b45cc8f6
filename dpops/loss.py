"""Chance that the privacy loss of noise exceeds epsilon."""

import math
from fractions import Fraction

from dpops.accountant import Accountant
from dpops.claims import log_density, mills_ratio


def chance_beyond(epsilon: Fraction, spent: Accountant, *, steered: bool = False) -> float:
    """Bounds P(L > epsilon), L being the privacy loss of all spending.

    L is the log-likelihood ratio of the draws, true input over a neighbour: whoever sees all noisy integers multiplies
    the odds of the truth by e^L. A delta is no such chance: it bounds P(Y) - e^epsilon P'(Y) for every set Y of results
    (Meiser, 2018, compares the two).

    Claims in rho, or in mu^2 = 2 rho, are of Gaussian noise: their L is normal with mean rho and variance 2 rho; that
    of a discrete or rounded Gaussian of many steps differs in far digits. A pure claim adds at most its epsilon. The
    zero-concentrated bound exp(-(epsilon - rho)^2 / (4 rho)) holds where it is less. Approximate claims bound no L: 1.

    steered: the input of later draws may follow from earlier noise in the worst way that keeps the sum of rho. Then L
    is a Brownian motion, of drift 1 and variance 2 per rho, that is stopped at will and at the latest at rho: the most
    is the chance that it exceeds epsilon at some time until then.

    Sources: Balle and Wang (2018), Lemma 3 (normal); Bun and Steinke (2016), Lemma 3.5 and Proposition 1.4 (zero-
    concentrated claims); Karatzas and Shreve (1991), section 3.5.C (first passage with drift).
    """
    if spent.epsilon or spent.delta:
        return 1.0
    if spent.pure <= epsilon and not spent.concentrated:
        return 0.0
    threshold, total_rho = float(epsilon), float(spent.concentrated + spent.pure**2 / 2)  # pure claims as rho, too
    concentrated = math.exp(-((threshold - total_rho) ** 2) / (4 * total_rho)) if threshold > total_rho else 1.0
    margin, rho = float(epsilon - spent.pure), float(spent.concentrated)
    if margin <= 0:  # pure claims alone may lose epsilon: only the zero-concentrated bound is left
        return concentrated
    sd = math.sqrt(2 * rho)
    normal = math.erfc((margin - rho) / sd / math.sqrt(2)) / 2
    if steered:  # the density times Mills' ratio is P(Z > beyond), which may underflow
        beyond = (margin + rho) / sd
        normal += math.exp(margin + (log_density(beyond) + math.log(mills_ratio(beyond))))
    return min(concentrated, normal, 1.0)
