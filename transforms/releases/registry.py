"""Every kind of release, by the name that a specification has for it: a line each. What it needs loads with it."""

from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from transforms.releases.base import Asked, ReleaseKind


class Kind(NamedTuple):
    """closed: the class for closed ranges, as module:name. slots: for a stream's slots, if that is another one.

    learned: whether rows say what all entries up to theirs teach, a period at a time; else each has a noisy value.
    """

    closed: str
    slots: str | None = None
    learned: bool = False

    def of(self, request: "Asked", *, in_slots: bool = False) -> "ReleaseKind":
        """Makes the release of a closed range, or of slots one by one, as they end."""
        release: ReleaseKind = _class((self.slots if in_slots else None) or self.closed).of(request)
        return release

    def why_no_stream(self, allocation: Any, options: Any) -> str | None:
        """Explains in a sentence why slots cannot be released one by one; None where they can."""
        why: str | None = _class(self.slots or self.closed).why_no_stream(allocation, options)
        return why


KINDS = {
    "hats": Kind("transforms.releases.hats.release:HatRelease"),
    "levels": Kind(
        "transforms.releases.periods.release:PeriodRelease",
        "transforms.releases.live.release:LiveRelease",
        learned=True,
    ),
    "counts": Kind("transforms.releases.periods.counts:CountRelease"),
}


def _class(path: str) -> Any:
    module, _, name = path.partition(":")
    return getattr(import_module(module), name)
