"""Pictures the tutorial's map and report side by side for the README: `python -m docs.draw_pages`, with chromium."""

import os
import shlex
from base64 import b64decode
from dataclasses import replace
from datetime import timedelta
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory

from PIL import Image

from hatstream_lab.demo.timetable import write_timetable
from hatstream_lab.made_up_fleet import MadeUpFleet, write_sample
from pipelines.cli import main
from tests.servers import Page, browser

PICTURE = Path(__file__).resolve().parent / "pictures" / "map-and-report.png"
PLACE, DAYS = "--spec town.toml --ledger town.sqlite", "--from 2026-05-13 --to 2026-05-14"
COMMANDS = (
    "spec new --gtfs static.zip --sample feed-2026-05-13.parquet --output town.toml",
    "init --spec town.toml --ledger town.sqlite",
    f"release {PLACE} --input feed-*.parquet {DAYS} --output out",
    f"estimate {PLACE} {DAYS} --output whole --whole --forecast 1",
    "map --input whole/*.parquet --spec town.toml --places town-places.geojson --ground town-ground.geojson "
    "--title 'Buses of the town' --output map.html",
    f"report {PLACE} --input whole/*.parquet {DAYS} --output report.html",
)
"""The tutorial's; noise is drawn anew each time."""
HEIGHT_PX, MAP_PX, REPORT_PX, GAP_PX, SCALE = 840, 1_240, 860, 12, 0.61
GAP_COLOUR = "#9db0c0"


def draw() -> None:
    """Runs the tutorial in a folder that goes away, and writes the picture."""
    fleet = MadeUpFleet(vehicles=150, routes=12, report_every_s=60, town_seed=7)
    write_timetable(fleet, Path("static.zip"))
    for day in range(2):
        other = replace(fleet, seed=day, day=fleet.day + timedelta(days=day))
        write_sample(other, Path(f"feed-{other.day}.parquet"))
    for command in COMMANDS:
        code = main(shlex.split(command))
        assert code == 0, command
    both = Image.new("RGB", (MAP_PX + GAP_PX + REPORT_PX, HEIGHT_PX), GAP_COLOUR)
    with browser() as page:
        both.paste(pictured(page, Path("map.html"), MAP_PX), (0, 0))
        both.paste(pictured(page, Path("report.html"), REPORT_PX), (MAP_PX + GAP_PX, 0))
    both = both.resize((round(both.width * SCALE), round(both.height * SCALE)), Image.Resampling.LANCZOS)
    both.quantize(method=Image.Quantize.MAXCOVERAGE).save(PICTURE, optimize=True)


def pictured(page: Page, path: Path, width_px: int) -> Image.Image:
    """Pictures the top of a page in light colours."""
    size = {"width": width_px, "height": HEIGHT_PX, "deviceScaleFactor": 1, "mobile": False}
    page.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    page.driver.execute_cdp_cmd("Emulation.setScrollbarsHidden", {"hidden": True})
    page.open(path)
    page.wait(lambda: page.driver.execute_script("return document.getAnimations().length") == 0)
    return Image.open(BytesIO(b64decode(page.driver.get_screenshot_as_base64()))).convert("RGB")


if __name__ == "__main__":
    with TemporaryDirectory() as folder:
        os.chdir(folder)
        draw()
