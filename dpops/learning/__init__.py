"""Learning from noisy releases: fields, gate and forecasts.

Post-processing of released values and public facts alone, so it costs no privacy. A state is updated day by day
(`add_day`), is fitted when asked (`learned`), and never needs the data again.
"""

from dpops.learning.field import Field, PublishedNumbers, Status, published
from dpops.learning.fit import add_day
from dpops.learning.hat_posterior import Learned, Live, Shown, coarser, learned, live, smooth_hours, with_coarser
from dpops.learning.releases import DayValues, Design, LevelValues, StageValues
from dpops.learning.state import Facts, State
from dpops.levels.stages import Groups

# fmt: off
__all__ = [
    "DayValues", "Design", "Facts", "Field", "Groups", "Learned", "LevelValues", "Live", "PublishedNumbers", "Shown",
    "StageValues", "State", "Status", "add_day", "coarser", "learned", "live", "published", "smooth_hours",
    "with_coarser",
]
# fmt: on
