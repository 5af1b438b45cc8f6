"""What was published once is never overwritten by fresh noise, whatever ledger or key a run is given."""

import shutil
from dataclasses import replace
from datetime import datetime

import pytest

from pipelines.runs import release as scheduled
from pipelines.specification import load
from tests import city
from tests.pipelines.commands.releases import files_in
from tests.transforms.sinks.units import slot_of, unit
from transforms.releases.hats.draw import is_plain
from transforms.sinks.published import OtherValues, published_slots
from transforms.sinks.rows import FORMATS, publish_slot

FILES = ("ledger.sqlite", "ledger.key", "ledger.key.head")


def test_a_restored_snapshot_of_ledger_key_and_head_publishes_nothing_over_what_is_published(town, hatstream):
    for name in FILES:
        shutil.copy2(town / name, town / f"{name}.before")
    assert hatstream(*city.release(town))[0] == 0
    published = files_in(town / "out")
    for name in FILES:
        shutil.copy2(town / f"{name}.before", town / name)
    err = city.refused(hatstream, *city.release(town))
    assert "has no record of its slot (8 such slots)" in err
    assert "nothing was recorded" in err
    city.done(hatstream, *city.release(town), "--output", town / "elsewhere")  # a folder that holds nothing
    assert "holds other values of the same release" in city.refused(hatstream, *city.release(town))
    assert files_in(town / "out") == published


def test_another_ledger_and_key_publish_nothing_over_what_is_published(town, hatstream):
    assert hatstream(*city.release(town))[0] == 0
    published = files_in(town / "out")
    other = ["--ledger", town / "other.sqlite"]
    assert hatstream("init", "--spec", town / "spec.toml", *other)[0] == 0
    assert "other.sqlite has no record" in city.refused(hatstream, *city.release(town), *other)
    assert files_in(town / "out") == published


@pytest.mark.parametrize("kind", FORMATS)
def test_a_file_is_written_again_with_its_values_and_never_with_others(kind, tmp_path):
    (path,) = publish_slot(slot_of(unit(3_000, None)), tmp_path, (kind,))
    before = path.read_bytes()
    publish_slot(slot_of(unit(3_000, None)), tmp_path, (kind,))
    with pytest.raises(OtherValues, match=path.name):
        publish_slot(slot_of(unit(4_000, None)), tmp_path, (kind,))
    assert path.read_bytes() == before
    path.write_bytes(before[: len(before) // 2])
    with pytest.raises(OtherValues, match="moved away"):
        publish_slot(slot_of(unit(3_000, None)), tmp_path, (kind,))


def test_the_slots_of_a_folder_are_those_of_its_files_of_any_format(tmp_path):
    done = unit(3_000)
    publish_slot(slot_of(done), tmp_path, ("csv", "avro"))
    (tmp_path / f"hats-{done.spec_id}-notes.txt").touch()
    assert list(published_slots(tmp_path, done.spec_id)) == [datetime.fromisoformat(done.slot_start).timestamp()]
    assert published_slots(tmp_path, "other") == {}


def test_what_killed_runs_left_in_the_folder_is_removed_by_the_next(town, hatstream):
    (town / "out").mkdir()
    for name in (".hatstream-abc123", ".hats-0123-20220101T080000+0530.csv.part"):
        (town / "out" / name).touch()
    assert hatstream(*city.release(town))[0] == 0
    assert not [name for name in files_in(town / "out") if name.startswith(".")]


# --- a specification goes on with the form of digests that its ledger has ---


@pytest.fixture
def release(tmp_path, hatstream):
    city.opened(tmp_path, hatstream)

    def run(*, end, lines=None):
        city.write(tmp_path, lines=lines)
        code, *_ = hatstream(*city.release(tmp_path, "--json", end=end))
        ledger = city.account(tmp_path).ledger
        spec_id = load(tmp_path / "spec.toml").spec_id
        return code, [is_plain(unit.digest) for day in city.DAYS for unit in ledger.released(spec_id, day)]

    return run


def with_plain_digests(job, _ledger):
    return replace(job, release=replace(job.release, plain_digests=True))


@pytest.mark.slow
def test_a_ledger_from_before_digests_had_names_is_continued_and_still_compared(release, monkeypatch):
    with monkeypatch.context() as before:
        before.setattr(scheduled, "with_digest_form", with_plain_digests)
        assert release(end=city.DAYS[0]) == (0, [True] * 4)
    assert release(end=city.DAYS[0]) == (0, [True] * 4), "the same input is found to be the same"
    assert release(end=city.DAYS[1]) == (0, [True] * 8), "and new slots have digests of the same form"
    assert release(end=city.DAYS[0], lines=city.rows()[1:])[0] == 5, "other input is found to differ"


def test_a_new_specification_has_digests_of_named_columns(release):
    assert release(end=city.DAYS[0]) == (0, [False] * 4)
    assert release(end=city.DAYS[0])[0] == 0
    assert release(end=city.DAYS[0], lines=city.rows()[1:])[0] == 5
