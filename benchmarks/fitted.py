"""What each fitted number does to figures: `python -m benchmarks.fitted --data '../shared/data/capmetro/*.csv'`.

Each is halved and doubled by itself. The noise is the same each time, so differences are the number's own.
"""

from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import click
import numpy as np

from benchmarks.drawn import GRID, drawn
from benchmarks.cities import made_up
from benchmarks.intervals import causal
from dpops import fitted
from dpops.learning import Status
from dpops.levels import Kind
from dpops.noise import Noise
from pipelines.lab.evaluation.feed import Feed
from pipelines.lab.evaluation.learned import recipe_for
from pipelines.lab.evaluation.learned_errors import DELTA
from pipelines.lab.evaluation.truth import TrueCity, read_city

LEARNING = (
    *("OVERDISPERSION", "ANCHOR_SD", "KEPT", "HOUR_SPREAD", "SLOPE_SD_KMH", "CITY_SD_KMH"),
    *("FLOOR_SD", "LEFT", "MISCOUNTED", "MOST_LEVERAGE", "MORE_VEHICLES", "BELIEVED", "UNSAID"),
    *("MOST_LOG_VARIANCE", "MOST_IF_KNOWN", "FEW_VEHICLES", "MOST_MISSED", "LEAST_EXPLAINED", "MOST_CITY_VARIANCE"),
)
"""Of estimates, which are read where they are used; strengths and the law of spread are read once, when loaded."""
