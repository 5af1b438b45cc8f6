"""A runner is what its name says: Beam's own do the job of this machine, byte by byte, or say in a sentence why not."""

import json
import time
from types import SimpleNamespace

import pytest
from apache_beam.options.pipeline_options import GoogleCloudOptions, WorkerOptions

from pipelines.account import location
from pipelines.inputs import range_of
from pipelines.job import Outputs, job_of, ledger_account_of
from pipelines.runs.beam import bounded, runners
from pipelines.runs.beam.bounded import Bounded, Spool, pane_length
from pipelines.runs.beam.runners import ByName
from pipelines.specification import load
from tests import city, levels_city
from tests.pipelines.commands.releases import files_in, said_again

ONE_DAY = {"start": city.DAYS[0], "end": city.DAYS[0]}
KNOWN = {"beam:coder:bytes:v1", "beam:coder:string_utf8:v1", "beam:coder:varint:v1", "beam:coder:kv:v1"}


@pytest.mark.parametrize(("name", "pane_rows"), [("FnApiRunner", 1), ("DirectRunner", bounded.PANE_ROWS)])
def test_a_runner_of_beams_gives_the_bytes_of_this_machine_and_says_which_it_is(
    town, hatstream, monkeypatch, name, pane_rows
):
    """Once with slots that are counted in panes, and once with slots that are counted at once."""
    monkeypatch.setattr(bounded, "PANE_ROWS", pane_rows)
    arguments = city.release(town, **ONE_DAY)
    code, out, err = hatstream(*arguments, "--runner", name, "--json")
    assert (code, "FnApiRunner" in err) == (0, name == "DirectRunner")
    first, summary = files_in(town / "out"), json.loads(out)
    (town / "out").rename(town / "first")
    again = city.told(hatstream, *arguments)
    assert files_in(town / "out") == first
    assert (summary["slots_new"], again["slots_new"], again["slots_that_differ_now"]) == (4, 0, 0)
    assert said_again(again) == said_again(summary)


@pytest.mark.few(1)
@pytest.mark.parametrize("options", [[], ["--", "--direct_running_mode=multi_threading", "--direct_num_workers=3"]])
def test_events_stay_on_disk_whatever_threads_read_them(town, hatstream, monkeypatch, options):
    put, shuffled = Spool.put, []
    monkeypatch.setattr(Spool, "put", lambda spool, data: shuffled.append(put(spool, data)) or shuffled[-1])
    arguments = city.release(town, **ONE_DAY)
    assert hatstream(*arguments, "--runner", "FnApiRunner", *options)[0] == 0
    assert 0 < max(map(len, shuffled)) <= 32
    first = files_in(town / "out")
    (town / "out").rename(town / "first")
    city.done(hatstream, *arguments)
    assert files_in(town / "out") == first


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["b.csv", "c.csv"], "--input 'feed/*.csv'"),
        (["--runner", "FnApiRunner", "b.csv"], "quotes"),
        (["--", "--project", "p"], "--project: options after -- are for Beam's runners"),
        (["--runner", "DirectRunner", "--", "--runner", "DataflowRunner"], "name the runner once, before --"),
        (["--runner", "DirectRunner", "--", "--direct_running_mode", "multi_processing"], "waits for ever"),
        (["--runner", "FnApiRunner", "--", "--help"], "FnApiRunner: its options are in the documentation"),
        (["--runner", "FnApiRunner", "--", "--runtime_type_check"], "--runtime_type_check breaks steps of several"),
        (["--runner", "SparkRunner", "--check-input"], "with --runner local"),
        (["--runner", "FnApiRunner", "--", "--direct_num_workers", "many"], "invalid int value: 'many'"),
        (["--runner", "DirectRunner", "--", "--direct_num_worker", "2"], "has no option --direct_num_worker"),
        (["--runner", "DataflowRunner", "--", "--projekt=p"], "has no option --projekt"),
        (["--runner", "NoRunner"], "DataflowRunner"),
    ],
)
def test_wrong_use_is_told_before_anything_runs(town, hatstream, arguments, told):
    err = city.refused(hatstream, *city.release(town, **ONE_DAY), *arguments, code=1)
    assert told in err
    assert err.count("\n") < 6  # no page of all of Beam's options


def test_a_job_that_nobody_takes_ends_in_a_sentence_that_says_why(town, hatstream):
    options = ["--flink_job_server_jar", "/nowhere.jar", "--max_bundle_time_mills=100"]
    err = city.refused(hatstream, *city.release(town, **ONE_DAY), "--runner", "FlinkRunner", "--", *options)
    assert "does not know --max_bundle_time_mills; it is handed on" in err
    assert "FlinkRunner did not take the job (ValueError: Unable to parse jar URL" in err
    assert err.count("\n") == 2


def test_prism_without_its_program_ends_in_a_sentence(town, hatstream, monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    arguments = ["--runner", "PrismRunner", "--", "--prism_location", "/nowhere/prism"]
    err = city.refused(hatstream, *city.release(town, **ONE_DAY), *arguments)
    assert "needs Prism's program" in err
    assert "--prism_location=PATH" in err
    assert err.count("\n") == 1


class ToldOnce:
    """A result as Beam has one of a job server, which it asks for metrics once. counts: of rows, at first and at last;
    Beam says None where 0 was counted."""

    state = "RUNNING"

    def __init__(self, seen, counts):
        self.seen, self.counts, self.told = seen, counts, None

    def metrics(self):
        if self.told is None:
            key = SimpleNamespace(metric=SimpleNamespace(name="rows"))
            self.told = {"counters": [SimpleNamespace(key=key, result=self.counts[0])], "string_sets": []}
        return SimpleNamespace(query=lambda _: self.told)

    def wait_until_finish(self):
        while not self.seen:
            time.sleep(0.001)
        del self.counts[0]
        return "DONE"


@pytest.mark.parametrize(("last", "counted"), [(7, 7), (None, 0)])
def test_what_a_watched_job_counted_until_its_end_is_told(monkeypatch, last, counted):
    """A job server's jobs that took longer than the first look told of no verdict."""
    seen = []
    monkeypatch.setattr(runners, "WATCH_S", 0.001)
    monkeypatch.setattr(ByName, "submitted", lambda *_: ToldOnce(seen, [1, last]))
    finished = ByName("PrismRunner").run(lambda _: None, "a job", seen.append)
    assert (seen[0], finished.counts) == ({"rows": 1}, {"rows": counted})


@pytest.mark.parametrize(
    ("rows", "slots", "minutes", "length_s"),
    [(None, 24, 60, 60), (0, 24, 60, 3600), (24_000_000, 24, 60, 3600), (32_000_000, 24, 60, 1800),
     (64_000_000, 1, 60, 60), (10**12, 1, 15, 60), (1, 0, 1, 60), (60_000_000, 24, 60, 1200)],
)  # fmt: skip
def test_panes_are_as_long_as_a_group_of_rows_may_be_large(rows, slots, minutes, length_s):
    assert pane_length(rows, slots, 60 * minutes) == length_s


class Translated(ByName):
    """Makes the job as it is handed over, and runs nothing."""

    is_here = True


@pytest.mark.parametrize("name", ["DataflowRunner", "SparkRunner"])
@pytest.mark.parametrize("spec", [city.SPEC, levels_city.SPEC], ids=["hats", "levels"])
def test_a_job_for_a_cluster_is_translated_with_its_options(tmp_path, hatstream, name, spec):
    city.opened(tmp_path, hatstream, spec=spec)
    spec = load(tmp_path / "spec.toml")
    place = city.account(tmp_path)
    when = range_of(spec.timetable, *ONE_DAY.values())
    secret = location.read_key(place.key)
    job = job_of(spec, when, secret, ledger_account_of(spec, place), Outputs(tmp_path / "out", ("csv",)))
    made = Bounded(job, [str(tmp_path / "feed.csv")], None)
    options = ("--project", "P", "--region", "R", "--num_workers=7", "--spark_master_url=spark://there:7077")
    p = Translated(name, options).pipeline(made.build, "hatstream-release-Small City-1")
    cloud = p.options.view_as(GoogleCloudOptions)
    assert (cloud.project, cloud.region, cloud.job_name) == ("P", "R", "hatstream-release-small-city-1")
    assert p.options.view_as(WorkerOptions).num_workers == Translated(name, options).parallelism == 7
    assert p.options.get_all_options()["runner"] == name
    proto = p.to_runner_api()
    groups = [t for t in proto.components.transforms.values() if t.spec.urn == "beam:transform:group_by_key:v1"]
    assert len(groups) >= 4
    for group in groups:
        (given,) = group.inputs.values()
        assert set(coders(proto, key_coder(proto, given))) <= KNOWN | {"beam:coder:length_prefix:v1"} | TUPLES


TUPLES = {"beam:coder:tuple:v1"}


def key_coder(proto, collection):
    pair = proto.components.coders[proto.components.pcollections[collection].coder_id]
    return pair.component_coder_ids[0]


def coders(proto, coder_id):
    """URNs of a coder and of all that it is made of."""
    coder = proto.components.coders[coder_id]
    yield coder.spec.urn
    for inner in coder.component_coder_ids:
        yield from coders(proto, inner)
