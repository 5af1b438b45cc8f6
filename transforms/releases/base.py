"""What a kind of release does: it groups slots, draws, and reads what was recorded. Each kind is one file."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple, Protocol

from dpops.noise import Noise
from dpops.statistics import Column
from transforms.ledger.ledger_account import LedgerAccount
from transforms.recorded.units import LiveEntry, StageEntry, StageUnit, Unit
from transforms.records import RecordedSlot, SlotEstimates, SlotShard
from transforms.wire import Exposure, Tally

Tallies = Callable[[], Iterable[Tally]]
"""Reads the tallies of a group, one after another: all rows of a vehicle are in one of them."""
RecordUnits = Callable[[Sequence[Unit]], Sequence[RecordedSlot]]
"""Records units in one transaction and says what the ledger returned; nothing where it refused them."""


class Stopped(Exception):
    """A run ends before a period, its argument, is released whole: what was recorded of it says that it may be wrong.

    Nothing may come after it in this run. The next run goes on.
    """


class Drawn(NamedTuple):
    """A unit that may be recorded, and what each vehicle spends in it, where counts tell that."""

    unit: Unit
    exposure: Exposure | None = None


class Before(NamedTuple):
    """What a draw may rest on. account: whose ledger is read; None for kinds that rest on no entry.

    recorded: what the ledger returned for the earlier draws of the same group in this run.
    """

    account: LedgerAccount | None
    recorded: Sequence[RecordedSlot] = ()

    def stages(self, spec_id: str) -> list[StageEntry]:
        """All recorded stages of a specification."""
        account = self._account
        return account.open().stages(account.name, spec_id)

    def live(self, spec_id: str, period: str) -> list[LiveEntry]:
        """The recorded live slots of a period."""
        account = self._account
        return account.open().live(account.name, spec_id, period)

    def stop_once(self, unit: StageUnit, run: str) -> None:
        """Raises Stopped in the run that first comes to a unit that must stop it, and whenever that run tries again."""
        account = self._account
        if account.open().stop(account.name, unit.spec_id, unit.period, run):
            raise Stopped(unit.period)

    @property
    def _account(self) -> LedgerAccount:
        if self.account is None:
            raise ValueError("this kind of release rests on recorded entries: it needs an account")
        return self.account


NOTHING = Before(None)
"""Before the draws of a kind that rests on no entry."""


class Estimator(Protocol):
    """Reads recorded slots; what it learns on the way may be kept for the next one."""

    def of(self, recorded: RecordedSlot) -> Iterator[SlotEstimates]:
        """The estimates that follow from a slot, or from a period by its last stage."""
        ...

    def keep(self) -> None:
        """Writes what was learned to the account's cache, if there is more than it had."""
        ...


class Release(Protocol):
    """A kind of release."""

    @property
    def columns(self) -> tuple[Column, ...]:
        """What tallies carry besides counts."""
        ...

    def group(self, slot_s: int) -> int:
        """The first of the slots that are drawn together with this one."""
        ...

    def draw(self, group: SlotShard, tallies: Tallies, before: Before, noise: Noise) -> list[Drawn]:
        """Draws the next units of a group; none where nothing is left to draw. Raises StepError, LedgerError or
        Stopped.

        group: its first slot, and the release shard.
        """
        ...

    def estimator(self, account: LedgerAccount) -> Estimator:
        """What reads the recorded units of this kind."""
        ...


def release_group(
    release: Release, group: SlotShard, tallies: Tallies, account: LedgerAccount, record: RecordUnits
) -> Iterator[SlotEstimates]:
    """Draws and records a group to its end, then estimates it; nothing where the account's limit refuses it.

    Raises Stopped.
    """
    recorded: list[RecordedSlot] = []
    while drawn := release.draw(group, tallies, Before(account, recorded), Noise()):
        slots = record([each.unit for each in drawn])
        if not slots:
            return
        recorded += slots
    if recorded:
        yield from release.estimator(account).of(recorded[-1])
