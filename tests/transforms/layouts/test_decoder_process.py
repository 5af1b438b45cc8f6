"""Damaged and hostile files end within the limits; what crashes or hangs its decoder costs one file or message."""

import gzip
import json
import os
import random
import signal
import subprocess
import sys
import time
import zipfile
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.hostile.mutations import mutated_bytes
from tests.kit import feed_layouts
from tests.kit.feed_layouts import siri_activity, siri_document
from tests.transforms import inputs
from tests.transforms.inputs import FIELDS, csv_line, good_row, iudx_element, json_line, mapped, write_parquet
from tests.transforms.layouts import misbehaving
from tests.transforms.layouts.hostile_files import avro_file, avro_schema, deflated, varint, write_coded, write_long
from tests.transforms.layouts.misbehaving import pid_of_decoder, told
from transforms.layouts import FIXED, UnreadableFile, decoder_process, layout
from transforms.layouts.decoder_process import messages_apart, read_apart

PATIENCE_S = 20
TOO_LONG = "cannot be decoded: it takes more than 1 s, far too long for what it holds"
HOSTILE = Path(__file__).parent / "hostile"
CRASHES = ("aborts.parquet", "index-beyond-dictionary.parquet", "record-of-itself.avro")
ROWS = [{**good_row(i), "vehicle": f"canary{i % 7}"} for i in range(60)]


def layout_of(name):
    return mapped(name.rpartition(".")[2])


def outcome(source, path):
    """How many rows a file gives, or the sentence that says why it is not read."""
    try:
        return sum(batch.rows for batch in read_apart(source, str(path)))
    except UnreadableFile as error:
        refusal = error
    assert str(refusal) == f"{refusal.path}: {refusal.rule}"
    assert refusal.path.startswith(str(path))  # a member of an archive stands behind its path
    assert refusal.rule
    assert "canary" not in refusal.rule
    return refusal.rule


def good_avro(folder):
    return inputs.write_avro(folder / "good.avro", ROWS)


@pytest.mark.parametrize("name", CRASHES)
def test_a_file_that_crashed_its_decoder_is_refused_by_name_and_the_next_one_is_read(name, tmp_path):
    assert "cannot be decoded" in outcome(layout_of(name), HOSTILE / name)
    assert outcome(mapped("avro"), good_avro(tmp_path)) == len(ROWS)


def test_a_file_that_hangs_its_decoder_is_ended_by_the_limit_of_processor_time(monkeypatch, tmp_path):
    monkeypatch.setattr(decoder_process, "STEP_CPU_S", 1)
    assert outcome(mapped("avro"), HOSTILE / "nested-nulls.avro") == TOO_LONG
    assert outcome(mapped("avro"), good_avro(tmp_path)) == len(ROWS)


@pytest.mark.parametrize(
    ("layout", "rule"),
    [
        (misbehaving.Wide(), "300 rows take more than 256 MiB"),  # for who asked
        (misbehaving.Greedy(), "cannot be decoded (MemoryError)"),
        (misbehaving.Suicidal(), "(signal 9)"),
    ],
)
def test_what_a_decoder_does_not_survive_or_get_is_said(layout, rule, tmp_path):
    assert rule in outcome(layout, tmp_path)


@pytest.mark.parametrize("bad", [b"crash", pytest.param(b"hang", marks=pytest.mark.slow)])
def test_messages_around_one_that_its_decoder_does_not_survive_are_read(bad, monkeypatch):
    monkeypatch.setattr(decoder_process, "STEP_CPU_S", 1)
    batches = list(messages_apart(misbehaving.Fragile(), [b"good", bad, b"good"]))
    assert sum(batch.table.num_rows for batch in batches) == 2
    assert [batch.refused for batch in batches if batch.refused] == [{"malformed": 1}]


@pytest.mark.parametrize("name", ["csv", "jsonl", "iudx", "parquet", "avro", "gtfs-realtime"])
def test_what_is_read_apart_is_what_the_layout_reads(name, tmp_path):
    path, layout = tmp_path / "in", FIXED[name].layout if name in FIXED else mapped(name)
    if name == "parquet":
        write_parquet(path, {field: [row[field] for row in ROWS] for field in FIELDS}, row_group_size=2)
    elif name == "iudx":
        inputs.write_array(path, [json_line(row) for row in ROWS])
    else:
        rows = [row | {"time": 1_700_000_000} for row in ROWS]
        path.write_bytes(feed_layouts.WRITERS[name][1](rows))
    assert list(read_apart(layout, str(path))) == list(layout.read(str(path)))


def test_who_reads_no_further_leaves_no_process_behind(tmp_path):
    pid = pid_of_decoder()
    batches = read_apart(misbehaving.Long(), str(tmp_path))
    next(batches)
    batches.close()
    assert not Path(f"/proc/{pid}").exists()


def test_of_a_decoder_that_ended_while_it_was_idle_nothing_stays():
    pid = pid_of_decoder()
    os.kill(pid, signal.SIGKILL)
    until = time.monotonic() + PATIENCE_S
    while decoder_process._IDLE_DECODERS[-1].is_alive and time.monotonic() < until:
        time.sleep(0.01)  # its other threads may be there a while longer than the first
    assert pid_of_decoder() != pid
    assert not Path(f"/proc/{pid}").exists()


def test_a_process_that_is_forked_while_a_thread_asks_for_a_decoder_has_one_of_its_own():
    theirs = pid_of_decoder()
    with decoder_process._IDLE_LOCK:
        child = os.fork()
        if not child:
            signal.alarm(PATIENCE_S)
            os._exit(0 if pid_of_decoder() != theirs else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert pid_of_decoder() == theirs


def test_who_ends_has_waited_for_its_decoder():
    program = f"from {misbehaving.__name__} import pid_of_decoder; print(pid_of_decoder())"
    pid = int(subprocess.check_output([sys.executable, "-c", program]))
    assert not Path(f"/proc/{pid}").exists(), "so that its processor time is counted with that of who asked"


def test_a_decoder_knows_no_secret_of_the_environment(tmp_path, monkeypatch):
    outcome(misbehaving.Suicidal(), tmp_path)  # the next one begins anew
    monkeypatch.setenv("PGPASSWORD", "canary")
    assert "canary" not in told(misbehaving.Environment())


TYPES = {"vehicle": "string", "time": "string", "lat": "double", "lon": "double", "speed": ["null", "double"]}
CSV = b"\n".join([",".join(FIELDS).encode(), *map(csv_line, ROWS)]) + b"\n"


def zipped(data, path):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("feed.csv", data)


def good_files(folder):
    """A file of each layout, codec and compression, of 60 rows: its layout and its bytes, by its name."""
    by_name = {field: field for field in FIELDS}
    records = layout("json", by_name, None, None, records="data.list")
    mds = [
        {"provider_id": "p", "device_id": row["vehicle"], "timestamp": i, "location": {"lat": row["lat"], "lng": -97.5}}
        for i, row in enumerate(ROWS)
    ]
    array = b"[" + b",\n".join(map(json_line, ROWS)) + b"]"
    files = {
        "a.csv": (mapped("csv"), CSV),
        "a.csv.gz": (mapped("csv"), gzip.compress(CSV)),
        "a.csv.zst": (mapped("csv"), pa.compress(CSV, "zstd", asbytes=True)),
        "lines.jsonl": (mapped("jsonl"), b"\n".join(map(json_line, ROWS))),
        "array.json": (mapped("json"), array),
        "array.json.gz": (mapped("json"), gzip.compress(array)),
        "records.json": (records, b'{"data":{"list":' + array + b"}}"),
        "iudx.json": (FIXED["iudx"].layout, b"[" + b",".join(map(iudx_element, ROWS)) + b"]"),
        "mds.json": (FIXED["mds"].layout, json.dumps({"telemetry": mds}).encode()),
        "feed.pb": (FIXED["gtfs-realtime"].layout, feed_layouts.gtfs([row | {"time": 1_700_000_000} for row in ROWS])),
        "siri.xml": (FIXED["siri-vm"].layout, siri_document(map(siri_activity, ROWS))),
        "siri.xml.gz": (FIXED["siri-vm"].layout, gzip.compress(siri_document(map(siri_activity, ROWS)))),
    }
    zipped(CSV, folder / "a")
    files["a.csv.zip"] = mapped("csv"), (folder / "a").read_bytes()
    for codec in ("null", "deflate", "snappy", "zstandard"):
        write_coded(folder / "a", ROWS, TYPES, codec)
        files[f"{codec}.avro"] = mapped("avro"), (folder / "a").read_bytes()
    columns = {field: [row[field] for row in ROWS] for field in FIELDS}
    for name, options in {"dictionaries": {}, "plain": {"use_dictionary": False, "compression": "none"}}.items():
        write_parquet(folder / "a", columns, row_group_size=20, data_page_version="2.0", **options)
        files[f"{name}.parquet"] = mapped("parquet"), (folder / "a").read_bytes()
    return files


def sweep(folder, each, seed):
    """Damages `each` files of each kind; after each of them its undamaged file is read."""
    choose, outcomes = random.Random(seed), {}
    for name, (source, data) in good_files(folder).items():
        damaged, good, seen = folder / f"damaged-{name}", folder / f"good-{name}", Counter()
        good.write_bytes(data)
        assert outcome(source, good) == len(ROWS), name
        for _ in range(each):
            damaged.write_bytes(mutated_bytes(choose, data))
            seen[outcome(source, damaged)] += 1
            assert outcome(source, good) == len(ROWS), name
        outcomes[name] = seen
    return outcomes


@pytest.mark.parametrize("each", [12, pytest.param(132, marks=pytest.mark.slow)])  # of 2,500 files in all, 2 min
def test_each_damaged_file_ends_with_a_sentence_and_the_next_one_is_read(tmp_path, each):
    for name, seen in sweep(tmp_path, each, seed=each).items():
        refused = sum(many for kind, many in seen.items() if isinstance(kind, str))
        is_of_lines = "csv" in name or "jsonl" in name
        assert seen.total() == each
        assert refused > (-1 if is_of_lines else each // 4), name


def test_what_damage_leaves_in_memory_costs_the_next_file_nothing(tmp_path):
    array = (
        b"[" + b",".join(json_line({**row, "x": random.Random(3).randbytes(4_000).hex()}) for row in ROWS * 9) + b"]"
    )
    whole = gzip.compress(array, 1)
    for size, rows in ((len(whole) // 2, None), (len(whole), 9 * len(ROWS))) * 2:
        (tmp_path / "a.json.gz").write_bytes(whole[:size])
        found = outcome(mapped("json"), tmp_path / "a.json.gz")
        assert found == (rows or "the compressed file is damaged or cut short")


# --- files made to cost much ----------------------------------------------------------------------------------------


def lying_parquet(path):
    """A file whose footer says a hundred rows and kilobytes, of pages that hold a million rows."""
    rows = 1_000_003
    columns = dict.fromkeys(FIELDS, pa.repeat(pa.scalar(1.5), rows))
    write_parquet(path, columns, compression="zstd", use_dictionary=False)
    whole = path.read_bytes()
    footer = len(whole) - 8 - int.from_bytes(whole[-8:-4], "little")
    size = pq.ParquetFile(path).metadata.row_group(0).column(0).total_uncompressed_size
    said = whole[footer:]
    for number, claim in ((rows, 100), (size, 1_000)):
        encoded = varint(number * 2)
        short = bytearray(varint(claim * 2).ljust(len(encoded), b"\x00"))
        last = len(varint(claim * 2))
        short[: len(encoded) - 1] = bytes(byte | 0x80 for byte in short[: len(encoded) - 1])
        assert last < len(encoded) <= len(said)
        said = said.replace(encoded, bytes(short))
    path.write_bytes(whole[:footer] + said)


def bombs(folder):
    """Files that would expand, nest, repeat or never end: a layout and bytes, by name."""
    endless = '{"name":"x","type":{"type":"array","items":{"type":"record","name":"e","fields":[]}}}'
    siri, iudx, gtfs = (FIXED[name].layout for name in ("siri-vm", "iudx", "gtfs-realtime"))
    header = b"\n\x05\n\x032.0"
    yield "zeros.csv.gz", mapped("csv"), gzip.compress(CSV + bytes(300 << 20), 1)
    yield "zeros.json.gz", mapped("json"), gzip.compress(b"[" + bytes(300 << 20), 1)
    yield "elements.json.gz", mapped("json"), gzip.compress(b"[" + b"0," * (127 << 20) + b"0]", 1)
    yield "objects.json.gz", mapped("json"), gzip.compress(b"[" + b"{}," * (60 << 20) + b"{}]", 1)
    yield "deep.json", iudx, b"[" * 10_000_000
    yield "block.avro", mapped("avro"), avro_file(avro_schema(), [(1, deflated(bytes(1 << 30)))])
    yield "size.avro", mapped("avro"), avro_file(avro_schema(), [])[:-20] + write_long(1) + write_long(1 << 60)
    yield "items.avro", mapped("avro"), avro_file(avro_schema(endless), [(1, deflated(bytes(5) + write_long(10**18)))])
    yield "text.avro", mapped("avro"), avro_file(avro_schema(), [(1, deflated(write_long(2) + write_long(1 << 50)))])
    yield "entities.pb", gtfs, header + b"\x12\x00" * (30 << 20)
    yield "length.pb", gtfs, header + b"\x12" + varint(1 << 60)
    yield "deep.xml.gz", siri, gzip.compress(b"<a>" * (40 << 20), 1)
    yield "tag.xml.gz", siri, gzip.compress(b"<a " + b"x" * (120 << 20), 1)
    yield "elements.xml.gz", siri, gzip.compress(b"<a>" + b"<b/>" * (30 << 20), 1)
    yield (
        "entities.xml",
        siri,
        b'<!DOCTYPE a [<!ENTITY b "' + b"c" * 99 + b'"><!ENTITY d "' + b"&b;" * 99 + b'">]><a>&d;</a>',
    )
    lying_parquet(folder / "a")
    yield "footer.parquet", mapped("parquet"), (folder / "a").read_bytes()
    yield "length.parquet", mapped("parquet"), b"PAR1" + bytes(100) + b"\xff\xff\xff\x7fPAR1"
    for path in sorted(HOSTILE.iterdir()):
        yield path.name, mapped(path.suffix[1:]), path.read_bytes()


READ = {"zeros.csv.gz": len(ROWS) + 1, "footer.parquet": 100}
"""Rows of files whose excess is passed over: a line that is too long, rows beyond those that the footer says."""


@pytest.mark.slow  # 2 min
def test_each_file_made_to_cost_much_ends_at_a_limit_and_the_next_one_is_read(tmp_path):
    good = tmp_path / "good.avro"
    write_coded(good, ROWS, TYPES, "deflate")
    for name, source, data in bombs(tmp_path):
        (tmp_path / name).write_bytes(data)
        found = outcome(source, tmp_path / name)
        assert isinstance(found, str) or found == READ.get(name), (name, found)
        assert outcome(mapped("avro"), good) == len(ROWS), name
