"""The road of local reports: what vehicles perturb themselves, and what is fused of it.

Neighbours differ in one vehicle's speeds: which services it answers, where and when is told. Noise is drawn by the
vehicles, so nothing stands in the ledger: with the same draws only the vehicle's own reports may differ, and all that
is fused is a function of the reports.
"""

import csv
import json
from itertools import cycle
from typing import Any

from tests.kit import fusion_city
from tests.noninterference import feeds
from tests.noninterference.world import Feed, Town, command

SPEC = fusion_city.spec(
    services=fusion_city.SERVICES | {"signals": 'mechanism = "sr", epsilon = 1'}, zone="Asia/Kolkata", by_cell=True
)
ALONE = "T04:30:00Z"  # A slot in which the vehicle is alone, 10:00 local time
IN_RANGE = {"pm": (0.25, -0.5), "laplace": (0.25, -0.5), "sw": (0.25, 0.5)}


STRANGE = [
    {"report": 10**400}, {"report": "much"}, {"report": True}, {"report": 1e9}, {"epsilon": "1"}, {"epsilon": 7},
    {"service": 5}, {"mechanism": None}, {"time": 3}, {"time": "never"}, {"user": 2.5}, {"user": None}, {"cell": "x"},
    {"cell": 1.5}, {"report": float("nan")},
]  # fmt: skip
"""What takes the place of a good value in a report that nobody takes then."""
Rows = list[dict[str, Any]]


def perturbed_and_fused(town: Town, feed: Feed) -> None:
    rows = perturbed(town, feed)
    own = {row["user"] for row in rows if row["time"].endswith(ALONE)}
    told = [row | ({"report": ""} if row["user"] in own else {}) for row in rows]
    town.show("reports of others, and what the vehicle's say besides", "\n".join(map(str, told)))
    fused(town, "csv", [row | {"report": report} for row, report in zip(rows, masks(rows), strict=True)])


def fused_beside_a_stranger(town: Town, feed: Feed) -> None:
    """Reports in JSON lines; those of the vehicle, where there are some, are refused, before and among the others."""
    others = [report for report in feed if report.vehicle != "PLATE-X"]
    rows = [row | {"report": float(row["report"]), "epsilon": float(row["epsilon"])} for row in perturbed(town, others)]
    if len(others) < len(feed):
        strange = [rows[0] | {"user": "stranger"} | change for change in STRANGE]
        rows = [*strange[:4], *rows[:9], *strange[4:], *rows[9:]]
    fused(town, "jsonl", rows)


def perturbed(town: Town, feed: Feed) -> Rows:
    key = town.folder / "reports.key"
    key.write_text("ab" * 32)
    key.chmod(0o600)
    pattern, output = feeds.write(feed, town.folder / "in", "csv"), town.folder / "reports.csv"
    given = ("--spec", town.folder / "spec.toml", "--input", pattern, "--key", key, "--output", output)
    town.run("perturb", *given)
    town.run("perturb", *given, "--json")
    with output.open() as file:
        return list(csv.DictReader(file))


def masks(rows: Rows) -> list[str]:
    """For each row a report that its mechanism can give, whatever the vehicle's speed."""
    ends = {row["report"] for row in rows if row["mechanism"] == "sr"}  # a mechanism of two values
    reports = {name: cycle(map(str, values)) for name, values in (IN_RANGE | {"sr": sorted(ends)}).items()}
    return [next(reports[row["mechanism"]]) for row in rows]


def fused(town: Town, layout: str, rows: Rows) -> None:
    """What is fused of the reports; how many were refused is told, and may differ."""
    path, spec = town.folder / f"told.{layout}", town.folder / "spec.toml"
    spec.write_text(SPEC.replace('layout = "csv"', f'layout = "{layout}"', 1))
    with path.open("w", newline="") as file:
        if layout == "jsonl":
            file.writelines(json.dumps(row) + "\n" for row in rows)
        else:
            writer = csv.DictWriter(file, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)
    for formats in ("csv,parquet", "jsonl,geojson"):
        given = ("--spec", spec, "--input", path, "--output", town.folder / "public", "--formats", formats)
        code, _, _ = command("fuse", *given)
        town.show("exit code", code)
