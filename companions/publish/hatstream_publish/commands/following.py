"""Keeps a published folder current, until stopped."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from hatstream.api import InputError, UsageError, note, write_whole

if TYPE_CHECKING:
    from hatstream.api import Specification
    from hatstream_publish.edition.site import Site

LOOK_EVERY_S = 2.0
PAUSE_FACTOR = 5.0  # so many times what an update took passes before the next one, which leaves the machine to others


def follow(site: Site, stop: threading.Event, say: Callable[[str], None] = note) -> None:
    """Updates a site whenever its files change, and once more at the stop.

    A fault of an update is reported once until it changes: the folder stays unchanged, and the next look tries again.
    An unusable file is named once, when two looks find the same.
    """
    fault, is_last = "", False  # of the update before; whether this is the update at the stop
    skipped, named = dict[str, str](), set[str]()  # reason by file at the look before; files that were named
    while not is_last:
        is_last = stop.is_set()
        start_s = time.monotonic()
        try:
            if site.files.look() or fault:  # files changed, or the last update failed
                changes = site.update()
                if changes and changes.changed:
                    pairs = changes.rows.items()
                    rows = ", ".join(f"{name} {shown:,} of {total:,} rows" for name, (shown, total) in pairs)
                    say(f"{site.folder}: {len(changes.changed)} of {len(changes.files)} files changed; {rows}")
            for path, why in site.files.skipped.items():
                if path not in named and (is_last or skipped.get(path) == why):  # at two looks: it may be half-written
                    say(f"left out: {path}: {why}")
                    named.add(path)
            skipped = dict(site.files.skipped)
            named &= skipped.keys()  # a file that was usable meanwhile is named again
            fault = ""
        except Exception as error:  # noqa: BLE001 - whatever it is: the public's folder is whole, and stays
            text = str(error) or type(error).__name__
            if text != fault:
                say(f"{site.folder} stays as it is, and is tried again: {text}")
            fault = text
        stop.wait(max(LOOK_EVERY_S, PAUSE_FACTOR * (time.monotonic() - start_s)))


@contextmanager
def beside_run(spec: Specification, spec_path: Path, location: Any, results: Path, folder: Path) -> Iterator[None]:
    """Updates a published folder while a run writes results.

    location: the account's ledger and key files, an AccountLocation. Raises UsageError where `publish` has not made the
    folder.
    """
    from hatstream_publish.commands.publish import site_of

    site = site_of(spec, spec_path, location, str(results), folder, read_options(folder), follows=True)
    stop = threading.Event()
    thread = threading.Thread(target=follow, args=(site, stop), name="site", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def options_path(folder: Path) -> Path:
    """Returns the path of `publish`'s options beside a folder."""
    return folder.absolute().with_name(f".{folder.name}.json")


def write_options(folder: Path, options: Mapping[str, Any]) -> None:
    """Stores a site's options privately, since they hold paths. Raises OSError."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    write_whole(options_path(folder), msgspec.json.encode(options, enc_hook=str), mode=0o600)


def read_options(folder: Path) -> dict[str, Any]:
    """Reads `publish`'s options. Raises UsageError for other folders, InputError for a damaged file."""
    try:
        return msgspec.json.decode(options_path(folder).read_bytes(), type=dict[str, Any])
    except FileNotFoundError:
        raise UsageError(
            f"{folder} was not made by `hatstream publish`: run it once with --output {folder}, so that title, "
            "publisher and licence are known"
        ) from None
    except (OSError, msgspec.MsgspecError) as error:
        raise InputError(f"{options_path(folder)} cannot be read: {type(error).__name__}") from None
