"""Names of a run's counters, as operators see them."""

from collections.abc import Callable

Count = Callable[[str, int], object]  # called with the name of a counter, and how much is added to it

NAMESPACE = "hatstream"

ROWS = "rows"
DUPLICATES = "duplicates"
CAPPED = "capped"
UNITS_CHANGED = "units changed"
UNITS_REDRAWN = "units redrawn"
UNITS_LOST = "units lost to the limit"
MISSED = "live slots missed"
NOT_OVER = "slots that were not over"
LATE_FOR_LIVE = "rows late for their live slot"
OVERTAKEN = "messages behind the watermark"
REMOVED = "messages removed unread"
AHEAD = "timestamps ahead"
REFUSED = "refused/"
UNREADABLE_FILE, VANISHED_FILE = "unreadable-file", "vanished-file"  # the reasons of a dead letter that is a whole file
LEFT_OUT = "left out/"  # of a scheduled job: the file, and why it cannot be decoded
NEW = "new/"
STOPPED = "stopped/"


def refused(stage: str, reason: str) -> str:
    """Names the counter of rows refused at a stage for a reason."""
    return f"{REFUSED}{stage}/{reason}"


def health_name(name: str) -> str:
    """Writes a counter's name for health lines, where engines differ in its spaces."""
    return name.replace(" ", "_")
