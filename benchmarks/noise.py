"""Draws a second of both kinds of noise on one core: `python -m benchmarks.noise`."""

import time
from fractions import Fraction

from dpops.noise import Noise

DRAWS = 1_000_000
SPREADS = (Fraction(1, 3), Fraction(22, 7), Fraction(397_188), Fraction(3_750_883_862_600))


def main() -> None:
    noise = Noise()
    for name, draw in (("laplace, scale", noise.laplace), ("gaussian, variance", noise.gaussian)):
        for spread in SPREADS:
            before = time.process_time()
            draw([spread] * DRAWS)
            print(f"{name} {float(spread):12g}: {DRAWS / (time.process_time() - before) / 1e6:.2f} M draws/s")


if __name__ == "__main__":
    main()
