"""One small total for a vehicle and its whole day: a bounded integer vector over coarse groups of HATs, summed up.

Adjacency add-remove: neighbours differ in one vehicle-day, that it drove at all included. Nothing here depends on a
count but the noisy sums.
"""

from dpops.levels.bounded import Rows, Sums, Vectors, sum_up, vectors
from dpops.levels.defaults import BoundsOnly, Fleet, Profile, Recipe, Settings, recipe, stage_of
from dpops.levels.groups import LEVELS, Hats, Level, level
from dpops.levels.live import LiveSettings, live_settings
from dpops.levels.noisy import ReleasedLevel, ReleasedStage, read, release, release_rows
from dpops.levels.simulate import rows_of
from dpops.levels.stages import FIRST_CENTRE, UNIT, Kind, Stage, centres_of

__all__ = [
    "FIRST_CENTRE",
    "LEVELS",
    "UNIT",
    "BoundsOnly",
    "Fleet",
    "Hats",
    "Kind",
    "Level",
    "LiveSettings",
    "Profile",
    "Recipe",
    "ReleasedLevel",
    "ReleasedStage",
    "Rows",
    "Settings",
    "Stage",
    "Sums",
    "Vectors",
    "centres_of",
    "level",
    "live_settings",
    "read",
    "recipe",
    "release",
    "release_rows",
    "rows_of",
    "stage_of",
    "sum_up",
    "vectors",
]
