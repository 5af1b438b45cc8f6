"""What a specification says of a `levels` release, as written."""

from fractions import Fraction
from typing import Annotated, Literal

import msgspec

from dpops.levels.defaults import Fleet, Profile
from dpops.levels.stages import EXPONENT
from pipelines.specification.types_schema import about

EXPONENTS = {"reports": Fraction(1), "vehicles": Fraction(0)}
"""By target: how the weight of a vehicle's mean in a HAT grows with its reports there."""


class ProfileTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What one vehicle does on a day, roughly: how many of each it touches. Public."""

    hats: Annotated[int, about("HATs")] = Profile.hats
    cells: Annotated[int, about("cells")] = Profile.cells
    parents: Annotated[int, about("cells one resolution coarser")] = Profile.parents
    grandparents: Annotated[int, about("cells two resolutions coarser")] = Profile.grandparents
    hours: Annotated[int, about("hours of the day")] = Profile.hours
    parts: Annotated[int, about("parts of four hours")] = Profile.parts
    reports: Annotated[int | None, about("its reports in one HAT; then those of a brief visit weigh less")] = None


class FleetTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """With mechanism levels: public facts of the fleet, from timetables or the register of vehicles, never counted."""

    vehicles: Annotated[int, about("that drive on a day, roughly")] = Fleet.vehicles
    profile: ProfileTable = ProfileTable()


class LiveTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """With mechanism levels: how a stream gives the slots of a day that is not over."""

    share: Annotated[Fraction | None, about("of the total, for all slots of a period as they end")] = None
    day_lateness_s: Annotated[
        int | None,
        about(
            "so long after a period's end a stream releases it whole, and until then counts late reports; "
            "where it is left out, a scheduled job does"
        ),
    ] = None


class CountOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What is written in [[statistic]] of counts, in place of the mean."""

    of: Annotated[Literal["reports", "vehicles"], about("what is counted under each key and in each slot")]
    bound: Annotated[
        int,
        about(
            "of one vehicle and period: its counts are scaled down where the root of the sum of their squares is more; "
            "noise grows with it. Public"
        ),
    ]


class Options(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What is written in [[statistic]]; what is left out has a default that follows from the total and the fleet."""

    levels: Annotated[dict[str, Fraction] | None, about("share of the budget by level; adds up to 1")] = None
    first_levels: Annotated[dict[str, Fraction] | None, about("the same of the first look at the first day")] = None
    first_share: Annotated[Fraction | None, about("of the budget, for the first look")] = None
    bound_kmh: Annotated[
        tuple[Fraction, Fraction] | None,
        about("clip of a vehicle's residual speeds: first day, later days"),
    ] = None
    alpha: Annotated[
        tuple[Fraction, Fraction, Fraction] | None,
        about("part of the budget for speeds: the first day's two looks, later days"),
    ] = None
    target: Annotated[
        Literal["reports", "vehicles"] | None,
        about("the mean of all reports, or that of vehicles' own means; left out: between the two"),
    ] = None
    exponent: Annotated[
        Fraction | None,
        about(
            "of the number of reports that a HAT's weight grows with: `1` for target reports, `0` for "
            "vehicles, else `0.75`"
        ),
    ] = None

    @property
    def power(self) -> Fraction:
        """The exponent, named or as the target has it."""
        if self.exponent is not None:
            return self.exponent
        return EXPONENT if self.target is None else EXPONENTS[self.target]
