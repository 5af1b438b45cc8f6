"""Model values of recorded slots again, from the ledger alone, where means are released HAT by HAT."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from pipelines.account.location import AccountLocation
from pipelines.job import Outputs
from pipelines.output_folder import make_writable
from pipelines.progress import Report
from pipelines.specification import Specification
from transforms.ledger import AccountRefusal
from transforms.recorded.units import HatEntry, HatUnit, all_of
from transforms.records import RecordedSlot, SlotEstimates
from transforms.releases.hats.estimates import estimates_of
from transforms.releases.hats.past import Fitter, Past, with_model
from transforms.releases.hats.past_reader import PastReader, last_entry
from transforms.releases.state_file import StateFile
from transforms.sinks.files import publish_slot
from transforms.time.calendar import Calendar


def estimate_again(
    spec: Specification,
    location: AccountLocation,
    when: Calendar,
    outputs: Outputs,
    progress: Report,
    *,
    whole: bool,
) -> tuple[list[Path], list[str]]:
    """Writes the rows of a range's recorded slots; answers with the files, and the periods that have none.

    Causal: as published with `--columns model`. whole: model values from all entries that there are by now.
    Raises AccountRefusal without a ledger.
    """
    ledger = location.ledger
    if not ledger.exists():
        raise AccountRefusal(f"there is no ledger at {location.shown}: name it with --ledger")
    make_writable(outputs.folder)
    entries, wanted = ledger.hats(spec.account.name, spec.spec_id), {slot.start_s for slot in when.slots}
    slots = [slot for slot in _slots(entries) if slot.units[0].slot_s in wanted]
    slots.sort(key=lambda slot: last_entry(slot, ledger))
    written: list[Path] = []
    for estimates in _by_all(spec, entries, slots) if whole else _causal(spec, location, slots):
        written += publish_slot(estimates, outputs.folder, outputs.formats, outputs.shape)
        progress("files written", len(written), len(slots) * len(outputs.formats))
    recorded = {slot.units[0].period for slot in slots}
    return sorted(written), [period for period in when.periods if period not in recorded]


def _causal(spec: Specification, location: AccountLocation, slots: Sequence[RecordedSlot]) -> Iterator[SlotEstimates]:
    """Yields the estimates of slots, and keeps the past they rest on. slots: by the last entry that each rests on."""
    file = StateFile.beside(location.head, spec.spec_id, location.signature)
    reader = PastReader(location.ledger, spec.account.name, spec.spec_id, file)
    for slot in slots:
        yield reader.estimates_of(slot, _names(spec), spec.value.grid.upper)
    reader.keep()


def _by_all(spec: Specification, entries: Sequence[HatEntry], slots: Sequence[RecordedSlot]) -> Iterator[SlotEstimates]:
    fitted = Fitter().fitted(Past.none(keeps_all=True).after(entries))
    for slot in slots:
        units = all_of(HatUnit, slot.units)
        yield with_model(estimates_of(units, _names(spec)), units, fitted, spec.value.grid.upper)


def _names(spec: Specification) -> tuple[str, ...]:
    return tuple(statistic.name for statistic in spec.statistics)


def _slots(entries: Sequence[HatEntry]) -> list[RecordedSlot]:
    slots: dict[int, RecordedSlot] = {}
    for sequence, unit in entries:
        slot = slots.setdefault(unit.slot_s, RecordedSlot([], []))
        slot.units.append(unit)
        slot.sequences.append(int(sequence))
    return list(slots.values())
