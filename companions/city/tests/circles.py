"""A small feed of buses on circles, and drafts of it."""

import math
import re

from hatstream_city.draft.draft import draft
from pipelines.specification import load


def rows(speed_per_mps=3.6, step_s=20):
    """Six buses that drive along circles near Austin for a while, each at a speed of its own."""
    positions = []
    for bus in range(6):
        mps, radius_m = 5 + bus, 3_000
        for step in range(40):
            time_s, angle = step * step_s, mps * step * step_s / radius_m
            lat = 30.25 + 0.02 * bus + math.degrees(radius_m * math.sin(angle) / 6_371_000)
            lon = -97.75 + math.degrees(radius_m * math.cos(angle) / 6_371_000 / math.cos(math.radians(30.3)))
            time = f"2026-03-02T{8 + time_s // 3600:02d}:{time_s // 60 % 60:02d}:{time_s % 60:02d}-06:00"
            positions.append((f"B-{bus}", time, round(lat, 6), round(lon, 6), round(mps * speed_per_mps, 2)))
    return positions


def completed(toml):
    """The draft as a person completes it: the vehicle is the column that was guessed."""
    guess = re.search(r'by its values it may be ("[^"]*")', toml)
    return toml.replace('vehicle = "?"', f"vehicle = {guess[1]}") if guess else toml


def drafted(path, folder, **options):
    """The draft of a sample, and the specification that it is."""
    result = draft(path, **{"adds_and_removes": True} | options)
    (folder / "drafted.toml").write_text(completed(result.toml))
    return result, load(folder / "drafted.toml")


def as_csv(path, names, lines):
    path.write_text("\n".join([",".join(names), *(",".join(map(str, line)) for line in lines)]) + "\n")
    return path
