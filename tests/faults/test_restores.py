"""What an operator does who lost the key, the head, the ledger or the results, as docs/runbook.md says it.

After each loss nothing is released until what was lost is there again; then the results are those of before, byte for
byte, and nothing is spent twice.
"""

from shutil import copy2, rmtree

import pytest

from tests import city
from tests.faults.small_town import HEAD, KEY, LEDGER, lose, released, results, spent


@pytest.fixture
def town(town):
    """The small city with its first day released, and a backup of that day's end."""
    (town / "backup").mkdir()
    for name in (LEDGER, KEY, HEAD):
        copy2(town / name, town / "backup" / name)
    return town


@pytest.mark.few(1)
@pytest.mark.parametrize(("name", "code", "said"), [(KEY, 3, "restore it from the backup"), (HEAD, 4, "restore it")])
def test_a_key_or_head_that_was_lost_is_restored_from_the_backup_of_any_time(name, code, said, town, hatstream):
    before = results(town)
    lose(town, name)
    status, out, err = released(town, hatstream, city.DAYS[1])
    assert (status, out) == (code, "")
    assert said in err
    assert results(town) == before
    copy2(town / "backup" / name, town / name)
    assert released(town, hatstream, city.DAYS[1])[0] == 0
    assert {name: data for name, data in results(town).items() if name in before} == before
    assert [epsilon for _, epsilon in spent(town, hatstream)] == [9.0, 9.0]


def test_a_lost_key_is_not_made_anew_by_opening_the_account_again(town, hatstream):
    lose(town, KEY)
    assert hatstream(*city.init(town))[0] in (3, 4)
    assert not (town / KEY).exists()


def test_a_lost_ledger_is_no_new_budget_and_an_older_copy_of_it_is_refused(town, hatstream):
    assert released(town, hatstream, city.DAYS[1])[0] == 0
    before = results(town)
    lose(town, LEDGER)
    assert hatstream(*city.init(town))[0] == 3
    code, out, _ = released(town, hatstream, city.DAYS[1])
    assert (code != 0, out) == (True, "")
    lose(town, LEDGER)
    copy2(town / "backup" / LEDGER, town / LEDGER)
    code, out, err = released(town, hatstream, city.DAYS[1])
    assert (code, out) == (4, "")
    assert "rolled back or replaced" in err
    assert results(town) == before


def test_a_copy_of_the_ledger_since_which_nothing_was_released_goes_on(town, hatstream):
    before = results(town)
    lose(town, LEDGER)
    copy2(town / "backup" / LEDGER, town / LEDGER)
    assert released(town, hatstream, city.DAYS[1])[0] == 0
    assert {name: data for name, data in results(town).items() if name in before} == before
    assert [epsilon for _, epsilon in spent(town, hatstream)] == [9.0, 9.0]


def test_results_that_were_lost_are_written_again_from_the_ledger_and_cost_nothing(town, hatstream):
    before, paid = results(town), spent(town, hatstream)
    rmtree(town / "out")
    assert released(town, hatstream, city.DAYS[0])[0] == 0
    assert (results(town), spent(town, hatstream)) == (before, paid)


@pytest.mark.few(2)
@pytest.mark.parametrize(
    "data", [b"", b"\xff\xfe", b'{"a\xed": 1}', b"[" * 100_000, b"null", b'{"a": {"sequence": 1}}']
)
def test_a_head_that_is_damaged_in_any_way_is_named_and_nothing_is_released(data, town, hatstream):
    (town / HEAD).write_bytes(data)
    for command in (city.release(town), ["ledger", "verify", "--ledger", str(town / LEDGER)]):
        code, out, err = hatstream(*command)
        assert (code, out, "internal error" in err) == (4, "", False)
