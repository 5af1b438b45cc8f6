"""Cuts a timetable's segments between consecutive stops of trips.

`xy`: metres east and north, degrees times `scale`. A step is one of the places along a line, STEP_M apart, where a stop
may be. A stretch is a fine cell that a segment passes, with the sector of the compass that it heads for there: segments
that have a stretch in common share a street there, and the first one drawn owns it.
"""

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import h3.api.basic_int as h3_int
import numpy as np

from hatstream.api import InputError, places_outside
from hatstream_city.timetable.gtfs import Gtfs
from hatstream_city.timetable.positions import EARTH_M, Floats, Int64s

FAR_M = 1_000.0
"""A stop that lies farther from its line than this is taken to lie so far: else one in the wrong place moves all."""
STEP_M, MOST_STEPS = 10.0, 20_000  # between two places of a line where a stop may be; so many of a line at most
LEAST_M, MOST_M, OFF_M = 50.0, 50_000.0, 150.0
"""Shorter and longer segments are no places; nor is one whose stop lies so far from its line."""
MOST_WORK = 3 * 10**9  # stops times places of a line where each may be, of all lines together: a few ns each
SMOOTH_M, SAMPLE_M = 2.0, 20.0
"""How far a drawn segment may lie from its line; between positions whose fine cells are looked up."""
FINE, SECTORS = 12, 16  # H3 resolution of fine cells, 20 m wide, and number of sectors of the compass
COVERED = 0.5  # a segment of which so much lies along shorter ones is left out
NAME_LETTERS = 90


class Segment(NamedTuple):
    """Line between consecutive stops."""

    stops: tuple[int, int]  # rows of their table
    xy: Floats  # (points, 2), metres east and north
    scale: Floats  # (2,), metres per degree of longitude and latitude
    length_m: float


def read_segments(
    feed: Gtfs, region: list[int], runs: Mapping[tuple[int, int], int], *, directed: bool
) -> tuple[dict[str, Any], dict[str, float]]:
    """Cuts a region's segments: GeoJSON with names, and vehicles a day by name.

    directed: a segment for each direction. runs: vehicles a day between consecutive stops, by their rows. Raises
    InputError for none, or for lines that are too long or too detailed.
    """
    segments = sorted(_segments(feed), key=lambda segment: (segment.length_m, segment.stops))
    stretches = [_stretches_of(segment, directed=directed) for segment in segments]
    indices, segment_at = _without_overlaps(segments, stretches)  # of segments to draw; whose a stretch is
    unique = [segments[index] for index in indices]
    names = _names(feed, unique, directed=directed)
    features = [_feature(segment, name, directed=directed) for segment, name in zip(unique, names, strict=True)]
    if not features:
        raise InputError(f"the timetable has no two stops that are {LEAST_M:g} m apart along a line")
    document = {"type": "FeatureCollection", "features": features}
    # A vehicle between stops counts on each segment that it passes, by the part that it drives along.
    vehicles = dict.fromkeys(indices, 0.0)
    for segment, segment_stretches in zip(segments, stretches, strict=True):
        count = runs.get(segment.stops, 0)
        passed = Counter(_segment_near(stretch, segment_at) for stretch in segment_stretches) if count else Counter()
        for index, number in passed.items():
            if index is not None:
                vehicles[index] += count * min(1.0, number / len(stretches[index]))
    try:
        left_out = set(places_outside(document, region))
    except ValueError as error:
        raise InputError(f"the timetable's segments can be no places: {error}; leave --streets out") from None
    numbered = zip(names, vehicles.values(), strict=True)
    visits = {name: round(count, 1) for name, count in numbered if name not in left_out}
    document["features"] = [feature for feature in features if feature["properties"]["name"] in visits]
    return document, visits


def _segments(feed: Gtfs) -> Iterator[Segment]:
    """Cuts a segment between each pair of stops, on its busiest line. Raises InputError."""
    times, trips = feed.stop_times, Counter[tuple[int, bytes]]()  # number by line and stops, as bytes of int64
    trip_rows, starts = np.unique(times.trip, return_index=True)
    for trip, stops in zip(trip_rows.tolist(), np.split(times.stop, starts[1:]), strict=False):
        if (line := int(feed.lines.of_trip[trip])) >= 0 and stops.size > 1:  # -1: the trip has no line
            trips[line, stops.tobytes()] += 1
    pairs: set[tuple[int, int]] = set()  # of stops, whose segment was cut
    work = 0  # distances of stops from places of lines, computed so far
    stop_lat, stop_lon = feed.stop_positions
    for line, stop_bytes in sorted(trips, key=lambda pattern: (-trips[pattern], pattern)):
        stops = np.frombuffer(stop_bytes, np.int64)
        if set(pairwise(stops.tolist())) <= pairs:  # none is new
            continue
        points = slice(feed.lines.starts[line], feed.lines.starts[line + 1])
        lat, lon = feed.lines.lat[points], feed.lines.lon[points]
        degree_m = math.radians(1) * EARTH_M  # of latitude; one of longitude shrinks, to 0 at the poles
        scale = np.array([degree_m * max(math.cos(math.radians(float(lat.mean()))), 0.01), degree_m])  # above 0
        xy = np.column_stack([lon, lat]) * scale
        along_m = _along_m(xy)
        places_m = np.linspace(0, along_m[-1], min(int(along_m[-1] / STEP_M) + 2, MOST_STEPS))  # where stops may be
        work += stops.size * places_m.size
        if work > MOST_WORK:
            raise InputError("the timetable's lines are too long or too many for segments: leave --streets out")
        stops = stops[~np.isnan(stop_lat[stops])]
        turns = np.rint((lon[0] - stop_lon[stops]) / 360)  # lines continue across the antimeridian
        stop_xy = np.column_stack([stop_lon[stops] + 360 * turns, stop_lat[stops]]) * scale
        places_xy = _points_at(xy, along_m, places_m)
        place = _nearest_steps(places_xy, stop_xy)
        is_near = np.hypot(*(places_xy[place] - stop_xy).T) <= OFF_M
        ends = zip(pairwise(stops.tolist()), pairwise(places_m[place].tolist()), pairwise(is_near), strict=True)
        for pair, (start_m, end_m), are_near in ends:
            if pair not in pairs and all(are_near) and end_m > start_m:
                pairs.add(pair)
                m = np.concatenate([[start_m], along_m[(along_m > start_m) & (along_m < end_m)], [end_m]])
                cut_lines = _cut_at_antimeridian(_points_at(xy, along_m, m), scale)
                yield from (Segment(pair, line_xy, scale, float(_along_m(line_xy)[-1])) for line_xy in cut_lines)


def _along_m(xy: Floats) -> Floats:
    """Measures the distance of positions along a line."""
    return np.append(0.0, np.cumsum(np.hypot(*np.diff(xy, axis=0).T)))


def _points_at(xy: Floats, along_m: Floats, m: Floats) -> Floats:
    """Finds points, (.., 2), at distances `m` along a line."""
    return np.column_stack([np.interp(m, along_m, column) for column in xy.T])


def _cut_at_antimeridian(xy: Floats, scale: Floats) -> Iterator[Floats]:
    """Cuts a line that continues beyond the antimeridian there."""
    round_m = 360 * scale[0]  # once around the earth, at this latitude
    turn = np.rint(xy[:, 0] / round_m)  # (points,): 0 from -180 to 180 degrees, 1 or -1 beyond
    cut = np.flatnonzero(np.diff(turn))  # the last row before each cut
    (x, y), (next_x, next_y) = xy[cut].T, xy[cut + 1].T
    edge_x = (turn[cut] + turn[cut + 1]) / 2 * round_m
    edge = np.column_stack([edge_x, y + (edge_x - x) / (next_x - x) * (next_y - y)])
    for number, rows in enumerate(np.split(np.arange(len(xy)), cut + 1)):
        # Each piece begins at the edge that the one before ended at.
        vertices = np.concatenate([edge[max(number - 1, 0) : number], xy[rows], edge[number : number + 1]])
        yield vertices - np.array([turn[rows[0]] * round_m, 0.0])  # back into -180 to 180 degrees


def _nearest_steps(steps: Floats, stops: Floats) -> Int64s:
    """Matches stops to points of a line, ascending, by least squares and dynamic programming.

    steps: points along the line, STEP_M apart. Both are (points, 2), in metres; a distance counts as FAR_M at most.
    Returns each stop's index in `steps`.
    """
    costs = np.empty((len(stops), len(steps)))  # least sum of squares of all stops up to one, if it is at a step
    for number, stop in enumerate(stops):
        costs[number] = np.minimum(np.square(steps - stop).sum(axis=1), FAR_M**2)
        if number:
            costs[number] += np.minimum.accumulate(costs[number - 1])
    nearest = np.empty(len(stops), np.int64)
    end = len(steps)
    for number in range(len(stops) - 1, -1, -1):  # no stop is behind the next one
        nearest[number] = int(costs[number, :end].argmin())
        end = int(nearest[number]) + 1
    return nearest


Stretch = tuple[int, int]  # fine cell along a segment, and the sector that it heads for; 0: segments of both ways


def _without_overlaps(
    segments: Sequence[Segment], stretches: Sequence[Sequence[Stretch]]
) -> tuple[list[int], dict[Stretch, int]]:
    """Picks segments, shortest first, that follow no earlier one for the most part.

    stretches: along each segment, in order. Returns indices of segments, and the index that each stretch belongs to.
    """
    segment_at: dict[Stretch, int] = {}
    indices = []
    for index, segment_stretches in enumerate(stretches):
        if not LEAST_M <= segments[index].length_m <= MOST_M:
            continue
        covered = sum(_segment_near(stretch, segment_at) is not None for stretch in segment_stretches)
        if covered <= COVERED * len(segment_stretches):
            indices.append(index)
            for stretch in segment_stretches:
                segment_at.setdefault(stretch, index)
    return indices, segment_at


def _segment_near(stretch: Stretch, segment_at: Mapping[Stretch, int]) -> int | None:
    """Finds the segment that owns a stretch or one nearby, within about 45 degrees."""
    if stretch in segment_at:
        return segment_at[stretch]
    cell, sector = stretch
    sectors = [(sector + turn) % SECTORS for turn in (0, -1, 1, -2, 2)]  # two sectors are 45 degrees
    stretches = ((near_cell, near_sector) for near_cell in h3_int.grid_disk(cell, 1) for near_sector in sectors)
    return next((segment_at[nearby] for nearby in stretches if nearby in segment_at), None)


def _stretches_of(segment: Segment, *, directed: bool) -> list[Stretch]:
    """Lists fine cells every SAMPLE_M metres, with the direction's sector, 0 if not directed."""
    along_m = _along_m(segment.xy)
    m = np.arange(SAMPLE_M / 2, along_m[-1], SAMPLE_M)
    behind, ahead = (_points_at(segment.xy, along_m, m + step) for step in (-SAMPLE_M / 2, SAMPLE_M / 2))
    x, y = (ahead - behind).T
    heading = np.rint(np.degrees(np.arctan2(x, y))).astype(np.int64) % 360  # from north, clockwise
    sectors = (heading * SECTORS + 180) // 360 % SECTORS  # rounded to the nearest: 180 is half of a turn
    degrees = _points_at(segment.xy, along_m, m) / segment.scale
    cells = (h3_int.latlng_to_cell(lat, lon, FINE) for lon, lat in degrees.tolist())
    return [(cell, sector if directed else 0) for cell, sector in zip(cells, sectors.tolist(), strict=True)]


def _names(feed: Gtfs, segments: list[Segment], *, directed: bool) -> list[str]:
    """Names segments `A to B`, or undirected `A - B`; repeats are numbered."""
    words = [" ".join((name or "").split()) for name in feed.tables["stops"]["stop_name"].to_pylist()]
    texts = ["".join(filter(str.isprintable, name))[:NAME_LETTERS] for name in words]
    copies: dict[str, int] = {}  # of a name so far
    names: dict[str, None] = {}  # in order
    for segment in segments:
        plain = name = (" to " if directed else " - ").join(texts[stop] or f"stop {stop + 1}" for stop in segment.stops)
        while name in names:  # also a number may be part of a stop's name
            copies[plain] = copies.get(plain, 1) + 1
            name = f"{plain} ({copies[plain]})"
        names[name] = None
    return list(names)


def _feature(segment: Segment, name: str, *, directed: bool) -> dict[str, Any]:
    """Writes a segment as GeoJSON line, simplified within SMOOTH_M metres."""
    import shapely

    smooth = shapely.get_coordinates(shapely.simplify(shapely.linestrings(segment.xy), SMOOTH_M))
    positions = np.round(smooth / segment.scale, 6).tolist()
    properties = {"name": name, **({"directed": True} if directed else {})}
    return {"type": "Feature", "properties": properties, "geometry": {"type": "LineString", "coordinates": positions}}
