"""A world of the gate: a specification, a feed, one that differs in a vehicle; and all that a run shows of it.

Draws are the same in every run, and a ledger keeps draws alone in place of noisy sums.
"""

import csv
import io
import json
import re
import shutil
import sqlite3
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from fractions import Fraction
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import msgspec
import numpy as np
import pytest

from dpops.levels.stages import UNIT
from dpops.noise.words import Words
from hatstream.api import account
from hatstream_publish.edition import site
from hatstream_publish.pages import page as report_page
from pipelines.account import guarantee
from pipelines.cli import main
from pipelines.commands.release_summary import OPERATOR_ONLY
from pipelines.specification import Specification
from tests.noninterference.claims import beyond
from transforms.failpoints import FailpointError
from transforms.ledger.ledger import Ledger
from transforms.recorded.units import VECTOR, Released, Stored, Unit, decode, encode


@contextmanager
def frozen(offered: list[Stored]) -> Iterator[None]:
    """While it lasts every source of noise gives the same words, and the ledger keeps `masked` units.

    offered: gets each unit as it was really offered, in order.
    """
    attempts = Counter[tuple[str, int, int]]()
    record = Ledger.record

    def recording(self: Ledger, account: str, limit: Any, spec_name: str, spec_text: str, units: list[Unit]) -> Any:
        as_stored = [msgspec.json.decode(encode(unit), type=Stored) for unit in units]
        offered.extend(as_stored)
        kept = []
        for unit in as_stored:
            key = unit.spec_id, unit.slot_s, unit.shard
            kept.append(decode(msgspec.json.encode(masked(unit, attempts[key]))))
            attempts[key] += 1
        return record(self, account, limit, spec_name, spec_text, kept)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Words, "__init__", _frozen_words)
        patch.setattr(Ledger, "record", recording)
        yield


def _frozen_words(self: Words, entropy: Callable[[int], bytes] | None = None) -> None:
    self._entropy = entropy or np.random.default_rng(1).bytes


def masked(unit: Stored, attempt: int) -> Stored:
    """The unit with draws of its plans in place of what was released: no sum is in them.

    attempt: how often the unit was offered before; each time other noise would have been drawn.
    """
    chance = np.random.default_rng(zlib.crc32(f"{unit.spec_id}/{unit.slot_s}/{unit.shard}/{attempt}".encode()))
    return msgspec.structs.replace(unit, released=[_masked(released, chance) for released in unit.released])


def _masked(released: Released, chance: np.random.Generator) -> Released:
    if released.integers is None or released.plan is None or released.plan.get("epsilon") == "0":
        return released  # a constant is a function of its plan, and the ledger checks that it is
    number = len(released.integers)
    if released.mechanism == VECTOR:
        drawn = chance.normal(0, _spread_of(released.plan), number)
        drawn[: number // 2] += 20 * UNIT  # the weights, of a few vehicles
    else:
        drawn = chance.integers(0, 8, number) * 250
    return msgspec.structs.replace(released, integers=np.rint(drawn).astype(np.int64).tolist())


def _spread_of(plan: dict[str, Any]) -> float:
    spread = float(Fraction(plan["spread"]))
    return spread**0.5 if plan["kind"] == "gaussian" else 2**0.5 * spread


_KEPT: list[TemporaryDirectory[str]] = []  # until this process ends

OPERATORS = {"slots_that_differ_now": "whether an input is the same as before"}
"""What `--json` tells the operator alone under public counts, where most of what it tells is public."""
DIFFERS = re.compile(r"[\d,]+ slots were released before from other input [^.]*\.\n")
"""The same, as a sentence for people."""
STREETS = "streets.geojson"  # A file of places that a specification may name
NOT_COMPARED = {"digest", "nonce", "rests_on"}
"""Of the ledger's entries: keyed digests of inputs, chance, and places in the chain, which audit entries shift."""
RECORDED = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00")
"""When something was recorded, by the clock: in messages for the operator."""


class Report(NamedTuple):
    """One row of a feed, of whatever types. received_s: so long after the slot's day began it was received. heading:
    in CSV, a column h of a feed that has any."""

    vehicle: Any
    time: Any
    lat: Any
    lon: Any
    speed: Any
    received_s: float | None = None
    heading: Any = None


Feed = list[Report]

KILLED = "internal error (FailpointError)"  # what is left of a run that a history kills


@dataclass(frozen=True)
class World:
    """spec: its text. feed: of all others, and of the vehicle; other: without the vehicle, or with its other speeds."""

    spec: str
    feed: Feed
    other: Feed


def command(*arguments: object) -> tuple[int | str, str, str]:
    """Runs a command: its exit code, "killed" where a history ends it; its output; its messages."""
    said, errors = io.StringIO(), io.StringIO()
    code: int | str = "killed"
    with redirect_stdout(said), redirect_stderr(errors), suppress(FailpointError):
        code = main([str(argument) for argument in arguments])
    unforeseen = errors.getvalue().replace(KILLED, "")
    assert "internal error" not in unforeseen, "two runs that end so would be alike"
    return code, said.getvalue(), errors.getvalue()


@dataclass
class Town:
    """A folder in which a history happens. public: what was seen, by name. offered: to the ledger, in order."""

    folder: Path
    public: dict[str, bytes] = field(default_factory=dict)
    offered: list[Stored] = field(default_factory=list)

    @property
    def out(self) -> Path:
        return self.folder / "public" / "out"

    def show(self, name: str, what: object) -> None:
        """Keeps something public. Equal names are numbered."""
        self.public[f"{len(self.public):03d} {name}"] = what if isinstance(what, bytes) else str(what).encode()

    def run(self, *arguments: object) -> None:
        """A command, with all that it shows to the public."""
        code, said, errors = command(*arguments)
        name = " ".join(str(argument) for argument in arguments if not str(argument).startswith("/"))
        self.show(f"exit code of {name}", 0 if code == 5 and self._counts_public else code)
        self.show(f"output of {name}", public_part(said))
        self.show(f"errors of {name}", RECORDED.sub("", errors))

    @property
    def _counts_public(self) -> bool:
        """Then exit code 5, whether an input is the same as before, is the operator's."""
        return '"counts-public"' in (self.folder / "spec.toml").read_text()

    def ledger(self, *, spec: str = "spec.toml") -> list[object]:
        return ["--spec", self.folder / spec, "--ledger", self.folder / "ledger.sqlite"]


History = Callable[[Town, Feed], None]  # what happens with a feed: commands that are run, pipelines, streams


def differences(world: World, history: History) -> list[str]:
    """What a run with the one feed shows otherwise than a run with the other; nothing where all is well."""
    return compared(world, history)[0]


def compared(world: World, history: History) -> tuple[list[str], list[Stored], list[Stored]]:
    """The differences, and what was offered to the ledger in each world."""
    one, other = (watched(world.spec, feed, history) for feed in (world.feed, world.other))
    return apart(one, other), one.offered, other.offered


def apart(one: Town, other: Town) -> list[str]:
    """What one town shows otherwise than the other, and what was offered beyond its claim."""
    return [*_unlike(one.public, other.public), *beyond(one.offered, other.offered)]


def watched(spec: str, feed: Feed, history: History) -> Town:
    """A history in a folder that has the same name every time, on an account that was opened once."""
    folder = opened(spec)
    home = folder.with_name("town")
    shutil.rmtree(home, ignore_errors=True)
    town = Town(Path(shutil.copytree(folder, home)))
    (town.folder / "public").mkdir()
    with frozen(town.offered), unhashed(), still_clock():
        history(town, feed)
    for path in sorted((town.folder / "public").rglob("*")):
        if path.is_file():
            town.public[f"file {path.relative_to(town.folder / 'public')}"] = path.read_bytes()
    for number, entry in enumerate(_entries(town.folder / "ledger.sqlite")):
        town.public[f"ledger {number}"] = entry
    shutil.rmtree(home)
    return town


@contextmanager
def unhashed() -> Iterator[None]:
    """Reports and portals tell the hash of an entry, over keyed digests, chance and times: not while this lasts."""

    def telling(book: Ledger, spec: Specification) -> guarantee.LedgerRecord:
        return verify_record(book, spec)._replace(newest="the newest")

    verify_record = guarantee.verify_record
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(guarantee, "verify_record", telling)
        yield


class _Still(datetime):
    """A clock that stands still."""

    @classmethod
    def now(cls, _zone: Any = None) -> datetime:
        return datetime(2022, 2, 1, tzinfo=UTC)


@contextmanager
def still_clock() -> Iterator[None]:
    """Reports and portals tell when they were made: here always at the same time."""
    with pytest.MonkeyPatch.context() as patch:
        for page in (report_page, site, account):
            patch.setattr(page, "datetime", _Still)
        yield


@cache
def opened(spec: str) -> Path:
    """A folder with the specification, the account opened and its key made; to be copied."""
    kept = TemporaryDirectory(prefix="gate-")
    _KEPT.append(kept)
    folder = Path(kept.name) / "opened"
    folder.mkdir()
    (folder / "spec.toml").write_text(spec)
    if STREETS in spec:
        (folder / STREETS).write_text(json.dumps(two_ways()))
    if "[account]" in spec:
        with redirect_stdout(io.StringIO()):
            assert main(["init", "--spec", str(folder / "spec.toml"), "--ledger", str(folder / "ledger.sqlite")]) == 0
    return folder


def _entries(path: Path) -> Iterator[bytes]:
    """The ledger but for digests, times and places in the chain; audit events are the operator's."""
    if not path.exists():  # local reports have no account
        return
    names = ("kind", "account", "spec_id", "period", "slot_s", "shard", "epsilon", "body")
    with sqlite3.connect(path) as db:
        for row in db.execute(f"SELECT {', '.join(names)} FROM entry ORDER BY seq"):
            entry = dict(zip(names, row, strict=True))
            if entry["kind"] not in ("changed", "redrawn"):
                entry["body"] = json.dumps(without(json.loads(entry["body"]), NOT_COMPARED))
                yield json.dumps(entry).encode()
    db.close()


def public_part(said: str) -> str:
    """What a command printed, but for the operator's part: the last table, or a value of its JSON."""
    if said.startswith("{"):
        return json.dumps(without(json.loads(said), {"operator_only", *OPERATORS}))
    return DIFFERS.sub("", said).split(" ".join(OPERATOR_ONLY.split()[:4]))[0]  # a narrow table breaks its title


def without(value: Any, names: Iterable[str]) -> Any:
    """Plain values without the entries of these names, at any depth."""
    if isinstance(value, dict):
        return {name: without(part, names) for name, part in value.items() if name not in names}
    return [without(part, names) for part in value] if isinstance(value, list) else value


def _unlike(one: dict[str, bytes], other: dict[str, bytes]) -> list[str]:
    if list(one) != list(other):
        apart = sorted(set(one) ^ set(other))
        return [f"what there is: {', '.join(apart[:4]) or 'its order'}"]
    return [f"{name}: {_excerpt(one[name], other[name])}" for name in one if one[name] != other[name]]


def _excerpt(one: bytes, other: bytes) -> str:
    position = next(
        (position for position, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other))
    )
    return f"{one[max(position - 40, 0) : position + 60]!r} / {other[max(position - 40, 0) : position + 60]!r}"


def two_ways() -> dict[str, object]:
    """A street of two directions, on which the vehicles of the cases drive."""
    lines = {"north": [[72.83, 21.16], [72.83, 21.2]], "south": [[72.83, 21.2], [72.83, 21.16]]}
    features = [
        {
            "type": "Feature",
            "properties": {"name": name, "directed": True},
            "geometry": {"type": "LineString", "coordinates": positions},
        }
        for name, positions in lines.items()
    ]
    return {"type": "FeatureCollection", "features": features}


def in_csv(feed: Sequence[Report]) -> str:
    """A feed as the small city's CSV."""
    sink = io.StringIO(newline="")
    writer = csv.writer(sink, lineterminator="\n")
    width = 6 if any(report.heading is not None for report in feed) else 5
    writer.writerow(("bus", "ts", "lat", "lon", "v", "h")[:width])
    writer.writerows((*report[:5], report.heading)[:width] for report in feed)
    return sink.getvalue()
