"""Updates a published folder, with the pointer last."""

import fcntl
import hashlib
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from hatstream.api import InputError, UsageError, write_whole

PACKAGE, SUMS, LATEST = "datapackage.json", "SHA256SUMS", "latest.json"
MAPS = "map"  # folder of the map's data; files are named by a digest of their content
_STAGING_FOLDER = ".staging"
SECRETS = ("*.key", "*.head", "*.sqlite", "*.sqlite-*", "*.db", "*.learned", "*.backup")
"""What must not lie where the public reads."""


@dataclass
class FolderUpdate:
    """Update of a folder, staged, and moved once all files are written."""

    folder: Path
    former: Mapping[str, str] = field(default_factory=dict)  # SHA-256 of files that this process wrote earlier
    changed: set[str] = field(default_factory=set)  # names of staged files
    digests: dict[str, str] = field(default_factory=dict)  # SHA-256 of every file of the folder, by name

    def put(self, name: str, content: bytes) -> str:
        """Stages a file unless it is unchanged; returns its digest. Raises OSError."""
        digest = self.digests[name] = hashlib.sha256(content).hexdigest()
        # What an earlier update of this process wrote is compared by its size alone.
        path, is_known = self.folder / name, self.former.get(name) == digest
        with suppress(OSError):
            if path.is_file() and path.stat().st_size == len(content) and (is_known or path.read_bytes() == content):
                return digest
        path = self.folder / _STAGING_FOLDER / name
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, content, mode=0o644)
        self.changed.add(name)
        return digest

    def commit(self) -> None:
        """Moves staged files, the pointer last, then deletes obsolete ones. Raises OSError."""
        sums = self.folder / SUMS
        # Lines as of `sha256sum`: a checksum, two blanks, a name.
        lines = sums.read_text("utf-8", "replace").splitlines() if sums.is_file() else []
        former = {line.partition("  ")[2] for line in lines}
        self.put(SUMS, "".join(f"{digest}  {name}\n" for name, digest in sorted(self.digests.items())).encode())
        # The package comes first, which marks a published folder, and the pointer last.
        for name in sorted(self.changed, key=lambda name: (name == LATEST, name == SUMS, name != PACKAGE)):
            (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
            os.replace(self.folder / _STAGING_FOLDER / name, self.folder / name)
        for name in filter(None, former - self.digests.keys()):
            # Neither maps' data, which open pages may still fetch, nor what lies outside of the folder.
            if not name.startswith((f"{MAPS}/", "/")) and ".." not in Path(name).parts:
                (self.folder / name).unlink(missing_ok=True)
        maps = sorted((self.folder / MAPS).glob("*.bin"), key=lambda path: path.stat().st_mtime_ns, reverse=True)
        for path in maps[3:]:  # three stay, as open pages may still ask for them
            path.unlink(missing_ok=True)


@contextmanager
def updating(folder: Path, former: Mapping[str, str]) -> Iterator[FolderUpdate]:
    """Opens a published or new folder, locked, for one update. former: see `FolderUpdate`.

    Raises UsageError for foreign content, keys or ledgers, InputError during another process's update, and OSError.
    """
    names = {path.name for path in folder.iterdir()} if folder.exists() else set[str]()
    if PACKAGE not in names and not names <= {_STAGING_FOLDER}:  # staged files alone are of a first update that died
        raise UsageError(f"{folder} holds files that `publish` did not write: name another folder")
    refuse_secrets(folder)
    folder.mkdir(parents=True, exist_ok=True)
    staging, handle = folder / _STAGING_FOLDER, os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(staging, ignore_errors=True)
        staging.mkdir(mode=0o700)
    except BlockingIOError:
        os.close(handle)
        raise InputError(f"another process keeps {folder} up to date") from None
    try:
        yield FolderUpdate(folder, former)
    finally:
        shutil.rmtree(staging, ignore_errors=True)
        with suppress(OSError):
            folder.rmdir()  # fails unless it is empty: new, and its update failed
        os.close(handle)


def refuse_secrets(folder: Path) -> None:
    """Raises UsageError for ledgers or keys in a public folder."""
    for pattern in SECRETS:
        if secret := next(folder.rglob(pattern), None):
            raise UsageError(f"{secret} lies in the folder for the public: keep ledgers and keys elsewhere")
