"""What jobs have in common: a specification goes on with the form of digests that its ledger has."""

from dataclasses import replace

import pytest

from pipelines.runs import release as scheduled
from pipelines.specification import load
from tests import city
from transforms.releases.hats.draw import is_plain


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
