"""`hatstream collect`: polls an address and stores new messages."""

from __future__ import annotations

import math
import os
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from hatstream.api import InputError, UsageError, asked_to_stop, note, option

if TYPE_CHECKING:
    from hatstream_city.collect.keep import Keep

SAY_EVERY_S = 60.0
STOP_S = 4.0
"""From a signal to the end, whatever the address, the brokers or the disk do."""
FIRST_WAIT_S, LONGEST_WAIT_S = 5.0, 300.0
"""Between two tries to keep a message."""
FAILED = 4
"""The exit code where no question was answered."""


def _finite(_context: click.Context, _parameter: click.Parameter, value: float | None) -> float | None:
    """Refuses nan, which a comparison lets pass, and inf."""
    if value is not None and not math.isfinite(value):
        raise click.BadParameter(f"{value} is no finite number.")
    return value


def _headers(_context: click.Context, _parameter: click.Parameter, values: tuple[str, ...]) -> dict[str, str]:
    pairs = [value.partition(":") for value in values]
    if any(not name.strip() or not equals_sign for name, equals_sign, _ in pairs):
        raise click.BadParameter("a header is like 'X-Api-Key: secret'")
    return {name.strip(): text.strip() for name, _, text in pairs}


@click.command()
@click.option("--url", required=True, help="Address of the feed: http:// or https://.")
@click.option(
    "--every",
    "every_s",
    default=30.0,
    show_default=True,
    type=click.FloatRange(1, 86_400),
    callback=_finite,
    help="Seconds between requests.",
)
@option("folder", required=False, help="Folder for a file per message.")
@option("kafka", help="A Kafka topic, instead of a folder.")
@click.option("--header", "headers", multiple=True, callback=_headers, help="HTTP header of each request; may repeat.")
@click.option(
    "--for", "for_s", type=click.FloatRange(0), callback=_finite, help="Seconds until it ends. [default: never]"
)
@option("json")
def collect(
    url: str,
    every_s: float,
    output: Path | None,
    topic: Any,
    headers: dict[str, str],
    for_s: float | None,
    as_json: bool,
) -> int:
    """Poll a GTFS-realtime address and keep each new message.

    Requests carry ETag and Last-Modified. Messages that decode are kept, none twice in a row. Each failure in a row
    doubles the wait; a request has 60 s. Redirects must keep scheme, host and port. Ctrl-C ends it.

    \b
    Example:
      hatstream collect --url https://agency.example/vehicle-positions.pb --every 15 --output feed
    """
    from hatstream_city.collect.keep import in_folder, in_topic
    from hatstream_city.collect.poll import Poller

    if not url.startswith(("http://", "https://")):
        raise UsageError(f"--url must begin with http:// or https://; it is {url[:60]!r}")
    if (output is None) == (topic is None):
        raise UsageError("give either --output or --kafka")
    keeping = in_topic(topic) if output is None else in_folder(output)
    with asked_to_stop(STOP_S) as stop, keeping as keep:
        poller = Poller(url, every_s, headers)
        counts, noted_s = Counter[str](), time.monotonic()
        until = noted_s + (float("inf") if for_s is None else for_s)
        while not stop.is_set() and time.monotonic() < until:
            outcome, message = poller.poll(stop.is_set)
            if stop.is_set() and outcome == "failed":
                break  # it was given up
            counts[outcome] += 1
            if outcome == "new":
                _keep(keep, message, stop, until)
            if outcome == "failed":
                click.echo(f"{poller.reason}; asking again in {poller.wait_s():.0f} s", err=True)
            if time.monotonic() - noted_s >= SAY_EVERY_S:
                note(_line(counts))
                noted_s = time.monotonic()
            stop.wait(min(poller.wait_s(), max(until - time.monotonic(), 0)))
    totals = {name: counts[name] for name in ("new", "unchanged", "failed")}
    click.echo(msgspec.json.encode(totals).decode() if as_json else _line(counts))
    code = 0 if counts["new"] or counts["unchanged"] else FAILED
    if stop.is_set():
        _end_at_once(code)
    return code


def _end_at_once(code: int) -> None:
    """Ends the process without Python's clean-up; output is flushed."""
    try:
        sys.stdout.flush()
    except OSError:  # nobody reads it any more
        code = code or FAILED
    os._exit(code)


def _keep(keep: Keep, message: bytes, stop: threading.Event, until: float) -> None:
    """Stores a message, with retries until the run ends."""
    wait_s = FIRST_WAIT_S
    while True:
        try:
            return keep(message)
        except (InputError, OSError) as error:
            if stop.is_set() or time.monotonic() >= until:
                raise
            click.echo(f"{_said(error)}; the message waits; next attempt in {wait_s:.0f} s", err=True)
            stop.wait(min(wait_s, max(until - time.monotonic(), 0)))
            wait_s = min(2 * wait_s, LONGEST_WAIT_S)


def _said(error: Exception) -> str:
    return f"{error.filename}: {error.strerror}" if isinstance(error, OSError) and error.strerror else str(error)


def _line(counts: Counter[str]) -> str:
    return f"{counts['new']:,} messages kept, {counts['unchanged']:,} unchanged, {counts['failed']:,} failures"
