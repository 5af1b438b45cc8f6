"""Options that several commands share."""

import re
from pathlib import Path

import click

from pipelines.commands.terminal import console as console
from pipelines.commands.terminal import progress_bars as progress_bars
from transforms.sinks.files import FORMATS
from transforms.sources.kafka_partition import Topic


def kafka_topic(_context: click.Context, _parameter: click.Parameter, value: str | None) -> Topic | None:
    if value is None:
        return None
    found = re.fullmatch(r"([^/\s]+:\d+)/([A-Za-z0-9._-]{1,249})", value)
    if found is None:
        raise click.BadParameter(f"{value!r} is not like host:9092,other:9092/topic")
    return Topic(brokers=found[1], name=found[2])


spec_option = click.option(
    "--spec", "spec_path", required=True, type=click.Path(path_type=Path, dir_okay=False), help="The specification."
)
ledger_option = click.option(
    "--ledger",
    metavar="URL",
    help="The ledger: a path, or an sqlite:/// or postgresql:// URL. "
    "[default: $HATSTREAM_LEDGER, then the state folder]",
)
key_option = click.option(
    "--key",
    "key_path",
    type=click.Path(path_type=Path, dir_okay=False),
    help="The account's secret key file. [default: beside the ledger's file, else the state folder]",
)
kafka_output_option = click.option(
    "--kafka-output",
    metavar="BROKERS/TOPIC",
    callback=kafka_topic,
    help="A Kafka topic, as host:port,../name, that takes every released row as one JSON message too.",
)


def _formats(_context: click.Context, _parameter: click.Parameter, value: str) -> tuple[str, ...]:
    chosen = tuple(dict.fromkeys(part.strip() for part in value.split(",")))
    for name in chosen:
        if name not in FORMATS:
            raise click.BadParameter(f"{name!r} is not one of {', '.join(FORMATS)}")
    return chosen


formats_option = click.option(
    "--formats", default="parquet", show_default=True, callback=_formats, help=f"Of {','.join(FORMATS)}."
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON document for programs.")
