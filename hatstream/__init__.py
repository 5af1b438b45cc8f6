"""hatstream for other people's pipelines: `Release` takes reports of vehicles and gives private statistics.

Importing it makes sure that hatstream's own packages are found, whatever folders a project has of the same names. All
else is imported when it is asked for, Beam too.
"""

import importlib
from typing import TYPE_CHECKING, Any

from hatstream.own_packages import find_own_packages_first
from hatstream.quiet_import import beam_imported_quietly

if TYPE_CHECKING:
    from pipelines.errors import UsageError
    from pipelines.runs.library import Release
    from pipelines.runs.parts import AssignHats, ClosedHats, ContributionsPerUser, ReleaseMeans
    from pipelines.runs.per_key import CountPerKey, MeanPerKey, QuantilesPerKey, UserAccount, VariancePerKey
    from pipelines.specification import Specification, SpecificationError, load
    from transforms.errors import StepError
    from transforms.ledger import AccountRefusal, LedgerError
    from transforms.steps.release import Estimate, Record

__all__ = [
    "AccountRefusal",
    "AssignHats",
    "ClosedHats",
    "ContributionsPerUser",
    "CountPerKey",
    "Estimate",
    "LedgerError",
    "MeanPerKey",
    "QuantilesPerKey",
    "Record",
    "Release",
    "ReleaseMeans",
    "Specification",
    "SpecificationError",
    "StepError",
    "UsageError",
    "UserAccount",
    "VariancePerKey",
    "load",
]

_WHERE = {
    "AccountRefusal": "transforms.ledger",
    "AssignHats": "pipelines.runs.parts",
    "ContributionsPerUser": "pipelines.runs.parts",
    "CountPerKey": "pipelines.runs.per_key",
    "Estimate": "transforms.steps.release",
    "ClosedHats": "pipelines.runs.parts",
    "LedgerError": "transforms.ledger",
    "MeanPerKey": "pipelines.runs.per_key",
    "QuantilesPerKey": "pipelines.runs.per_key",
    "Record": "transforms.steps.release",
    "Release": "pipelines.runs.library",
    "ReleaseMeans": "pipelines.runs.parts",
    "Specification": "pipelines.specification",
    "SpecificationError": "pipelines.specification",
    "StepError": "transforms.errors",
    "UsageError": "pipelines.errors",
    "UserAccount": "pipelines.runs.per_key",
    "VariancePerKey": "pipelines.runs.per_key",
    "load": "pipelines.specification",
}

find_own_packages_first()


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    with beam_imported_quietly():
        return getattr(importlib.import_module(_WHERE[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
