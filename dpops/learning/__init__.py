"""What one's own noisy releases teach: counts and means with intervals, a gate and forecasts.

Post-processing: it looks at released values and public facts alone, so it costs no privacy. A state is updated day by
day (`taken_in`), is fitted when asked (`learned`), and never needs the data again.
"""

from dpops.learning.coarser import SOURCES, Shown, coarser, with_coarser
from dpops.learning.design import Design, Smoothness
from dpops.learning.interval import PublishedNumbers, Status, published
from dpops.learning.learner import Field, Learned, learned, taken_in
from dpops.learning.queries import Groups
from dpops.learning.releases import DayValues, LevelValues, StageValues
from dpops.learning.state import Facts, State
from dpops.learning.today import Live, live

__all__ = [
    "SOURCES",
    "DayValues",
    "Design",
    "Facts",
    "Field",
    "Groups",
    "Learned",
    "LevelValues",
    "Live",
    "PublishedNumbers",
    "Shown",
    "Smoothness",
    "StageValues",
    "State",
    "Status",
    "coarser",
    "learned",
    "live",
    "published",
    "taken_in",
    "with_coarser",
]
