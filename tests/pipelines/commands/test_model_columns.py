"""`--columns model`, and `hatstream estimate` of means released HAT by HAT: what the past teaches is beside each."""

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests import city, levels_city
from tests.city import DAYS
from tests.pipelines.commands.forty_buses import LINES, SPEC
from transforms.ledger import Ledger
from transforms.releases.hats.past import MODEL

Run = Callable[..., tuple[int, str, str]]

WHOLE_DAYS = SPEC.replace('per = "hat"', 'per = "period"\nscope = "period"').replace("epsilon = 4", "epsilon = 36")


def released(folder: Path, hatstream: Run, *days: str, spec: str = SPEC) -> None:
    """Days released one by one, in the order given, without model values."""
    folder.mkdir(exist_ok=True)
    city.write(folder, spec=spec, lines=LINES)
    assert hatstream(*city.init(folder))[0] == 0
    for day in days:
        code, _, err = hatstream(*city.release(folder, start=day, end=day))
        assert code == 0, err


def quietly(*line: str) -> tuple[int, str, str]:
    """A command line whose output is not looked at, for a whole module."""
    from pipelines.cli import main

    return main(list(line)), "", ""


@pytest.fixture(scope="module", params=[SPEC, WHOLE_DAYS], ids=["slot by slot", "whole days"])
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two days, released without model values into `out`, then read back with them into `model`; the input is gone."""
    home = tmp_path_factory.mktemp("city")
    released(home, quietly, *DAYS, spec=request.param)
    line = [str(home / "model") if word == str(home / "out") else word for word in city.release(home)]
    assert quietly(*line, "--columns", "model")[0] == 0
    (home / "feed.csv").unlink()
    return home


def estimated(
    folder: Path, hatstream: Run, name: str, *more: str, start: str = DAYS[0], end: str = DAYS[-1]
) -> dict[str, bytes]:
    where = ("--spec", str(folder / "spec.toml"), "--ledger", str(folder / "ledger.sqlite"))
    line = ("estimate", *where, "--output", str(folder / name), "--formats", ",".join(city.FORMATS))
    code, out, err = hatstream(*line, "--from", start, "--to", end, *more)
    assert code == 0, out + err
    return files(folder / name)


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def rows(files: dict[str, bytes]) -> list[dict]:
    return [json.loads(line) for name, data in files.items() if name.endswith("jsonl") for line in data.splitlines()]


def test_estimates_are_the_published_bytes_without_the_data(folder: Path) -> None:
    assert estimated(folder, quietly, "again") == files(folder / "model")


def test_what_was_released_stays_as_it_is_and_the_model_stands_beside(folder: Path) -> None:
    plain, beside = rows(files(folder / "out")), rows(files(folder / "model"))
    assert [{name: row[name] for name in row if name not in MODEL} for row in beside] == plain
    assert {row["model_status"] for row in beside} <= {"ok", "unreliable", "held-back"}
    published = [row for row in beside if row["model_status"] != "held-back"]
    assert published
    assert all(0 <= row["model_lower95"] <= row["model_value"] <= row["model_upper95"] <= 65 for row in published)
    assert any(row["model_value"] != row["value"] for row in published)


def test_the_whole_ledger_changes_earlier_slots_and_not_the_last_one(folder: Path) -> None:
    causal, whole = files(folder / "model"), estimated(folder, quietly, "whole", "--whole")
    last = max(row["slot_start"] for row in rows(causal))
    changed = {row["slot_start"] for row, now in zip(rows(causal), rows(whole), strict=True) if row != now}
    assert changed
    assert last not in changed


def test_a_csv_file_has_the_columns_last(folder: Path) -> None:
    head = next(csv.reader(min((folder / "model").glob("*.csv")).read_text().splitlines()))
    assert tuple(head[-4:]) == MODEL


def test_what_is_kept_spares_earlier_entries_and_changes_no_byte(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    published, asked = files(folder / "model"), list[int]()
    (kept,) = folder.glob("*.learned")
    kept.unlink()
    first = estimated(folder, quietly, "first", end=DAYS[0])

    def hats(self: Ledger, account: str, spec_id: str, *stretch: int, do=Ledger.hats) -> list[Any]:
        asked.extend(stretch[:1])
        return do(self, account, spec_id, *stretch)

    monkeypatch.setattr(Ledger, "hats", hats)
    second = estimated(folder, quietly, "second", start=DAYS[1])
    assert first | second == published
    assert min(asked) > 0


def test_a_damaged_file_of_what_is_kept_is_told_once_and_loses_nothing(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (kept,) = folder.glob("*.learned")
    kept.write_bytes(kept.read_bytes()[:-1])
    for name in ("anew", "once more"):
        assert estimated(folder, quietly, name) == files(folder / "model")
    assert caplog.text.count("is damaged") == 1


def test_a_day_that_is_recorded_later_changes_no_earlier_entrys_values(tmp_path: Path, hatstream: Run) -> None:
    released(tmp_path, hatstream, DAYS[1])
    before = estimated(tmp_path, hatstream, "before")
    city.write(tmp_path, spec=SPEC, lines=LINES)
    assert hatstream(*city.release(tmp_path, start=DAYS[0], end=DAYS[0]))[0] == 0
    after = estimated(tmp_path, hatstream, "after")
    assert {name: after[name] for name in before} == before
    assert len(after) == 2 * len(before)


def test_what_is_learned_otherwise_or_not_at_all_is_refused(tmp_path: Path, hatstream: Run) -> None:
    city.write(tmp_path, spec=SPEC)
    where = ("--spec", str(tmp_path / "spec.toml"), "--output", str(tmp_path / "o"), "--from", DAYS[0], "--to", DAYS[0])
    assert "levels" in refusal(hatstream, *where, "--forecast", "1")
    assert "goes with 'levels'" in refusal(hatstream, *where, "--columns", "traffic")
    levels_city.write(tmp_path)
    assert "learned from the past already" in refusal(hatstream, *where, "--columns", "model")
    city.write(tmp_path, spec=SPEC.replace('"mean"', '"variance"').replace("array-average", "baseline-variance"))
    assert "has 'variance': add a [[statistic]] with name" in refusal(hatstream, *where)


def refusal(hatstream: Run, *line: str) -> str:
    code, _, err = hatstream("estimate", *line)
    assert code == 1
    return err
