"""One file of ledger, key and head: what is lost is put back as it was, and nothing that would be a second look.

Each test loses something of the small city after its first day, or after its second one, of which no backup was made,
and does what docs/runbook.md says of it. After each loss nothing is released until what was lost is there again; then
the results are those of before, byte for byte, and nothing is spent twice.
"""

import base64
import gzip
import json
import textwrap
import tracemalloc
from itertools import combinations
from pathlib import Path
from shutil import copy2, copytree, rmtree

import pytest

from pipelines.account.backup import read_backup
from pipelines.cli import main
from tests import city, levels_city
from tests.faults.small_town import HEAD, KEY, LEDGER, lose, released, results, spent

RUNBOOK = Path(__file__).parents[2] / "docs" / "runbook.md"
FILES = (LEDGER, KEY, HEAD)
LOSSES = [names for count in (1, 2, 3) for names in combinations(FILES, count)]


@pytest.fixture
def backed_up(town, hatstream):
    backup = ("ledger", "backup", "--to", town / "town.backup", "--ledger", town / LEDGER)
    assert "not encrypted" in city.done(hatstream, *backup)
    assert (town / "town.backup").stat().st_mode & 0o777 == 0o600
    return town


@pytest.fixture(scope="module")
def second_day(first_day, tmp_path_factory):
    """The city after its second day, with a backup of the first one's end."""
    town = copytree(first_day, tmp_path_factory.mktemp("second") / "town")
    backup = ["ledger", "backup", "--to", str(town / "town.backup"), "--ledger", str(town / LEDGER)]
    assert [main(backup), main(city.release(town, end=city.DAYS[1]))] == [0, 0]
    return town


@pytest.fixture
def outdated(tmp_path, second_day):
    return copytree(second_day, tmp_path / "town")


def restore(town, *more, file="town.backup"):
    """The command."""
    return ["ledger", "restore", "--from", town / file, "--ledger", town / LEDGER, *more]


@pytest.mark.few(2)
@pytest.mark.parametrize("names", LOSSES, ids="+".join)
def test_whatever_was_lost_is_put_back_and_the_next_day_follows(names, backed_up, hatstream):
    before = results(backed_up)
    for name in names:
        lose(backed_up, name)
    assert hatstream(*restore(backed_up, "--results", backed_up / "out"))[0] == 0
    assert released(backed_up, hatstream, city.DAYS[1])[0] == 0
    assert {name: data for name, data in results(backed_up).items() if name in before} == before
    assert [epsilon for _, epsilon in spent(backed_up, hatstream)] == [9.0, 9.0]
    assert hatstream("ledger", "verify", "--ledger", backed_up / LEDGER)[0] == 0
    assert (backed_up / KEY).stat().st_mode & 0o777 == 0o600


def test_a_backup_older_than_the_head_is_refused(outdated, hatstream):
    lose(outdated, LEDGER)
    assert "a second look" in city.refused(hatstream, *restore(outdated, "--nothing-since"), code=3)
    assert not (outdated / LEDGER).exists()


@pytest.mark.few(1)
@pytest.mark.parametrize("kept", [(), (KEY,)], ids=["nothing left", "the key left"])
def test_without_a_head_the_results_must_show_that_nothing_was_released_since(kept, outdated, hatstream):
    for name in set(FILES) - set(kept):
        lose(outdated, name)
    assert hatstream(*restore(outdated))[0] == 3
    assert "was published, but the backup" in city.refused(
        hatstream, *restore(outdated, "--results", outdated / "out"), code=3
    )
    (outdated / "elsewhere").mkdir()
    assert "cannot show" in city.refused(hatstream, *restore(outdated, "--results", outdated / "elsewhere"), code=3)
    assert not [name for name in set(FILES) - set(kept) if (outdated / name).exists()]


def test_an_old_copy_of_the_ledger_without_a_head_is_no_witness_of_itself(outdated, first_day, hatstream):
    for name in FILES:
        lose(outdated, name)
    copy2(first_day / LEDGER, outdated / LEDGER)
    assert hatstream(*restore(outdated, "--results", outdated / "out"))[0] == 3
    assert not (outdated / HEAD).exists()


def test_another_ledger_or_key_in_the_place_is_left_alone(backed_up, hatstream, tmp_path_factory):
    other = tmp_path_factory.mktemp("other")
    city.opened(other, hatstream, is_new=True)
    for name in FILES:
        before = (backed_up / name).read_bytes()
        copy2(other / name, backed_up / name)
        assert hatstream(*restore(backed_up, "--nothing-since"))[0] in (3, 4), name
        assert (backed_up / name).read_bytes() == (other / name).read_bytes()
        (backed_up / name).write_bytes(before)


def test_a_forged_entry_is_neither_kept_nor_put_back(backed_up, hatstream):
    city.tamper(backed_up, "UPDATE entry SET epsilon = '0' WHERE kind = 'release'")
    err = city.refused(hatstream, "ledger", "backup", "--to", backed_up / "second", "--ledger", backed_up / LEDGER)
    assert "tampered" in err
    assert not (backed_up / "second").exists()
    assert hatstream(*restore(backed_up))[0] == 4


ENCRYPTED = (
    "aGF0c3RyZWFtIGJhY2t1cCAxLCBlbmNyeXB0ZWQKy2kUfkxJ0uwUGlB1LxGkqGdBQUFBQUJyQ3VHX0s3MTBkWDAzX0lCWnE5SFdzRFd5XzIzVG"
    "xjaTN0MDdlcGVTOTdSYzRDOVJoVlJndkVJMUFVYUptZlRTa0hsbllkWlhGM0RhYnNxOUUyN3M4M2dZSDliZkFNSlNiWG5Ic1JpU2xJS3MweGFv"
    "ckl1VXVuek1DUzhqVF9UamVOX0V6T2FWQmR5RDlxQk4weUJZWFZ0ZkhIRjR6ZVZSM1JVTUxYUHVjU2hFVHZmY0tRU004V2NJQk5oNFlFc2Fydk"
    "RYRTQ4RENqTXp5N0kwWnltVjdUT1Zyb196RFFtWWIwc0tFcm9yNzdvWDdGaTVONTFxQXVGRThMaE1DbHV6UHBUcGtoT1Q2c1ZYUVVSdTFhbXRV"
    "NkRCTFE0OUtuNWtkUTZVSnA5UkJSXzRpZzJPRGJ1dTRkX2VoMk0tZ0x4c2M5QkpCTzl5amhRUU9fbVR0YWpUVmJ3eWdlWXZkQlJ0QVJqbS0xWE"
    "5SdnVfcGM4MXg4Vi1NMDUyMVBHbkhjaHk0bDZDWDdSeEhvMk1BMVNwVjZNZmhjRXVuSW84XzdUTWhnQkJSSG50eFljd2dRQWdkVmpJX0FYVTB3"
    "aVBLcF9hY3FHY1d3QVFJNzNvWl82aFgxUm9yTjVGcmJqMFVDc09uYWJPMzk3ZXFGb3JTVzlodFJBdXBTVGlZT1ZQUjZDcUVfdExUc3ZIMThyTG"
    "R1REVrLW1pS19vdFV1cFk5djhoeFFvdFlGc0puVGVhc2NweXkxd25oMTVJWXBEcHYwdXFzRWhISFFKay1LNVFUYzFlcWNlQUx3dWhCa1Q3RVZP"
    "OVJTTTNlMjY2TElzY19zS0tvUDhWeTJSbHBHS1V3NkthM1NiMDVNNms3OXd2YVVuNy0zR0xGV2M2ODFsLWRuVHh2Vi1FcmlTTHdTT0RnTXVrPQ"
    "=="
)
"""What version 0.3 wrote of the small city's account, with the password "correct horse"."""


def test_a_backup_that_an_older_version_encrypted_is_made_plain_as_the_runbook_says(tmp_path, monkeypatch, hatstream):
    monkeypatch.chdir(tmp_path)
    Path("old.backup").write_bytes(base64.b64decode(ENCRYPTED))
    Path("word").write_text("correct horse\n")
    assert "docs/runbook.md" in city.refused(hatstream, *restore(tmp_path, "--nothing-since", file="old.backup"))
    script = RUNBOOK.read_text().partition("```python\n")[2].partition("```")[0]
    exec(textwrap.dedent(script), {})
    assert hatstream(*restore(tmp_path, "--nothing-since"))[0] == 0
    assert hatstream("ledger", "verify", "--ledger", tmp_path / LEDGER)[0] == 0


def test_a_damaged_backup_is_refused_wherever_the_damage_is(backed_up, hatstream):
    whole = (backed_up / "town.backup").read_bytes()
    for name in FILES:
        lose(backed_up, name)
    damaged = [
        whole[:position] + bytes([whole[position] ^ 0x10]) + whole[position + 1 :]
        for position in range(0, len(whole), len(whole) // 20)
    ]
    for data in (b"", whole[:-9], whole[: len(whole) // 2], whole[:25], *damaged):
        (backed_up / "bad").write_bytes(data)
        code, _, err = hatstream(*restore(backed_up, "--nothing-since", file="bad"))
        if code == 0:  # of gzip's header only: what it says there is nothing of ours
            for name in FILES:
                lose(backed_up, name)
        else:
            assert (code, "internal error" in err) == (4, False)
        assert not (backed_up / KEY).exists()


def test_a_backup_that_expands_to_more_than_any_holds_is_not_unpacked(backed_up, hatstream):
    (backed_up / "bad").write_bytes(b"hatstream backup 1\n" + gzip.compress(bytes(100 << 20)))
    tracemalloc.start()
    try:
        err = city.refused(hatstream, *restore(backed_up, "--nothing-since", file="bad"))
        assert tracemalloc.get_traced_memory()[1] < 50 << 20
    finally:
        tracemalloc.stop()
    assert "is damaged" in err


def test_a_backup_replaces_nothing_but_a_backup(backed_up, hatstream):
    before = (backed_up / LEDGER).read_bytes()
    assert hatstream("ledger", "backup", "--to", backed_up / LEDGER, "--ledger", backed_up / LEDGER)[0] == 4
    assert (backed_up / LEDGER).read_bytes() == before
    assert hatstream("ledger", "backup", "--to", backed_up / "town.backup", "--ledger", backed_up / LEDGER)[0] == 0


def test_a_ledger_moves_from_a_file_to_a_server(backed_up, hatstream, server_url):
    lose(backed_up, LEDGER)
    asked = ("ledger", "restore", "--from", backed_up / "town.backup", "--ledger", server_url, "--key", backed_up / KEY)
    assert hatstream(*asked)[0] == 0
    verify = ("ledger", "verify", "--ledger", server_url, "--key", backed_up / KEY)
    assert "the ledger is whole" in city.done(hatstream, *verify)


@pytest.mark.slow
def test_whole_periods_under_secret_counts_are_told_from_those_of_the_backup(tmp_path, hatstream):
    levels_city.opened(tmp_path, hatstream)
    assert released(tmp_path, hatstream, levels_city.DAYS[0])[0] == 0
    assert hatstream("ledger", "backup", "--to", tmp_path / "town.backup", "--ledger", tmp_path / LEDGER)[0] == 0
    first = results(tmp_path)
    assert released(tmp_path, hatstream, levels_city.DAYS[1])[0] == 0
    for name in FILES:
        lose(tmp_path, name)
    assert hatstream(*restore(tmp_path, "--results", tmp_path / "out"))[0] == 3
    for name in set(results(tmp_path)) - set(first):
        (tmp_path / "out" / name).unlink()
    assert hatstream(*restore(tmp_path, "--results", tmp_path / "out"))[0] == 0
    assert len(spent(tmp_path, hatstream)) == 1


def head_without_signature(town):
    """As who has no key can write it: a head that says what the backup says, and nothing of what was released since."""
    backup = read_backup(town / "town.backup")
    sequence, newest = backup.last
    newest = {"sequence": sequence, "hash": newest, "accounts": [backup.entries[-1]["account"]]}
    return json.dumps({backup.genesis: newest})


@pytest.mark.few(1)
@pytest.mark.parametrize("more", [(), ("--nothing-since",)], ids=["no word", "answered for"])
def test_a_head_without_a_signature_is_no_witness_that_nothing_was_released_since(more, outdated, hatstream):
    lose(outdated, LEDGER)
    (outdated / HEAD).write_text(head_without_signature(outdated))
    assert "no signature" in city.refused(hatstream, *restore(outdated, *more))
    assert not (outdated / LEDGER).exists()


def test_who_takes_a_head_without_a_signature_gives_a_second_look(outdated, hatstream, monkeypatch):
    """The mistake that the test above would find."""
    lose(outdated, LEDGER)
    (outdated / HEAD).write_text(head_without_signature(outdated))
    monkeypatch.setattr("pipelines.account.backup.check_unsigned", lambda *_: None)
    monkeypatch.setattr("transforms.ledger.chain.check_unsigned", lambda *_: None)
    assert hatstream(*restore(outdated))[0] == 0


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
    assert said in city.refused(hatstream, *city.release(town, end=city.DAYS[1]), code=code)
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
    assert "rolled back or replaced" in city.refused(hatstream, *city.release(town, end=city.DAYS[1]))
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
        assert "internal error" not in city.refused(hatstream, *command)
