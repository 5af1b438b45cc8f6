"""`hatstream serve`: a read-only server over result files, with a map that follows and an interface for programs."""

from __future__ import annotations

import signal
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from hatstream.api import InputError, option
from hatstream_publish.commands.answer import answer
from hatstream_publish.commands.surroundings import credit_option, read_surroundings, surroundings_options, tiles_option

if TYPE_CHECKING:
    from hatstream_publish.pages.map import MapTexts

BACKLOG = 256
_SETTINGS: Mapping[str, Any] = {
    "log_level": "warning",
    "access_log": False,
    "limit_concurrency": 512,
    "timeout_keep_alive": 15,
    "timeout_graceful_shutdown": 5,
    "server_header": False,
}


def _texts(title: str, claim: str | None, spec_path: Path | None, tiles: str | None, credit: str) -> MapTexts:
    from hatstream_publish.commands.map import claim_of
    from hatstream_publish.pages.map import MapTexts

    return MapTexts(title, claim or claim_of(spec_path), tiles, credit)


@click.command()
@click.option(
    "--output",
    "folder",
    required=True,
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="The folder of result files: of `release`, `stream` or `publish`.",
)
@click.option("--host", default="127.0.0.1", show_default=True, help="Where to listen; a proxy in front speaks TLS.")
@click.option("--port", default=8080, show_default=True, type=click.IntRange(0, 65_535), help="0: any that is free.")
@click.option(
    "--slots", default=168, show_default=True, type=click.IntRange(1, 100_000), help="Newest ones on the map."
)
@click.option("--title", default="Speeds of vehicles", show_default=True, help="What the page is called.")
@click.option(
    "--spec",
    "spec_path",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Their specification: the page then says whom its account protects, and each of its limits.",
)
@click.option("--claim", help="A sentence on what protects the vehicles, in place of that.")
@tiles_option
@credit_option
@surroundings_options
@option("json")
def serve(
    folder: Path,
    host: str,
    port: int,
    slots: int,
    places_path: Path | None,
    ground_path: Path | None,
    as_json: bool,
    **texts: Any,
) -> int:
    """Serve what is in a folder of result files, and what comes into it, until it is stopped.

    It reads nothing but that folder, and the specification if one is named, and changes nothing; it needs no ledger
    and no key, and refuses a folder that holds one. /openapi.json says what can be asked.

    \b
    Example:
      hatstream serve --output out --places town-places.geojson --ground town-ground.geojson
    """
    import uvicorn

    from hatstream_publish.serve.app import application
    from hatstream_publish.serve.connections import BoundedConnection
    from hatstream_publish.serve.snapshot import Follower

    follower = Follower(folder, read_surroundings(places_path, ground_path), slots)
    follower.refuse_secrets()
    config = uvicorn.Config(application(follower, _texts(**texts)), http=BoundedConnection, **_SETTINGS)
    listening = _listening(host, port)
    shown = f"[{host}]" if ":" in host else host
    address = f"http://{shown}:{listening.getsockname()[1]}/"
    answer(as_json, {"address": address, "folder": str(folder)}, f"{address} serves {folder}; Ctrl-C ends it")
    for ending in (signal.SIGINT, signal.SIGTERM):
        signal.signal(ending, _stay)  # what uvicorn raises again when it has ended
    uvicorn.Server(config).run(sockets=[listening])
    return 0


def _stay(_signal: int, _frame: object) -> None:
    """Does nothing: being told to end is how a server ends well."""


def _listening(host: str, port: int) -> socket.socket:
    """Raises InputError where the address is taken, or none of this machine's."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listening = socket.create_server((host, port), family=family, backlog=BACKLOG)
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return listening
    except OSError as error:
        raise InputError(
            f"{host}:{port} cannot be listened on ({error.strerror or type(error).__name__}): is it taken?"
        ) from None
