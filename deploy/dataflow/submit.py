"""Submits the stream to Google Dataflow, as `hatstream stream` does to Flink. It has not been run there: see README.md.

    python deploy/dataflow/submit.py --spec S.toml --kafka BROKERS --topic T --kafka-output BROKERS/HATS \
        --ledger URL --key FILE BEAM_OPTION ..
"""

import argparse
import tempfile
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions

from pipelines.account import location
from pipelines.job import Outputs
from pipelines.runs.stream import stream as streaming
from pipelines.specification import load
from transforms.sources.topic import Topic

NO_FILES = ()
"""A worker's disk goes with the worker: the rows go to the topic alone."""


def prepared(options: argparse.Namespace) -> streaming.Stream:
    """The stream that the options ask for, after the checks that come before a submission."""
    spec = load(options.spec)
    start_s = streaming.first_slot(spec, options.start, datetime.now(UTC))
    streaming.check_endless(spec, start_s)
    place = location.find(options.ledger, options.key)
    source = streaming.kafka_source(spec, Topic(brokers=options.kafka, name=options.topic), start_s)
    brokers, _, name = options.kafka_output.partition("/")
    outputs = Outputs(Path(tempfile.gettempdir()), NO_FILES, Topic(brokers=brokers, name=name))
    return streaming.prepare(spec, start_s, source, place, outputs)


def parsed(arguments: Sequence[str] | None) -> tuple[argparse.Namespace, list[str]]:
    """Our options, and the rest, which is Beam's."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--spec", required=True, type=Path)
    for name in ("--kafka", "--topic", "--kafka-output", "--ledger"):
        parser.add_argument(name, required=True)
    parser.add_argument("--key", required=True, type=Path)
    parser.add_argument("--from", dest="start", metavar="TIME")
    return parser.parse_known_args(arguments)


def pipeline(arguments: Sequence[str] | None = None) -> beam.Pipeline:
    """The whole pipeline, ready to be submitted."""
    options, for_beam = parsed(arguments)
    p = beam.Pipeline(options=PipelineOptions(for_beam))
    prepared(options).build(p)
    return p


if __name__ == "__main__":
    pipeline().run()
