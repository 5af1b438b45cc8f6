"""Mean values by public key with PipelineDP; runs in an environment of its own, see compare.py and compare_keys.py.

Arguments: epsilon, the bounds of values, and a Parquet file a day. Prints JSON: by bounds on contributions, each day's
values of all keys.
"""

import itertools
import json
import logging
import sys

import pipeline_dp
import pyarrow.parquet as pq

logging.getLogger().setLevel(logging.CRITICAL)

HATS_OF_A_VEHICLE, REPORTS_IN_A_HAT = (1, 2, 4, 8, 16, 32), (1, 2, 4)
DELTA = 1e-6


def means(rows, hats, epsilon, bounds, most_hats, most_reports):
    """Of all HATs, which are public; cut to the bounds."""
    budget = pipeline_dp.NaiveBudgetAccountant(total_epsilon=epsilon, total_delta=DELTA)
    engine = pipeline_dp.DPEngine(budget, pipeline_dp.LocalBackend())
    params = pipeline_dp.AggregateParams(
        noise_kind=pipeline_dp.NoiseKind.GAUSSIAN,
        metrics=[pipeline_dp.Metrics.MEAN],
        max_partitions_contributed=most_hats,
        max_contributions_per_partition=most_reports,
        min_value=bounds[0],
        max_value=bounds[1],
    )
    extractors = pipeline_dp.DataExtractors(
        privacy_id_extractor=lambda row: row[0],
        partition_extractor=lambda row: row[1],
        value_extractor=lambda row: row[2],
    )
    aggregated = engine.aggregate(rows, params, extractors, public_partitions=list(range(hats)))
    budget.compute_budgets()
    values = [0.0] * hats
    for hat, metrics in aggregated:
        values[hat] = min(max(float(metrics.mean), bounds[0]), bounds[1])
    return values


def main(epsilon, bounds, paths):
    answers = {}
    days = []
    for path in paths:
        table = pq.read_table(path)
        columns = (table[name].to_pylist() for name in ("vehicle", "hat", "value"))
        days.append((list(zip(*columns, strict=True)), int(table.schema.metadata[b"hats"])))
    for most_hats, most_reports in itertools.product(HATS_OF_A_VEHICLE, REPORTS_IN_A_HAT):
        name = f"{most_hats} keys a vehicle, {most_reports} reports in each"
        answers[name] = [means(rows, hats, epsilon, bounds, most_hats, most_reports) for rows, hats in days]
    print(json.dumps(answers))


if __name__ == "__main__":
    main(float(sys.argv[1]), (float(sys.argv[2]), float(sys.argv[3])), sys.argv[4:])
