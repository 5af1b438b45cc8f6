"""A restriction of positions without an end, for sources that an engine stops and starts but never divides."""

from typing import Any

from apache_beam.io.iobase import RestrictionProgress
from apache_beam.io.restriction_trackers import OffsetRange, OffsetRestrictionTracker
from apache_beam.transforms.core import RestrictionProvider

NO_END = 2**62


class UnboundedTracker(OffsetRestrictionTracker):
    """Claims positions one after the other. Splits only where it is, never into a part that lies ahead."""

    def try_split(self, fraction_of_remainder: float) -> tuple[OffsetRange, OffsetRange] | None:
        if fraction_of_remainder != 0:
            return None
        return super().try_split(0)

    def current_progress(self) -> RestrictionProgress:
        return RestrictionProgress(fraction=0.0)

    def is_bounded(self) -> bool:
        return False


class UnboundedProvider(RestrictionProvider):
    """Tracks restrictions that have no size, and end where they are when a job is drained."""

    def create_tracker(self, restriction: Any) -> Any:
        return UnboundedTracker(restriction)

    def restriction_size(self, element: Any, restriction: Any) -> int:  # noqa: ARG002
        return 1

    def truncate(self, element: Any, restriction: Any) -> None:
        """Leaves nothing to be read after a drain."""
