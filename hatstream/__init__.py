"""Private statistics of vehicle reports, for other Beam pipelines.

Importing it puts hatstream's packages ahead of a project's folders of the same names; Beam is imported lazily.
"""

from typing import TYPE_CHECKING, Any

from hatstream.own_packages import find_own_packages_first, loaded

if TYPE_CHECKING:
    from pipelines.errors import UsageError
    from pipelines.runs.library import AssignHats, ClosedHats, ContributionsPerUser, Release, ReleaseMeans
    from pipelines.runs.per_key import CountPerKey, MeanPerKey, QuantilesPerKey, UserAccount, VariancePerKey
    from pipelines.specification import Specification, SpecificationError, load
    from transforms.errors import StepError
    from transforms.ledger.head import LedgerError
    from transforms.ledger.spending import AccountRefusal
    from transforms.steps.release import Estimate, Record

# fmt: off
__all__ = [
    "AccountRefusal", "AssignHats", "ClosedHats", "ContributionsPerUser", "CountPerKey", "Estimate", "LedgerError",
    "MeanPerKey", "QuantilesPerKey", "Record", "Release", "ReleaseMeans", "Specification", "SpecificationError",
    "StepError", "UsageError", "UserAccount", "VariancePerKey", "load",
]
# fmt: on

_NAMES = {
    "pipelines.errors": "UsageError",
    "pipelines.runs.library": "AssignHats ClosedHats ContributionsPerUser Release ReleaseMeans",
    "pipelines.runs.per_key": "CountPerKey MeanPerKey QuantilesPerKey UserAccount VariancePerKey",
    "pipelines.specification": "Specification SpecificationError load",
    "transforms.errors": "StepError",
    "transforms.ledger.head": "LedgerError",
    "transforms.ledger.spending": "AccountRefusal",
    "transforms.steps.release": "Estimate Record",
}

find_own_packages_first()


def __getattr__(name: str) -> Any:
    return loaded(__name__, _NAMES, name)


def __dir__() -> list[str]:
    return sorted(__all__)
