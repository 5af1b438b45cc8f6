"""Steps of demonstrations: commands, and comparisons with the truth.

`run` calls a command of hatstream and reads its JSON. Days are counted rows, from which `truth_by` computes true means;
`joined_with_truth` puts these beside released rows. A class is of HATs by number of vehicles.
"""

import json
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from importlib.resources import files
from pathlib import Path
from typing import Any

import jinja2
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from rich.console import Console

from hatstream.api import AccountReport, Specification, count_days, load, note, progress_bars
from hatstream_city.draft.draft import draft
from hatstream_lab.demo.timetable import streets, write_timetable
from hatstream_lab.evaluation.days import Days, joined_with_truth, tables_of
from hatstream_lab.made_up_fleet import MadeUpFleet, write_sample
from hatstream_publish.pages.page import MapTexts, Surroundings, draw_map
from hatstream_publish.pages.places import read_ground, read_places
from hatstream_publish.pages.rows import HATS, STANDING, read_results, table_of, with_days

DAYS = 4
SPEC = "town.toml"
SAMPLE = "sample.parquet"  # the first day
STREETS, STREETS_PAGE = "town-streets.geojson", "streets.html"
_PLACES_TOML = f"""
# Streets of the town for a share of the same total, and a map of what is usual on them (docs/released.md).
[places]
file = "{STREETS}"

[[output]]
product = "place-standing"
"""
CLASSES = {"1 to 2": (1, 2), "3 to 9": (3, 9), "10 to 29": (10, 29), "30 or more": (30, np.inf)}
"""HATs by the number of vehicles that drove through them, from and to, both included."""


def demonstrate(output: Path, out: Console) -> dict[str, Any]:
    """Releases made-up days into a folder, tells about them, and returns figures."""
    output.mkdir(parents=True, exist_ok=True)
    fleets = made_up_fleets()
    path, pattern = _write_town(out, output, fleets), str(output / "sample*.parquet")
    spec, ledger = load(path), str(output / "ledger.sqlite")
    run("init", "--spec", str(path), "--ledger", ledger)
    note(f"releasing {len(fleets)} days, and the first one again ...")
    first = release(path, ledger, pattern, (str(fleets[0].day), str(fleets[-1].day)), output / "hats")
    again = release_again(path, ledger, output / SAMPLE, first, output / "hats-again")
    results, account = read_results(first["files"]), AccountReport.read(spec, ledger)
    with progress_bars(quiet=False) as report:
        days = Days(tables_of(path), count_days(spec, pattern, report=report))
    classes = compare_hexagons(days, table_of(results, HATS))  # by vehicles in a HAT
    street_errors = compare_streets(days, results[STANDING]) if spec.places else None
    pages = _draw(results, output, account.guarantee, spec)
    facts = {"account": account, "classes": classes, "errors": street_errors, "again": again, "pages": pages}
    for line in summary({**facts, "city_kmh": days.mean_kmh}):
        out.print(line, soft_wrap=True, highlight=False)
    document = {"output": str(output), "map": str(output / "map.html"), "city_kmh": days.mean_kmh}
    return document | {"guarantee": account.guarantee, "classes": classes, "again": again, "streets": street_errors}


def made_up_fleets() -> list[MadeUpFleet]:
    """Makes up consecutive, differing days of one town."""
    first = MadeUpFleet(has_streets=True)
    days = range(DAYS)
    return [replace(first, seed=first.seed + day, town_seed=first.seed, day=first.day + timedelta(day)) for day in days]


def _write_town(console: Console, output: Path, fleets: list[MadeUpFleet]) -> Path:
    """Writes daily files, the timetable and the drafted specification; returns the latter's path."""
    reports = 0
    with progress_bars(quiet=False) as report:
        for index, fleet in enumerate(fleets):
            report("days driven by the made-up fleet", index, len(fleets))
            reports += write_sample(fleet, output / (SAMPLE if index == 0 else f"sample-{fleet.day}.parquet"))
        report("days driven by the made-up fleet", len(fleets), len(fleets))
    buses = f"{fleets[0].vehicles} made-up buses on {len(fleets)} days"
    console.print(f"{reports:,} reports of {buses}, released by {output / SPEC}.", soft_wrap=True)
    timetable, path = output / "town-gtfs.zip", output / SPEC
    write_timetable(fleets[0], timetable)
    if not path.exists():
        drafted = draft(output / SAMPLE, adds_and_removes=True, timetable=timetable, stem=path.stem)
        document, toml = json.dumps(streets(fleets[0])).encode(), (drafted.toml + _PLACES_TOML).encode()
        for name, content in (*drafted.files.items(), (STREETS, document), (path.name, toml)):
            (output / name).write_bytes(content)
    return path


def _draw(results: Mapping[str, pa.Table], output: Path, guarantee: str, spec: Specification) -> str:
    """Draws maps of hexagons and of streets' usual speeds; returns a sentence."""
    page = output / "map.html"
    around = Surroundings(read_places(output / "town-places.geojson"), read_ground(output / "town-ground.geojson"))
    hexagons = draw_map(with_days(results, spec), page, MapTexts("Speeds of a made-up bus fleet", guarantee), around)
    if STANDING not in results:
        return f"A map of {hexagons:,} hexagons opens in any browser: {page}"
    streets = MapTexts("Streets of a made-up town, as usual", guarantee)
    draw_map(results[STANDING], output / STREETS_PAGE, streets, Surroundings(read_places(output / STREETS)))
    return f"Maps of {hexagons:,} hexagons and of streets open in any browser: {page}, {output / STREETS_PAGE}"


def command_line(*arguments: str) -> list[str]:
    """Builds the command line of hatstream for this Python."""
    return [sys.executable, "-P", "-m", "hatstream", *arguments]


def run(*arguments: str) -> dict[str, Any]:
    """Runs a command and reads its JSON document. Raises RuntimeError if it fails."""
    process = subprocess.run(command_line(*arguments, "--json"), stdout=subprocess.PIPE, check=False)
    if process.returncode:
        raise RuntimeError(f"hatstream {arguments[0]} failed with exit code {process.returncode}")
    document: dict[str, Any] = json.loads(process.stdout)
    return document


def release(spec: Path, ledger: str, pattern: str, days: tuple[str, str], output: Path) -> dict[str, Any]:
    """Releases days, and reads the summary."""
    files = ("--spec", str(spec), "--ledger", ledger, "--input", pattern, "--output", str(output))
    return run("release", *files, "--from", days[0], "--to", days[1])


def release_again(spec: Path, ledger: str, sample: Path, first: dict[str, Any], output: Path) -> dict[str, int]:
    """Releases the first day again and compares its bytes.

    first: summary of the first run. Returns numbers of `digests` of recorded sums and of `files` of rows. Raises
    RuntimeError if a digest or a byte differs, something was drawn anew, or the run failed.
    """
    day = first["periods"][0]
    second = release(spec, ledger, str(sample), (day["period"],) * 2, output)  # from and to
    changed, digests = second["operator_only"]["stages_that_differ_now"], len(day["stages"])  # one of each stage
    folder, files = Path(first["files"][0]).parent, [Path(path) for path in second["files"]]
    different = [path for path in files if path.read_bytes() != (folder / path.name).read_bytes()]
    if second["stages_new"] or changed or different:
        raise RuntimeError(
            f"a second run of {day['period']} is not as the first: {second['stages_new']} stages are new, {changed} of "
            f"{digests} digests and {len(different)} of {len(files)} files differ"
        )
    return {"digests": digests, "files": len(files)}


def compare_streets(days: Days, rows: pa.Table) -> dict[str, Any]:
    """Compares the newest map of streets with all days' truth, weighted by reports.

    Returns the number of `streets`, and errors `learned` and `constant` (of the streets' true mean), in km/h.
    """
    on_streets = days.chosen(pc.is_valid(days.counted["place"]))
    truth = on_streets.truth_by({"cell": on_streets.counted["place"]})  # result rows name their place in column `cell`
    newest = rows.filter(pc.equal(rows["slot_start"], pc.max(rows["slot_start"]))).select(["cell", "value"])
    both = joined_with_truth(newest, truth, ("cell",))
    weight, truth_kmh = both["reports"] / both["reports"].sum(), both["truth"]
    learned, constant = (float(weight @ np.abs(kmh - truth_kmh)) for kmh in (both["value"], weight @ truth_kmh))
    return {"streets": weight.size, "learned": learned, "constant": constant}


def compare_hexagons(days: Days, rows: pa.Table) -> list[dict[str, Any]]:
    """Compares published HATs with the truth, by vehicle class.

    Returns `name`, `hats`, `known` ones, mean absolute errors (km/h) of `estimate` and `constant` (the city's mean),
    `covered`, the share of intervals that hold the truth, and their median `half_width`; None where no HAT has a value.
    """
    minutes = load(days.tables).timetable.service_minutes
    # Number of a slot in its day, by its ISO time, whose hour and minute stand at 11 and 14.
    number = {s: minutes.index(60 * int(s[11:13]) + int(s[14:16])) for s in set(rows["slot_start"].to_pylist())}
    rows = rows.select(["slot_start", "cell", "value", "lower95", "upper95"])
    rows = rows.append_column("period", pc.utf8_slice_codeunits(rows["slot_start"], 0, 10))
    rows = rows.append_column("slot", pa.array([number[start] for start in rows["slot_start"].to_pylist()], pa.int64()))
    hats = joined_with_truth(rows, days.hats, how="right outer")  # every driven HAT, NaN where no row is of it
    constant, error = np.abs(hats["truth"] - days.mean_kmh), np.abs(hats["truth"] - hats["value"])
    inside = (hats["lower95"] <= hats["truth"]) & (hats["truth"] <= hats["upper95"])
    half_width = (hats["upper95"] - hats["lower95"]) / 2
    classes = []
    for name, (minimum, maximum) in CLASSES.items():
        in_class = (hats["vehicles"] >= minimum) & (hats["vehicles"] <= maximum)
        has_value = in_class & ~np.isnan(hats["value"])
        if in_class.any():
            figures = {"estimate": error, "covered": inside}
            row = {key: float(values[has_value].mean()) if has_value.any() else None for key, values in figures.items()}
            row["half_width"] = float(np.median(half_width[has_value])) if has_value.any() else None
            row["constant"] = float(constant[has_value if has_value.any() else in_class].mean())  # of the same HATs
            classes.append({"name": name, "hats": int(in_class.sum()), "known": int(has_value.sum()), **row})
    return classes


def summary(facts: Mapping[str, Any]) -> list[str]:
    """Words what a demonstration released, line by line."""
    template = files(__package__).joinpath("summary.txt").read_text(encoding="utf-8")
    text: str = jinja2.Template(template, trim_blocks=True, undefined=jinja2.StrictUndefined).render(facts)
    return text.splitlines()
