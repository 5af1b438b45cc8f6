"""Learning from noisy releases: fields, gate and forecasts.

Post-processing of released values and public facts alone, so it costs no privacy. A state is updated day by day
(`taken_in`), is fitted when asked (`learned`), and never needs the data again.
"""

from dpops.learning.belief import Learned, Live, learned, live
from dpops.learning.coarser import Shown, around_day, coarser, with_coarser
from dpops.learning.field import Field, PublishedNumbers, Status, published
from dpops.learning.fit import taken_in
from dpops.learning.releases import DayValues, Design, Groups, LevelValues, StageValues
from dpops.learning.state import Facts, State

# fmt: off
__all__ = [
    "DayValues", "Design", "Facts", "Field", "Groups", "Learned", "LevelValues", "Live", "PublishedNumbers", "Shown",
    "StageValues", "State", "Status", "around_day", "coarser", "learned", "live", "published", "taken_in",
    "with_coarser",
]
# fmt: on
