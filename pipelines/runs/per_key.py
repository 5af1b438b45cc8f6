"""PTransforms for private statistics of any value by any public key.

In the specification that a transform makes, users are vehicles, windows are slots, and keys replace cells. An extractor
is the name of an element's field, or a function of the element; what raises an error counts as missing.
"""

import secrets
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from numbers import Real
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple

import apache_beam as beam
import pyarrow as pa
from apache_beam.pvalue import PCollection
from apache_beam.transforms.window import FixedWindows, GlobalWindows
from apache_beam.utils.timestamp import MIN_TIMESTAMP, Duration, Timestamp

from dpops.statistics import COUNT
from pipelines.account import location
from pipelines.errors import SpecificationError, UsageError, raise_as
from pipelines.inputs import instant_of
from pipelines.specification import AccountTerms, load
from pipelines.specification.checks import account_of
from pipelines.specification.document import read_account
from transforms.places.ground import BETWEEN
from transforms.records import ABOUT_COLUMNS, Refused
from transforms.sinks.published import SCHEMA
from transforms.sinks.rows import Shape, schema_of
from transforms.sinks.steps import ToRows
from transforms.sources.elements import plain, value_in, why_no_reports

Extractor = str | Callable[[Any], Any]
Total = float | tuple[float, float]  # epsilon, or epsilon and delta

_DAY_S = 86_400
_MOST_SPREAD_US = 82_800_000_000  # 23 hours, the shortest local day: elements without a time are spread over them
_COLUMN_BY_FIELD = {"key": "cell", "window_start": "slot_start_at", "window_end": "slot_end_at"}  # ours: of result rows


@dataclass(frozen=True, kw_only=True)
class UserAccount:
    """Budget of a group of users, and its ledger.

    ledger, key: as in `hatstream release`. unit: privacy unit: a user's actions in a "day" or "week" of `timezone`.
    hides: "presence", any activity of a user; or "values": who, when, how often and under which keys is then public.
    limit: maximum spending on a user in a unit, over all pipelines.

    >>> UserAccount(limit=(2.64, 1e-6)).terms.adjacency
    'add-remove'
    """

    limit: Total
    ledger: str | None = field(default=None, repr=False)  # may hold a password
    key: str | Path | None = None
    name: str = "users"
    unit: Literal["day", "week"] = "day"
    timezone: str = "UTC"
    hides: Literal["presence", "values"] = "presence"

    def open(self) -> "UserAccount":
        """Creates missing ledger and secret key. Raises AccountRefusal where they do not match."""
        location.open_account(self.location, self.terms)
        return self

    @property
    def table(self) -> dict[str, Any]:
        """The table [account] of a specification."""
        epsilon, *delta = self.limit if isinstance(self.limit, tuple) else (self.limit,)
        return {
            "name": self.name,
            "unit": f"vehicle-{self.unit}",
            "timezone": self.timezone,
            "adjacency": {"presence": "add-remove", "values": "counts-public"}[self.hides],
            "limit": {"epsilon": epsilon, "delta": delta[0]} if delta else epsilon,
            **({"accounting": "gdp"} if delta else {}),  # its noise is Gaussian alone
        }

    @property
    def terms(self) -> AccountTerms:
        """The account, checked. Raises SpecificationError."""
        return account_of(read_account(self.table))

    @property
    def location(self) -> location.AccountLocation:
        """Location of the ledger and key."""
        return location.find(self.ledger, self.key)


class WithRefused(NamedTuple):
    """Result rows and refused ones. refused: for the operator only under hidden presence."""

    rows: PCollection[Any]
    refused: PCollection[Refused]


@dataclass(kw_only=True)
class PerKey(beam.PTransform[PCollection[Any], Any]):
    """Common base of the transforms by key.

    user, key: of an element; a user is protected, a key public. keys: all released keys, independent of the data; or
    axes=(.., ..): all pairs of two lists, of which `key` returns one. account: see `UserAccount`; total: spending on a
    user in each day or week. fleet: with hidden presence, the approximate number of users on a day, or the table
    [fleet] of a specification: public, never counted.

    Input windows are kept: `FixedWindows` that divide a day; without windows, days. An element's time is its Beam
    timestamp, or the result of `time`: a Beam timestamp, seconds since 1970, a datetime with a zone or ISO text.
    Elements of equal user, key and time are copies: they count once. start, end: first and last local date of the
    release (end: start); without windows, elements without a timestamp belong to start. Unbounded input needs `time`,
    and follows `hatstream.Release`.

    Output: a row per key and window, in its window: a NamedTuple with a Beam schema; beside the value the columns of
    `hatstream release --columns counts`. with_refused: outputs `rows` and `refused`. The ledger records each result
    once, before its output: a retry gives the same rows. Releases are told apart by their parameters, among them the
    names of fields and functions; a lambda has none.
    """

    user: Extractor
    key: Extractor
    account: UserAccount
    total: Total
    start: str | None = None
    end: str | None = None
    keys: Sequence[Hashable] | None = None
    axes: tuple[Sequence[Hashable], Sequence[Hashable]] | None = None
    fleet: int | Mapping[str, Any] | None = None
    time: Extractor | None = None
    with_refused: bool = False
    name: ClassVar[str]

    def expand(self, elements: PCollection[Any]) -> Any:
        """Turns elements into reports, releases them, and returns rows in the windows."""
        from pipelines.runs.library import Release  # who opens an account needs no stream

        extractors = (self.user, self.key, self.time, getattr(self, "value", None))
        names = [extractor for extractor in extractors if isinstance(extractor, str)]
        if names and (why := why_no_reports(elements.element_type, names)):
            raise UsageError(f"user, key, time and value name fields, but the elements {why}")
        windows = elements.windowing.windowfn
        size_s = _DAY_S if isinstance(windows, GlobalWindows) else 0  # 0: no such windows can be released
        if isinstance(windows, FixedWindows) and windows.size.micros % 60_000_000 == 0:  # whole minutes
            size_s = windows.size.micros // 1_000_000
        if not size_s or _DAY_S % size_s:
            raise UsageError("windows must be FixedWindows of whole minutes that divide a day, or none")
        with raise_as(SpecificationError, SpecificationError, "total is privacy.epsilon and .delta, bounds value: "):
            spec, location = load(self.tables(size_s)), self.account.location
        presence = self.account.hides == "presence"
        if not elements.is_bounded and (self.time is None or presence):
            raise UsageError("an unbounded PCollection needs time= and an account of UserAccount(hides='values')")
        first = None if self.start is None else instant_of(self.start[:10], spec.timetable, last=False)
        first_s = None if first is None else int(first.timestamp())
        offset_s = (first_s or 0) % size_s  # slots begin at local midnight, windows at multiples of their size in UTC
        if isinstance(windows, FixedWindows) and (windows.offset.micros // 1_000_000 - offset_s) % size_s:
            expected = f"FixedWindows({size_s}, {offset_s})"
            raise UsageError(f"windows must begin with those of {spec.timetable.zone}: {expected}")
        step = f"reports of {spec.spec_id} from {self.start}"  # one label for one release: the ledger has it once
        if any(label.endswith(f"/{step}") for label in elements.pipeline.applied_labels):
            raise UsageError("the pipeline has this release already: use functions of other names, in place of lambdas")
        read = beam.ParDo(_Reports(self, first_s if isinstance(windows, GlobalWindows) else None))
        reports = elements | step >> read.with_output_types(dict[str, Any])
        end = self.end or (self.start if elements.is_bounded else None)
        released = Release(spec, self.start, end, location.url, location.key).released(reports)
        shape = Shape(zone="UTC", unknown=True, counts=not presence, about=presence)  # unknown: also without a value
        schema = schema_by_key(self.name, shape)
        # Only rows of bounded pipelines may have times before their elements': in unbounded ones engines drop those.
        # Coarser products are left out: rows are of keys in windows.
        to_rows = ToRows(shape, schema, may_be_late=elements.is_bounded, columns=_COLUMN_BY_FIELD)
        rows = released.estimates | "windows" >> beam.Filter(lambda slot: not slot.product) | "rows" >> to_rows
        windowed = rows | "in windows" >> beam.WindowInto(FixedWindows(size_s, offset_s))
        return WithRefused(windowed, released.refused) if self.with_refused else windowed

    def tables(self, window_s: int) -> dict[str, Any]:
        """Builds the specification of this release as TOML tables."""
        presence = self.account.hides == "presence"  # its budget is a period's, whose windows are planned together
        if isinstance(self.total, tuple) and not presence:
            raise UsageError("total is an epsilon alone where the account hides values: its noise needs no delta")
        axes = [keys for keys in (self.keys, *(self.axes or ())) if keys is not None]
        if len(axes) != (1 if self.axes is None else 2):  # keys and axes both, or neither
            raise UsageError("name the public keys: keys=[..], or axes=([..], [..])")
        epsilon, *delta = self.total if isinstance(self.total, tuple) else (self.total,)
        columns = self.columns  # a new dict; the key is a place's column
        outer, *inner = ([_text(key) for key in keys] for keys in axes)
        places: dict[str, Any] = {"column": columns.pop("key"), "keys": outer}
        if inner:
            places |= {"within": f"{places['column']}_within", "keys_within": inner[0]}
        fleet = {"vehicles": self.fleet} if isinstance(self.fleet, int) else dict(self.fleet or {})
        return {
            "name": f"{self.name} by key",
            "account": self.account.table,
            "slot": {"minutes": window_s // 60},
            "places": places,
            "value": self._value(),
            "privacy": {"epsilon": epsilon, "per": "period", "scope": "period" if presence else "slot"}
            | ({"delta": delta[0]} if delta else {}),
            "statistic": [{"name": self.name} | self._options()],
            "input": {"layout": "jsonl", "columns": columns},
        } | ({"fleet": fleet} if fleet else {})

    @property
    def columns(self) -> dict[str, str]:
        """Names of the extractors' fields or functions, by the specification's fields."""
        functions = {"vehicle": self.user, "time": self.time, "key": self.key, "reading": getattr(self, "value", None)}
        names: dict[str, str] = {}
        for field_name, function in functions.items():
            name = function if isinstance(function, str) else getattr(function, "__name__", field_name)
            name = field_name if name == "<lambda>" else name
            names[field_name] = f"{field_name} {name}" if name in names.values() else name
        return names

    def _value(self) -> dict[str, Any]:
        """Returns the table [value] of the specification; counts have none that matters."""
        return {"name": "reading", "unit": "1", "lower": 0, "upper": 1}

    def _options(self) -> dict[str, Any]:
        """Returns the statistic's options."""
        raise NotImplementedError


@dataclass(kw_only=True)
class _OfValues(PerKey):
    """Common base of statistics of a value."""

    value: Extractor
    bounds: tuple[float, float]
    unit: str = "1"
    mechanism: str | None = None

    def _value(self) -> dict[str, Any]:
        lower, upper = self.bounds
        return {"name": "reading", "unit": self.unit, "lower": lower, "upper": upper}

    def _options(self) -> dict[str, Any]:
        if self.account.hides == "presence":
            raise UsageError(f"{type(self).__name__} needs an account of public counts: UserAccount(hides='values')")
        return {} if self.mechanism is None else {"mechanism": self.mechanism}


@dataclass(kw_only=True)
class MeanPerKey(_OfValues):
    """PTransform to a value's mean, by public key.

    Rows: key, window_start, window_end, value, lower95, upper95, status. value: of an element, in `unit`. bounds:
    public clipping bounds. With hidden presence a day's windows are one release, and each day rests on earlier ones
    (`levels`), one pipeline a day; else mechanism: of docs/mechanisms.md. See `PerKey`.

    >>> from hatstream.testing import account
    >>> rows = [{"bus": f"b{i % 40}", "route": "AB"[i % 2], "late": i % 5} for i in range(4_000)]
    >>> with beam.Pipeline(runner="FnApiRunner") as p:
    ...     _ = p | beam.Create(rows) | MeanPerKey(
    ...         user="bus", key="route", keys=["A", "B"], value="late", bounds=(-5, 10), unit="min",
    ...         start="2026-05-14", total=50, account=account(50, hides="values"),
    ...     ) | beam.Map(lambda row: print(row.key, round(row.value), row.status))
    A 2 ok
    B 2 ok
    """

    name: ClassVar[str] = "mean"

    def _options(self) -> dict[str, Any]:
        hides_presence = self.account.hides == "presence"
        return {"mechanism": "levels", "target": "reports"} if hides_presence else super()._options()


@dataclass(kw_only=True)
class VariancePerKey(_OfValues):
    """PTransform to a value's variance, in `MeanPerKey` rows; for accounts that hide values.

    >>> from hatstream.testing import account
    >>> VariancePerKey(
    ...     user="bus", key="route", keys=["A"], value="late", bounds=(-5, 10), total=1, account=account(1)
    ... ).tables(3_600)
    Traceback (most recent call last):
    pipelines.errors.UsageError: VariancePerKey needs an account of public counts: UserAccount(hides='values')
    """

    name: ClassVar[str] = "variance"


@dataclass(kw_only=True)
class QuantilesPerKey(_OfValues):
    """PTransform to p50, p85, mean, variance and cdf; for accounts that hide values.

    >>> schema_by_key("distribution", Shape(counts=True)).names[7:10]
    ['p50', 'p50_lower95', 'p50_upper95']
    """

    name: ClassVar[str] = "distribution"


@dataclass(kw_only=True)
class CountPerKey(PerKey):
    """PTransform to numbers of elements or users by key.

    For accounts that hide presence. of: counted items. bound: contribution bound, the L2 norm of a user's counts over
    all keys and windows in a day or week; larger vectors are scaled down, and noise grows with it. For counts of users,
    presence in k keys and windows needs a bound of the root of k. The interval covers the noise.

    >>> from hatstream.testing import account
    >>> rows = [{"bus": f"b{i}", "route": "AB"[i % 4 == 0]} for i in range(400)]
    >>> with beam.Pipeline(runner="FnApiRunner") as p:
    ...     _ = p | beam.Create(rows) | CountPerKey(
    ...         user="bus", key="route", keys=["A", "B"], of="users", bound=1, start="2026-05-14",
    ...         total=(50, 1e-6), account=account((50, 1e-6)),
    ...     ) | beam.Map(lambda row: print(row.key, round(row.value, -1)))
    A 300.0
    B 100.0
    """

    of: Literal["elements", "users"] = "elements"
    bound: int = 1
    name: ClassVar[str] = COUNT.name

    def _options(self) -> dict[str, Any]:
        if self.account.hides == "values":
            raise UsageError("counts are public where an account hides values: count them without hatstream")
        return {"of": {"elements": "reports", "users": "vehicles"}[self.of], "bound": self.bound}


class _Reports(beam.DoFn):
    """DoFn from elements to reports for `ReadElements`.

    Elements without a timestamp are spread over the first day, lest a user's under one key look like copies: each is
    `_next_us` after the day's start, `_first_s`, which is None in windows. _names: `PerKey.columns`.
    """

    def __init__(self, transform: PerKey, first_s: int | None) -> None:
        self._transform, self._names, self._first_s, self._next_us = transform, transform.columns, first_s, 0

    def start_bundle(self) -> None:
        self._next_us = secrets.randbelow(_MOST_SPREAD_US)

    def process(self, element: Any, taken_at: Any = beam.DoFn.TimestampParam) -> Iterator[Any]:
        """Yields user, key, time and value of an element as one report."""
        transform, names = self._transform, self._names
        key, value = extract(transform.key, element), getattr(transform, "value", None)
        report = {
            names["vehicle"]: extract(transform.user, element),
            names["time"]: self._time(element, taken_at),
            names["reading"]: 0 if value is None else extract(value, element),  # counts have no value
        }
        # By axes a key is a pair, in two columns; an incomplete one lacks its second part, and is refused later.
        columns = (names["key"],) if transform.axes is None else (names["key"], f"{names['key']}_within")
        parts = key if transform.axes is not None and isinstance(key, tuple) and len(key) == 2 else (key,)
        for name, part in zip_longest(columns, parts):
            report[name] = None if part is None else extract(_text, part)  # None is refused later, and counted
        yield {name: plain(content) for name, content in report.items()}  # `plain`: of types that Beam can encode

    def _time(self, element: Any, taken_at: Timestamp) -> Any:
        """Returns a time by extractor, else the timestamp, else one on the first day."""
        if (extractor := self._transform.time) is not None:
            time = extract(extractor, element)
            # A number is seconds since 1970; of one that is no instant, such as NaN, `extract` makes None.
            return extract(lambda s: Timestamp(micros=round(1e6 * s)), time) if isinstance(time, Real) else time
        if taken_at > MIN_TIMESTAMP:
            return taken_at
        if self._first_s is None:
            return None  # in windows a row needs a time: it is refused later
        self._next_us = (self._next_us + 1) % _MOST_SPREAD_US
        return Timestamp(self._first_s) + Duration(micros=self._next_us)


def extract(extractor: Extractor, element: Any) -> Any:
    """Extracts a part of an element; None on failure."""
    try:
        return value_in(element, extractor) if isinstance(extractor, str) else extractor(element)
    except Exception:  # noqa: BLE001 - it may hold data, so it is not shown: the row is refused, and counted
        return None


def schema_by_key(name: str, shape: Shape) -> pa.Schema:
    """Returns the Arrow schema of rows by key: some columns of result rows."""
    times = [pa.field(column, pa.timestamp("us", "UTC"), nullable=False) for column in ("window_start", "window_end")]
    about = ABOUT_COLUMNS if shape.about and name != COUNT.name else ()  # a count's rows have no such columns
    schema = schema_of([name], Shape(counts=shape.counts), about)
    extras = [field for field in schema if field.name not in SCHEMA.names]  # optional columns, and of distributions
    fields = [schema.field(column) for column in ("value", "lower95", "upper95", "status")]
    return pa.schema([pa.field("key", pa.string(), nullable=False), *times, *fields, *extras])


def _text(key: Hashable) -> str:
    """Names a key as rows and ledgers have it."""
    return BETWEEN.join(map(str, key)) if isinstance(key, tuple) else str(key)
