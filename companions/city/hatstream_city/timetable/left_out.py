"""What a timetable has that is left out of a draft: how many, and of stops which."""

from collections.abc import Iterator

import numpy as np

from hatstream_city.timetable.gtfs import Gtfs

NAME_LETTERS = 60
_IMPOSSIBLE = "with one that cannot be, as near (0, 0) or a world away from all stops"


def left_out(feed: Gtfs) -> list[str]:
    """Says in a sentence each what was left out, and why."""
    return [sentence for many, sentence in _counted(feed) if many]


def _counted(feed: Gtfs) -> Iterator[tuple[int, str]]:
    rows = "1 row of the timetable has more or fewer columns than its header, and is left out."
    if feed.skipped != 1:
        rows = f"{feed.skipped:,} rows of the timetable have more or fewer columns than their header, and are left out."
    yield feed.skipped, rows
    trip, stop = (feed.rows_of("stop_times", f"{of}_id", f"{of}s") for of in ("trip", "stop"))
    unknown = int(((trip < 0) | (stop < 0)).sum())
    yield unknown, f"Left out: {unknown:,} of {trip.size:,} stop times, of a trip or stop that has no row."
    served = np.zeros(feed.tables["stops"].num_rows, np.bool_)
    served[feed.stop_times.stop] = True
    nowhere = np.flatnonzero(served & np.isnan(feed.stop_positions[0]))
    yield nowhere.size, _stops(feed, nowhere.tolist(), int(served.sum()))
    is_none = np.isnan(feed.shape_positions[0])
    points = int(is_none.sum())
    yield points, f"Left out: {points:,} of {is_none.size:,} points of shapes, without a position or {_IMPOSSIBLE}."
    fits = feed.are_frequencies
    rows_left = int((~fits).sum())
    yield (
        rows_left,
        f"Left out: {rows_left:,} of {fits.size:,} rows of frequencies.txt, without trip, times or headway.",
    )


def _stops(feed: Gtfs, nowhere: list[int], served: int) -> str:
    if not nowhere:
        return ""
    name = feed.tables["stops"]["stop_id"][nowhere[0]].as_py() or ""
    first = "".join(letter for letter in name if letter.isprintable())[:NAME_LETTERS]
    return (
        f"Left out: {len(nowhere):,} of {served:,} stops that are served, without a position or {_IMPOSSIBLE}. "
        f"The first is stop_id {first!r}."
    )
