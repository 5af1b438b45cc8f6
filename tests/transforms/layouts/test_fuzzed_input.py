"""Fuzzed rows, records and files are observations or refused, whatever they hold."""

import random
import struct
from collections import Counter

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.hostile.mutations import mutated_bytes
from tests.transforms.inputs import FIELDS, mapped, rules, run, write_avro, write_parquet
from tests.transforms.layouts.hostile_files import NAMES, WRITERS, places, read, row
from transforms.layouts import FIXED, UnreadableFile
from transforms.layouts.open_file import LINE_BYTES
from transforms.observe.parse import parse


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
def test_ten_thousand_fuzzed_rows_of_each_layout(name, tmp_path):
    for seed in range(2):
        fuzz(name, tmp_path, 5_000, seed)


@pytest.mark.slow
@pytest.mark.parametrize("name", LINES)
def test_a_million_fuzzed_rows(name, tmp_path):
    for seed in range(50):
        fuzz(name, tmp_path, 5_000, 1_000 + seed)


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
        source, path = mapped("avro"), write_avro(tmp_path / "a", rows, codec="null")
    else:
        source, path = FIXED["gtfs-realtime"].layout, str(tmp_path / "a")
        (tmp_path / "a").write_bytes(b"\n\x05\n\x032.0" + b'\x12\x0b\n\x01a"\x06B\x04\n\x02xy' * 200)
    whole = (tmp_path / "a").read_bytes()
    outcomes = Counter()
    for _ in range(60):
        place = choose.randrange(len(whole))
        torn = (
            whole[:place]
            if choose.random() < 0.3
            else whole[:place] + choose.randbytes(choose.randint(1, 4)) + whole[place + 2 :]
        )
        (tmp_path / "a").write_bytes(torn)
        try:
            run(source, path, rules(source.units))
            outcomes["read"] += 1
        except UnreadableFile:
            outcomes["unreadable"] += 1
    assert outcomes["unreadable"] > 0
