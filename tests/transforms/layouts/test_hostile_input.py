"""Damaged, oversized, malicious and fuzzed input costs its own rows and shows nothing."""

import random
import re
import struct
from bisect import bisect_left
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.hostile.mutations import mutated_bytes
from tests.transforms import inputs
from tests.transforms.inputs import FIELDS, iudx_element, json_line, mapped, rules, run, write_jsonl, write_parquet
from tests.transforms.layouts import hostile_files
from tests.transforms.layouts.hostile_files import NAMES, WRITERS, places, read, row, unreadable
from transforms.layouts import FIXED, UnreadableFile
from transforms.layouts.mapped import avro
from transforms.layouts.mapped.json import array_of
from transforms.layouts.open_file import CHUNK_BYTES, LINE_BYTES
from transforms.observe.parse import parse


@pytest.mark.parametrize("name", NAMES)
def test_ten_percent_of_bad_events_cost_no_good_one_and_are_counted_exactly(name, tmp_path):
    choose = random.Random(1)
    encode = WRITERS[name][1]
    short = [(reason, line) for reason, line in hostile_files.damage(name) if len(line) < 100_000]
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
    for i in range(5_000):
        if choose.random() < 0.1:
            reason, line = choose.choice(short)
            expected[reason] += 1
        else:
            line = encode({**row(i), "speed": choose.choice([-5.0, 0.0, 36.5, 400.0])})
            good.add(round((30 + i / 1e6) * 1e7))
        lines.append(line)
    observed, refused, rows = read(name, tmp_path, lines)
    assert places(observed) == good
    assert len(observed.value) == len(good)
    assert rows == 5_000
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
        observed, refused, _ = run(source, str(tmp_path / "a"), rules())
        times = 1 if name == "iudx-array" else 3
        assert refused == {key: count * times for key, count in reason.items()}
        assert len(observed.value) == (1 if times == 1 else 2)


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
    observed, refused, _ = run(source, str(tmp_path / "a"), rules())
    assert (len(observed.value), refused) == (2, {})


@pytest.mark.parametrize("name", ["csv", "jsonl", "iudx-lines"])
@pytest.mark.parametrize("around", [-2, -1, 0, 1, 2, LINE_BYTES, 3 * LINE_BYTES])
def test_long_lines_at_the_edge_of_a_chunk_cost_themselves_alone(name, around, tmp_path):
    encode = WRITERS[name][1]
    good = [encode(row(i)) for i in range(10)]
    filler = [b"x" * LINE_BYTES] * (CHUNK_BYTES // (LINE_BYTES + 1))
    rest = CHUNK_BYTES + around - sum(len(line) + 1 for line in [*filler, *good[:5]])
    lines = [*good[:5], *filler, b"y" * max(1, rest), b"z" * (LINE_BYTES + 1), *good[5:]]
    observed, refused, rows = read(name, tmp_path, lines)
    assert len(observed.value) == 10
    assert rows == len(lines)
    assert refused.total() == len(lines) - 10
    assert refused["too-long"] == 1 + (rest > LINE_BYTES)


def test_a_bad_value_in_typed_columns_costs_its_row_alone(tmp_path):
    rows = [row(i) for i in range(10)]
    columns = {field: [item[field] for item in rows] for field in FIELDS}
    columns["vehicle"][1], columns["lat"][2], columns["speed"][3], columns["time"][4] = None, np.nan, np.inf, "x"
    path = inputs.write_parquet(tmp_path / "a", {field: pa.array(values) for field, values in columns.items()})
    observed, refused, _ = run(mapped("parquet"), path, rules())
    assert refused == {"missing-vehicle": 1, "bad-position": 1, "bad-speed": 1, "bad-time": 1}
    assert len(observed.value) == 6


def test_avro_fields_that_take_no_bytes_are_bounded_by_those_of_the_file(monkeypatch, tmp_path):
    monkeypatch.setattr(avro, "FREE_NULLS", 1 << 20)
    types = inputs.AVRO_TYPES | {f"nothing{number}": "null" for number in range(300)}
    rows = [row(i) for i in range(9)]
    few, many = (hostile_files.write_coded(tmp_path / str(n), rows, types, "deflate", n) for n in (1, 700))
    assert len(run(mapped("avro"), str(few), rules())[0].value) == 9
    with pytest.raises(UnreadableFile, match="300 fields hold nothing in any row"):
        run(mapped("avro"), str(many), rules())


@pytest.mark.parametrize("text", ["1e999", "-1e999", "1" + "0" * 400, "-" + "9" * 5_000])
def test_a_json_speed_beyond_float64_is_finite_and_stays(text, tmp_path):
    line = json_line({**row(1), "speed": "SPEED"}).replace(b'"SPEED"', text.encode())
    observed, refused, _ = read("jsonl", tmp_path, [json_line(row(0)), line])
    assert refused == {}
    assert observed.value[1] == (0 if text.startswith("-") else 6_500)


@pytest.mark.parametrize(
    "vehicle",
    [b"9" * 350, b"-" + b"9" * 4_300, b"9" * 4_301, b"-0", b"1e400", b'"\\ud800"', b'"1e999"', b"[" * 900 + b"]" * 900],
    ids=lambda value: value[:12].decode(),
)
@pytest.mark.parametrize("place", [b'{"vehicle":VEHICLE,"speed":SPEED}', b'{"speed":SPEED,"vehicle":VEHICLE}'])
def test_a_json_id_is_judged_alike_beside_any_speed(vehicle, place, tmp_path):
    source = mapped("jsonl", vehicle="bus.vehicle", speed="bus.speed")
    line = b'{"bus":' + place.replace(b"VEHICLE", vehicle) + b',"time":"2023-11-15T12:00:00Z","lat":30,"lon":-97}'
    outcomes = []
    for speed in (b"20", b"1e999", b"9" * 5_000):
        path = write_jsonl(tmp_path / "a", [line.replace(b"SPEED", speed)])
        (batch,) = source.read(path)
        outcomes.append((batch.refused, batch.table.drop_columns("speed"), parse(batch.table, rules())[1]))
    assert outcomes[0] == outcomes[1] == outcomes[2]


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
    for depth in range(limit - 8, min(limit + 8, 32_000)):  # who refuses one depth refuses each deeper one
        plain, huge = (malformed(depth, speed) for speed in (b"20", b"1e999"))
        assert plain == huge
        outcomes.add(plain)
    assert 0 in outcomes


ARRAY_DAMAGE = [
    line
    for lines in hostile_files.JSON_DAMAGE.values()
    for line in lines
    if array_of(b"[" + line + b"]") is None and not re.search(rb":-?(NaN|Infinity)}", line)  # which rows may have
]
DAMAGED_ARRAY = "a JSON array that is damaged or cut short"


@pytest.mark.parametrize("between", [b",", b" ,\n  "])
def test_an_array_with_an_element_that_is_no_json_is_refused_whole(between, tmp_path):
    good = [iudx_element(row(i)) for i in range(6)]
    assert len(ARRAY_DAMAGE) > 10
    for element in (*ARRAY_DAMAGE, b"", b'{"location":{"coordinates":[1,2}'):
        path = inputs.write_array(tmp_path / "a", [*good[:3], element, *good[3:]], between)
        assert unreadable(FIXED["iudx"].layout, path) == DAMAGED_ARRAY, element[:60]


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
    good, refused, _ = read("jsonl", tmp_path, map(json_line, rows))
    assert (len(good.value), refused) == (3, {})
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


# --- Fuzzed rows, records and files are observations or refused, whatever they hold. ----------------------------------


def mutated(choose, line):
    """A line with a few changes, never a line end."""
    return mutated_bytes(choose, line).replace(b"\n", b" ")


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
    observed, _, rows = read(name, folder, lines)
    assert good <= places(observed)
    blanks = b"\r" if name == "csv" else b" \t\r\n\v\f"
    assert rows == sum(1 for line in lines if line.strip(blanks) or (name == "csv" and len(line) > 1))
    return lines, observed


LINES = ["csv", "jsonl", "iudx-lines"]


@pytest.mark.parametrize("name", LINES)
@pytest.mark.parametrize("times", [2, pytest.param(50, marks=pytest.mark.slow)])
def test_fuzzed_rows_of_each_layout_are_accounted_for(name, times, tmp_path):
    for seed in range(1_000, 1_000 + times):  # none of these writes gzip's mark over the file's beginning
        fuzz(name, tmp_path, 5_000, seed)


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
    """All that may be published of a file's rows: those accepted, without their speeds, and the refused by stage; or
    why it is not read."""
    accepted, refused = [], Counter()
    try:
        batches = list(source.read(path))
    except UnreadableFile as error:
        return error.rule
    for batch in batches:
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
    place = choose.randint(0, len(others))
    lines = list(any_lines(name, choose, others))
    outcomes = []
    for speed in SPEEDS:
        line = encode({**before, "speed": "SPEED"}).replace(b'"SPEED"', speed).replace(b"SPEED", speed)
        whole = [*lines[:place], line, *lines[place:]]
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
    rows = [row(i) for i in range(200)]
    if kind == "parquet":
        source = mapped("parquet")
        path = write_parquet(tmp_path / "a", {field: pa.array([item[field] for item in rows]) for field in FIELDS})
    elif kind == "avro":
        source, path = mapped("avro"), inputs.write_avro(tmp_path / "a", rows, codec="null")
    else:
        source, path = FIXED["gtfs-realtime"].layout, str(tmp_path / "a")
        (tmp_path / "a").write_bytes(b"\n\x05\n\x032.0" + b'\x12\x0b\n\x01a"\x06B\x04\n\x02xy' * 200)
    whole = (tmp_path / "a").read_bytes()
    outcomes = Counter()
    for _ in range(60):
        place = choose.randrange(len(whole))
        rest = b"" if choose.random() < 0.3 else choose.randbytes(choose.randint(1, 4)) + whole[place + 2 :]
        (tmp_path / "a").write_bytes(whole[:place] + rest)
        try:
            run(source, path, rules(source.units))
            outcomes["read"] += 1
        except UnreadableFile:
            outcomes["unreadable"] += 1
    assert outcomes["unreadable"] > 0
