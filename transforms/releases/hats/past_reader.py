"""Model values beside those of recorded slots: from the ledger's entries up to their own, read one after another."""

from fractions import Fraction

from dpops.learning import LearnedHats
from dpops.learning.state_arrays import arrays_of_hats, hats_taken_up
from transforms.ledger import Ledger
from transforms.recorded.units import HatUnit, all_of
from transforms.records import RecordedSlot, SlotEstimates
from transforms.releases.hats.estimates import estimates_of
from transforms.releases.hats.past import Fitter, Past, with_model
from transforms.releases.state_file import WRONG, Kept, StateFile


class PastReader:
    """Follows a specification's entries, forwards as far as it can, and fits the model once for each of them.

    file: a cache of what earlier entries taught.
    """

    def __init__(self, ledger: Ledger, account: str, spec_id: str, file: StateFile) -> None:
        self._ledger, self._account, self._spec_id, self._file = ledger, account, spec_id, file
        self._past = self._kept = self._taken_up()
        self._known: LearnedHats | None = None
        self._fitter = Fitter()
        self._is_fitted = False

    def estimates_of(self, slot: RecordedSlot, statistics: tuple[str, ...], upper_kmh: Fraction) -> SlotEstimates:
        self._go_to(last_entry(slot, self._ledger))
        units = all_of(HatUnit, slot.units)
        return with_model(estimates_of(units, statistics), units, self._known, upper_kmh)

    def keep(self) -> None:
        """Writes the file, if more is known than it had."""
        if self._past.sequence > self._kept.sequence:
            rests_on = self._ledger.hash_of(self._past.sequence)
            self._file.write(Kept(rests_on, self._past.sequence, arrays_of_hats(self._past.state)))
            self._kept = self._past

    def _taken_up(self) -> Past:
        """Takes up the past from its file where that fits the ledger: the hash of an entry tells all before it too."""
        kept = self._file.read()
        if kept is None or kept.rests_on != self._ledger.hash_of(kept.number):
            return Past.none()
        try:
            return Past(kept.number, hats_taken_up(kept.arrays))
        except WRONG:
            self._file.refuse()
            return Past.none()

    def _go_to(self, last: int) -> None:
        if self._is_fitted and last == self._past.sequence:
            return
        start = next((past for past in (self._past, self._kept) if past.sequence <= last), Past.none())
        self._past = start.after(self._ledger.hats(self._account, self._spec_id, start.sequence, last))
        self._known, self._is_fitted = self._fitter.fitted(self._past), True


def last_entry(slot: RecordedSlot, ledger: Ledger) -> int:
    """Finds the sequence number that a slot's model values rest on: its own, or that of all planned together."""
    unit = slot.units[0]
    return ledger.last_of(unit.spec_id, unit.period) if unit.group.slot_s is None else max(slot.sequences)
