"""What learning many places takes: `python -m benchmarks.place_scale`."""

import resource
import time

import click
import numpy as np

from dpops.learning.place_sums import Around, PlaceDay, PlaceSums
from dpops.learning.places import learn_places, whole_weight

WEIGHT_SD, SPEED_SD = 8.7, 25.6
"""Of the noise at a total of 2.64 (delta 1e-6) of which places have .3."""


@click.command()
@click.option("--places", default="10000,100000", show_default=True, help="How many; commas.")
@click.option("--days", default=4, show_default=True, help="That are taken in first.")
@click.option("--segments", is_flag=True, help="Of streets, of different lengths, which vehicles pass whole.")
def benchmark(places: str, days: int, segments: bool) -> None:
    """CPU seconds to take a day in and to learn from all, and the largest memory so far."""
    for number in map(int, places.split(",")):
        rng = np.random.default_rng(1)
        weights, means = np.exp(2 * rng.normal(size=number)), 20 + 11 * rng.normal(size=number)
        sums, start = PlaceSums.none(number), time.process_time()
        for _ in range(days):
            noisy = weights + WEIGHT_SD * rng.normal(size=number)
            speeds = weights * (means - 20) + SPEED_SD * rng.normal(size=number)
            sums = sums.after(PlaceDay(noisy, speeds, np.full(number, 20.0), WEIGHT_SD**2, SPEED_SD**2, 1.0))
        taken_s, start = (time.process_time() - start) / days, time.process_time()
        expected = np.full(number, whole_weight(sums, float(weights.sum())) / number)
        learn_places(
            sums,
            Around(
                values=np.full(number, 20.0),
                of_hours=np.full(number, 5.0),
                expected=expected,
                groups=np.arange(number) // 7,
                sizes=np.exp(0.6 * rng.normal(size=number)) if segments else None,
            ),
        )
        most_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(
            f"{number:,} places: a day {taken_s:.2f} s, learning {time.process_time() - start:.1f} s, {most_mb:.0f} MB"
        )


if __name__ == "__main__":
    benchmark()
