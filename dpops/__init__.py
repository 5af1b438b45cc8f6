"""Differential privacy on numpy integers: noise, grouping, mechanisms, composition.

It knows nothing of Beam, H3, Arrow, files or clocks. `__all__` is its public interface (docs/api/dpops.md), imported
on demand.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dpops.accountant import Accountant, DeltaLimit, Limit, PureLimit, limit_of
    from dpops.allocation import Allocation
    from dpops.claims import ZCDP, ApproxDP, ClaimError, GaussianDP, PureDP, claim_of, rho_within
    from dpops.estimate import Estimates
    from dpops.forecast import Prior
    from dpops.mechanism import Mechanism, Plan, PlanError, Totals, forecast_of_one, values_of
    from dpops.mechanisms import registered
    from dpops.noise import Noise
    from dpops.statistics import RequestedStatistic, Statistic
    from dpops.types import CountsKnown, Grid

# fmt: off
__all__ = [
    "ZCDP", "Accountant", "Allocation", "ApproxDP", "ClaimError", "CountsKnown", "DeltaLimit", "Estimates",
    "GaussianDP", "Grid", "Limit", "Mechanism", "Noise", "Plan", "PlanError", "Prior", "PureDP", "PureLimit",
    "RequestedStatistic", "Statistic", "Totals", "claim_of", "forecast_of_one", "limit_of", "registered", "rho_within",
    "values_of",
]
# fmt: on

_NAMES_BY_MODULE = {
    "accountant": ("Accountant", "DeltaLimit", "Limit", "PureLimit", "limit_of"),
    "allocation": ("Allocation",),
    "claims": ("ZCDP", "ApproxDP", "ClaimError", "GaussianDP", "PureDP", "claim_of", "rho_within"),
    "estimate": ("Estimates",),
    "forecast": ("Prior",),
    "mechanism": ("Mechanism", "Plan", "PlanError", "Totals", "forecast_of_one", "values_of"),
    "mechanisms": ("registered",),
    "noise": ("Noise",),
    "statistics": ("RequestedStatistic", "Statistic"),
    "types": ("CountsKnown", "Grid"),
}


def __getattr__(name: str) -> Any:
    for module, names in _NAMES_BY_MODULE.items():
        if name in names:
            return getattr(importlib.import_module(f"dpops.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
