"""`hatstream.Release` on Flink: a bounded pipeline gives the rows of the scheduled job, on the same ledger.

Flink runs a bounded pipeline stage by stage, with a new worker for each: hatstream's pool has them ready at once.
"""

import json
import subprocess
import sys

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions

import hatstream as library
from tests import city
from tests.hatstream.pipelines import are_delays, ten_lines

DAY = city.DAYS[0]


def reports():
    lines = [line.split(",") for line in city.rows(city.DAYS[:1])]
    return [{"bus": b, "ts": t, "lat": float(y), "lon": float(x), "v": float(v)} for b, t, y, x, v in lines]


def options_of(flink, pool):
    return [
        "--runner=PortableRunner",
        f"--job_endpoint={flink.address}",
        "--environment_type=EXTERNAL",
        f"--environment_config={pool.address}",
        "--parallelism=1",
        "--sdk_worker_parallelism=1",
    ]


def test_the_ten_lines_of_the_readme_run_on_flink(flink, pool, tmp_path):
    (tmp_path / "first.py").write_text(ten_lines().replace('"delays"', repr(str(tmp_path / "delays"))))
    subprocess.run([sys.executable, "first.py", *options_of(flink, pool)], cwd=tmp_path, check=True)
    assert are_delays(tmp_path)


def test_a_bounded_pipeline_on_flink_gives_the_rows_of_the_command(flink, pool, tmp_path, hatstream):
    city.opened(tmp_path, hatstream)
    with beam.Pipeline(options=PipelineOptions(options_of(flink, pool))) as p:
        made = library.Release(tmp_path / "spec.toml", DAY, DAY, ledger=str(tmp_path / "ledger.sqlite"))
        rows = p | beam.Create(reports()) | made | "as text" >> beam.Map(json.dumps)
        _ = rows | "write" >> beam.io.WriteToText(str(tmp_path / "rows"), ".jsonl", shard_name_template="")
    released = [json.loads(line) for line in (tmp_path / "rows.jsonl").read_text().splitlines()]
    code, out, err = hatstream(*city.release(tmp_path, "--json", start=DAY, end=DAY))
    assert (code, err) == (0, "")
    assert json.loads(out)["slots_new"] == 0
    lines = [line for path in sorted((tmp_path / "out").glob("*.jsonl")) for line in path.read_text().splitlines()]
    order = lambda row: (row["slot_start"], row["cell"])  # noqa: E731
    assert sorted(released, key=order) == sorted(map(json.loads, lines), key=order)
    assert len(released) == 9
