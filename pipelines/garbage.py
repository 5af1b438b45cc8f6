"""How often Python looks for cycles of garbage: seldom, for a slot's HATs are a million objects without a cycle."""

import gc

_OBJECTS = 1_000_000


def collect_seldom() -> None:
    """Lets this process look seldom; by default each 700 new objects are looked at, which takes a third of a release's
    time."""
    gc.set_threshold(_OBJECTS, 20, 20)


def collect_no_more() -> None:
    """Lets this process end without a last look at all that it has imported, which takes a tenth of a second."""
    gc.freeze()
