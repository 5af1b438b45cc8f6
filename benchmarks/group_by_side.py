"""The mean speed of every hexagon and hour by polars, without any privacy. Runs in the environment of polars.

python group_by_side.py FEED.parquet OUT.parquet
"""

import sys

import polars
import polars_h3

UPPER_KMH, RESOLUTION = 65, 7


def group_by(feed, out):
    events = polars.scan_parquet(feed).select(
        cell=polars_h3.latlng_to_cell("lat", "lon", RESOLUTION),
        hour=polars.col("ts").dt.truncate("1h"),
        speed=polars.col("v").clip(0, UPPER_KMH),
    )
    means = events.group_by("cell", "hour").agg(polars.col("speed").mean(), reports=polars.len())
    means.collect(engine="streaming").write_parquet(out)


if __name__ == "__main__":
    group_by(*sys.argv[1:])
