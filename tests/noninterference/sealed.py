"""Cases about how a look is sealed, which no comparison of two worlds shows: entropy, shares of a day, digests."""

import shutil
import subprocess
import sys
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import msgspec

from tests import city
from tests.noninterference.world import opened
from tests.transforms.releases.levels_days import EPSILON, HOURS, day_unit, facts, live_unit, policy
from transforms.recorded.units import LiveEntry, Sequenced, StageEntry
from transforms.releases import DayShare, DayShares
from transforms.releases.live.release import LiveRelease

PRELUDE = ""  # what a fresh process runs first; a mutant has its own
TWICE = """
import inspect, os, runpy, sys
from dpops.noise import Noise
from dpops.noise.words import Words
is_default = inspect.signature(Words).parameters["entropy"].default is os.urandom and Noise()._entropy is os.urandom
print(is_default, flush=True)
import pipelines.cli, transforms.lean_beam, pipelines.runs.release, pipelines.runs.beam.bounded
child = os.fork()
sys.argv = [argument.replace("TOWN", "one" if child else "other") for argument in sys.argv[1:]]
try:
    runpy.run_path(sys.argv[0], run_name="__main__")
finally:
    if child:
        os.waitpid(child, 0)
"""
"""Says whether noise is the operating system's; then two processes, which import once, each run the command."""
SCRIPT = Path(sys.executable).with_name("hatstream")


def output_of(program: str, *arguments: object) -> str:
    """What a process prints that no fixture of this one touched."""
    command = [sys.executable, "-c", PRELUDE + program, *map(str, arguments)]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


@dataclass(frozen=True)
class Entropy:
    """Noise is the operating system's; the installed command draws other noise in each run."""

    def differences(self) -> list[str]:
        with TemporaryDirectory(prefix="gate-") as kept:
            towns = [Path(shutil.copytree(opened(city.SPEC), Path(kept) / name)) for name in ("one", "other")]
            for town in towns:
                city.write(town)
            command = city.release(Path(kept) / "TOWN", "--formats", "csv", end=city.DAYS[0])
            is_default = output_of(TWICE, SCRIPT, *command).startswith("True\n")
            one, other = ([path.read_bytes() for path in sorted((town / "out").glob("*.csv"))] for town in towns)
        assert min(sum(map(len, one)), sum(map(len, other))) > 1_000
        wrong = [] if is_default else ["noise is not the operating system's by default"]
        return wrong + (["two runs of the command drew the same noise"] if one == other else [])


class _Recorded(NamedTuple):
    """In the place of `History`: a ledger with a whole day."""

    entries: list[StageEntry]
    recorded: tuple[()] = ()

    def stages(self, _spec_id: str) -> list[StageEntry]:
        return self.entries

    def live(self, _spec_id: str, _period: str) -> list[LiveEntry]:
        return []


@dataclass(frozen=True)
class SharesOfADay:
    """Live slots and the end of a day with a third of the total take that third together."""

    def differences(self) -> list[str]:
        usual = policy("gaussian")
        before = msgspec.structs.replace(day_unit(usual), period="2026-04-30")
        whole, less = DayShare(Fraction(1), EPSILON), DayShare(Fraction(1, 3), EPSILON / 3)
        how = replace(usual, by_day=DayShares([*[whole] * 4, less, whole, whole]))
        slots = {3600 * hour: replace(facts(slot), period="2026-05-01") for slot, hour in enumerate(HOURS)}  # a Friday
        release, recorded = LiveRelease(how, slots, "UTC"), _Recorded([Sequenced(1, before)])
        planned = [release._stage(slot_s, slot, recorded) for slot_s, slot in slots.items()]
        live = sum((stage.share for stage in planned if stage is not None), Fraction(0))
        (end,) = how.on("2026-05-01").later
        return [] if live + end.share == Fraction(1, 3) else [f"{live + end.share} of the total in place of a third"]


@dataclass(frozen=True)
class KeyedDigests:
    """Who has the ledger and not the account's key cannot find sums by trying all."""

    def differences(self) -> list[str]:
        how = policy("laplace")
        keys = [replace(how, digest_key=key) for key in (b"one", b"other")]
        digests = {
            "a live slot": [live_unit(key, 0).digest for key in keys],
            "a stage": [day_unit(key).digest for key in keys],
        }
        return [f"the digest of {name} needs no key" for name, (one, other) in digests.items() if one == other]


SEALED = {"entropy": Entropy, "shares-of-a-day": SharesOfADay, "keyed-digests": KeyedDigests}
