"""One small total for a vehicle and its whole day: a bounded integer vector over coarse groups of HATs, summed up.

Adjacency add-remove: neighbours differ in one vehicle-day, that it drove at all included. Nothing here depends on a
count but the noisy sums.
"""

from dpops.levels.bounded import Rows, Sums, Vectors, sum_up, vectors
from dpops.levels.class_stage import class_edges, hats_of_classes, rows_of_classes, times_of, with_classes
from dpops.levels.count_check import count_stage, counts_stage, is_too_few, vehicles_in
from dpops.levels.defaults import BoundsOnly, Fleet, Profile, Recipe, recipe
from dpops.levels.groups import CLASS, LEVELS, PLACE, Level, PublicHats, level
from dpops.levels.live import live_stage
from dpops.levels.noisy import ReleasedLevel, ReleasedStage, read, release, release_rows
from dpops.levels.place_stage import with_places
from dpops.levels.stages import FIRST_CENTRE, UNIT, Differences, Kind, Part, Stage, alike, centres_of

__all__ = [
    "CLASS",
    "FIRST_CENTRE",
    "LEVELS",
    "PLACE",
    "UNIT",
    "BoundsOnly",
    "Differences",
    "Fleet",
    "Kind",
    "Level",
    "Part",
    "Profile",
    "PublicHats",
    "Recipe",
    "ReleasedLevel",
    "ReleasedStage",
    "Rows",
    "Stage",
    "Sums",
    "Vectors",
    "alike",
    "centres_of",
    "class_edges",
    "count_stage",
    "counts_stage",
    "hats_of_classes",
    "is_too_few",
    "level",
    "live_stage",
    "read",
    "recipe",
    "release",
    "release_rows",
    "rows_of_classes",
    "sum_up",
    "times_of",
    "vectors",
    "vehicles_in",
    "with_classes",
    "with_places",
]
