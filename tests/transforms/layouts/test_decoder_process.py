"""Files and messages that crash or hang their decoder cost one file or message: their name is said, others go on."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.kit import feed_layouts
from tests.transforms.inputs import FIELDS, good_row, json_line, mapped, write_array, write_avro, write_parquet
from tests.transforms.layouts import misbehaving
from tests.transforms.layouts.misbehaving import pid_of_decoder, told
from transforms.layouts import FIXED, UnreadableFile, decoder_process
from transforms.layouts.decoder_process import messages_apart, read_apart

PATIENCE_S = 20
TOO_LONG = "cannot be decoded: it takes more than 1 s, far too long for what it holds"
HOSTILE = Path(__file__).parent / "hostile"
CRASHES = ("aborts.parquet", "index-beyond-dictionary.parquet", "record-of-itself.avro")
ROWS = [good_row(i) for i in range(9)]


def layout_of(name):
    return mapped(name.rpartition(".")[2])


def good_avro(folder):
    return write_avro(folder / "good.avro", ROWS)


def refusal(layout, path):
    with pytest.raises(UnreadableFile) as caught:
        list(read_apart(layout, str(path)))
    assert str(caught.value).startswith(f"{path}: ")
    return caught.value.rule


@pytest.mark.parametrize("name", CRASHES)
def test_a_file_that_crashed_its_decoder_is_refused_by_name_and_the_next_one_is_read(name, tmp_path):
    assert "cannot be decoded" in refusal(layout_of(name), HOSTILE / name)
    assert sum(batch.rows for batch in read_apart(mapped("avro"), good_avro(tmp_path))) == len(ROWS)


def test_a_file_that_hangs_its_decoder_is_ended_by_the_limit_of_processor_time(monkeypatch, tmp_path):
    monkeypatch.setattr(decoder_process, "STEP_CPU_S", 1)
    assert refusal(mapped("avro"), HOSTILE / "nested-nulls.avro") == TOO_LONG
    assert sum(batch.rows for batch in read_apart(mapped("avro"), good_avro(tmp_path))) == len(ROWS)


def test_a_batch_that_would_be_too_big_for_who_asked_is_refused(tmp_path):
    assert refusal(misbehaving.Wide(), tmp_path) == "300 rows take more than 256 MiB"


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
        write_array(path, [json_line(row) for row in ROWS])
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


def test_a_decoder_that_wants_too_much_memory_does_not_get_it(tmp_path):
    assert refusal(misbehaving.Greedy(), tmp_path) == "cannot be decoded (MemoryError)"


def test_a_decoder_knows_no_secret_of_the_environment(tmp_path, monkeypatch):
    refusal(misbehaving.Suicidal(), tmp_path)  # the next one begins anew
    monkeypatch.setenv("PGPASSWORD", "canary")
    assert "canary" not in told(misbehaving.Environment())


def test_a_decoder_that_dies_is_said_with_what_ended_it(tmp_path):
    assert "(signal 9)" in refusal(misbehaving.Suicidal(), tmp_path)
