"""The source of all randomness of a release."""

from collections.abc import Sequence
from fractions import Fraction

from dpops.noise import gaussian, laplace
from dpops.noise.words import Words
from dpops.types import Int64s


class Noise(Words):
    """All randomness of a release. Created in one place and handed down as an argument.

    >>> from fractions import Fraction
    >>> Noise().laplace([Fraction(200)] * 3).shape
    (3,)
    """

    def laplace(self, scales: Sequence[Fraction]) -> Int64s:
        """Draws one discrete Laplace number per scale: P(z) proportional to exp(-|z| / scale), z integer.

        scales: in integer steps, each >= 0; a scale of 0 gives exactly 0.
        Raises ValueError for a negative scale or one above 2**50 steps.
        """
        return laplace.draw(self, scales)

    @staticmethod
    def laplace_scale(scale: Fraction) -> Fraction:
        """Computes the scale that a draw really has: rounded up where its numerator or denominator is 2**50 or more."""
        return Fraction(*laplace.ratio(scale))

    def gaussian(self, variances: Sequence[Fraction]) -> Int64s:
        """Draws one discrete Gaussian number per variance: P(z) proportional to exp(-z^2 / (2 variance)), z integer.

        variances: of the continuous law, in squared integer steps, each >= 0; a variance of 0 gives exactly 0.
        Raises ValueError for a negative variance or one of 2**98 and more.
        """
        return gaussian.draw(self, variances)

    def rounded_gaussian(self, variances: Sequence[Fraction]) -> Int64s:
        """Draws one normal number per variance, rounded to the nearest integer.

        An integer plus such noise is the sum of it and a normal number, rounded: what holds of Gaussian noise holds
        of it, for vectors of any shape. variances: in squared integer steps, 0 or at least 1; 0 gives exactly 0.
        Raises ValueError for another variance, or one of 2**98 and more.
        """
        return gaussian.draw_rounded(self, variances)
