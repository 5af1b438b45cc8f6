"""Model values of recorded slots again, from the ledger alone, where means are released HAT by HAT."""

from collections.abc import Sequence
from pathlib import Path

from pipelines.account.location import AccountLocation
from pipelines.job import Outputs
from pipelines.output_folder import make_writable
from pipelines.scheduled.outcome import Progress
from pipelines.specification import Specification
from transforms.ledger import AccountRefusal
from transforms.records import RecordedSlot
from transforms.release.estimates import estimates_of
from transforms.release.kept import StateFile
from transforms.release.past import Past, with_model
from transforms.release.past_steps import PastReader, last_entry
from transforms.release.recorded import Sequenced
from transforms.sinks.files import publish_slot
from transforms.time.calendar import Calendar


def estimate_again(
    spec: Specification,
    location: AccountLocation,
    when: Calendar,
    outputs: Outputs,
    progress: Progress,
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
    entries = ledger.stages(spec.account.name, spec.spec_id)
    wanted = {slot.start_s for slot in when.slots}
    slots = [slot for slot in _slots(entries) if slot.units[0].slot_s in wanted]
    names, upper = tuple(each.name for each in spec.statistics), spec.speeds.grid.upper
    reader = PastReader(ledger, spec.account.name, spec.spec_id, StateFile.beside(location.head, spec.spec_id))
    everything = Past.none(keeps_all=True).after(entries).fitted() if whole else None
    written: list[Path] = []
    for done, slot in enumerate(sorted(slots, key=lambda slot: last_entry(slot, ledger)), 1):
        if whole:
            found = with_model(estimates_of(slot.units, names), slot.units, everything, upper)
        else:
            found = reader.estimates_of(slot, names, upper)
        written += publish_slot(found, outputs.folder, outputs.formats, outputs.shape)
        progress("slots estimated", done, len(slots))
    reader.keep()
    recorded = {slot.units[0].period for slot in slots}
    return sorted(written), [period for period in when.periods if period not in recorded]


def _slots(entries: Sequence[Sequenced]) -> list[RecordedSlot]:
    found: dict[int, RecordedSlot] = {}
    for sequence, unit in entries:
        slot = found.setdefault(unit.slot_s, RecordedSlot([], []))
        slot.units.append(unit)
        slot.sequences.append(sequence)
    return list(found.values())
