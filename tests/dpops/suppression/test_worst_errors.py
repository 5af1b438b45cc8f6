"""The worst cases of mean and variance against brute force over all small data sets, and where the slides are wrong."""

import itertools
from collections.abc import Iterable, Sequence
from fractions import Fraction

import pytest

from dpops.suppression.search import Factors, Ratio, variance_bias, variance_sensitivity
from tests.dpops.reference import variance

Weighted = Sequence[tuple[Fraction, Fraction]]  # values between 0 and U = 1 with their weights, which add up to 1

COUNTS = [
    counts
    for users in range(1, 5)
    for counts in itertools.combinations_with_replacement((1, 2, 3, 4), users)
    if sum(counts) <= 7
]
every_counts = pytest.mark.parametrize("counts", COUNTS, ids=str)
ZERO, ONE = Fraction(0), Fraction(1)
HALVES = (ZERO, Fraction(1, 2), ONE)


def mean(samples: Sequence[Fraction]) -> Fraction:
    return sum(samples, Fraction(0)) / len(samples)


def datasets(samples: int) -> Iterable[tuple[Fraction, ...]]:
    """Every sample at 0, U / 2 or U. All neighbours of one user are among them, and order within a user is nothing."""
    return itertools.combinations_with_replacement(HALVES, samples)


def moved(counts: Sequence[int], statistic: str) -> Fraction:
    """The most that replacing one user's samples changes the statistic, over all data sets."""
    of = {"mean": mean, "variance": variance}[statistic]
    most = Fraction(0)
    for user in sorted(set(counts)):
        for others in datasets(sum(counts) - user):
            answers = [of([*others, *own]) for own in datasets(user)]
            most = max(most, max(answers) - min(answers))
    return most


def mixed(weighted: Weighted) -> Fraction:
    """The variance of a distribution."""
    centre = sum((w * x for w, x in weighted), Fraction(0))
    return sum((w * (x - centre) ** 2 for w, x in weighted), Fraction(0))


def quarter(ratio: Ratio) -> Fraction:
    """U^2 / 4 times the ratio, with U = 1."""
    return Fraction(*ratio) / 4


# sensitivity


@every_counts
def test_the_sensitivities_are_attained_and_never_exceeded(counts: tuple[int, ...]) -> None:
    """Whole users: even and odd K, one user alone, K <= 2 k* and K > 2 k*."""
    kept, heaviest = sum(counts), max(counts)
    assert moved(counts, "mean") == Factors(ZERO, ZERO, ONE, ZERO).exact(kept, kept, heaviest)
    assert moved(counts, "variance") == quarter(variance_sensitivity(heaviest, kept, whole_users=True))


@pytest.mark.parametrize("shares", [(Fraction(1),), (Fraction(1, 3),) * 3, (Fraction(2, 5), Fraction(3, 5))])
def test_a_user_whose_moments_are_scaled_acts_like_a_distribution(shares: tuple[Fraction, ...]) -> None:
    """Each user has 12 samples, scaled to shares 1 of 1; 1, 1, 1 of 3; and 2, 3 of 5. With t >= 1/2 the variance moves
    by U^2 / 4, or as close to it as 12 samples can divide the share, whatever the parity of K."""
    samples = 12
    kept = {1: 1, 3: 3, 2: 5}[len(shares)]
    most = Fraction(0)
    for user, share in enumerate(shares):
        others = [w for other, w in enumerate(shares) if other != user]
        for ends in itertools.product((0, 1), repeat=len(others)):
            rest = [(w, Fraction(x)) for w, x in zip(others, ends, strict=True)]
            answers = [
                mixed(
                    [
                        *rest,
                        (share * at_upper / samples, Fraction(1)),
                        (share * (samples - at_upper) / samples, Fraction(0)),
                    ]
                )
                for at_upper in range(samples + 1)
            ]
            most = max(most, max(answers) - min(answers))
    bound = quarter(variance_sensitivity(int(max(shares) * kept), kept, whole_users=False))
    assert most == bound == (Fraction(2, 9) if len(shares) == 3 else Fraction(1, 4))


def test_one_user_with_two_samples_of_which_one_is_kept_breaks_the_refinement_for_odd_numbers() -> None:
    """Its moments are scaled, so samples at 0 and U still vary by U^2 / 4, though K = 1 and 1 - 1 / K^2 = 0."""
    samples = (Fraction(0), Fraction(1))
    count, kept = 2, 1
    total, squares = (sum(x**power for x in samples) * Fraction(kept, count) for power in (1, 2))
    reached = squares / kept - (total / kept) ** 2
    assert reached == Fraction(1, 4)
    assert reached > quarter(variance_sensitivity(1, 1, whole_users=True)) == 0
    assert reached <= quarter(variance_sensitivity(1, 1, whole_users=False))


def test_one_sample_a_user_has_a_square_in_the_denominator() -> None:
    """Erratum E6: printed is U^2 (L - 1) / L for one sample each; the truth divides by L^2."""
    for users in (3, 4, 5, 6):
        true = moved((1,) * users, "variance")
        assert true == Fraction(users - 1, users**2) == quarter(variance_sensitivity(1, users, whole_users=True))
        assert Fraction(users - 1, users) == users * true


# bias


def dropping(kept: int, samples: int, statistic: str) -> Fraction:
    """The most that dropping the last samples changes the statistic, over all data sets."""
    of = {"mean": mean, "variance": variance}[statistic]
    pairs = itertools.product(datasets(kept), datasets(samples - kept))
    return max(abs(of(left) - of([*left, *gone])) for left, gone in pairs)


@pytest.mark.parametrize(("kept", "samples"), [(k, n) for n in range(1, 8) for k in range(1, n + 1)])
def test_the_biases_of_dropping_are_attained_and_never_exceeded(kept: int, samples: int) -> None:
    """Nothing dropped, fewer than half, half, and more; even and odd."""
    assert dropping(kept, samples, "mean") == Factors(ONE, ZERO, ZERO, ZERO).exact(samples, kept, heaviest=kept)
    assert dropping(kept, samples, "variance") == quarter(variance_bias(kept, samples, whole_users=True))


def test_it_is_half_dropped_and_not_half_kept_that_parts_the_cases_of_the_bias() -> None:
    """Erratum E1: the slides part them where n > 2 K. Of ten samples, one dropped can cost 0.09 U^2 and nine 0.25."""
    for kept, true in ((9, Fraction(9, 100)), (1, Fraction(25, 100))):
        slides = Fraction(kept * (10 - kept), 100) if 2 * kept < 10 else Fraction(1, 4)
        assert dropping(kept, 10, "variance") == quarter(variance_bias(kept, 10, whole_users=True)) == true
        assert slides == Fraction(34, 100) - true
