"""Feeds that spell the ids of twelve buses in two ways: `spec new` and `--check-input` count them, or warn."""

import json

import pytest

from hatstream_city.draft.draft import draft
from hatstream_city.draft.feed import feed_of

NAMES = ("vehicle", "time", "lat", "lon", "speed_kmh")
DAY = "2026-03-10"


def rows(spell):
    """Ten reports of each of twelve buses. spell: writes the id of a bus in the first and in the second half."""
    return [
        (spell(bus, step >= 5), f"{DAY}T10:{step:02d}:{bus:02d}+01:00", 53.55 + bus / 500, 10 + step * 0.003, 20 + bus)
        for step in range(10)
        for bus in range(12)
    ]


SPELLINGS = {
    "a blank after it": (lambda bus, late: f"bus-{bus}{' ' * late}", (12, 0, 0)),
    "a no-break space before it": (lambda bus, late: "\u00a0" * late + f"bus-{bus}", (12, 0, 0)),
    "as a float": (lambda bus, late: f"{100 + bus}{'.0' * late}", (24, 0, 12)),
    "zeros in front": (lambda bus, late: f"{'0' * late}{100 + bus}", (24, 0, 12)),
    "another case": (lambda bus, late: ("BUS-" if late else "bus-") + str(bus), (24, 12, 0)),
}


def checked(folder, hatstream, toml, path):
    (folder / "spec.toml").write_text(toml)
    options = ["--spec", folder / "spec.toml", "--input", path, "--from", DAY, "--to", DAY]
    options += ["--ledger", folder / "l.sqlite"]
    code, out, err = hatstream("release", *options, "--check-input", "--json")
    assert code == 0, err
    shown = hatstream("release", *options, "--check-input")[1]
    return tuple(json.loads(out)["operator_only"]["vehicle_ids"].values()), " ".join(shown.split())


@pytest.mark.few(2)
@pytest.mark.parametrize("spelling", SPELLINGS)
def test_ids_in_two_spellings_are_one_vehicle_or_there_is_a_warning(spelling, tmp_path, hatstream):
    spell, expected = SPELLINGS[spelling]
    path = tmp_path / "feed.csv"
    path.write_text("\n".join(",".join(map(str, row)) for row in [NAMES, *rows(spell)]) + "\n")
    result = draft(path, adds_and_removes=True)
    forms = [form for form, number in zip(("casefold", "integer"), expected[1:], strict=True) if number]
    warned = [line for line in result.warnings if "vehicle ids differ" in line]
    assert (feed_of(path).counts.ids, len(warned)) == (expected, len(forms))
    counts, shown = checked(tmp_path, hatstream, result.toml, path)
    assert counts == expected
    assert ("12 of 24 vehicle ids differ" in shown) == bool(forms)
    for form in forms:
        assert form in warned[0]
        assert form in shown
        formed = result.toml.replace("[input]\n", f'[input]\nvehicle_form = "{form}"\n')
        assert checked(tmp_path, hatstream, formed, path)[0] == (12, 0, 0)
