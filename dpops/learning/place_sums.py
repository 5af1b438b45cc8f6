"""What is kept of days of places: a few sums of each place, however many days."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from dpops.types import Float64s, Int64s


class PlaceDay(NamedTuple):
    """A day's noisy sums, float64 (places,): weights, and weights times km/h around the centres.

    weight_variance, speed_variance: of the noise in each. day_weight: how much the day weighs; 1 is a usual one.
    is_laplace: whether the noise is Laplace, else it is Gaussian.
    """

    weights: Float64s
    speeds: Float64s
    centres: Float64s
    weight_variance: float
    speed_variance: float
    day_weight: float
    is_laplace: bool = False


@dataclass(frozen=True)
class PlaceSums:
    """What is kept of all days, (places,) each or one number. S, W: sums, c: centres, a: day_weight, v: variance.

    speeds: of a S / v. centred: a c S / v. centres: a^2 c / v. squares: a^2 c^2 / v. weights: a W / v of weights.
    surprise: S^2 / v. speed_precision: a^2 / v. weight_precision: likewise of weights. days: how many. is_laplace: the
    noise of all.
    """

    speeds: Float64s
    centred: Float64s
    centres: Float64s
    squares: Float64s
    weights: Float64s
    surprise: Float64s
    speed_precision: Float64s
    weight_precision: float = 0.0
    days: int = 0
    is_laplace: bool = False

    @staticmethod
    def none(places: int) -> "PlaceSums":
        zeros = np.zeros(places)
        return PlaceSums(zeros, zeros, zeros, zeros, zeros, zeros, zeros)

    def after(self, day: PlaceDay) -> "PlaceSums":
        """Adds one more day."""
        a, speed, weight = day.day_weight, 1 / day.speed_variance, 1 / day.weight_variance
        return PlaceSums(
            speeds=self.speeds + a * speed * day.speeds,
            centred=self.centred + a * speed * day.centres * day.speeds,
            centres=self.centres + a * a * speed * day.centres,
            squares=self.squares + a * a * speed * day.centres**2,
            weights=self.weights + a * weight * day.weights,
            surprise=self.surprise + speed * day.speeds**2,
            speed_precision=self.speed_precision + a * a * speed,
            weight_precision=self.weight_precision + a * a * weight,
            days=self.days + 1,
            is_laplace=day.is_laplace,
        )


@dataclass(frozen=True, kw_only=True)
class Around:
    """What is known of places beside their own sums, (places,) each.

    values: km/h, of their cells. of_hours: variance of these cells' hours around them, (km/h)^2. expected: weights on a
    usual day that their cells' traffic gives them. groups: int64, from 0, which of them lie together. sizes: how
    large each is, where vehicles pass them whole, so that they report more on long and on slow ones: segments of
    streets. None of others.
    """

    values: Float64s
    of_hours: Float64s
    expected: Float64s
    groups: Int64s
    sizes: Float64s | None = None
