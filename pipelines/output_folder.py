"""Where results will go, looked at before anything is spent: can it be written, and is the folder this ledger's?"""

import os
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from pipelines.account.location import AccountLocation
from pipelines.job import Outputs
from pipelines.specification import Specification
from transforms.atomic_files import locked
from transforms.errors import reason_of
from transforms.releases.periods.products import PRODUCTS
from transforms.sinks.files import HATS, LIVE
from transforms.sinks.published import DATES, published_slots

PROBE = ".hatstream-probe"
OLD_S = 86_400


class OutputError(Exception):
    """The output folder cannot be used."""


def prepare(outputs: Outputs, spec: Specification, location: AccountLocation) -> None:
    """Makes a folder writable for releases; asks the topic too. Raises OutputError or StepError.

    A slot that was published there and that the ledger does not know was released with another ledger, or with this
    one before an older copy was restored: with fresh noise it would be a second look at the same data.
    """
    make_writable(outputs.folder)
    _refuse_unrecorded(outputs.folder, spec, location)
    if outputs.topic is not None:
        from transforms.sinks import kafka  # its client is imported where there is a topic

        kafka.check(outputs.topic)


def make_writable(folder: Path) -> None:
    """Makes the folder, removes what killed runs left in it, and proves that it may be written. Raises OutputError."""
    _sweep_temporary_folders()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for inner in filter(Path.is_dir, folder.glob(DATES)):
            with locked(inner):
                _remove_parts(inner)
        with locked(folder):
            _remove_parts(folder)
            probe = folder / PROBE
            os.close(os.open(probe, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW))
            probe.unlink()
    except OSError as error:
        raise OutputError(f"the output folder {folder} cannot be written: {reason_of(error)}") from None


def _remove_parts(folder: Path) -> None:
    """Removes what killed runs left in a folder that is locked, so that no writer is at work in it."""
    for kind in (*(f".{of}-*.part" for of in (HATS, LIVE, *PRODUCTS)), ".hatstream-*"):
        for left in folder.glob(kind):
            left.unlink()


def _sweep_temporary_folders() -> None:
    """Removes folders that Beam made for runs that were killed: empty, our own, and old."""
    folders: list[os.DirEntry[str]] = []
    with suppress(OSError), os.scandir(tempfile.gettempdir()) as entries:  # which may be many
        folders = [entry for entry in entries if entry.name.startswith("beam-pipeline-temp")]
    for left in folders:
        with suppress(OSError):  # it is not empty, or gone
            status = left.stat()
            if status.st_uid == os.getuid() and time.time() - status.st_mtime > OLD_S:
                os.rmdir(left)


def _refuse_unrecorded(folder: Path, spec: Specification, location: AccountLocation) -> None:
    for is_live in (False, True):
        published = published_slots(folder, spec.spec_id, is_live=is_live)
        _refuse_unknown(published, spec, location, is_live=is_live)


def _refuse_unknown(
    published: Mapping[int, Path], spec: Specification, location: AccountLocation, *, is_live: bool
) -> None:
    if not published:
        return
    standing = {slot_s: slot_s if is_live else spec.entry_slot(slot_s) for slot_s in published}
    which = spec.account.name, spec.spec_id, min(standing.values()), max(standing.values()) + 1
    ledger = location.ledger
    recorded = ledger.sealed_live(*which) if is_live else {slot_s for slot_s, _ in ledger.sealed(*which)}
    unknown = sorted(slot_s for slot_s in published if standing[slot_s] not in recorded)
    if unknown:
        raise OutputError(
            f"{published[unknown[0]]} was published, but the ledger {location.shown} has no record of its slot "
            f"({len(unknown)} such slots): it was released with another ledger, or with this one before an older copy "
            "was restored. Fresh noise would be a second look, so nothing was recorded. Name the ledger and the key "
            "that it was released with (--ledger, --key); if they are lost, the account has ended"
        )
