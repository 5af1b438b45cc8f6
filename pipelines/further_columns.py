"""Columns that rows have on request, which of them a specification can have, and what its values are, in words."""

from collections.abc import Collection

from pipelines.errors import UsageError
from pipelines.kinds import of_kind
from pipelines.specification import Specification
from transforms.sinks.rows import Shape

FURTHER = ("times", "counts", "model", "traffic")


def shape_with(columns: Collection[str], spec: Specification, *, by_date: bool = False) -> Shape:
    """Says what rows shall have. columns: of FURTHER. Raises UsageError for others, for counts where these are secret,
    and for a model where nothing is learned beside what is released."""
    if unknown := sorted(set(columns) - set(FURTHER)):
        raise UsageError(f"columns {unknown[0][:40]!r} is not one of {', '.join(FURTHER)}")
    if "counts" in columns and not spec.counts_are_public:
        raise UsageError(
            f"columns counts goes with adjacency 'counts-public': under {spec.account.adjacency!r} how many vehicles "
            "reported is secret"
        )
    if "model" in columns:
        _check_model(spec)
    if "traffic" in columns and not spec.is_learned:
        raise UsageError("columns traffic goes with 'levels', which alone tells how far vehicles lie from the traffic")
    zone = spec.timetable.zone if "times" in columns else None
    return Shape(
        zone,
        counts="counts" in columns,
        by_date=by_date,
        model="model" in columns,
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


def _check_model(spec: Specification) -> None:
    if spec.is_learned:
        raise UsageError(
            "columns model goes with means of HATs: by 'levels' every value is learned from the past already"
        )
    if not spec.counts_are_public:
        raise UsageError("columns model goes with adjacency 'counts-public': else how many reported in a HAT is secret")
    if all(statistic.name != "mean" for statistic in spec.statistics):
        names = ", ".join(repr(statistic.name) for statistic in spec.statistics)
        raise UsageError(
            f"columns model and `hatstream estimate` go with the statistic 'mean'; the specification has {names}: "
            'add a [[statistic]] with name = "mean" for days to come. Rows of released days without a model are made '
            "again by `hatstream release`, which spends nothing on them"
        )
