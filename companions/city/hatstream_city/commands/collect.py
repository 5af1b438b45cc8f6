"""`hatstream collect`: polls an address and stores new messages."""

import math
import os
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click
import msgspec

from hatstream.api import InputError, UsageError, asked_to_stop, note, option, write_whole

STOP_S = 4.0  # from a signal to the end, whatever the address, the brokers or the disk do
FIRST_WAIT_S, LONGEST_WAIT_S = 5.0, 300.0  # between two tries to store a message
FAILED = 4  # the exit code where no question was answered
START_S, DELIVERY_S = 20.0, 60.0  # most seconds for a broker's first answer, and until a message is confirmed
MESSAGE_BYTES = 64 << 20  # largest message that Kafka's client sends; a feed's answer has no more
Store = Callable[[bytes], None]  # stores a new message completely, or raises InputError or OSError


def _finite(_context: click.Context, _parameter: click.Parameter, value: float | None) -> float | None:
    """Refuses nan, which a comparison lets pass, and inf."""
    if value is not None and not math.isfinite(value):
        raise click.BadParameter(f"{value} is not a finite number")
    return value


def _headers(_context: click.Context, _parameter: click.Parameter, values: tuple[str, ...]) -> dict[str, str]:
    """Splits texts like "X-Api-Key: secret" into names and values."""
    pairs = [value.partition(":") for value in values]
    if any(not name.strip() or not colon for name, colon, _ in pairs):
        raise click.BadParameter("a header must look like 'X-Api-Key: secret'")
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

    Requests are conditional (ETag, Last-Modified). Messages that decode are kept, none twice in a row. Each failure in
    a row doubles the wait; a request times out after 60 s. Redirects must keep scheme, host and port. Ctrl-C ends it.

    \b
    Example:
      hatstream collect --url https://agency.example/vehicle-positions.pb --every 15 --output feed
    """
    from hatstream_city.collect.poll import Poller

    if not url.startswith(("http://", "https://")):
        raise UsageError("--url must begin with http:// or https://")  # it is not shown: it may hold a key
    if (output is None) == (topic is None):
        raise UsageError("give either --output or --kafka")
    with asked_to_stop(STOP_S) as stop:  # set by a signal, STOP_S seconds after which the process is ended
        store = _in_topic(topic) if output is None else _in_folder(output)
        poller = Poller(url, every_s, headers)
        counts, noted_s = Counter[str](), time.monotonic()  # by outcome; the time of the last progress line
        until_s = noted_s + (math.inf if for_s is None else for_s)
        while not stop.is_set() and time.monotonic() < until_s:
            outcome, message = poller.poll(stop.is_set)
            if stop.is_set() and outcome == "failed":
                break  # the signal ended the request: no failure of the address
            counts[outcome] += 1
            if outcome == "new":
                _store(store, message, stop, until_s)
            if outcome == "failed":
                click.echo(f"{poller.reason}; asking again in {poller.wait_s():.0f} s", err=True)
            if time.monotonic() - noted_s >= 60:
                note(_line(counts))
                noted_s = time.monotonic()
            stop.wait(min(poller.wait_s(), max(until_s - time.monotonic(), 0)))
    totals = {name: counts[name] for name in ("new", "unchanged", "failed")}
    click.echo(msgspec.json.encode(totals).decode() if as_json else _line(counts))
    code = 0 if counts["new"] or counts["unchanged"] else FAILED
    if stop.is_set():
        try:
            sys.stdout.flush()
        except OSError:  # nobody reads it any more
            code = code or FAILED
        os._exit(code)  # Python's clean-up would wait for threads, such as of a broker that is away, or for the disk
    return code


def _in_folder(folder: Path) -> Store:
    """Returns a function that stores a message as file, named by UTC arrival."""
    folder.mkdir(parents=True, exist_ok=True)
    name = "vehicle-positions-{:%Y%m%dT%H%M%S.%fZ}.pb"
    return lambda message: write_whole(folder / name.format(datetime.now(UTC)), message)


def _in_topic(topic: Any) -> Store:
    """Returns a function that sends messages to a topic, confirmed. Raises InputError."""
    from confluent_kafka import KafkaException, Producer  # an extra

    settings = {
        "bootstrap.servers": topic.brokers,
        "enable.idempotence": True,
        "message.max.bytes": MESSAGE_BYTES,
        "delivery.timeout.ms": round(DELIVERY_S * 1_000),
        "log_level": 2,  # of syslog's levels: the client's own lines would repeat while a broker is away
    }
    producer = Producer(settings)
    try:
        exists = topic.name in producer.list_topics(timeout=START_S).topics
    except KafkaException as error:
        raise InputError(f"{topic}: no answer from a broker ({error.args[0].str()})") from None
    if not exists:
        raise InputError(f"{topic} does not exist: create it")

    def store(message: bytes) -> None:
        errors: list[Any] = []  # None where the message was delivered
        try:
            producer.produce(topic.name, message, on_delivery=lambda error, _message: errors.append(error))
            unsent = producer.flush(DELIVERY_S + 5)  # longer than the client itself tries
        except KafkaException as error:
            raise InputError(f"topic {topic.name} does not take the message: {error.args[0].str()}") from None
        if any(errors) or unsent:
            raise InputError(f"topic {topic.name}: no broker confirmed the message")

    return store


def _store(store: Store, message: bytes, stop: threading.Event, until_s: float) -> None:
    """Stores a message, with retries until `until_s` of the monotonic clock."""
    wait_s = FIRST_WAIT_S
    while True:
        try:
            return store(message)
        except (InputError, OSError) as error:
            if stop.is_set() or time.monotonic() >= until_s:
                raise
            text = str(error)
            if isinstance(error, OSError) and error.strerror:
                text = f"{error.filename}: {error.strerror}"
            click.echo(f"{text}; the message waits; next attempt in {wait_s:.0f} s", err=True)
            stop.wait(min(wait_s, max(until_s - time.monotonic(), 0)))
            wait_s = min(2 * wait_s, LONGEST_WAIT_S)


def _line(counts: Counter[str]) -> str:
    return f"{counts['new']:,} messages kept, {counts['unchanged']:,} unchanged, {counts['failed']:,} failures"
