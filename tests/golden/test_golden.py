"""What must not change by accident: hashes, keys, columns, labels of steps; the road's graph runs alike on engines."""

import hashlib
import hmac
import re
import runpy
from collections import Counter
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import apache_beam as beam
import msgspec
import numpy as np
import pytest
from apache_beam.internal import pickler
from apache_beam.internal.cloudpickle import cloudpickle
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.pipeline import PipelineVisitor
from apache_beam.portability import common_urns
from apache_beam.portability.api import beam_runner_api_pb2
from apache_beam.testing.test_stream import TestStream as Clock
from apache_beam.transforms import trigger, userstate
from apache_beam.transforms.window import FixedWindows

from dpops.accountant import PureLimit
from dpops.mechanism import Plan
from dpops.mechanisms import registered
from dpops.mechanisms.array_average import ArrayAverage
from dpops.types import CountsKnown, Grid
from pipelines.account import location
from pipelines.inputs import range_of
from pipelines.job import Outputs, job_of
from pipelines.runs.beam.bounded import Bounded
from pipelines.runs.stream import stream as streaming
from pipelines.runs.stream.stream import Stream
from pipelines.specification import load
from tests import city, levels_city
from tests.dpops.reference import value_of
from tests.stream.by_hand import Beats, Fed, instant_s
from tests.stream.feed import LAYOUT
from transforms.ledger.chain import ENTRY
from transforms.ledger.recording import LedgerAccount
from transforms.observe.vehicle_ids import Secret, vehicle_hashes
from transforms.recorded.units import Stored
from transforms.sources.kafka import ReadKafka
from transforms.sources.kafka_partition import PartitionStart
from transforms.sources.topic import Topic
from transforms.sources.unbounded import Heartbeat, KnownElements, ReadGrowing
from transforms.time.calendar import Timetable
from transforms.time.watermark import Watermark

SECRET = Secret(bytes(range(32)))
FOLDER = Path(__file__).parent


def test_a_vehicle_hash_is_the_hmac_sha256_of_period_and_id_cut_to_63_bits():
    key = SECRET.derive("vehicle")
    message = (10).to_bytes(2, "big") + b"2026-05-01" + b"KA01"
    expected = int.from_bytes(hmac.new(key, message, hashlib.sha256).digest()[:8], "big") & (2**63 - 1)
    assert vehicle_hashes(key, ["2026-05-01"], [b"KA01"]).tolist() == [expected] == [861235376619002970]


def test_a_vehicle_has_another_hash_in_every_period_and_under_every_key():
    hashes = {
        int(vehicle_hashes(secret.derive("vehicle"), [period], [b"KA01"])[0])
        for secret in (SECRET, Secret(b"\x01" * 32))
        for period in ("2026-05-01", "2026-05-02")
    }
    assert len(hashes) == 4


def test_no_two_pairs_of_period_and_id_share_a_message():
    assert (
        vehicle_hashes(b"k", ["a", "ab"], [b"bc", b"c"]).tolist()[0] != vehicle_hashes(b"k", ["ab"], [b"c"]).tolist()[0]
    )


def test_keys_derived_for_different_purposes_differ_and_a_secret_does_not_show_itself():
    assert SECRET.derive("vehicle") != SECRET.derive("digest")
    assert "0102" not in repr(SECRET)


def test_no_mechanism_that_a_specification_names_is_lost():
    assert registered().keys() >= {
        "akmv", "array-average", "array-tree", "auto", "baseline", "baseline-variance", "capped-tree",
        "constant", "epsilon-quantile", "fixed-quantile", "levy", "opt-array", "tree", "worst-case-optimal",
    }  # fmt: skip


def test_what_the_ledger_stores():
    assert [column.name for column in ENTRY.columns] == [
        "seq", "at", "kind", "account", "spec_id", "period", "slot_s", "shard", "epsilon", "body", "hash", "release_id",
    ]  # fmt: skip
    assert list(Stored.__struct_fields__) == [
        "spec_id", "period", "slot_s", "slot_start", "slot_end", "shard", "epsilon_hat", "epsilon_slot", "unit",
        "released", "digest", "scope", "debit", "epsilon_total",
    ]  # fmt: skip


def test_an_old_plan_is_decoded_as_it_was_stored():
    stored = (
        b'{"epsilon":"1","step":"1/300000","scale":"6500000","upper":"65","bias_bound":1.5,'
        b'"facts":{"users":3,"samples":7,"heaviest":3,"reported":7,"upper_steps":6500,"m_ub":2,"arrays":3,'
        b'"sensitivity":6500000}}'
    )
    plan = Plan.from_public("array-average", msgspec.json.decode(stored))
    made = ArrayAverage().plan(
        CountsKnown.all_of(np.array([3, 2, 2])), Grid(step=Fraction(1, 100), upper_steps=6500), Fraction(1)
    )
    assert {**plan.public(), "bias_bound": 0} == {**made.public(), "bias_bound": 0}
    assert value_of([6_000_000], plan) == 20.0


class _Labels(PipelineVisitor):
    def __init__(self):
        self.labels = []

    def enter_composite_transform(self, node):
        self.visit_transform(node)

    def visit_transform(self, node):
        self.labels.append(node.full_label)


@pytest.mark.parametrize(
    ("kind", "town", "live"),
    [("hats", city, ""), ("live", levels_city, "[live]\nshare = 0.4\nday_lateness_s = 1800\n")],
)
def test_the_labels_of_a_stream_are_stable_because_a_running_one_is_updated_by_them(tmp_path, kind, town, live):
    town.write(tmp_path, spec=town.SPEC + live)
    spec = load(tmp_path / "spec.toml")
    place = location.find(f"sqlite:///{tmp_path / 'ledger.sqlite'}", tmp_path / "key")
    location.open_account(place, spec.account)
    start_s = instant_s("2022-01-02", "08:00")
    made = streaming.prepare(spec, start_s, Fed(Clock()), place, Outputs(tmp_path / "out", ("csv",)))
    p = empty()
    replace(made, heartbeat=Beats((start_s,)), identity="it").build(p)
    visitor = _Labels()
    p.visit(visitor)
    ours = {label for label in visitor.labels if label.count("/") < 2 and not label.startswith(("read/", "heartbeat"))}
    assert sorted(ours) == (FOLDER / f"labels-{kind}.txt").read_text().split("\n")


# --- The whole road, as a scheduled job and as a stream, is a graph that every engine runs alike. ---------------------


DETERMINISTIC = {f"beam:coder:{name}:v1" for name in ("bool", "bytes", "kv", "string_utf8", "varint")}
"""Coders that every engine knows and that give equal keys equal bytes. A pickle may not."""
REQUIREMENTS = {"beam:requirement:pardo:splittable_dofn:v1"}
"""What an engine must be able to do; state, timers, stable input and an order in time have names of their own."""
TRIGGERS = {"default", "always"}  # those of windows that fire once, and of Beam's own reshuffle
_UNSTABLE = re.compile(r"lambda|\.py\b|:\d+|0x[0-9a-f]{4}")
_PARDO, _GROUP = "beam:transform:pardo:v1", "beam:transform:group_by_key:v1"


def labels(pipeline):
    """Names of all steps; the first has none, it is the whole."""
    return [step.unique_name for step in pipeline.components.transforms.values() if step.unique_name]


def findings(pipeline):
    """One sentence for everything that is amiss in a pipeline's proto, sorted."""
    problems = _of_labels(labels(pipeline)) + _of_windows(pipeline)
    for step in pipeline.components.transforms.values():
        if step.spec.urn == _GROUP:
            problems += _of_key(step, pipeline)
        if step.spec.urn == _PARDO:
            problems += _of_pardo(step)
    problems += [f"the engine must offer {need}" for need in set(pipeline.requirements) - REQUIREMENTS]
    return sorted(problems)


def _of_labels(names):
    twice = [f"{name}: two steps have this name" for name, number in Counter(names).items() if number > 1]
    return twice + [f"{name}: the name depends on lines of a program" for name in names if _UNSTABLE.search(name)]


def _of_windows(pipeline):
    problems = []
    for windows in pipeline.components.windowing_strategies.values():
        trigger = windows.trigger.WhichOneof("trigger")
        problems += [] if trigger in TRIGGERS else [f"windows have the trigger {trigger}"]
        problems += ["windows allow lateness"] if windows.allowed_lateness else []
    return problems


def _of_key(step, pipeline):
    (source,) = step.inputs.values()
    coders = pipeline.components.coders
    pair = coders[pipeline.components.pcollections[source].coder_id]
    if pair.spec.urn != "beam:coder:kv:v1":
        return [f"{step.unique_name}: groups by {pair.spec.urn}"]
    amiss = _urns(pair.component_coder_ids[0], coders) - DETERMINISTIC
    return [f"{step.unique_name}: its key is coded by {urn}" for urn in amiss]


def _urns(coder, coders):
    parts = coders[coder].component_coder_ids
    return {coders[coder].spec.urn}.union(*(_urns(part, coders) for part in parts))


def _of_pardo(step):
    payload = beam_runner_api_pb2.ParDoPayload.FromString(step.spec.payload)
    has = {"side inputs": payload.side_inputs, "state": payload.state_specs, "timers": payload.timer_family_specs}
    return [f"{step.unique_name}: has {what}" for what, parts in has.items() if parts]


TOPIC = Topic(brokers="127.0.0.1:1", name="any")
HOUR_S = 3_600


def from_kafka():
    return ReadKafka(TOPIC, [PartitionStart(0, 0, 1)], Watermark(0), LAYOUT)


def empty():
    return beam.Pipeline(options=PipelineOptions([]))


def job_in(folder):
    city.write(folder)
    spec = load(folder / "spec.toml")
    book = LedgerAccount("sqlite://", folder / "key.head", "small", PureLimit(Fraction(1)), spec.name, spec.text)
    return job_of(spec, range_of(spec.timetable, *city.DAYS), Secret(bytes(32)), book, Outputs(folder, ("csv",), TOPIC))


def scheduled(job):
    """The road of a closed range, from files to sinks."""
    p = empty()
    Bounded(job, ["a"], None, job.slot_s).build(p)
    return p.to_runner_api()


def stream(job, source):
    """The same stages behind a source without end, in panes and slots."""
    p, table = empty(), Timetable("Asia/Kolkata", "vehicle-day", 60)
    Stream(job, source, Heartbeat(table, min(job.slots), max(job.slots) + HOUR_S, shards=1), "test").build(p)
    return p.to_runner_api()


@pytest.mark.parametrize("road", ["scheduled", "kafka", "folder"])
def test_the_road_keeps_to_what_every_engine_does_alike(tmp_path, road):
    job = job_in(tmp_path)
    sources = {"kafka": from_kafka(), "folder": ReadGrowing(tmp_path, Watermark(0), LAYOUT)}
    graph = scheduled(job) if road == "scheduled" else stream(job, sources[road])
    assert findings(graph) == []
    groups = 2 if road == "scheduled" else 4  # a stream counts its slots in panes
    assert len([name for name in labels(graph) if name.endswith("/group")]) == groups


def test_only_what_reads_or_writes_a_topic_is_handed_its_password(tmp_path):
    topic = replace(TOPIC, settings={"sasl.password": "canary"})
    job = replace(job_in(tmp_path), outputs=Outputs(tmp_path, ("csv",), topic))
    graph = stream(job, replace(from_kafka(), topic=topic))
    handed = {name: pickled(step) for name, step in steps_of(graph)}
    assert {name for name, data in handed.items() if b"canary" in data} == {"read/poll", "publish to kafka/send"}


def steps_of(graph):
    for step in graph.components.transforms.values():
        if step.spec.urn == common_urns.primitives.PAR_DO.urn:
            yield step.unique_name, beam_runner_api_pb2.ParDoPayload.FromString(step.spec.payload).do_fn.payload


def pickled(payload):
    """What a worker is handed, as it is before it is packed."""
    return cloudpickle.dumps(pickler.loads(payload))


def test_what_is_submitted_to_dataflow_keeps_to_it_too(tmp_path, monkeypatch, hatstream):
    city.opened(tmp_path, hatstream)
    monkeypatch.setattr(streaming, "kafka_source", lambda *_: from_kafka())
    monkeypatch.setattr("transforms.sinks.kafka.check", lambda _: None)
    submit = runpy.run_path(str(Path(__file__).parents[2] / "deploy" / "dataflow" / "submit.py"))
    topics = ["--kafka", "127.0.0.1:1", "--topic", "any", "--kafka-output", "127.0.0.1:1/rows"]
    place = ["--ledger", f"sqlite:///{tmp_path / 'ledger.sqlite'}", "--key", str(tmp_path / "ledger.key")]
    graph = submit["pipeline"](["--spec", str(tmp_path / "spec.toml"), *topics, *place]).to_runner_api()
    assert findings(graph) == []
    assert "publish to kafka/send" in labels(graph)


# --- the checker sees what is wrong ---------------------------------------------------------------------------------


class Keeping(beam.DoFn):
    KEPT = userstate.ReadModifyWriteStateSpec("kept", beam.coders.VarIntCoder())
    LATER = userstate.TimerSpec("later", userstate.TimeDomain.WATERMARK)

    def process(
        self,
        pair,
        kept=beam.DoFn.StateParam(KEPT),  # noqa: B008 - this is how Beam is told
        later=beam.DoFn.TimerParam(LATER),  # noqa: B008
    ):
        kept.write(1)
        later.set(1)
        yield pair

    @userstate.on_timer(LATER)
    def fired(self):
        yield 0


def pairs(p, kind=tuple[int, int]):
    return p | "pairs" >> KnownElements([]).with_output_types(kind)


def grouped_by_anything(p):
    _ = pairs(p, tuple[object, int]) | "group" >> beam.GroupByKey()


def with_a_side_input(p):
    side = p | "side" >> KnownElements([1])
    _ = pairs(p) | "look" >> beam.Map(aside, beam.pvalue.AsList(side))


def aside(pair, _):
    return pair


def with_a_lambda(p):
    _ = pairs(p) | beam.Map(lambda pair: pair)


def with_state_and_timers(p):
    _ = pairs(p) | "keep" >> beam.ParDo(Keeping())


def with_early_panes(p):
    early = trigger.AfterWatermark(early=trigger.AfterProcessingTime(1))
    _ = pairs(p) | "window" >> beam.WindowInto(
        FixedWindows(1), trigger=early, accumulation_mode=trigger.AccumulationMode.DISCARDING, allowed_lateness=1
    )


@pytest.mark.parametrize(
    ("build", "said"),
    [
        (grouped_by_anything, ["group: its key is coded by beam:coder:pickled_python:v1"]),
        (with_a_side_input, ["look: has side inputs"]),
        (with_a_lambda, ["lambda"]),
        (with_state_and_timers, ["keep: has state", "keep: has timers", "beam:requirement:pardo:stateful:v1"]),
        (with_early_panes, ["windows have the trigger after_end_of_window", "windows allow lateness"]),
    ],
)
def test_what_an_engine_may_do_otherwise_is_found(build, said):
    p = empty()
    build(p)
    text = "\n".join(findings(p.to_runner_api()))
    for words in said:
        assert words in text


def test_beam_s_own_create_has_a_name_that_changes_with_beam():
    p = empty()
    _ = p | beam.Create([1])
    assert any("depends on lines" in finding for finding in findings(p.to_runner_api()))
