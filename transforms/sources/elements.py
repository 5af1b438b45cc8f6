"""PCollections of dicts or Beam Rows as sources.

A row's own time is its event time; its Beam timestamp, which decides lateness, should be its transport's. `count` adds
to a counter, and `dead_letters` yields numbers of refused rows by reason.
"""

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import reduce
from typing import Any, Final, Literal

import apache_beam as beam
import numpy as np
import pyarrow as pa
from apache_beam.pvalue import DoOutputsTuple, PCollection, TaggedOutput
from apache_beam.transforms.window import GlobalWindow, GlobalWindows
from apache_beam.typehints.typehints import ListHint, TupleConstraint, TupleHint
from apache_beam.utils.timestamp import MIN_TIMESTAMP, Timestamp
from apache_beam.utils.windowed_value import WindowedValue
from numpy.typing import NDArray

from transforms import counters
from transforms.errors import StepError
from transforms.layouts.base import BATCH_ROWS, FIELDS, RawBatch, Units, raw_batch
from transforms.layouts.columns import FAR_US, LARGEST_FLOAT
from transforms.layouts.records import mapping_of, step_into
from transforms.records import REFUSED
from transforms.steps.metrics import Parting, Refusal, count, dead_letters

OWN_TIME: Final = "own-time"
_END = GlobalWindow().max_timestamp()
END_OF_TIME: Final = (
    "an element's Beam timestamp is the end of time, as beam.BatchElements and groupings in the global window give it: "
    "every row would be late. Do without them, or in windows: the transport's timestamps decide what is late"
)
MOST_OWN = 20  # so many rows one after another whose Beam timestamp is their own time are no accident


@dataclass
class ReadElements(Parting[PCollection[Any]]):
    """Batches of a PCollection's elements, and refusals.

    names: the elements' field of each of `fields`. start_s: None for bounded input; else a stream's start in seconds
    since 1970 UTC, where an element's Beam timestamp (its transport's) decides its lateness. Event times as timestamps
    are an error, since an engine drops late elements unseen. raises: whether many such rows, or one at the end of time,
    end the pipeline; otherwise they are refused.
    """

    units: Units
    names: tuple[str, ...]
    start_s: int | None
    raises: bool = True
    fields: tuple[str, ...] = FIELDS

    def expand(self, elements: PCollection[Any]) -> DoOutputsTuple:
        in_window = elements | "in one window" >> beam.WindowInto(GlobalWindows())
        return in_window | "into batches" >> beam.ParDo(_IntoBatches(self)).with_outputs(REFUSED, main="batches")


class _IntoBatches(beam.DoFn):
    """DoFn into batches, of a stream one for each Beam timestamp.

    Timestamps of bounded input, whose `_stream_start` is None, do not count. `_reading.raises`: a stream's rows that
    are stamped with their own event times, or with the end of time, end the pipeline; else they are refused.
    """

    def __init__(self, reading: ReadElements) -> None:
        self._reading = reading
        self._stream_start = None if reading.start_s is None else Timestamp(reading.start_s)
        self._rows: dict[Timestamp, list[Any]] = {}
        self._own_in_a_row = 0  # latest rows, one after another, whose Beam timestamp is their event time: see MOST_OWN

    def start_bundle(self) -> None:
        self._rows = {}

    def process(self, element: Any, timestamp: Any = beam.DoFn.TimestampParam) -> Iterator[Any]:
        """Collects elements by timestamp, until a batch is full or the bundle ends."""
        rows = self._rows.setdefault(MIN_TIMESTAMP if self._stream_start is None else timestamp, [])
        rows.append(element)
        if self._stream_start is None and len(rows) >= BATCH_ROWS:  # a stream's bundles are short
            yield from self.finish_bundle()

    def finish_bundle(self) -> Iterator[Any]:
        """Yields batches at elements' Beam times; refuses a stream's rows stamped with event times."""
        for timestamp, rows in self._rows.items():
            if timestamp >= _END and self._reading.raises:  # no transport stamps so; if not raised, it is late
                raise StepError(END_OF_TIME)
            time = timestamp if self._stream_start is None else max(timestamp, self._stream_start)  # windows begin then
            for batch in _batches(rows, self._reading.names, self._reading.fields):
                if self._stream_start is None or not isinstance(batch, RawBatch):  # in bounded input nothing is late
                    yield _stamp(time, batch)
                    continue
                if self._reading.raises:  # under own times an engine drops late rows uncounted
                    self._refuse_own_times(batch, timestamp)
                else:
                    is_own = self._own_times(batch, timestamp)
                    yield from (_stamp(time, item) for item in dead_letters("lateness", {OWN_TIME: int(is_own.sum())}))
                    batch = batch._replace(rows=int((~is_own).sum()), table=batch.table.filter(pa.array(~is_own)))
                yield _stamp(time, batch)
        self._rows = {}

    def _refuse_own_times(self, batch: RawBatch, timestamp: Timestamp) -> None:
        """Raises StepError after MOST_OWN consecutive rows that are stamped with their own times."""
        for is_own in self._own_times(batch, timestamp).tolist():
            self._own_in_a_row = self._own_in_a_row + 1 if is_own else 0
        if self._own_in_a_row >= MOST_OWN:
            raise StepError(
                "the elements' Beam timestamps are the rows' own times: what the engine would drop as late then is not "
                "known. Read with the transport's timestamps (of Kafka: LogAppendTime), which decide what is late"
            )

    def _own_times(self, batch: RawBatch, timestamp: Timestamp) -> NDArray[np.bool_]:
        """Marks rows whose own time is their Beam timestamp."""
        time = self._reading.units.instants(batch.table.column("time"))
        return time.valid & (time.us // 1_000 == timestamp.micros // 1_000)


def _batches(
    elements: Sequence[Any], element_fields: Sequence[str], fields: Sequence[str] = FIELDS
) -> Iterator[RawBatch | Refusal]:
    """Batches elements whose fields have equal kinds; refuses those that are no rows."""
    rows = [row for element in elements if (row := mapping_of(element)) is not None]
    count(counters.ROWS, len(elements))
    yield from dead_letters("read", {"malformed": len(elements) - len(rows)})
    columns = [[classify(value) for value in _values(rows, name)] for name in element_fields]  # (kind, value), by field
    rows_of_kinds: dict[tuple[Kind, ...], list[int]] = {}
    for index, kinds in enumerate(zip(*([kind for kind, _ in column] for column in columns), strict=True)):
        rows_of_kinds.setdefault(kinds, []).append(index)
    for kinds, indices in rows_of_kinds.items():
        values_of = [[column[index][1] for index in indices] for column in columns]
        arrays = [pa.array(values, TYPES[kind]) for kind, values in zip(kinds, values_of, strict=True)]
        yield raw_batch(dict(zip(fields, arrays, strict=True)), refusals={})  # `fields`: the layout's names


def value_in(element: Any, name: str) -> Any:
    """Reads an element's value by name; None if absent."""
    row = mapping_of(element)
    return None if row is None else next(iter(_values([row], name)))


def _values(rows: Sequence[Mapping[str, Any]], name: str) -> Iterator[Any]:
    """Yields rows' values by exact name or dotted path."""
    if "." not in name:
        return (row.get(name) for row in rows)
    path = name.split(".")
    return (row[name] if name in row else reduce(step_into, path, row) for row in rows)


def _stamp(time: Timestamp, batch: RawBatch | Refusal) -> Any:
    """Stamps an output in the form that `finish_bundle` needs."""
    if isinstance(batch, TaggedOutput):
        return TaggedOutput(batch.tag, WindowedValue(batch.value, time, (GlobalWindow(),)))
    return WindowedValue(batch, time, (GlobalWindow(),))


def why_no_reports(kind: Any, names: Collection[str]) -> str | None:
    """Explains, as a predicate, why a Beam type cannot hold reports, or None."""
    own_fields = getattr(kind, "_fields", None)
    if isinstance(own_fields, tuple):  # of a NamedTuple, or with their types of a Beam Row
        fields = [field if isinstance(field, str) else field[0] for field in own_fields]
        missing = [name for name in names if name not in fields and name.split(".")[0] not in fields]
        return f"have no field {missing[0]!r}; they have {', '.join(fields)}" if missing else None
    if isinstance(kind, type):
        is_mapping = kind is object or issubclass(kind, Mapping) or hasattr(kind, "as_dict") or hasattr(kind, "_asdict")
        return None if is_mapping else f"are of type {kind.__qualname__}"
    sequences = (TupleConstraint, TupleHint.TupleSequenceConstraint, ListHint.ListConstraint)
    return f"are of type {kind}" if isinstance(kind, sequences) else None


Kind = Literal["nothing", "bad", "whole", "number", "text", "instant", "clock"]
"""bad: a type that no field has, such as a truth value or a date. clock: a time that names no zone."""
KindValue = tuple[Kind, Any]  # the kind of a value, and the value as a column of that kind holds it

TYPES: Mapping[Kind, pa.DataType] = {
    "nothing": pa.null(),
    "bad": pa.bool_(),
    "whole": pa.int64(),
    "number": pa.float64(),
    "text": pa.binary(),
    "instant": pa.timestamp("us", "UTC"),
    "clock": pa.timestamp("us"),
}

TEXT_BYTES = 1_024  # a longer text is bad: 131,072 of them must fit into one column

BAD: KindValue = ("bad", True)
_NULL_VALUE: KindValue = ("nothing", None)
_DIGITS = 400  # longer integers are cut to so many: more than the largest float has, and than an id may have
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def classify(value: Any) -> KindValue:
    """Returns a value's kind and converted value, BAD if none fits.

    By itself: Arrow would infer one type per column, so that one vehicle's row could change or refuse others.
    """
    converter = _CLASSIFIERS.get(type(value))
    if converter is None:
        converter = next((converter for kind, converter in _CLASSIFIERS.items() if isinstance(value, kind)), _bad)
    try:
        return converter(value)
    except (ValueError, TypeError, ArithmeticError):
        return BAD


def plain(value: Any) -> Any:
    """Converts a value to a type that Beam's coders always take."""
    kind, held = classify(value)  # held: a number, a text's bytes, None, or True for a bad value
    return Timestamp(micros=held) if kind == "instant" else value if kind == "clock" else held


def _bad(_: Any) -> KindValue:
    return BAD


def _whole(value: int) -> KindValue:
    """Classifies an integer, as text beyond 64 bits."""
    value = int(value)
    if -(1 << 63) <= value < 1 << 63:
        return "whole", value
    digits = "9" * _DIGITS if value.bit_length() > 3 * _DIGITS else str(abs(value))  # Python writes no huge ones
    return "text", (("-" if value < 0 else "") + digits).encode()


def _text(value: str | bytes | bytearray | memoryview) -> KindValue:
    """Classifies a text as bytes; lone surrogates make invalid UTF-8, refused later."""
    text = str.encode(value, errors="surrogatepass") if isinstance(value, str) else bytes(value)
    return ("text", text) if len(text) <= TEXT_BYTES else BAD


def _decimal(value: Decimal) -> KindValue:
    """Classifies a decimal, clamped to float64 as layouts do; whole ones exactly, below 1E400."""
    if value.is_finite() and value.adjusted() < _DIGITS and value == value.to_integral_value():
        return _whole(int(value))
    number = float(value)
    return "number", math.copysign(LARGEST_FLOAT, number) if math.isinf(number) and value.is_finite() else number


def _time(value: datetime) -> KindValue:
    """Classifies a time by its offset: an instant's or a local clock's us."""
    if value.utcoffset() is None:
        return _instant("clock", (value.replace(tzinfo=UTC) - _EPOCH) // _MICROSECOND)
    return _instant("instant", (value - _EPOCH) // _MICROSECOND)


def _instant(kind: Literal["instant", "clock"], us: int) -> KindValue:
    return kind, max(-FAR_US, min(int(us), FAR_US))


def _numpy(value: np.generic) -> KindValue:
    """Classifies a NumPy scalar that Python types don't cover."""
    if isinstance(value, np.datetime64):
        if np.datetime_data(value.dtype)[0] in ("Y", "M", "W", "D"):  # a date without a time
            return BAD
        time = value.astype("datetime64[us]").item()  # an integer beyond the years of datetime
        return _NULL_VALUE if time is None else _time(time) if isinstance(time, datetime) else BAD
    if isinstance(value, np.integer):
        return _whole(int(value))
    return ("number", float(value)) if isinstance(value, np.floating) else BAD


_CLASSIFIERS: Mapping[type, Callable[[Any], KindValue]] = {
    type(None): lambda _: _NULL_VALUE,
    bool: _bad,
    str: _text,
    bytes: _text,
    bytearray: _text,
    memoryview: _text,
    float: lambda value: ("number", float(value)),
    int: _whole,
    datetime: _time,
    Timestamp: lambda value: _instant("instant", value.micros),
    Decimal: _decimal,
    np.generic: _numpy,
}  # by type. In this order where a value is of a type derived from one of them
