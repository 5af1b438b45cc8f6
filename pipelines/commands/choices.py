"""What options offer, said here so that `--help` imports nothing of what is done: a test holds it against the rooms."""

FORMATS = ("parquet", "avro", "csv", "jsonl", "geojson")
FURTHER = ("times", "counts", "traffic")
"""Further columns of rows."""
PRODUCTS = (
    "cell-day", "cell-part", "parent-hour", "city-hour", "place-standing", "place-day", "place-part", "place-slot"
)  # fmt: skip
MOST_DAYS = 366
"""Most days to come that are forecast."""
