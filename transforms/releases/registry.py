"""Every kind of release, by the name that a specification has for it: a line each. What it needs loads with it."""

from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from transforms.releases.base import Asked, ReleaseKind


class Kind(NamedTuple):
    """closed: the class for closed ranges, as module:name. slots: for a stream's slots, if that is another one.

    learned: whether rows say what all entries up to theirs teach, a period at a time; else each has a noisy value.
    table: of a specification, by which it asks for this kind; its keys are those of the class's `Options`, a
    msgspec.Struct. None where something else of the specification says it. worded: the kind whose words it has in
    pipelines/kinds.py; None for its own.
    """

    closed: str
    slots: str | None = None
    learned: bool = False
    table: str | None = None
    worded: str | None = None

    @property
    def module(self) -> str:
        """Where the release of a closed range is."""
        return self.closed.partition(":")[0]

    @property
    def options(self) -> Any:
        """What its table is read as."""
        return _class(self.closed).Options

    def of(self, request: "Asked") -> "ReleaseKind":
        """Makes the release of a closed range."""
        return _made(self.closed, request)

    def of_slots(self, request: "Asked") -> "ReleaseKind":
        """Makes the release of slots one by one, as they end."""
        return _made(self.slots or self.closed, request)

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
    "counts": Kind("transforms.releases.periods.counts:CountRelease", worded="levels"),
}


def _made(path: str, request: "Asked") -> "ReleaseKind":
    release: ReleaseKind = _class(path).of(request)
    return release


def _class(path: str) -> Any:
    module, _, name = path.partition(":")
    return getattr(import_module(module), name)
