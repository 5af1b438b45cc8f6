"""Damaged, oversized and malicious input costs its own rows, shows nothing and stays small in memory."""

import io
import random
import struct
import subprocess
import sys
import zlib
from bisect import bisect_left
from collections import Counter

import fastavro
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.transforms.inputs import (
    FIELDS,
    csv_line,
    good_row,
    iudx_element,
    json_line,
    mapped,
    rules,
    run,
    write_array,
    write_avro,
    write_csv,
    write_jsonl,
    write_parquet,
)
from transforms.layouts import FIXED, UnreadableFile, avro_blocks, parquet
from transforms.layouts.avro_blocks import write_long
from transforms.layouts.lines import CHUNK_BYTES, LINE_BYTES
from transforms.observe.parse import parse

NAMES = ["csv", "jsonl", "iudx-lines", "iudx-array"]
WRITERS = {
    "csv": (mapped("csv"), csv_line, write_csv),
    "jsonl": (mapped("jsonl"), json_line, write_jsonl),
    "iudx-lines": (FIXED["iudx"], iudx_element, write_jsonl),
    "iudx-array": (FIXED["iudx"], iudx_element, write_array),
}


def read(name, folder, lines):
    """What becomes of these lines or elements in a file of one layout."""
    source, _, write = WRITERS[name]
    return run(source, write(folder / "input", lines), rules())


def row(i):
    """Good rows that can be told apart by their position."""
    return {**good_row(i), "lat": round(30 + i / 1e6, 6)}


def places(observations):
    return set(observations.lat_e7.tolist())


# --- one bad row among good ones ----------------------------------------------------------------------------------

CSV_DAMAGE = {
    "malformed": [
        b'"bus,2023-11-15T12:00:00Z,30,-97,1',
        b'bus",2023-11-15T12:00:00Z,30,-97,1',
        b'b"u,"s,30,-97,1',
        b'bus","2023-11-15T12:00:00Z,30,-97,1',
        b'"bus"x,2023-11-15T12:00:00Z,30,-97,1',
        b'"bus""",2023-11-15T12:00:00Z,30,-97,"1""',
        b"bus,2023-11-15T12:00:00Z\r,30,-97,1",
        b"\rbus,2023-11-15T12:00:00Z,30,-97,1",
        b"bus,2023-11-15T12:00:00Z,30,-97",
        b"bus,2023-11-15T12:00:00Z,30,-97,1,",
        b"bus",
        b'"',
        b"   ",
    ],
    "too-long": [b"x" * 65_537, b'"' * 65_537, b"," * 3_000_000],
    "not-utf8": [b"b\xffus,2023-11-15T12:00:00Z,30,-97,1", b"bus,\xc3,30,-97,1"],
    "missing-vehicle": [b",,,,"],
    "bad-time": [b"bus,\x00,30,-97,1"],
}
JSON_DAMAGE = {
    "malformed": [
        b"{",
        b"}",
        b'{"vehicle":"bus"',
        b'"vehicle":"bus"}',
        b'{"vehicle":"bus}',
        b'{"vehicle":NaN}',
        b'{"x":Infinity}',
        b'{"x":-Infinity}',
        b'{"x":01}',
        b'{"x":"\t"}',
        b'{"x":"\\ud800"}',
        b'{"x":' + b"[" * 30_000 + b"]" * 30_000 + b"}",
        b"{}x",
        b"[1]",
        b"null",
        b"7",
        b'"text"',
        b"{'vehicle':1}",
        b"\x00",
    ],
    "too-long": [b'{"x":"' + b"x" * 65_600 + b'"}'],
    "not-utf8": [b'{"vehicle":"\xff"}', b'{"x":"\xc3"}'],
    "missing-vehicle": [b"{}", b'{"vehicle":null}', b'{"x":1e999}'],
    "bad-vehicle": [b'{"vehicle":true,"license_plate":true}', b'{"vehicle":[],"license_plate":{}}'],
}
# Beside another damaged element of an array these may count as one with it.
TORN = {
    b"{", b"}", b'{"vehicle":"bus"', b'"vehicle":"bus"}', b'{"vehicle":"bus}', b"{}x", b"{'vehicle':1}", b"\x00",
    b"[1]", b"null", b"7", b'"text"',
}  # fmt: skip
LINES_DAMAGE = {"malformed": [b"{} {}", b"{}{}", b'{"x":{', b"x" * 1_000], "too-long": [b"x" * 3_000_000]}


def damage(name):
    tables = {"csv": [CSV_DAMAGE], "iudx-array": [JSON_DAMAGE]}.get(name, [JSON_DAMAGE, LINES_DAMAGE])
    return [(reason, line) for part in tables for reason, lines in part.items() for line in lines]


@pytest.mark.parametrize("name", NAMES)
def test_one_bad_row_never_costs_a_good_one(name, tmp_path):
    good = [WRITERS[name][1](row(i)) for i in range(4)]
    for reason, line in damage(name):
        first = 1 if name == "iudx-lines" and line.startswith(b"[") else 0  # there it would announce an array
        for at in (first, 2, 4):
            found, refused, rows = read(name, tmp_path, [*good[:at], line, *good[at:]])
            assert (len(found.speed), refused, rows) == (4, {reason: 1}, 5), (reason, line[:60], at)


@pytest.mark.parametrize("name", NAMES)
def test_ten_percent_of_bad_events_cost_no_good_one_and_are_counted_exactly(name, tmp_path):
    choose = random.Random(1)
    encode = WRITERS[name][1]
    short = [(reason, line) for reason, line in damage(name) if len(line) < 100_000]
    if name == "iudx-array":
        short = [(reason, line) for reason, line in short if line not in TORN]
    for fault, reason in [
        ({"vehicle": ""}, "missing-vehicle"), ({"vehicle": "x" * 300}, "bad-vehicle"), ({"time": None}, "missing-time"),
        ({"time": "2023-02-30T00:00:00Z"}, "bad-time"), ({"time": "1970-01-01T00:00:00Z"}, "implausible-time"),
        ({"time": "9999-12-31T00:00:00Z"}, "implausible-time"), ({"time": "2024-11-15T00:00:00Z"}, "outside-range"),
        ({"lat": 91}, "latitude-range"), ({"lon": 540.0}, "longitude-range"), ({"lat": 0, "lon": 0}, "zero-position"),
        ({"lat": None}, "missing-position"), ({"lon": "x"}, "bad-position"), ({"speed": None}, "missing-speed"),
        ({"speed": "fast"}, "bad-speed"),
    ]:  # fmt: skip
        short.append((reason, encode({**row(0), **fault})))
    lines, expected, good = [], Counter(), set()
    for i in range(20_000):
        if choose.random() < 0.1:
            reason, line = choose.choice(short)
            expected[reason] += 1
        else:
            line = encode({**row(i), "speed": choose.choice([-5.0, 0.0, 36.5, 400.0])})
            good.add(round((30 + i / 1e6) * 1e7))
        lines.append(line)
    found, refused, rows = read(name, tmp_path, lines)
    assert places(found) == good
    assert len(found.speed) == len(good)
    assert rows == 20_000
    assert refused == expected


@pytest.mark.parametrize("name", ["csv", "jsonl", "iudx-lines", "iudx-array"])
@pytest.mark.parametrize("ending", [b"\n", b"\r\n"])
def test_a_line_of_65536_bytes_is_read_and_one_of_65537_is_not(name, ending, tmp_path):
    source, encode, _ = WRITERS[name]
    for size, reason in ((LINE_BYTES, {"bad-vehicle": 1}), (LINE_BYTES + 1, {"too-long": 1})):
        short = encode({**row(1), "vehicle": ""})
        line = encode({**row(1), "vehicle": "x" * (size - len(short))})
        assert len(line) == size
        if name == "iudx-array":
            content = b"[" + line + b"," + encode(row(2)) + b"]"
        else:
            header = [",".join(FIELDS).encode()] if name == "csv" else []
            content = ending.join([*header, line, encode(row(2)), line, encode(row(3)), line])
        (tmp_path / "a").write_bytes(content)
        found, refused, _ = run(source, str(tmp_path / "a"), rules())
        times = 1 if name == "iudx-array" else 3
        assert refused == {key: count * times for key, count in reason.items()}
        assert len(found.speed) == (1 if times == 1 else 2)


@pytest.mark.parametrize("speed", [b"20", b"1e999"])
@pytest.mark.parametrize("ending", [b"\n", b"\r\n"])
@pytest.mark.parametrize("name", ["csv", "jsonl", "iudx-lines"])
def test_the_longest_line_is_read_whatever_the_speed_beside_it(name, ending, speed, tmp_path):
    source, encode, _ = WRITERS[name]
    short, other = (encode({**row(i), "speed": 12.25}) for i in range(2))
    longest = short.replace(b"12.25", b"12.25".ljust(LINE_BYTES - len(short) + 5, b"0"))
    assert len(longest) == LINE_BYTES
    header = [",".join(FIELDS).encode()] if name == "csv" else []
    (tmp_path / "a").write_bytes(ending.join([*header, longest, other.replace(b"12.25", speed), b""]))
    found, refused, _ = run(source, str(tmp_path / "a"), rules())
    assert (len(found.speed), refused) == (2, {})


@pytest.mark.parametrize("name", ["csv", "jsonl", "iudx-lines"])
@pytest.mark.parametrize("around", [-2, -1, 0, 1, 2, LINE_BYTES, 3 * LINE_BYTES])
def test_long_lines_at_the_edge_of_a_chunk_cost_themselves_alone(name, around, tmp_path):
    encode = WRITERS[name][1]
    good = [encode(row(i)) for i in range(10)]
    filler = [b"x" * LINE_BYTES] * (CHUNK_BYTES // (LINE_BYTES + 1))
    rest = CHUNK_BYTES + around - sum(len(line) + 1 for line in [*filler, *good[:5]])
    lines = [*good[:5], *filler, b"y" * max(1, rest), b"z" * (LINE_BYTES + 1), *good[5:]]
    found, refused, rows = read(name, tmp_path, lines)
    assert len(found.speed) == 10
    assert rows == len(lines)
    assert refused.total() == len(lines) - 10
    assert refused["too-long"] == 1 + (rest > LINE_BYTES)


def test_a_bad_value_in_typed_columns_costs_its_row_alone(tmp_path):
    rows = [row(i) for i in range(10)]
    columns = {field: [item[field] for item in rows] for field in FIELDS}
    columns["vehicle"][1], columns["lat"][2], columns["speed"][3], columns["time"][4] = None, np.nan, np.inf, "x"
    path = write_parquet(tmp_path / "a", {field: pa.array(values) for field, values in columns.items()})
    found, refused, _ = run(mapped("parquet"), path, rules())
    assert refused == {"missing-vehicle": 1, "bad-position": 1, "bad-speed": 1, "bad-time": 1}
    assert len(found.speed) == 6


def test_bytes_that_are_not_utf8_in_avro_cost_their_row_alone(tmp_path):
    types = {"vehicle": "string", "time": "string", "lat": "double", "lon": "double", "speed": "double"}
    path = write_avro(tmp_path / "a", [{**row(i), "vehicle": f"REPLACE{i}"} for i in range(5)], types, "null")
    (tmp_path / "a").write_bytes((tmp_path / "a").read_bytes().replace(b"REPLACE3", b"REPL\xffCE3"))
    found, refused, _ = run(mapped("avro"), path, rules())
    assert (len(found.speed), refused) == (4, {"not-utf8": 1})


@pytest.mark.parametrize("text", ["1e999", "-1e999", "1" + "0" * 400, "-" + "9" * 5_000])
def test_a_json_speed_beyond_float64_is_finite_and_stays(text, tmp_path):
    line = json_line({**row(1), "speed": "SPEED"}).replace(b'"SPEED"', text.encode())
    found, refused, _ = read("jsonl", tmp_path, [json_line(row(0)), line])
    assert refused == {}
    assert found.speed[1] == (0 if text.startswith("-") else 6_500)


@pytest.mark.parametrize(
    "vehicle",
    [b"9" * 350, b"-" + b"9" * 4_300, b"9" * 4_301, b"-0", b"1e400", b'"\\ud800"', b'"1e999"', b"[" * 900 + b"]" * 900],
    ids=lambda value: value[:12].decode(),
)
@pytest.mark.parametrize("place", [b'{"vehicle":VEHICLE,"speed":SPEED}', b'{"speed":SPEED,"vehicle":VEHICLE}'])
def test_a_json_id_is_judged_alike_beside_any_speed(vehicle, place, tmp_path):
    source = mapped("jsonl", vehicle="bus.vehicle", speed="bus.speed")
    line = b'{"bus":' + place.replace(b"VEHICLE", vehicle) + b',"time":"2023-11-15T12:00:00Z","lat":30,"lon":-97}'
    found = []
    for speed in (b"20", b"1e999", b"9" * 5_000):
        path = write_jsonl(tmp_path / "a", [line.replace(b"SPEED", speed)])
        (batch,) = source.read(path)
        found.append((batch.refused, batch.table.drop_columns("speed"), parse(batch.table, rules())[1]))
    assert found[0] == found[1] == found[2]


@pytest.mark.parametrize("own", [True, False], ids=["its own", "a neighbour's"])
def test_a_record_may_be_nested_as_deep_beside_any_speed(own, tmp_path):
    """Around the depth that this Python can decode, whatever it is; a record of 64 kB cannot be deeper than 32,000."""
    deep, flat = ({"speed": "SPEED" if here else 20.0} for here in (own, not own))
    lines = [json_line({**row(0), "x": "DEEP", **deep}), json_line({**row(1), **flat})]

    def malformed(depth, speed):
        texts = [lines[0].replace(b'"DEEP"', b"[" * depth + b"]" * depth), lines[1]]
        _, refused, _ = read("jsonl", tmp_path, [text.replace(b'"SPEED"', speed) for text in texts])
        return refused.get("malformed", 0)

    limit = bisect_left(range(32_000), 1, key=lambda depth: malformed(depth, b"20"))
    outcomes = set()
    for depth in range(limit - 60, min(limit + 60, 32_000)):
        plain, huge = (malformed(depth, speed) for speed in (b"20", b"1e999"))
        assert plain == huge
        outcomes.add(plain)
    assert 0 in outcomes


@pytest.mark.parametrize("line", [b'{"x":01e999}', b'{"x":1e999.5}', b'{"x":-1e999e5}', b'{"x":1e999', b'{"x":"1e999}'])
def test_a_damaged_record_with_a_huge_number_stays_malformed(line, tmp_path):
    line = line.replace(b"x", b"speed")
    assert read("jsonl", tmp_path, [line])[1] == read("jsonl", tmp_path, [line.replace(b"999", b"9")])[1]
    assert read("jsonl", tmp_path, [line])[1] == {"malformed": 1}


# --- elements of an array -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "element",
    [
        b'{"x":NaN,"y":[{"a":1},{"b":2}]}',
        b'{"y":[{"a":1},{"b":NaN},{"c":2}]}',
        b'{"x":"},{","y":[{"a":NaN},{"b":"},{"}]}',
        b'{"license_plate":"bus"',
        b'{"license_plate":"bus}',
        b'{"location":{"coordinates":[1,2}',
        b'{"license_plate" "bus"}',
        b"{]}",
        b"nonsense",
        b"",
    ],
)
@pytest.mark.parametrize("between", [b",", b" ,\n  "])
def test_reading_goes_on_at_the_element_after_a_damaged_one(element, between, tmp_path):
    good = [iudx_element(row(i)) for i in range(6)]
    path = write_array(tmp_path / "a", [*good[:3], element, *good[3:]], between)
    found, refused, _ = run(FIXED["iudx"], path, rules())
    assert len(found.speed) == 6
    assert refused.total() >= 1


@pytest.mark.parametrize("tail", [b"", b"]", b",]", b"] trailing", b",", b',{"license_plate":"bus"', b"]]"])
def test_the_end_of_an_array_may_be_torn(tail, tmp_path):
    good = b"[" + b",".join(iudx_element(row(i)) for i in range(6))
    (tmp_path / "a").write_bytes(good + tail)
    assert len(run(FIXED["iudx"], str(tmp_path / "a"), rules())[0].speed) == 6


@pytest.mark.parametrize(
    "content",
    [
        b'[{"x":[' + b"1,{x," * 5_000,
        b"[" + b"x,{" * 20_000,
        b"[" + b'",{' * 20_000,
        b"[" + b'{"a":' * 100_000,
        b"[" + b"[" * 200_000 + b"}" * 200_000 + b",{}]",
    ],
    ids=["open array", "no elements", "quotes", "deep", "crossed"],
)
def test_an_array_of_nothing_but_damage_ends(content, tmp_path):
    (tmp_path / "a").write_bytes(content)
    assert run(FIXED["iudx"], str(tmp_path / "a"), rules())[1].total() > 0


# --- fuzzing ------------------------------------------------------------------------------------------------------

FRAGMENTS = [
    b'"', b'""', b",", b"\\",
    b"{", b"}", b"[", b"]", b"},{", b"NaN", b"1e999", b"null", b"true", b"\r", b"\x00", b"\xff",
    b"\xc3\xa9", b"-", b"9" * 30, b"=cmd()", b"'; DROP TABLE", b"\x1b[2J", b" ", b":", b"x" * 300,
]  # fmt: skip


def mutated(choose, line):
    """A line with a few changes, never a line end."""
    for _ in range(choose.randint(1, 3)):
        at, to = sorted((choose.randint(0, len(line)), choose.randint(0, len(line))))
        change = choose.randrange(4)
        if change == 0:
            line = line[:at] + choose.choice(FRAGMENTS) + line[at:]
        elif change == 1:
            line = line[:at] + line[min(to, at + 10) :]
        elif change == 2:
            line = line[:at] + bytes([choose.randrange(256)]) + line[at + 1 :]
        else:
            line = line[:at] + line[at:to] * 2 + line[to:]
    return line.replace(b"\n", b" ")


def fuzz(name, folder, count, seed):
    """One file of which half of the rows are mutated: no crash, every row accounted for, no good row lost."""
    choose = random.Random(seed)
    encode = WRITERS[name][1]
    lines, good = [], set()
    for i in range(count):
        line = encode(row(i))
        if choose.random() < 0.5:
            line = mutated(choose, line)
        else:
            good.add(round((30 + i / 1e6) * 1e7))
        lines.append(line)
    found, _, rows = read(name, folder, lines)
    assert good <= places(found)
    if name != "iudx-array":
        blanks = b"\r" if name == "csv" else b" \t\r\n\v\f"
        assert rows == sum(1 for line in lines if line.strip(blanks) or (name == "csv" and len(line) > 1))
    return lines, found


@pytest.mark.parametrize("name", NAMES)
def test_twenty_five_thousand_fuzzed_rows_of_each_layout(name, tmp_path):
    for seed in range(5):
        fuzz(name, tmp_path, 5_000, seed)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_a_million_fuzzed_rows(name, tmp_path):
    for seed in range(50):
        fuzz(name, tmp_path, 5_000, 1_000 + seed)


@pytest.mark.parametrize("name", ["csv", "jsonl", "iudx-lines"])
def test_a_row_is_judged_alike_alone_and_among_others(name, tmp_path):
    lines, found = fuzz(name, tmp_path, 600, 99)
    alone = Counter()
    for line in lines:
        alone.update(read(name, tmp_path, [line])[0].vehicle.tolist())
    assert alone == Counter(found.vehicle.tolist())


SPEEDS = [b"20", b"-1e308", b"1e999", b"0", b"30.500000", b"7" * 300, b"1e-400"]
ANY_RECORD = st.fixed_dictionaries({
    "vehicle": st.sampled_from(["bus", "7", 7, 10**349, "", None, "x" * 257, "\u00e9"]),
    "time": st.sampled_from(["2023-11-15T12:00:00Z", "2024-11-15T12:00:00Z", "yesterday", 1_700_049_600, None]),
    "lat": st.sampled_from([30.25, 91, 10**400, None]),
    "lon": st.sampled_from([-97.5, -97, None]),
    "speed": st.sampled_from([12.25, -1, 400, "fast", None]),
})  # fmt: skip


def any_lines(name, choose, records):
    """Records as one layout writes them, some of them damaged, the longest that is read, or one byte longer."""
    for record in records:
        line = WRITERS[name][1](record)
        change = choose.randrange(6)
        if change < 2:
            size = LINE_BYTES + change - len(WRITERS[name][1]({**record, "vehicle": ""}))
            line = WRITERS[name][1]({**record, "vehicle": "x" * size})
        elif change == 2:
            line = mutated(choose, line).replace(b"\r", b" ")
        yield line if name != "iudx-lines" or line[:1] != b"[" else b" "


def public_outcome(source, path):
    """All that may be published of a file's rows: those accepted, without their speeds, and the refused by stage."""
    accepted, refused = [], Counter()
    for batch in source.read(path):
        observations, counts = parse(batch.table, rules())
        accepted += zip(*(part.tolist() for part in observations[:5]), strict=True)
        for stage, reasons in (("read", batch.refused), ("parse", counts)):
            refused.update({(stage, reason): rows for reason, rows in reasons.items()})
    return accepted, refused


@pytest.mark.parametrize("name", NAMES)
@given(
    records=st.lists(ANY_RECORD, min_size=1, max_size=6),
    ending=st.sampled_from([b"\n", b"\r\n"]),
    choose=st.randoms(use_true_random=False),
)
def test_no_value_of_a_speed_decides_what_becomes_of_any_record(name, records, ending, choose, tmp_path_factory):
    source, encode, _ = WRITERS[name]
    path = tmp_path_factory.getbasetemp() / f"any-{name}"
    before, *others = records
    at = choose.randint(0, len(others))
    lines = list(any_lines(name, choose, others))
    outcomes = []
    for speed in SPEEDS:
        line = encode({**before, "speed": "SPEED"}).replace(b'"SPEED"', speed).replace(b"SPEED", speed)
        whole = [*lines[:at], line, *lines[at:]]
        if name == "iudx-array":
            path.write_bytes(b"[" + (b"," + ending).join(whole) + b"]")
        else:
            path.write_bytes(ending.join([*([",".join(FIELDS).encode()] if name == "csv" else []), *whole, b""]))
        outcomes.append(public_outcome(source, str(path)))
    assert all(outcome == outcomes[0] for outcome in outcomes)


def fuzzed_parquet(choose, path):
    """Columns of fuzzed values, written in types chosen at random."""
    texts = [mutated(choose, choose.choice([b"30.5", b"2023-11-15T12:00:00Z", b"bus"])) for _ in range(5 * 500)]
    columns = {}
    for i, field in enumerate(FIELDS):
        part = [text if choose.random() < 0.9 else None for text in texts[i * 500 : i * 500 + 500]]
        kind = choose.randrange(4)
        if kind == 0:
            columns[field] = pa.array(part, pa.binary())
        elif kind == 1:
            columns[field] = pa.array([text and text.decode(errors="replace") for text in part]).dictionary_encode()
        elif kind == 2:
            floats = struct.unpack("<500d", choose.randbytes(4_000))
            columns[field] = pa.array(floats, pa.float64())
        else:
            columns[field] = pa.array([choose.getrandbits(64) - 2**63 for _ in part], pa.int64())
    return write_parquet(path, columns)


def test_rows_of_fuzzed_parquet_are_observations_or_refused(tmp_path):
    choose = random.Random(5)
    for _ in range(20):
        assert run(mapped("parquet"), fuzzed_parquet(choose, tmp_path / "a"), rules())[2] == 500


@pytest.mark.parametrize("kind", ["parquet", "avro", "gtfs-realtime"])
def test_a_torn_binary_file_is_read_or_unreadable(kind, tmp_path):
    choose = random.Random(6)
    types = {"vehicle": "string", "time": "string", "lat": "double", "lon": "double", "speed": "double"}
    rows = [row(i) for i in range(200)]
    if kind == "parquet":
        source = mapped("parquet")
        path = write_parquet(tmp_path / "a", {field: pa.array([item[field] for item in rows]) for field in FIELDS})
    elif kind == "avro":
        source, path = mapped("avro"), write_avro(tmp_path / "a", rows, types, "null")
    else:
        source, path = FIXED["gtfs-realtime"], str(tmp_path / "a")
        (tmp_path / "a").write_bytes(b"\n\x05\n\x032.0" + b'\x12\x0b\n\x01a"\x06B\x04\n\x02xy' * 200)
    whole = (tmp_path / "a").read_bytes()
    outcomes = Counter()
    for _ in range(300):
        at = choose.randrange(len(whole))
        torn = (
            whole[:at]
            if choose.random() < 0.3
            else whole[:at] + choose.randbytes(choose.randint(1, 4)) + whole[at + 2 :]
        )
        (tmp_path / "a").write_bytes(torn)
        try:
            run(source, path, rules(source.units))
            outcomes["read"] += 1
        except UnreadableFile:
            outcomes["unreadable"] += 1
    assert outcomes["unreadable"] > 0


# --- nothing is shown ---------------------------------------------------------------------------------------------

INJECTIONS = [
    "=cmd()|' /C calc'!A0",
    "'; DROP TABLE vehicles; --",
    "canary\nsecond line",
    "\x1b[2J\x1b]0;canary\x07",
    "canary",
]


@pytest.mark.parametrize("plate", INJECTIONS)
def test_an_id_is_an_id_and_never_in_a_message(plate, tmp_path, caplog, capfd):
    rows = [{**row(i), "vehicle": plate} for i in range(3)]
    found, refused, _ = read("jsonl", tmp_path, map(json_line, rows))
    assert (len(found.speed), refused) == (3, {})
    for name in NAMES:
        for bad in ({"time": plate}, {"lat": plate}, {"speed": plate}, {"vehicle": plate * 60}):
            observed = read(name, tmp_path, [WRITERS[name][1]({**item, **bad}).replace(b"\n", b" ") for item in rows])
            assert not any("canary" in reason or plate in reason for reason in observed[1])
    for kind in ("parquet", "avro"):
        path = tmp_path / "broken"
        path.write_bytes((b"PAR1" if kind == "parquet" else b"Obj\x01\x02") + plate.encode() * 9 + b"PAR1")
        with pytest.raises(UnreadableFile) as caught:
            list(mapped(kind).read(str(path)))
        shown = f"{caught.value!r} {caught.value}"
        assert plate not in shown
        assert "canary" not in shown
    assert caplog.text == ""
    assert capfd.readouterr() == ("", "")


def test_no_array_of_observations_holds_an_id(tmp_path):
    path = write_jsonl(tmp_path / "a", [json_line({**row(i), "vehicle": "canary"}) for i in range(100)])
    for batch in mapped("jsonl").read(path):
        observations, refused = parse(batch.table, rules())
        assert b"canary" not in b"".join(part.tobytes() for part in observations)
        assert "canary" not in repr((observations, refused))


# --- bombs --------------------------------------------------------------------------------------------------------


def unreadable(source, path):
    with pytest.raises(UnreadableFile) as caught:
        list(source.read(str(path)))
    return caught.value.rule


def columns_of(**changes):
    rows = [row(i) for i in range(100)]
    return {field: changes.get(field, pa.array([item[field] for item in rows])) for field in FIELDS}


def test_a_parquet_file_that_expands_is_refused(tmp_path):
    columns = columns_of(vehicle=pa.array(["x" * 1_500_000 + str(i) for i in range(100)]))
    path = tmp_path / "a"
    write_parquet(path, columns, compression="zstd", use_dictionary=False, write_statistics=False)
    assert path.stat().st_size < 500_000
    assert "expands to more than" in unreadable(mapped("parquet"), path)


def test_a_parquet_file_of_rows_without_bytes_is_refused(tmp_path):
    path = tmp_path / "a"
    constant = {field: pa.repeat(pa.scalar(1, pa.int64()), 2_000_000) for field in FIELDS}
    write_parquet(path, constant, compression="zstd")
    assert path.stat().st_size < 100_000
    assert unreadable(mapped("parquet"), path) == "expands to more than 4 rows per byte of vehicles, times and places"


def test_a_parquet_encoding_that_repeats_prefixes_is_refused(tmp_path):
    text = pa.array(["x" * 100_000] * 100)
    encoding = {"vehicle": "DELTA_BYTE_ARRAY"}
    path = write_parquet(tmp_path / "a", columns_of(vehicle=text), use_dictionary=False, column_encoding=encoding)
    assert "DELTA_BYTE_ARRAY" in unreadable(mapped("parquet"), path)


def test_a_long_value_repeated_by_a_dictionary_is_held_once(tmp_path):
    long = pa.DictionaryArray.from_arrays(pa.array([0] * 20_000, pa.int32()), pa.array(["x" * 500_000]))
    columns = {field: pa.array([row(0)[field]] * 20_000) for field in FIELDS if field != "vehicle"}
    path = write_parquet(tmp_path / "a", {**columns, "vehicle": long})
    assert run(mapped("parquet"), path, rules())[1] == {"bad-vehicle": 20_000}
    assert peak_mb("mapped('parquet')", path) < 512


def test_a_parquet_footer_cannot_hide_what_the_pages_hold(tmp_path):
    path = tmp_path / "a"
    write_parquet(path, columns_of(vehicle=pa.array(["x" * 2_000_000] * 100)), compression="zstd", use_dictionary=False)
    whole = path.read_bytes()
    size = pq.ParquetFile(path).metadata.row_group(0).column(0).total_uncompressed_size
    encoded = varint(size * 2)
    assert encoded in whole
    path.write_bytes(whole.replace(encoded, varint(2_000).ljust(len(encoded), b"\x00")[: len(encoded)]))
    assert unreadable(mapped("parquet"), path)


def rows_or_rule(path):
    """How many rows a Parquet file gives, or why it is not read."""
    try:
        return sum(batch.rows for batch in mapped("parquet").read(str(path)))
    except UnreadableFile as error:
        return error.rule


def speeds_of_one_vehicle(rows, other_rows):
    """Speeds that are alike, and the same where one vehicle's are not."""
    alike = np.full(rows, 20.0)
    varied = alike.copy()
    varied[:other_rows] = np.random.default_rng(1).uniform(0, 60, other_rows)
    return alike, varied


@pytest.mark.parametrize(("places", "is_read"), [(10_000, False), (50_000, True)])
def test_how_well_speeds_are_compressed_decides_nothing(places, is_read, tmp_path):
    rows, path = 1_200_000, tmp_path / "a"
    lat = np.full(rows, 30.0)
    lat[-places:] += np.random.default_rng(2).uniform(0, 1, places)
    outcomes, sizes = [], []
    for speed in speeds_of_one_vehicle(rows, 40_000):
        columns = {
            "vehicle": np.arange(rows) // 3_000,
            "time": np.full(rows, 7),
            "lat": lat,
            "lon": lat,
            "speed": speed,
        }
        write_parquet(path, {name: pa.array(values) for name, values in columns.items()}, compression="zstd")
        outcomes.append(rows_or_rule(path))
        sizes.append(path.stat().st_size)
    assert outcomes[0] == outcomes[1]
    assert (outcomes[0] == rows) == is_read
    if not is_read:
        assert sizes[0] < rows / 4 < sizes[1]


def test_how_long_a_page_of_speeds_is_decides_nothing(tmp_path):
    rows, path = 4_500_000, tmp_path / "a"
    vehicles = pa.array(np.random.default_rng(3).integers(0, 200, rows), pa.int32())
    columns = {"vehicle": vehicles, **dict.fromkeys(("time", "lat", "lon"), pa.repeat(pa.scalar(7), rows))}
    one_page = {"row_group_size": rows, "data_page_size": 1 << 30, "max_rows_per_page": rows, "compression": "zstd"}
    for speed in speeds_of_one_vehicle(rows, rows // 3):
        write_parquet(path, {**columns, "speed": pa.array(speed)}, **one_page, dictionary_pagesize_limit=1 << 30)
        assert rows_or_rule(path) == rows
    write_parquet(path, {**columns, "speed": pa.array(speed)}, **one_page, use_dictionary=[*columns])
    assert rows_or_rule(path) == rows


def test_a_row_group_of_too_many_speeds_is_refused_whatever_they_are(monkeypatch, tmp_path):
    monkeypatch.setattr(parquet, "SPEED_BYTES", 8 * 99)
    for speed in (np.zeros(100), np.arange(100.0)):
        path = write_parquet(tmp_path / "a", columns_of(speed=pa.array(speed)))
        assert unreadable(mapped("parquet"), path) == "a row group of more than 99 rows: write smaller ones"
    assert rows_or_rule(write_parquet(tmp_path / "a", columns_of(), row_group_size=99)) == 100


def test_pages_of_more_speeds_than_rows_are_refused(tmp_path):
    rows, path = 1_000_003, tmp_path / "a"
    columns = dict.fromkeys(FIELDS, pa.repeat(pa.scalar(1.5), rows))
    write_parquet(path, columns, compression="zstd", use_dictionary=["vehicle", "time", "lat", "lon"])
    whole = path.read_bytes()
    footer = len(whole) - 8 - int.from_bytes(whole[-8:-4], "little")
    claimed = varint(100 * 2).replace(b"\x01", b"\x81\x00")
    path.write_bytes(whole[:footer] + whole[footer:].replace(varint(rows * 2), claimed))
    assert pq.ParquetFile(path).metadata.num_rows == 100
    assert unreadable(mapped("parquet"), path) == "pages of speeds expand to more than their rows"


def varint(value):
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def avro_file(schema, blocks, codec=b"deflate"):
    """A container file made by hand. blocks: pairs of a claimed number of rows and the bytes of a block."""
    sync = b"s" * 16
    out = io.BytesIO(b"")
    out.write(b"Obj\x01" + write_long(2))
    for name, value in ((b"avro.schema", schema), (b"avro.codec", codec)):
        out.write(write_long(len(name)) + name + write_long(len(value)) + value)
    out.write(write_long(0) + sync)
    for rows, data in blocks:
        out.write(write_long(rows) + write_long(len(data)) + data + sync)
    return out.getvalue()


def deflated(data):
    deflate = zlib.compressobj(9, wbits=-15)
    return deflate.compress(data) + deflate.flush()


def avro_schema(*fields):
    own = [f'{{"name":"{name}","type":["null","double","string"]}}' for name in FIELDS]
    return f'{{"type":"record","name":"r","fields":[{",".join([*own, *fields])}]}}'.encode()


def test_an_avro_block_that_expands_is_refused(tmp_path):
    (tmp_path / "a").write_bytes(avro_file(avro_schema(), [(1, deflated(bytes(65 << 20)))]))
    assert (tmp_path / "a").stat().st_size < 500_000
    assert unreadable(mapped("avro"), tmp_path / "a") == "a block expands to more than 64 MiB"


def test_how_well_a_full_avro_block_is_compressed_decides_nothing(monkeypatch, tmp_path):
    monkeypatch.setattr(avro_blocks, "BLOCK_BYTES", 1_000)
    fields = ",".join(f'{{"name":"{name}","type":"double"}}' for name in FIELDS)
    random_bits = np.frombuffer(np.random.default_rng(4).bytes(1_000)).reshape(25, 5)
    alike = np.column_stack([random_bits[:, :4], np.zeros(25)])
    sizes = []
    for values in (alike, random_bits):
        block = deflated(values.tobytes())
        file = avro_file(f'{{"type":"record","name":"r","fields":[{fields}]}}'.encode(), [(25, block)])
        (tmp_path / "a").write_bytes(file)
        assert sum(batch.rows for batch in mapped("avro").read(str(tmp_path / "a"))) == 25
        sizes.append(len(block))
    assert sizes[0] < 1_000 < sizes[1]


def test_an_avro_block_of_many_small_rows_streams_in_bounded_memory(tmp_path):
    rows = 400_000
    (tmp_path / "a").write_bytes(avro_file(avro_schema(), [(rows, deflated(bytes(5 * rows)))]))
    assert peak_mb("mapped('avro')", tmp_path / "a") < 512


def test_an_avro_block_cannot_claim_more_rows_than_bytes(tmp_path):
    (tmp_path / "a").write_bytes(avro_file(b'{"type":"record","name":"r","fields":[]}', [(10**12, b"")], b"null"))
    assert unreadable(mapped("avro"), tmp_path / "a") == "column 'vehicle' is missing"
    (tmp_path / "a").write_bytes(avro_file(avro_schema(), [(10**12, bytes(1_000))], b"null"))
    assert unreadable(mapped("avro"), tmp_path / "a") == "a block claims more records than it has bytes"


def test_an_avro_array_of_values_without_size_is_refused(tmp_path):
    endless = '{"name":"x","type":{"type":"array","items":{"type":"record","name":"e","fields":[]}}}'
    (tmp_path / "a").write_bytes(avro_file(avro_schema(endless), []))
    assert unreadable(mapped("avro"), tmp_path / "a") == "has arrays of values without size"


def test_other_avro_codecs_are_refused_by_name(tmp_path):
    path = write_avro(tmp_path / "a", [{"x": 1}], {"x": "long"}, "bzip2")
    assert unreadable(mapped("avro"), path) == "codec bzip2: only null and deflate are read"
    (tmp_path / "a").write_bytes(avro_file(avro_schema(), [], b"canary"))
    assert "canary" not in unreadable(mapped("avro"), tmp_path / "a")


def test_a_long_array_is_refused_with_advice(tmp_path):
    with (tmp_path / "a").open("wb") as file:
        file.write(b"[")
        file.truncate((256 << 20) + 1)
    assert unreadable(FIXED["iudx"], tmp_path / "a") == "a JSON array of more than 256 MiB: use JSON lines"


def test_a_long_feed_is_refused(tmp_path):
    with (tmp_path / "a").open("wb") as file:
        file.truncate((64 << 20) + 1)
    assert unreadable(FIXED["gtfs-realtime"], tmp_path / "a") == "a feed message of more than 64 MiB"


def peak_mb(source, path):
    """Most memory of a fresh process that reads and parses a file with the layout that `source` names."""
    program = f"""
from tests.transforms.inputs import *
from transforms.layouts import FIXED
source = {source}
for batch in source.read({str(path)!r}):
    parse(batch.table, rules(source.units))
print(next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM")))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return int(done.stdout) // 1024


@pytest.mark.parametrize("name", ["csv", "jsonl"])
def test_a_line_of_one_gigabyte_is_passed_over(name, tmp_path):
    source, encode, write = WRITERS[name]
    path = write(tmp_path / "a", [encode(row(0))])
    with (tmp_path / "a").open("r+b") as file:
        file.seek(0, 2)
        file.truncate(file.tell() + (1 << 30))
        file.seek(0, 2)
        file.write(b"\n" + encode(row(1)))
    found, refused, _ = run(source, path, rules())
    assert (len(found.speed), refused) == (2, {"too-long": 1})
    if name == "csv":
        assert peak_mb("mapped('csv')", path) < 512


@pytest.mark.parametrize(
    ("source", "content"),
    [
        ("mapped('jsonl')", b"{}\n" * 1_000_000),
        ("mapped('jsonl')", b"1\n" * 1_100_000),
        ("mapped('jsonl')", (b'{"vehicle":[' + b"[]," * 20_000 + b"0]}\n") * 150),
        ("mapped('csv')", b"vehicle,time,lat,lon,speed\n" + b",,,,\n" * 1_000_000),
        ("mapped('csv')", b"vehicle,time,lat,lon,speed\n" + b'"\n' * 1_500_000),
        ("FIXED['iudx']", b"[" + b"0," * 1_100_000 + b"0]"),
        ("FIXED['iudx']", b"[" + b"{}," * 1_000_000 + b"0]"),
        ("FIXED['iudx']", b"[" + b"[" * 8_000_000),
        ("FIXED['iudx']", b'["' + b"x" * 100_000_000),
        ("FIXED['gtfs-realtime']", b"\n\x05\n\x032.0" + b'\x12\x02"\x00' * 500_000),
    ],
    ids=lambda value: value[:32].decode() if isinstance(value, bytes) else value,
)
def test_many_tiny_or_nested_values_stay_small_in_memory(source, content, tmp_path):
    (tmp_path / "a").write_bytes(content)
    assert peak_mb(source, tmp_path / "a") < 512


def test_fastavro_agrees_that_the_handmade_file_is_one():
    data = avro_file(avro_schema(), [(1, deflated(bytes(5)))])
    assert list(fastavro.reader(io.BytesIO(data))) == [dict.fromkeys(FIELDS)]
