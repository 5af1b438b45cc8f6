"""What a sample says of its clock and of the unit of its speeds."""

import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import cache
from importlib.resources import files
from typing import NamedTuple
from zoneinfo import ZoneInfo

import numpy as np

from dpops.types import Int64s
from transforms.layouts.base import KMH_PER_UNIT
from transforms.observe.columns import Floats

_NAMED = (("km/h", r"km_?/?h|kph|kmph"), ("mph", r"mph|miles"), ("m/s", r"m_?/s|mps|m_s\b"))
_OFFSET = re.compile(r"([+-])(\d\d):?(\d\d)?$")
MIN_PAIRS = 50
EARTH_M = 6_371_000.0
MOST_STEPS_S = 120


class Positions(NamedTuple):
    """Rows in any order, one entry each. vehicle: codes. us: since 1970 UTC. speed: as written."""

    vehicle: Int64s
    us: Int64s
    lat: Floats
    lon: Floats
    speed: Floats


def speed_unit(name: str, rows: Positions) -> tuple[str, str]:
    """The unit and why: the column's name, or speeds beside those between consecutive positions."""
    for unit, pattern in _NAMED:
        if re.search(pattern, name.lower()):
            return unit, "by the column's name"
    ratio = speed_ratio(rows)
    if ratio is not None:
        unit = min(KMH_PER_UNIT, key=lambda each: abs(np.log(ratio * float(KMH_PER_UNIT[each]) / 3.6)))
        return unit, f"by the distances between positions: a speed is {ratio:.2g} times metres per second"
    fast = float(np.quantile(rows.speed, 0.99)) if rows.speed.size else 0.0
    unit = "km/h" if fast > 35 else "m/s"
    return unit, f"a guess, from the fastest of a hundred ({fast:.0f}): check it"


def speed_ratio(rows: Positions) -> float | None:
    """Median of speeds over metres per second between consecutive positions, where vehicles move; None for too few."""
    order = np.lexsort((rows.us, rows.vehicle))
    vehicle, us = rows.vehicle[order], rows.us[order]
    lat, lon, speed = rows.lat[order], rows.lon[order], rows.speed[order]
    step_s = np.diff(us) / 1e6
    metres = distance_m(lat[:-1], lon[:-1], lat[1:], lon[1:])
    mean = (speed[1:] + speed[:-1]) / 2
    fits = (np.diff(vehicle) == 0) & (step_s >= 2) & (step_s <= MOST_STEPS_S) & (metres >= 50) & (mean > 0)
    fits &= metres / np.maximum(step_s, 1e-9) < 50
    if fits.sum() < MIN_PAIRS:
        return None
    return float(np.median(mean[fits] * step_s[fits] / metres[fits]))


def distance_m(lat1: Floats, lon1: Floats, lat2: Floats, lon2: Floats) -> Floats:
    """Great-circle distance (haversine)."""
    a, b, c, d = (np.radians(each) for each in (lat1, lon1, lat2, lon2))
    half = np.sin((c - a) / 2) ** 2 + np.cos(a) * np.cos(c) * np.sin((d - b) / 2) ** 2
    found: Floats = 2 * EARTH_M * np.arcsin(np.sqrt(np.clip(half, 0, 1)))
    return found


def offset_of(texts: Sequence[str]) -> timedelta | None:
    """The offset that most times are written with; None where they have none."""
    found = [match for text in texts[:1000] if (match := _OFFSET.search(text))]
    if len(found) < len(texts[:1000]) / 2 or not found:
        return None
    sign, hours, minutes = found[0].groups()
    whole = timedelta(hours=int(hours), minutes=int(minutes or 0))
    return -whole if sign == "-" else whole


def near_zones(lat: float, lon: float, us: int, offset: timedelta | None, most: int = 6) -> list[str]:
    """Time zones by the distance of their city, of those whose clock has the offset at that time.

    Of zones whose clocks will be the same from now on, the one that the time zone database names for all of them.
    """
    at = datetime.fromtimestamp(us / 1e6, UTC)
    fits = [
        (name, place)
        for name, place in _cities().items()
        if offset is None or at.astimezone(ZoneInfo(name)).utcoffset() == offset
    ]
    here = np.array([lat]), np.array([lon])
    far = {name: float(distance_m(*here, np.array([y]), np.array([x]))[0]) for name, (y, x) in fits}
    nearest = sorted(far, key=lambda name: far[name])
    same = _alike()
    return list(dict.fromkeys(min(same[name], key=lambda other: far.get(other, np.inf)) for name in nearest))[:most]


@cache
def _alike() -> dict[str, list[str]]:
    """The zones that stand for each zone, whose clock will be the same; itself where there is none."""
    now = datetime.now(UTC)
    at = [now + timedelta(days=14 * step) for step in range(60)]

    def clock(name: str) -> tuple[timedelta | None, ...]:
        return tuple(instant.astimezone(ZoneInfo(name)).utcoffset() for instant in at)

    standing: dict[tuple[timedelta | None, ...], list[str]] = {}
    for row in _rows("zonenow.tab"):
        standing.setdefault(clock(row[2]), []).append(row[2])
    return {name: standing.get(clock(name), [name]) for name in _cities()}


@cache
def _cities() -> dict[str, tuple[float, float]]:
    """Latitude and longitude of each zone's city, from the time zone database's own table."""
    return {row[2]: _place(row[1]) for row in _rows("zone1970.tab")}


def _rows(table: str) -> list[list[str]]:
    lines = files("tzdata").joinpath("zoneinfo", table).read_text(encoding="utf-8").splitlines()
    return [line.split("\t") for line in lines if line and not line.startswith("#")]


def _place(text: str) -> tuple[float, float]:
    """Degrees of ±DDMM[SS]±DDDMM[SS]."""
    found = re.fullmatch(r"([+-])(\d\d)(\d\d)(\d\d)?([+-])(\d{3})(\d\d)(\d\d)?", text)
    if found is None:
        raise ValueError(f"not a place: {text!r}")
    south, lat, lat_min, lat_s, west, lon, lon_min, lon_s = found.groups()
    y = int(lat) + int(lat_min) / 60 + int(lat_s or 0) / 3600
    x = int(lon) + int(lon_min) / 60 + int(lon_s or 0) / 3600
    return (-y if south == "-" else y), (-x if west == "-" else x)
