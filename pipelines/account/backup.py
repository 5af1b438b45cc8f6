"""Backup of ledger, key and head in one file: header line, gzipped JSON lines."""

import gzip
import io
import zlib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from pipelines.account.location import AccountLocation, read_key, secret_of, signature_of, write_key
from transforms.atomic_files import locked, read_regular, replacing
from transforms.ledger.chain import Signature, check_unsigned
from transforms.ledger.head import Head, LedgerError, RememberedHead
from transforms.ledger.ledger import Ledger
from transforms.ledger.spending import Account, AccountRefusal
from transforms.recorded.units import LIVE_COLUMN, StageUnit, decode
from transforms.sinks.published import published_slots, published_specifications
from transforms.time.calendar import Timetable

MOST_BYTES = 4 << 30  # of a backup, and of what it holds
MOST_EXPANDED = 100  # times its size, beside a MiB: more is hostile, as entries are packed to about a third

_FORMAT_NAME = b"hatstream backup 1"
_FIRST_LINE = _FORMAT_NAME + b"\n"
_DAMAGE_ERRORS = (EOFError, OSError, zlib.error, msgspec.MsgspecError, KeyError, TypeError, ValueError)

Entries = Sequence[Mapping[str, Any]]


class _BackupHeader(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Header before the entries. made: UTC. key: hexadecimal, secret. head: by ledger's genesis."""

    made: str
    key: str
    head: dict[str, RememberedHead]


class Backup(NamedTuple):
    """Content of a backup file."""

    header: _BackupHeader  # time, key, and the head's entry of each ledger, by the hash of its first one (`genesis`)
    entries: Entries  # of one ledger, at least one

    @property
    def genesis(self) -> str:
        """Hash of the ledger's first entry."""
        return str(self.entries[0]["hash"])

    @property
    def last(self) -> tuple[int, str]:
        """Sequence number and hash of the ledger's newest entry."""
        return self.entries[-1]["seq"], self.entries[-1]["hash"]

    def with_entries(self, entries: Entries) -> "Backup":
        """Returns a backup with these, newer entries of the same ledger, and their head."""
        head, newest = self.header.head, entries[-1]
        accounts = head[self.genesis]["accounts"]  # those of the head: it gets newer accounts with their next entry
        last = RememberedHead(sequence=newest["seq"], hash=newest["hash"], accounts=accounts)
        return Backup(_BackupHeader(self.header.made, self.header.key, head | {self.genesis: last}), entries)

    @property
    def newest(self) -> Mapping[str, Any] | None:
        """The entry of the newest released slot or period; None without a release."""
        releases = (entry for entry in self.entries if entry["kind"] == "release")
        return max(releases, key=lambda entry: entry["slot_s"], default=None)

    @property
    def newest_text(self) -> str:
        """Newest release in words."""
        if (newest := self.newest) is None:
            return "none"
        start = datetime.fromtimestamp(newest["slot_s"], UTC).isoformat()
        return f"of {newest['spec_id']}, period {newest['period']}, slot {start}"


def write_backup(location: AccountLocation, path: Path) -> Backup:
    """Writes a backup atomically with mode 600. Raises AccountRefusal, LedgerError, OSError."""
    if path.exists():  # only an older backup is replaced
        with path.open("rb") if path.is_file() else io.BytesIO() as older:
            if older.read(len(_FORMAT_NAME)) != _FORMAT_NAME:
                raise LedgerError(f"{path} is there already and is no backup of hatstream: it stays as it is")
    key, book = read_key(location.key), location.ledger
    remembered = dict(location.witness.read_all())  # the head file: before the ledger, which never lags behind it
    book.verify()
    entries, timestamp = list(book.entries()), datetime.now(UTC).isoformat(timespec="seconds")
    # Sets the head to the newest of these entries: the ledger may have grown since the head was read.
    backup = Backup(_BackupHeader(timestamp, key.key.hex(), remembered), entries).with_entries(entries)
    content = io.BytesIO()
    with gzip.GzipFile(fileobj=content, mode="wb", mtime=0) as packed:
        for line in (backup.header, *backup.entries):
            packed.write(msgspec.json.encode(line) + b"\n")
    with locked(path.absolute().parent), replacing(path, 0o600) as file:
        file.write(_FIRST_LINE + content.getvalue())
    return backup


def restore(
    location: AccountLocation, path: Path, results: Sequence[Path], *, nothing_since: bool
) -> tuple[Backup, list[str]]:
    """Restores and lists missing parts of ledger, key and head; existing parts must match.

    results, nothing_since: evidence of no release since: all result folders, or the operator's word. Raises LedgerError
    for a damaged file or ledger; AccountRefusal for another key or ledger, or if released days could be drawn again.
    """
    backup = read_backup(path)
    location.key.parent.mkdir(parents=True, exist_ok=True)
    with locked(location.key.parent):
        key, has_head = None, location.head.exists()
        with suppress(AccountRefusal):
            key = read_key(location.key).key.hex()
        if key not in (None, backup.header.key):
            raise AccountRefusal(
                f"the key file {location.key} holds another key than the backup: name another file with --key"
            )
        signature = signature_of(secret_of(backup.header.key, "the backup"))
        book = Ledger(location.url, location.head, signature)
        genesis = book.hash_of(sequence=1) if book.exists() else ""  # hash of an existing ledger's first entry
        sequence, newest_hash = backup.last
        if genesis and genesis != backup.genesis:
            raise AccountRefusal("another ledger is in this place: restore to a place without one (--ledger)")
        if genesis and book.hash_of(sequence) != newest_hash:
            raise LedgerError("the ledger lacks entries of the backup: move the ledger away, then restore again")
        # An existing ledger may have more entries than the backup: then these are what was released.
        current = backup.with_entries(list(book.entries())) if genesis else backup
        if not (has_head and _is_newest(location.head, signature, current)):
            _check_nothing_since(current, results, nothing_since=nothing_since)
        if not genesis:  # parts are written only now that existing ones have matched
            book.create()
            try:
                book.fill(iter(backup.entries))
            finally:
                book.discard()  # removes the ledger if filling failed, so that it has no entry
        if not has_head:
            Head(location.head, signature).write(current.header.head)
        if key is None:
            write_key(location.key, backup.header.key)
        book.verify()
    existed = {"ledger": bool(genesis), "head": has_head, "key": key is not None}
    return backup, [name for name, is_there in existed.items() if not is_there]


def _is_newest(path: Path, signature: Signature, backup: Backup) -> bool:
    """Checks whether the head remembers the backup's newest entry; a later one raises AccountRefusal."""
    head = Head(path, signature)
    for account in {entry["account"] for entry in backup.entries}:
        if head.home(account) not in (None, backup.genesis):  # `home`: the genesis of the account's ledger
            raise AccountRefusal(
                f"account {account!r} lives in another ledger that this key file was used with: name that one with "
                "--ledger, or another key file with --key"
            )
    if (remembered := head.read_all().get(backup.genesis)) is None:
        return False
    check_unsigned(remembered, backup.entries, signature)  # refuses an unsigned head once entries record a signed one
    if (missing := remembered["sequence"] - backup.last[0]) > 0:  # [0]: the backup's newest sequence number
        raise AccountRefusal(
            f"the head file {path} remembers {missing:,} entries more than the backup of {backup.header.made} "
            "has: restored, they would be released again with fresh noise, a second look. Restore a newer backup; "
            "without one the account has ended"
        )
    return (remembered["sequence"], remembered["hash"]) == backup.last


def _check_nothing_since(backup: Backup, folders: Sequence[Path], *, nothing_since: bool) -> None:
    """Refuses backups without evidence of holding all releases.

    Evidence are result folders with its newest release and no slot that it lacks; without folders `nothing_since`, the
    operator's word.
    """
    if not folders and nothing_since:
        return
    if not folders:
        raise AccountRefusal(
            f"the backup is of {backup.header.made}, its newest release {backup.newest_text}, and no head file says "
            "that nothing was released since: that would be released again with fresh noise, a second look. Name all "
            "folders that results went to (--results DIR), or confirm it yourself (--nothing-since)"
        )
    bodies = [entry["body"] for entry in backup.entries if entry["kind"] == "account"]
    opened = [msgspec.json.decode(body, type=Account) for body in bodies]
    # Only days and periods are looked up in these timetables, so slots of any length do: 60 minutes.
    clocks = {account.name: Timetable(account.timezone, account.unit, 60) for account in opened}  # type: ignore[arg-type]
    releases = [entry for entry in backup.entries if entry["kind"] == "release"]
    entry_of = {entry["spec_id"]: entry for entry in releases if entry["shard"] != LIVE_COLUMN}  # not of a live slot
    by_periods = {spec_id for spec_id, entry in entry_of.items() if isinstance(decode(entry["body"]), StageUnit)}

    def unit(spec_id: str, is_live: bool, slot_s: int) -> tuple[str, bool, int | str]:
        """Identifies the unit of a slot: the slot itself, or its whole period."""
        if is_live or spec_id not in by_periods:
            return spec_id, is_live, slot_s
        timetable = clocks[entry_of[spec_id]["account"]]
        return spec_id, is_live, timetable.period_of(timetable.day_of(slot_s))

    recorded = {unit(entry["spec_id"], entry["shard"] == LIVE_COLUMN, entry["slot_s"]) for entry in releases}
    published = [
        (unit(spec_id, is_live, slot_s), path)
        for folder in folders
        for spec_id in published_specifications(folder)
        for is_live in (False, True)
        for slot_s, path in published_slots(folder, spec_id, is_live=is_live).items()
    ]
    if unknown := [path for released, path in published if released not in recorded]:
        raise AccountRefusal(
            f"{min(unknown)} was published, but the backup of {backup.header.made} has no record of its slot "
            f"({len(unknown):,} such slots): it would be released again with fresh noise, a second look. Restore a "
            "newer backup; without one the account has ended"
        )
    if (newest := backup.newest) is None:  # nothing was released, nor published as all of that is recorded
        return
    newest_unit = unit(newest["spec_id"], newest["shard"] == LIVE_COLUMN, newest["slot_s"])
    if newest_unit not in {released for released, _ in published}:
        raise AccountRefusal(
            f"no folder of --results holds the backup's newest release, {backup.newest_text}: they cannot show that "
            "nothing was released since. Name the folders that results went to"
        )


def read_backup(path: Path) -> Backup:
    """Reads a backup. Raises LedgerError if it is foreign or damaged."""
    try:
        data = read_regular(path, MOST_BYTES)
    except OSError as error:
        raise LedgerError(f"the backup {path} cannot be read: {error.strerror}") from None
    if data.startswith(_FORMAT_NAME + b", encrypted"):
        raise LedgerError(f"the backup {path} was encrypted by version 0.3: docs/runbook.md says how to make it plain")
    if not data.startswith(_FIRST_LINE):
        raise LedgerError(f"{path} is no backup of hatstream")
    packed = data.removeprefix(_FIRST_LINE)
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(packed)) as file:
            limit = min(MOST_BYTES, MOST_EXPANDED * len(packed) + (1 << 20))  # and 1 MiB for the header
            content = file.read(limit + 1)
        if len(content) > limit:
            raise ValueError
        first, *lines = content.splitlines()
        backup = Backup(msgspec.json.decode(first, type=_BackupHeader), [msgspec.json.decode(line) for line in lines])
        _, newest_hash = backup.last
        if backup.header.head[backup.genesis]["hash"] != newest_hash:  # genesis: the first hash, a ledger's name
            raise ValueError
    except (*_DAMAGE_ERRORS, IndexError):
        raise LedgerError(f"the backup {path} is damaged: nothing of it was taken") from None
    return backup
