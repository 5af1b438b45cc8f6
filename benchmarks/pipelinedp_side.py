"""Mean speeds by hexagon and hour with PipelineDP on Beam; runs in an environment of its own, see pipelinedp.py.

Arguments: a Parquet file of benchmarks/throughput.py. Prints one JSON document.
"""

import json
import logging
import resource
import sys
import time

import apache_beam as beam
import h3
import pipeline_dp
import pyarrow.parquet as pq
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.portability.fn_api_runner.fn_runner import FnApiRunner

logging.getLogger().setLevel(logging.CRITICAL)


def rows_of(path):
    for batch in pq.ParquetFile(path).iter_batches(columns=["bus", "ts", "lat", "lon", "v"]):
        columns = (batch.column(name).to_pylist() for name in ("bus", "ts", "lat", "lon", "v"))
        for bus, moment, lat, lon, speed in zip(*columns, strict=True):
            yield bus, (h3.latlng_to_cell(lat, lon, 7), moment.hour), speed


def main(path):
    started = time.process_time()
    budget = pipeline_dp.NaiveBudgetAccountant(total_epsilon=1, total_delta=1e-6)
    engine = pipeline_dp.DPEngine(budget, pipeline_dp.BeamBackend())
    params = pipeline_dp.AggregateParams(
        noise_kind=pipeline_dp.NoiseKind.LAPLACE,
        metrics=[pipeline_dp.Metrics.MEAN],
        max_partitions_contributed=480,  # these bounds drop nothing: routes of 20 cells, 24 hours
        max_contributions_per_partition=1_000,
        min_value=0,
        max_value=65,
    )
    extractors = pipeline_dp.DataExtractors(
        privacy_id_extractor=lambda row: row[0],
        partition_extractor=lambda row: row[1],
        value_extractor=lambda row: row[2],
    )
    counts = []
    with beam.Pipeline(runner=FnApiRunner(), options=PipelineOptions([])) as p:
        rows = p | beam.Create([path], reshuffle=False) | beam.FlatMap(rows_of)
        means = engine.aggregate(rows, params, extractors)
        budget.compute_budgets()
        _ = means | beam.combiners.Count.Globally() | beam.Map(counts.append)
    cpu_s, peak_kb = time.process_time() - started, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(json.dumps({"cpu_s": cpu_s, "peak_mb": peak_kb * 1024 / 1e6}))


if __name__ == "__main__":
    main(sys.argv[1])
