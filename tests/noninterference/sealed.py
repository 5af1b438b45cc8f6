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
from tests.noninterference.world import IN_MEMORY, opened
from tests.transforms.releases.levels_days import EPSILON, HOURS, day_unit, facts, live_unit, policy
from transforms.recorded.units import LiveEntry, Sequenced, StageEntry
from transforms.releases import DayShare, DayShares
from transforms.releases.live.release import LiveRelease

PRELUDE = ""
"""What a fresh process runs first; a mutant has its own."""
DEFAULTS = """
import inspect, os
from dpops.noise import Noise
from dpops.noise.words import Words
print(inspect.signature(Words).parameters["entropy"].default is os.urandom and Noise()._entropy is os.urandom)
"""
SCRIPT = Path(sys.executable).with_name("hatstream")
COMMAND = "import runpy, sys; sys.argv = sys.argv[1:]; runpy.run_path(sys.argv[0], run_name='__main__')"


def output_of(program: str, *arguments: object) -> str:
    """What a process prints that no fixture of this one touched."""
    command = [sys.executable, "-c", PRELUDE + program, *map(str, arguments)]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


@dataclass(frozen=True)
class Entropy:
    """Noise is the operating system's; the installed command draws other noise in each run."""

    def differences(self) -> list[str]:
        wrong = [] if output_of(DEFAULTS) == "True\n" else ["noise is not the operating system's by default"]
        return wrong + (["two runs of the command drew the same noise"] if _released() == _released() else [])


def _released() -> list[bytes]:
    """Results of the installed command on the small city, each time on a copy of the account as it was opened."""
    with TemporaryDirectory(prefix="gate-", dir=IN_MEMORY) as kept:
        folder = Path(shutil.copytree(opened(city.SPEC), Path(kept) / "town"))
        city.write(folder)
        output_of(COMMAND, SCRIPT, *city.release(folder, "--formats", "csv", end=city.DAYS[0]))
        files = [path.read_bytes() for path in sorted((folder / "out").glob("*.csv"))]
        assert sum(map(len, files)) > 1_000
        return files


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
        planned = [release._stage(slot_s, slot, recorded) for slot_s, slot in slots.items()]  # type: ignore[arg-type]
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
