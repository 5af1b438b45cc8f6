"""Guards how soon a map of many values is painted in a browser without a window, and how long a step in time takes.

.venv/bin/python -m benchmarks.map [--places 1000] [--slots 168] [--streets]

Exit code 1 where a first paint takes a second or more, or half of the steps take 50 ms or more. Needs chromium.
"""

import argparse
import sys
import tempfile
import time
from datetime import datetime, timedelta, timezone
from pathlib import Path
from statistics import median

import h3
import numpy as np
import pyarrow as pa

from hatstream_publish.pages.map import NOTHING, MapTexts, Surroundings, draw_map
from hatstream_publish.pages.places import LINE, DrawnShape, NamedPlaces, Place
from tests.browser import Page, browser

PAINT_MS, STEP_MS, RUNS, STEPS = 1_000.0, 50.0, 5, 60

_TIMES = """
const [many, done] = arguments, times = [], channel = new MessageChannel();
function step(at) {
  const start = performance.now();
  go(at % DATA.slots.length);
  requestAnimationFrame(() => {
    channel.port1.onmessage = () => {
      times.push(performance.now() - start);
      if (times.length < many) step(at + 1); else done(times);
    };
    channel.port2.postMessage(0);
  });
}
step(0);
"""
"""Milliseconds from asking for a slot to the end of the frame that shows it."""
_MARK = "return performance.getEntriesByName(arguments[0])[0].startTime"


def made_up(places: int, slots: int, seed: int = 1) -> pa.Table:
    """Result rows with values, intervals and parents as `levels` publishes them."""
    rng = np.random.default_rng(seed)
    cells = _cells(places)
    start = datetime(2026, 5, 11, tzinfo=timezone(timedelta(hours=-6)))
    times = [(start + timedelta(hours=hour)).isoformat() for hour in range(slots + 1)]
    value = (rng.normal(20, 6, places) + rng.normal(0, 2, (slots, places))).clip(1, 64).round(2).ravel()
    half = rng.gamma(4, 2.5, value.size).round(2)
    status = rng.choice(["ok", "parent", "unreliable"], p=[0.4, 0.37, 0.23], size=value.size)
    is_parent = status == "parent"
    parents = np.tile([h3.cell_to_parent(cell, 7) for cell in cells], slots)
    beside = {"parent_value": value, "parent_lower95": value - 1, "parent_upper95": value + 1}
    return pa.table(
        {
            "spec_id": ["0" * 16] * value.size,
            "slot_start": np.repeat(times[:-1], places),
            "slot_end": np.repeat(times[1:], places),
            "cell": np.tile(cells, slots),
            "statistic": ["mean"] * value.size,
            "value": value,
            "unit": ["km/h"] * value.size,
            "lower95": (value - half).clip(0),
            "upper95": value + half,
            "mechanism": ["levels"] * value.size,
            "status": status,
            "parent": pa.array(parents, mask=~is_parent),
            **{name: pa.array(column, mask=~is_parent) for name, column in beside.items()},
        }
    )


def _cells(places: int) -> list[str]:
    centre, rings = h3.latlng_to_cell(30.27, -97.74, 8), 1
    while len(h3.grid_disk(centre, rings)) < places:
        rings += 1
    return sorted(h3.grid_disk(centre, rings))[:places]


def streets(rows: pa.Table) -> Surroundings:
    """The same places as lines: the hexagons' outlines, left open."""
    named = {}
    for cell in rows["cell"].unique().to_pylist():
        line = tuple((lon, lat) for lat, lon in h3.cell_to_boundary(cell))
        named[cell] = Place(cell, f"Street {cell}", shape=DrawnShape(LINE, (line,), {}))
    return Surroundings(NamedPlaces(named))


def measured(page: Page, path: Path) -> tuple[list[float], list[float], list[float], float]:
    """First paints, ends of the first drawing, and steps, in milliseconds; and a step's share of the page's thread."""
    paints, drawn = [], []
    for _ in range(RUNS):
        page.driver.get("about:blank")
        page.open(path)
        time.sleep(0.3)
        paints.append(page.driver.execute_script(_MARK, "first-contentful-paint"))
        drawn.append(page.driver.execute_script(_MARK, "drawn"))
    page.driver.set_script_timeout(120)
    page.driver.execute_script("choose(0)")
    page.driver.execute_cdp_cmd("Performance.enable", {"timeDomain": "threadTicks"})
    before_s = _thread_s(page)
    steps = page.driver.execute_async_script(_TIMES, STEPS)
    return paints, drawn, steps, 1_000 * (_thread_s(page) - before_s) / STEPS


def _thread_s(page: Page) -> float:
    """What the page's thread has worked, however busy the machine is."""
    metrics = page.driver.execute_cdp_cmd("Performance.getMetrics", {})["metrics"]
    return float(next(metric["value"] for metric in metrics if metric["name"] == "TaskDuration"))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--places", type=int, default=1_000)
    parser.add_argument("--slots", type=int, default=168)
    parser.add_argument("--streets", action="store_true")
    asked = parser.parse_args()
    rows = made_up(asked.places, asked.slots)
    with tempfile.TemporaryDirectory() as folder, browser(width=1400, height=900) as page:
        path, start = Path(folder) / "map.html", time.perf_counter()
        draw_map(rows, path, MapTexts("Made up", ""), streets(rows) if asked.streets else NOTHING)
        made_s = time.perf_counter() - start
        paints, drawn, steps, of_thread = measured(page, path)
        size = path.stat().st_size
    kind = "streets" if asked.streets else "hexagons"
    print(f"{asked.places:,} {kind} x {asked.slots:,} slots: {size / 1e3:,.0f} kB, made in {made_s:.1f} s")
    print(f"first paint {median(paints):.0f} ms (longest {max(paints):.0f}), all drawn {median(drawn):.0f} ms")
    wall = f"{median(steps):.0f} ms (nine in ten {np.quantile(steps, 0.9):.0f}, longest {max(steps):.0f})"
    print(f"a step {wall}, of which the page's own thread works {of_thread:.0f} ms")
    return int(max(paints) >= PAINT_MS or median(steps) >= STEP_MS)


if __name__ == "__main__":
    sys.exit(main())
