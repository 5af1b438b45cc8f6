"""Columns that rows have on request, which of them a specification can have, and what its values are, in words."""

from collections.abc import Collection

from pipelines.errors import UsageError
from pipelines.kinds import of_kind
from pipelines.specification import Specification
from transforms.sinks.rows import Shape

FURTHER = ("times", "counts", "traffic")


def shape_with(columns: Collection[str], spec: Specification, *, by_date: bool = False) -> Shape:
    """Says what rows shall have. columns: of FURTHER. Raises UsageError for others, for counts where these are secret,
    and for traffic where nothing is learned."""
    if unknown := sorted(set(columns) - set(FURTHER)):
        raise UsageError(f"columns {unknown[0][:40]!r} is not one of {', '.join(FURTHER)}")
    if "counts" in columns and not spec.counts_are_public:
        raise UsageError(
            f"columns counts goes with adjacency 'counts-public': under {spec.account.adjacency!r} how many vehicles "
            "reported is secret"
        )
    if "traffic" in columns and not spec.is_learned:
        raise UsageError("columns traffic goes with 'levels', which alone tells how far vehicles lie from the traffic")
    zone = spec.timetable.zone if "times" in columns else None
    return Shape(
        zone,
        counts="counts" in columns,
        by_date=by_date,
        traffic="traffic" in columns,
        value_means=value_meaning(spec),
    )


_TARGETS = {
    "reports": "Mean speed of all reports, each counting once, slow vehicles more often (the space-mean speed, that "
    "running times need), estimated from noisy sums of the whole area",
    "vehicles": "Mean over vehicles of each vehicle's own mean speed in the place and slot: every vehicle counts once; "
    "estimated from noisy sums of the whole area",
}


def value_meaning(spec: Specification) -> str:
    """Says which mean a mean is."""
    meaning: str = of_kind(spec, "value")(spec)
    return meaning


def meaning_of_levels(spec: Specification) -> str:
    """Says which mean `levels` estimates."""
    levels = spec.by_levels
    if levels.target is not None:
        return _TARGETS[levels.target]
    return (
        "Mean speed, estimated from noisy sums of the whole area. It is near the mean in which a vehicle with n "
        f"reports in the place and slot counts n^{float(levels.exponent):g}; where that differs from the mean of all "
        "reports (slow vehicles report more often), it is usually higher, by up to 2 km/h"
    )


def meaning_of_hats(spec: Specification) -> str:
    """Says which mean the statistics of HATs are."""
    names = {stat.name for stat in spec.statistics}
    if names == {"mean-of-vehicles"}:
        return "Mean over vehicles of each vehicle's own mean speed: every vehicle counts once"
    if names & {"mean", "mean-of-vehicles"}:
        return "Of the statistic mean: the mean speed of all reports, each counting once, slow vehicles more often"
    return "Value of the statistic"
