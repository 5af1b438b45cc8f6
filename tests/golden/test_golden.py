"""What must not change by accident: hashes, keys of stored JSON, columns, labels of steps."""

import hashlib
import hmac
from dataclasses import replace
from datetime import datetime
from fractions import Fraction
from pathlib import Path

import apache_beam as beam
import msgspec
import numpy as np
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.pipeline import PipelineVisitor
from apache_beam.runners.portability.fn_api_runner.fn_runner import FnApiRunner
from apache_beam.testing.test_stream import TestStream as Clock

from dpops.mechanism import Plan
from dpops.mechanisms import registered
from dpops.mechanisms.array_average import ArrayAverage
from dpops.types import CountsKnown, Grid
from pipelines.account import location
from pipelines.job import Outputs
from pipelines.runs.stream import stream as streaming
from pipelines.specification import load
from tests import city, levels_city
from tests.dpops.reference import value_of
from tests.stream.by_hand import Beats, Fed
from transforms.ledger.chain import ENTRY
from transforms.observe.vehicle_ids import Secret, vehicle_hashes
from transforms.recorded.units import Stored

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
    start_s = int(datetime.fromisoformat("2022-01-02T08:00:00+05:30").timestamp())
    made = streaming.prepare(spec, start_s, Fed(Clock()), place, Outputs(tmp_path / "out", ("csv",)))
    p = beam.Pipeline(runner=FnApiRunner(), options=PipelineOptions([]))
    replace(made, heartbeat=Beats((start_s,)), identity="it").build(p)
    visitor = _Labels()
    p.visit(visitor)
    ours = {label for label in visitor.labels if label.count("/") < 2 and not label.startswith(("read/", "heartbeat"))}
    assert sorted(ours) == (FOLDER / f"labels-{kind}.txt").read_text().split("\n")
