"""Statistics of a specification, with mechanisms and options."""

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from fractions import Fraction
from typing import Any

import msgspec

from dpops import statistics as registry
from dpops.allocation import Allocation
from dpops.forecast import Prior
from dpops.mechanism import Mechanism
from dpops.mechanisms import registered
from dpops.statistics import COUNT, RequestedStatistic, check_outputs
from pipelines.errors import SpecificationError, need, raise_as
from pipelines.specification.document import Document, converted, options_of
from pipelines.specification.levels import LevelsRelease, SpanTotal, levels_release
from pipelines.specification.tables import CountOptions, Options, fraction_from_toml
from transforms.errors import did_you_mean
from transforms.releases.periods.products import Product, product_of
from transforms.time.calendar import DAY_MINUTES, FirstDays, Timetable

MOST_BOUND = 1_000_000
MOST_TIMES = 100  # most of a day's share relative to another's: a hundredth of a total tells nothing


def statistics_of(document: Document, prior: Prior | None) -> tuple[RequestedStatistic, ...]:
    """Checks and builds the statistics. Raises SpecificationError."""
    need(bool(document.statistic), "statistic", "needs at least one entry", "empty")
    parsed = [_statistic(dict(table), document, prior) for table in document.statistic]
    names = [name for name, _, _ in parsed]
    need(len(set(names)) == len(names), "statistic.name", "must not repeat", names)
    total = sum((weight for _, _, weight in parsed), Fraction(0))
    return tuple(RequestedStatistic(name, mechanism, weight / total) for name, mechanism, weight in parsed)


def _statistic(table: dict[str, Any], document: Document, prior: Prior | None) -> tuple[str, Mechanism, Fraction]:
    """Reads a [[statistic]]: name, mechanism and weight. Raises SpecificationError."""
    name, offered = table.pop("name", None), registry.registered()
    for key, value in (("name", name), ("mechanism", table.get("mechanism", ""))):
        need(isinstance(value, str), f"statistic.{key}", "must be a text", value)
    need(name in offered, "statistic.name", f"must be one of {', '.join(offered)}", name, did_you_mean(name, offered))
    statistic = offered[str(name)]
    wanted = table.pop("mechanism", statistic.default)
    weight, adjacency = table.pop("weight", 1), document.account.adjacency
    mechanisms = {key: cls for key, cls in registered().items() if name in cls.statistics}
    fit = [key for key, cls in mechanisms.items() if adjacency in cls.adjacencies]
    if wanted not in mechanisms:
        fitting = f"those that fit: {', '.join(fit)}{did_you_mean(wanted, fit)}"
        raise SpecificationError(f"statistic {name!r}: mechanism {wanted!r} is not available; {fitting}")
    need(wanted in fit, "statistic.mechanism", f"must fit {adjacency} ({', '.join(fit)})", wanted)
    cls, filled_in = mechanisms[wanted], {"prior": prior, "statistic": statistic.name}  # fields that are no options
    defaults = {field.name: field.default for field in fields(cls)}  # type: ignore[arg-type]
    options = defaults.keys() - filled_in.keys()
    with raise_as(SpecificationError, (msgspec.ValidationError, ValueError), f"statistic with mechanism {wanted!r}: "):
        for key in table:
            if key not in options:
                hint = did_you_mean(key, [*options, "name", "mechanism", "weight"])
                raise ValueError(f"unknown option {key!r}; it has {sorted(options) or 'none'}{hint}")
        # Plain estimators also cap the samples (m_ub) of vehicles left after suppression (algorithms 9.4).
        takes_caps = document.privacy.composition == "clip-user" and statistic.takes_caps
        if takes_caps and defaults.get("m_ub") == "none":
            table = {"m_ub": "opt"} | table  # the cap of least error; the specification's own m_ub wins
        try:
            fixed = {key: value for key, value in filled_in.items() if key in defaults}
            mechanism: Mechanism = replace(msgspec.convert(table, cls), **fixed)  # type: ignore[type-var]
        except msgspec.ValidationError as error:  # which names the option and its type, but not what it is
            key = str(error).rpartition("$.")[2].strip("`")
            raise ValueError(f"{error}{f'; it is {table[key]!r}' if key in table else ''}") from None
        check_outputs(mechanism, statistic)
        share = fraction_from_toml(weight)
        need(share > 0, "statistic.weight", "must be above 0", share)
        return statistic.name, mechanism, share


def levels_of(
    document: Document, allocation: Allocation, region: Sequence[int] | None, timetable: Timetable
) -> LevelsRelease | None:
    """Checks and builds the `levels` release; None for other mechanisms. Raises SpecificationError."""
    # Only under counts-public may the mechanism be another one, or none be named, as its default is another.
    account, privacy, tables = document.account, document.privacy, document.statistic
    if account.adjacency == "counts-public" and "levels" not in [table.get("mechanism") for table in tables]:
        totals = ("delta", "span_days", "day_weights", "first_days")
        extras: dict[str, object] = {f"privacy.{name}": getattr(privacy, name) for name in totals}
        # Places need `levels`; with a column they are public keys, which go with any mechanism.
        places = document.places if document.places and not document.places.column else None
        extras |= {"fleet": document.fleet, "live": document.live, "places": places, "output": document.output or None}
        for name, value in extras.items():
            need(value is None, name, "goes with mechanism = 'levels'", "given")
        return None
    _check_levels(document, allocation, region)
    written = options_of(next(table for table in tables if table.get("name") in ("mean", COUNT.name)))
    counted = _counted(document, written) if tables[0].get("name") == COUNT.name else None  # a count stands alone
    field = "statistic with mechanism 'levels'"
    options = Options() if counted else converted(written, Options, field)  # a count has its own, in `counted`
    with raise_as(SpecificationError, ValueError, f"{field}: "):
        release = levels_release(document, options, _total_of(document, timetable), region or (), timetable, counted)
        return replace(release, products=() if counted else _products(document, timetable))


def _counted(document: Document, options: Mapping[str, Any]) -> CountOptions:
    """Checks options of counts, which are secret. Raises SpecificationError."""
    adjacency, field = document.account.adjacency, f"statistic {COUNT.name!r}"
    need(adjacency == "add-remove", field, "goes with account.adjacency = 'add-remove'", adjacency)
    need(document.privacy.delta is not None, field, "needs privacy.delta", "missing")
    for name in ("live", "places", "output"):  # [places] with `column` only names the keys that are counted
        table = getattr(document, name)
        need(not table or getattr(table, "column", None) is not None, field, f"goes without [{name}]", "both")
    counts = converted(options, CountOptions, field)
    need(1 <= counts.bound <= MOST_BOUND, f"{field}: bound", f"must be 1 to {MOST_BOUND:,}", counts.bound)
    return counts


def _total_of(document: Document, timetable: Timetable) -> SpanTotal:
    """Checks and builds the total of a span, or of each period. Raises SpecificationError."""
    privacy, days, accounting = document.privacy, document.privacy.span_days, document.account.accounting
    if days is None:
        for name in ("day_weights", "first_days"):
            need(getattr(privacy, name) is None, f"privacy.{name}", "goes with privacy.span_days", "given")
        share = Fraction(1)  # a day has all of the total
        return SpanTotal(1, share_sum=share, epsilon=privacy.epsilon, delta=privacy.delta, accounting=accounting)
    spans = [span.days for span in document.account.limits]
    need(bool(spans), "privacy.span_days", "goes with account.limits, of which one is of so many days", days)
    need(days in spans, "privacy.span_days", f"must be one of the account's limits ({spans})", days)
    weights, field = privacy.day_weights or {}, "privacy.day_weights"  # a weekday without one weighs 1
    unserved = [day for day in weights if day not in timetable.weekdays]
    need(not unserved, field, "must name days of slot.weekdays", ", ".join(unserved))
    served_weights = [weights.get(day, Fraction(1)) for day in timetable.weekdays]
    lightest, heaviest = min(served_weights), max(served_weights)
    need(lightest > 0, field, "must be above 0: a day without a share is left out of slot.weekdays", lightest)
    need(heaviest <= MOST_TIMES * lightest, field, f"must give no day more than {MOST_TIMES} times another", heaviest)
    first = None
    if (early := privacy.first_days) is not None:
        need(0 < early.days <= days, "privacy.first_days.days", f"must be from 1 to span_days ({days})", early.days)
        fits, field = 1 / Fraction(MOST_TIMES) <= early.weight <= MOST_TIMES, "privacy.first_days.weight"
        need(fits, field, f"must be from 1/{MOST_TIMES} to {MOST_TIMES}", early.weight)
        first = FirstDays(early.since, early.days, early.weight)
        served = bool(first.weekdays.intersection(timetable.weekdays))
        need(served, "privacy.first_days", "must hold a day of slot.weekdays", early.since.isoformat())
        first = None if early.weight == 1 else first  # such first days are like any others
    return SpanTotal.of(days, timetable, weights, (privacy.epsilon, privacy.delta), first, accounting)


def _products(document: Document, timetable: Timetable) -> tuple[Product, ...]:
    """Makes the products of [[output]], "days" ("cell-day" is an alias) always first."""
    names = [table.product for table in document.output]
    need(len(set(names)) == len(names), "output.product", "must not repeat", ", ".join(names))
    of_places = next((name for name in names if name.startswith("place-")), None)
    has_places = document.places is not None and document.places.column is None  # with a column it names keys alone
    need(of_places is None or has_places, "output.product", "of places goes with [places]", of_places)
    slot_minutes, service = timetable.slot_minutes, timetable.service_span
    day_parts = {"days" if table.product == "cell-day" else table.product: table.parts for table in document.output}
    with raise_as(SpecificationError, ValueError, "output: "):
        products = {name: product_of(name, times, slot_minutes, service) for name, times in day_parts.items()}
        return tuple(({"days": Product("days")} | products).values())  # named or not


def _check_levels(document: Document, allocation: Allocation, region: Sequence[int] | None) -> None:
    """Checks the rules of `levels`. Raises SpecificationError."""
    account, privacy, tables = document.account, document.privacy, document.statistic
    mechanism = next((name for table in tables if (name := table.get("mechanism", "levels")) != "levels"), None)
    need(mechanism is None, "statistic.mechanism", "must be 'levels', alone, under add-remove", mechanism)
    names = sorted(str(table.get("name")) for table in tables)
    is_one_look, has_region = names in (["mean"], ["distribution", "mean"], [COUNT.name]), region is not None
    rules = {
        "statistic must be 'mean' alone, or with 'distribution' beside it: one total is spent on one look": is_one_look,
        "account.unit must be 'vehicle-day' or 'vehicle-week': an estimate needs days": account.unit != "vehicle-ever",
        "cells.region must be a GeoJSON file or a list of cells: which cells have reports is secret": has_region,
        "privacy.per must be 'period': epsilon is the total of a vehicle and period": privacy.per == "period",
        "privacy.scope must be 'period': a vehicle's whole period is one vector": allocation.whole_periods,
        "privacy.composition must be 'none': a vector is bounded by its own norm": privacy.composition == "none",
        "privacy.release_shards must be 1: a period is a few hundred sums": privacy.release_shards == 1,
    }
    is_secret = account.adjacency == "add-remove"
    why = "under account.adjacency = 'add-remove'" if is_secret else "with mechanism 'levels'"
    for rule, holds in rules.items():
        if not holds:
            raise SpecificationError(f"{rule} ({why})")
    delta, live = privacy.delta, document.live
    need(delta is None or 0 < delta < Fraction(1, 100), "privacy.delta", "must be above 0 and below 0.01", delta)
    if live is None:
        return
    # where counts are public, slots are released one by one anyway
    need(is_secret, "live", "goes with account.adjacency = 'add-remove'", account.adjacency)
    fits, rule = live.share is None or 0 < live.share < 1, "must be above 0 and below 1: the period's end has the rest"
    need(fits, "live.share", rule, live.share)
    lateness_s, day_s = document.slot.allowed_lateness_s, live.day_lateness_s
    fits = day_s is None or lateness_s <= day_s <= DAY_MINUTES * 60
    need(fits, "live.day_lateness_s", f"must be slot.allowed_lateness_s = {lateness_s} to a day's 86400", day_s)
