"""Tables of options: levels, fleet, live slots, speed classes and places."""

from collections.abc import Callable
from fractions import Fraction
from typing import Annotated, Literal

import msgspec

from dpops.levels.defaults import Fleet, Profile
from dpops.levels.stages import EXPONENT
from transforms.places.ground import BETWEEN, Keys

SHARE = Fraction(3, 10)  # of a total, for places
EXPONENTS = {"reports": Fraction(1), "vehicles": Fraction(0)}  # by target: a vehicle with n reports weighs n^exponent


class ProfileTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Public rough numbers of what one vehicle touches on a day."""

    hats: Annotated[int, "HATs"] = Profile.hats
    cells: Annotated[int, "cells"] = Profile.cells
    parents: Annotated[int, "cells one resolution coarser"] = Profile.parents
    grandparents: Annotated[int, "cells two resolutions coarser"] = Profile.grandparents
    hours: Annotated[int, "hours of the day"] = Profile.hours
    parts: Annotated[int, "parts of four hours"] = Profile.parts
    reports: Annotated[int | None, "its reports in one HAT; then those of a brief visit weigh less"] = None


class PublisherTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Publisher's contacts and duties, for report and portal; no part of the spec_id."""

    controller: Annotated[str, "who decides on the processing of the vehicles' data"] = ""
    contact: Annotated[str, "an email or an address of theirs, for the portal"] = ""
    legal_ground: Annotated[str, "on which it rests"] = ""
    also_published: Annotated[
        str, "what else is public of these vehicles, such as a GTFS-realtime feed: it adds up with a release"
    ] = ""


class FleetTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """With mechanism levels: public facts of the fleet, from timetables or registers, never counted."""

    vehicles: Annotated[int, "that drive on a day, roughly"] = Fleet.vehicles
    profile: ProfileTable = ProfileTable()


class LiveTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """With mechanism levels: live slots of a day that is not over."""

    share: Annotated[Fraction | None, "of the total, for all slots of a period as they end"] = None
    day_lateness_s: Annotated[
        int | None,
        "so long after a period's end a stream releases it whole, and until then counts late reports; where it is left "
        "out, a scheduled job does",
    ] = None


class CountOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Options of [[statistic]] for counts, in place of the mean."""

    of: Annotated[Literal["reports", "vehicles"], "what is counted under each key and in each slot"]
    bound: Annotated[
        int,
        "of one vehicle and period: its counts are scaled down where the root of the sum of their squares is more; "
        "noise grows with it. Public",
    ]


class Options(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Options of [[statistic]]; defaults follow from the total and the fleet."""

    levels: Annotated[dict[str, Fraction] | None, "share of the budget by level; adds up to 1"] = None
    first_levels: Annotated[dict[str, Fraction] | None, "the same of the first look at the first day"] = None
    first_share: Annotated[Fraction | None, "of the budget, for the first look"] = None
    bound_kmh: Annotated[
        tuple[Fraction, Fraction] | None, "clip of a vehicle's residual speeds: first day, later days"
    ] = None
    alpha: Annotated[
        tuple[Fraction, Fraction, Fraction] | None,
        "part of the budget for speeds: the first day's two looks, later days",
    ] = None
    target: Annotated[
        Literal["reports", "vehicles"] | None,
        "the mean of all reports, or that of vehicles' own means; left out: between the two",
    ] = None
    exponent: Annotated[
        Fraction | None,
        "of the number of reports that a HAT's weight grows with: `1` for target reports, `0` for vehicles, else "
        "`0.75`",
    ] = None

    @property
    def power(self) -> Fraction:
        """Exponent of a HAT's reports in a vehicle's weight: as written, or the target's."""
        if self.exponent is not None:
            return self.exponent
        return EXPONENT if self.target is None else EXPONENTS[self.target]


class PlacesTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """With mechanism levels under add-remove: a map of places smaller than cells.

    Places are H3 cells of a finer resolution, or those of a file; or, without [cells], keys of a column.
    """

    resolution: Annotated[int | None, "of H3, finer than cells.resolution: all such cells of the region"] = None
    file: Annotated[
        str | None,
        "instead: a GeoJSON FeatureCollection of lines and polygons with the property name; a line with the property "
        "directed is of those who drive in the order of its positions. Public",
    ] = None
    buffer_m: Annotated[Fraction | None, "with file: so near to a line is what belongs to it; 25 if left out"] = None
    visits: Annotated[
        str | None, "a public CSV of columns place and vehicles: how many come to each on a day; absent: hardly any"
    ] = None
    share: Annotated[Fraction, "of each period's total; hexagons and hours keep the rest"] = SHARE
    column: Annotated[
        str | None,
        "of the input: names a report's key; gtfs-..: route_id, trip_id, direction_id, stop_id, next_stop_id; siri-vm: "
        "LineRef, DirectionRef, StopPointRef, PreviousStopPointRef, DatedVehicleJourneyRef",
    ] = None
    keys: Annotated[str | list[str] | None, "of column: all that are released, or their file. Public"] = None
    within: Annotated[str | None, "a second column, such as next_stop_id"] = None
    keys_within: Annotated[
        str | list[str] | None, "its keys, all pairs are released; left out: keys are pairs, a|b"
    ] = None


def read_keys(table: PlacesTable, read: Callable[[str], str]) -> Keys:
    """Builds the keys. read: returns a file's text. Raises ValueError naming the rule."""
    names = [name for name in ("resolution", "file", "buffer_m", "visits") if getattr(table, name) is not None]
    if names or table.share != SHARE:  # other than the default
        raise ValueError(f"column goes without {names[0] if names else 'share'}: keys stand in the place of hexagons")
    if table.keys is None or (table.within is None and table.keys_within is not None):
        raise ValueError("column needs keys, and keys_within needs within")

    def listed(keys: str | list[str]) -> list[str]:
        return keys if isinstance(keys, list) else [line.strip() for line in read(keys).splitlines() if line.strip()]

    keys, are_pairs = listed(table.keys), table.within is not None and table.keys_within is None
    if are_pairs and (single := next((key for key in keys if key.count(BETWEEN) != 1), None)):
        raise ValueError(f"keys of column and within are pairs, a{BETWEEN}b, or name keys_within: {single[:60]!r}")
    return Keys.of(keys, inner=None if table.keys_within is None else listed(table.keys_within))


STATISTIC = "distribution"


class ClassOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Options of the [[statistic]] of distributions, as written."""

    share: Annotated[Fraction, "of each period's total; the mean keeps the rest"] = Fraction(1, 5)
    classes: Annotated[int, "of speeds, 6 to 10: standing, and others of equal width up to the upper bound"] = 8
