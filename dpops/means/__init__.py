"""What the mechanisms for means share: contribution bounds, grouping into arrays, capping, private quantiles."""

from dpops.means.arrays import Rule
from dpops.means.capping import CapRule, CountCap
from dpops.means.grouping import Grouping, best_fit, wrap_around
from dpops.means.quantile import private_quantiles

__all__ = [
    "CapRule",
    "CountCap",
    "Grouping",
    "Rule",
    "best_fit",
    "private_quantiles",
    "wrap_around",
]
