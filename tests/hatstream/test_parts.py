"""The parts of the road, put together by a Beam developer: the product's numbers, for it is made of them."""

import json

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.portability.fn_api_runner.fn_runner import FnApiRunner

import hatstream as library
from tests import city
from tests.hatstream.pipelines import DAY, append, by_parts, kept_of, reports
from tests.kit.quick import let_noise_be_fresh, let_noise_repeat


@pytest.fixture
def same_draws():
    def again():
        let_noise_repeat("parts")

    yield again
    let_noise_be_fresh()


def by_hand(folder, elements):
    """The file of a Beam developer: public counts, the papers' mechanism."""
    hats = library.ClosedHats.of(folder / "spec.toml", DAY, DAY, ledger=str(folder / "ledger.sqlite"))
    with beam.Pipeline(runner=FnApiRunner(), options=PipelineOptions([])) as p:
        _ = by_parts(p, elements, hats) | beam.Map(lambda row: append(folder / "kept.jsonl", row))
    return in_order(kept_of(folder))


def in_order(rows):
    return sorted(rows, key=lambda row: (row["slot_start"], row["cell"]))


@pytest.mark.few(1)
@pytest.mark.parametrize("mechanism", ["array-average", "worst-case-optimal", "baseline"])
def test_the_numbers_are_those_of_the_command_on_the_same_draws(town, hatstream, same_draws, mechanism):
    one_slot = city.SPEC.replace("08:00-12:00", "08:00-09:00")  # several are drawn in the order in which they come
    folder = town(one_slot.replace("array-average", mechanism))
    same_draws()
    ours = by_hand(folder, reports(city.rows()))
    assert len(ours) == 3
    (folder / "ledger.sqlite").unlink()
    (folder / "ledger.key").unlink()
    (folder / "ledger.key.head").unlink()
    assert hatstream(*city.init(folder))[0] == 0
    same_draws()
    code, _, err = hatstream(*city.release(folder, start=DAY, end=DAY))
    assert (code, err) == (0, "")
    rows = [json.loads(line) for path in (folder / "out").glob("*.jsonl") for line in path.read_text().splitlines()]
    assert in_order(rows) == ours
