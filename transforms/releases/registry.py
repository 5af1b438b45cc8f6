"""Registry of kinds of releases by name, loaded lazily."""

from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from transforms.releases.base import ReleaseKind, Request


class Kind(NamedTuple):
    """Classes of a kind of release (module:name), and traits."""

    closed: str
    slots: str | None = None  # for a stream's slots, if another
    learned: bool = False  # rows by inference from all entries up to theirs, a period at a time

    def of(self, request: "Request", *, in_slots: bool = False) -> "ReleaseKind":
        """Creates the release of a range, or of slots."""
        release: ReleaseKind = _class((self.slots if in_slots else None) or self.closed).of(request)
        return release

    def why_no_stream(self, allocation: Any, options: Any) -> str | None:
        """Explains why a stream cannot release slots, or None."""
        why: str | None = _class(self.slots or self.closed).why_no_stream(allocation, options)
        return why


KINDS = {
    "hats": Kind("transforms.releases.hats.release:HatRelease"),
    "levels": Kind(
        "transforms.releases.periods.release:PeriodRelease",
        "transforms.releases.live.release:LiveRelease",
        learned=True,
    ),
    "counts": Kind("transforms.releases.periods.release:CountRelease"),
}


def _class(path: str) -> Any:
    module, _, name = path.partition(":")
    return getattr(import_module(module), name)
