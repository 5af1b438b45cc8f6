"""What becomes of a row is a matter of its own bytes: no other row of its file, batch or poll decides about it."""

import io
import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kit import feed_layouts
from tests.transforms.inputs import fates, good_row, iudx_element, json_line, mapped
from transforms.layouts import Layout, MessageLayout, layout
from transforms.layouts.base import FIELDS

IDS = ["bus", "7", "", '"b"', "x" * 300, "é", "nan", "1e5", "a\tb"]
TIMES = ["2023-11-15T12:00:00Z", "2023-11-15T12:00:00", "2023-11-15 12:00:00.5+01:00", "2023-11-15T12:00", "", "soon"]
TIMES += ["1700049600", "2023-11-05T01:30:00", "2023-11-15T12:00:00.123456789+0530", "2023-11-15T12:00:00+12:3Z"]
NUMBERS = ["30.5", "30", "-97.5", "", "nan", "inf", "1e999", "+5", " 7 ", "0x10", ".5", "5.", "1" * 400, "-0"]

JSON_IDS = [7, 2**70, 7.0, None, True, [1], {"a": 1}, 10**400, -3]
JSON_TIMES = [1_700_049_600, 1_700_049_600.25, None, True, [], 10**400, 1e300]
JSON_NUMBERS = [30.5, 30, None, True, [], {}, 10**400, 1e308, 2**53 + 1, 2**63, 2**64 + 3]

ANY = ["null", "boolean", "long", "double", "string", "bytes"]
_GOOD = {"vehicle": "bus", "time": "2023-11-15T12:00:00Z", "lat": 30.5, "lon": -97.5, "speed": 20.0}


class Case(NamedTuple):
    """rows: one row in any way it can be written. written: rows as the bytes of a file. layout: what reads it."""

    layout: Layout
    rows: st.SearchStrategy[Any]
    written: Callable[[Sequence[Any]], bytes]

    def of_file(self, rows: Sequence[Any], path: Path) -> Counter[Any]:
        path.write_bytes(self.written(rows))
        return fates(self.layout.read(str(path)), self.layout.units)

    def of_messages(self, rows: Sequence[Any]) -> Counter[Any]:
        """A message a row."""
        assert isinstance(self.layout, MessageLayout)
        return fates(self.layout.from_messages([_one(self.written, row) for row in rows]), self.layout.units)


def _one(written: Callable[[Sequence[Any]], bytes], row: Any) -> bytes:
    return row if isinstance(row, bytes) else written([row])


def _rows(*pools: Sequence[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Mostly good values, some from the pools, some missing. pools: of ids, times, and numbers."""
    ids, times, numbers = pools
    good = st.fixed_dictionaries({name: st.just(value) for name, value in _GOOD.items()})
    strange = {"vehicle": ids, "time": times, "lat": numbers, "lon": numbers, "speed": numbers}
    replaced = st.fixed_dictionaries({}, optional={name: st.sampled_from(pool) for name, pool in strange.items()})
    return st.builds(lambda row, other, gone: {k: v for k, v in (row | other).items() if k != gone}, good, replaced,
                     st.sampled_from(["", *FIELDS]))  # fmt: skip


def _as_texts(row: Mapping[str, Any]) -> dict[str, str]:
    return {name: str(value) for name, value in row.items()}


def _csv_line(row: Mapping[str, Any]) -> bytes:
    return ",".join(str(row.get(name, "")) for name in FIELDS).encode()


def _damaged(line: bytes, how: int) -> bytes:
    forms = [line + b",9", line[:-3], line + b"\r", b"\xff" + line, b'"' + line, line.replace(b"3", b"\r", 1), b" "]
    forms += [line + b'"', b"x" * 70_000, line.replace(b"{", b'{"deep":' + b"[" * 3_000 + b"]" * 3_000 + b",", 1)]
    forms += [line.replace(b'"bus', b'"\xffbus'), line.replace(b"30.5", b"1e999"), line.replace(b"30.5", b"NaN")]
    forms += [b"5", b"null", b'{"vehicle":"\\ud800"}', line.replace(b"{", b'{"lat":1,', 1)]
    return forms[how] if how < len(forms) else line


def _lines(head: bytes = b"") -> Callable[[Sequence[bytes]], bytes]:
    return lambda rows: head + b"".join(row + b"\n" for row in rows)


def _array(rows: Sequence[bytes]) -> bytes:
    return b"[" + b",".join(rows) + b"]"


_TEXTS = _rows(IDS, TIMES, NUMBERS)
_JSON = _rows([*IDS, *JSON_IDS], [*TIMES, *JSON_TIMES], [*NUMBERS, *JSON_NUMBERS])
_HOW = st.integers(0, 40)
_CSV_LINES = st.builds(_damaged, _TEXTS.map(_csv_line), _HOW)
_JSON_TEXTS = _JSON.map(lambda row: json.dumps(row).encode())
_IUDX_TEXTS = _JSON.map(iudx_element)


def _avro(types: Mapping[str, Any]) -> Callable[[Sequence[Any]], bytes]:
    schema = {"type": "record", "name": "r", "fields": [{"name": name, "type": types[name]} for name in FIELDS]}

    def written(rows: Sequence[Any]) -> bytes:
        file = io.BytesIO()
        fastavro.writer(file, schema, [{name: row.get(name) for name in FIELDS} for row in rows])
        return file.getvalue().replace(b"QQQQ", b"\xff\xfeQQ")

    return written


_AVRO_IDS, _AVRO_TIMES = ["7", "", "QQQQ", b"bus", b"\xff", 7, 7.0, True], [1_700_049_600, 2**62, b"2023", True, "x"]
_AVRO_NUMBERS = [30, "30.5", b"30.5", b"\xff", True, float("nan"), float("inf"), 2**62, 1e308]
_TYPED = {"vehicle": ["null", "string"], "time": "string", "lat": ["null", "double"], "lon": ["null", "double"],
          "speed": ["null", "float", "long"]}  # fmt: skip
_TYPED_ROWS = _rows(["", "QQQQ", None], ["", "soon"], [float("nan"), None]).map(lambda row: {"time": ""} | row)


def _parquet(kinds: Mapping[str, pa.DataType]) -> Callable[[Sequence[Any]], bytes]:
    def written(rows: Sequence[Any]) -> bytes:
        sink = pa.BufferOutputStream()
        columns = {name: pa.array([row.get(name) for row in rows], kind) for name, kind in kinds.items()}
        pq.write_table(pa.table(columns), sink)
        return bytes(sink.getvalue())

    return written


_US = pa.timestamp("us", "UTC")
_PARQUET = {"vehicle": pa.string(), "time": _US, "lat": pa.float64(), "lon": pa.float32(), "speed": pa.int64()}
_PARQUET_ROWS = st.fixed_dictionaries(
    {},
    optional={
        "vehicle": st.sampled_from(["bus", "7", "", "x" * 300]),
        "time": st.sampled_from([1_700_049_600_000_000, 0, 2**62]),
        "lat": st.sampled_from([30.5, float("nan"), 95.0]),
        "lon": st.sampled_from([-97.5, float("inf")]),
        "speed": st.sampled_from([20, -3, 2**62]),
    },
)


def _feed(rows: Sequence[Any]) -> bytes:
    return feed_layouts.gtfs(rows).replace(b"QQQQ", b"\xff\xfeQQ")


_GTFS_ROWS = st.fixed_dictionaries(
    {},
    optional={
        "vehicle": st.sampled_from(["bus", "7", "", "QQQQ", "x" * 300]),
        "time": st.sampled_from([1_700_049_600, 0, 2**64 - 1]),
        "lat": st.sampled_from([30.5, float("nan"), 95.0]),
        "lon": st.sampled_from([-97.5, float("inf")]),
        "speed": st.sampled_from([5.0, float("nan"), -3.0, 1e38]),
    },
)
_CAPMETRO_HEAD = b"vehicle_id,timestamp,latitude,longitude,speed\n"

CASES = {
    "csv": Case(mapped("csv"), _CSV_LINES, _lines(b"vehicle,time,lat,lon,speed\n")),
    "csv with local times": Case(
        layout("csv", {name: name for name in FIELDS}, "iso", None, time_zone="America/Chicago"),
        _CSV_LINES,
        _lines(b"vehicle,time,lat,lon,speed\n"),
    ),
    "csv in seconds": Case(mapped("csv", "s"), _CSV_LINES, _lines(b"vehicle,time,lat,lon,speed\n")),
    "capmetro": Case(layout("capmetro", None, None, None), _CSV_LINES, _lines(_CAPMETRO_HEAD)),
    "jsonl": Case(mapped("jsonl"), st.builds(_damaged, _JSON_TEXTS, _HOW), _lines()),
    "jsonl in seconds": Case(mapped("jsonl", "s"), st.builds(_damaged, _JSON_TEXTS, _HOW), _lines()),
    "json lines": Case(mapped("json"), st.builds(_damaged, _JSON_TEXTS, _HOW), _lines()),
    "json array": Case(mapped("json"), _JSON_TEXTS, _array),
    "iudx lines": Case(layout("iudx", None, None, None), st.builds(_damaged, _IUDX_TEXTS, _HOW), _lines()),
    "iudx array": Case(layout("iudx", None, None, None), _IUDX_TEXTS, _array),
    "avro": Case(mapped("avro"), _TYPED_ROWS, _avro(_TYPED)),
    "avro of any type": Case(
        mapped("avro"), _rows(_AVRO_IDS, _AVRO_TIMES, _AVRO_NUMBERS), _avro(dict.fromkeys(FIELDS, ANY))
    ),
    "avro of any type in seconds": Case(
        mapped("avro", "s"), _rows(_AVRO_IDS, _AVRO_TIMES, _AVRO_NUMBERS), _avro(dict.fromkeys(FIELDS, ANY))
    ),
    "parquet": Case(mapped("parquet"), _PARQUET_ROWS, _parquet(_PARQUET)),
    "parquet of texts": Case(mapped("parquet"), _TEXTS.map(_as_texts), _parquet(dict.fromkeys(FIELDS, pa.string()))),
    "gtfs-realtime": Case(layout("gtfs-realtime", None, None, None), _GTFS_ROWS, _feed),
}
MESSAGES = [name for name, case in CASES.items() if isinstance(case.layout, MessageLayout) and "array" not in name]


@pytest.mark.parametrize("name", CASES)
def test_a_row_more_in_a_file_leaves_all_others_as_they_were(name, tmp_path_factory):
    case, path = CASES[name], tmp_path_factory.mktemp("rows") / "file"

    @given(st.lists(case.rows, min_size=1, max_size=5), case.rows, st.integers(0, 5))
    def check(rows: list[object], more: object, place: int) -> None:
        alone, single = case.of_file(rows, path), case.of_file([more], path)
        assert case.of_file([*rows[:place], more, *rows[place:]], path) == alone + single

    check()


@pytest.mark.parametrize("name", MESSAGES)
def test_a_message_more_in_a_poll_leaves_all_others_as_they_were(name):
    case = CASES[name]

    @given(st.lists(case.rows, min_size=1, max_size=5), case.rows, st.integers(0, 5))
    def check(rows: list[object], more: object, place: int) -> None:
        assert case.of_messages([*rows[:place], more, *rows[place:]]) == case.of_messages(rows) + case.of_messages(
            [more]
        )

    check()


@pytest.mark.parametrize("first", [b"[]", b"[5]", b'[{"vehicle":"bus"}]', b"[]\n[[]]\n5"])
def test_lines_stay_lines_whatever_the_first_of_them_is(first, tmp_path):
    rows = [good_row(i) for i in range(3)]
    for source, lines in (
        (mapped("json"), map(json_line, rows)),
        (layout("iudx", None, None, None), map(iudx_element, rows)),
    ):
        path = tmp_path / "lines"
        path.write_bytes(b"\n".join([first, *lines]))
        assert sum(batch.table.num_rows for batch in source.read(str(path))) == len(rows)


@pytest.mark.parametrize(
    "text", [b"[]", b" [\n]\n", b'[{"vehicle":"a"}]', b'[\n {"vehicle":"a"},\n {"vehicle":"b"}\n]\n']
)
def test_an_array_is_an_array_in_whatever_lines(text, tmp_path):
    path = tmp_path / "array"
    path.write_bytes(text)
    batches = list(mapped("json").read(str(path)))
    assert sum(batch.rows for batch in batches) == text.count(b"vehicle")
    assert all(batch.refused == {} for batch in batches)
