"""What tests of losses ask of the small city, and all that is ever visible of its releases."""

import json
from collections import Counter
from collections.abc import Collection
from fractions import Fraction
from pathlib import Path

from pipelines.account import location
from tests import city
from transforms.ledger.spending import Spent
from transforms.recorded.units import HatUnit, all_of
from transforms.releases.hats.release import estimates_of
from transforms.sinks.rows import FORMATS, Shape, columns_of, file_stem, schema_of

LEDGER, KEY, HEAD = "ledger.sqlite", "ledger.key", "ledger.key.head"


def released(town, hatstream, end):
    return hatstream(*city.release(town, end=end))


def results(town):
    return {path.name: path.read_bytes() for path in (town / "out").glob("*.*")}


def spent(town, hatstream):
    shown = json.loads(hatstream("ledger", "show", "--json", "--ledger", town / LEDGER)[1])
    return [(entry["period"], entry["epsilon"]) for account in shown for entry in account["spent"]]


def lose(town, name):
    for path in town.glob(f"{name}*" if name == LEDGER else name):
        path.unlink()


def passages(*, slots: int, busy_slots: int, files: int, feeds: int = 1) -> dict[str, int]:
    """How often a release of two periods passes each failpoint."""
    return {
        **dict.fromkeys(("read", "parse", "assign"), feeds),
        "tally": busy_slots,  # or twice that, as the vehicles' keyed hashes spread over shards
        "before-noise": 1,  # all slots are drawn together
        "after-noise": 1,
        **dict.fromkeys(("before-record", "before-commit", "after-commit"), 2),
        "before-publish": slots,
        "mid-file": files,
        "before-rename": files,
        "after-publish": slots,
    }


_SCHEMA = schema_of(
    ("mean",),
    Shape(
        value_means="Of the statistic mean: the mean speed of all reports, each counting once, slow vehicles more often"
    ),
)
ReleaseId = tuple[str, int, str, str]  # specification, slot, cell and statistic


class Witness:
    """Remembers all that it ever saw of one account's ledger and of the folders that its releases are published in."""

    def __init__(self, ledger: Path, *outputs: Path, account: str = "small") -> None:
        self._path, self._outputs, self._account = ledger, outputs, account
        self.recorded: dict[ReleaseId, list[int] | None] = {}
        self.published: dict[Path, bytes] = {}

    def look(self) -> None:
        """Fails where anything differs from what was seen before, or does not belong together."""
        self._look()

    def look_at_the_end(self, *, slots: int, spent: list[int], formats: Collection[str]) -> None:
        """As `look`, and nothing is missing: all slots are recorded, all files are there, no part of one is left."""
        units, spent_of_periods = self._look()
        assert len(units) == slots, "every slot is recorded"
        assert [period.epsilon for period in spent_of_periods] == spent, "the spend of one run"
        whole = {f"{file_stem(unit.spec_id, unit.slot_start)}.{kind}" for unit in units for kind in formats}
        folders = [folder for folder in self._outputs if folder.is_dir()]
        assert folders, "something was published"
        for folder in folders:
            assert {path.name for path in folder.iterdir()} == whole, "all files and nothing else"

    def _look(self) -> tuple[list[HatUnit], list[Spent]]:
        """What is recorded and what it cost, once it was looked at."""
        ledger = location.find(str(self._path), None).ledger
        spent = ledger.spent(self._account)
        units = all_of(HatUnit, (unit for of in spent for unit in ledger.released(of.spec_id, of.period)))
        for unit in units:
            self._see_integers(unit)
        self._see_files(units)
        _check_spend(units, spent)
        ledger.verify()
        return units, spent

    def _see_integers(self, unit: HatUnit) -> None:
        for released in unit.released:
            key = (unit.spec_id, unit.slot_s, released.cell, released.statistic)
            first = self.recorded.setdefault(key, released.integers)
            assert first == released.integers, f"two values of {key} in the ledger"

    def _see_files(self, units: list[HatUnit]) -> None:
        by_stem = {file_stem(unit.spec_id, unit.slot_start): unit for unit in units}
        for path in _visible(self._outputs):
            assert path.stem in by_stem, f"{path.name} was published before it was recorded"
            data = path.read_bytes()
            assert self.published.setdefault(path, data) == data, f"two values in {path.name}, one after the other"
            slot = estimates_of([by_stem[path.stem]], ("mean",))
            whole = FORMATS[path.suffix[1:]](columns_of(slot), _SCHEMA, path.stem)
            assert data == whole, f"{path.name} is not whole, or holds two values of what the ledger recorded"


def _check_spend(units: list[HatUnit], spent: list[Spent]) -> None:
    """Shards would share a debit; the cities that are looked at have one shard."""
    slots = Counter((unit.spec_id, unit.slot_s) for unit in units)
    assert set(slots.values()) <= {1}, "a slot is recorded once"
    released = sum(unit.debit.epsilon for unit in units)
    assert sum((period.epsilon for period in spent), Fraction(0)) == released, "what was spent is what was released"


def _visible(folders: tuple[Path, ...]) -> list[Path]:
    """Published files; the part of a file that is being written has a hidden name."""
    paths = [path for folder in folders if folder.is_dir() for path in sorted(folder.iterdir())]
    return [path for path in paths if not path.name.startswith(".")]
