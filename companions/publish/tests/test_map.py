"""The map in a real browser: what is drawn, what pointer and keys do, and that nothing is asked for."""

import json
import math

import pytest
from selenium.webdriver.common.keys import Keys

from companions.publish.tests.conftest import collected, mapped
from tests.kit.results import CELLS, PARENT, drawn_map, known_of, row
from tests.servers import asked

HOURS = (6, 7)
HOURS_BACK, OFFSETS_BACK = ("00", "01", "01", "02", "03"), ("01", "01", "00", "00", "00")
NAMED = {CELLS[3]: "Market Square"}


@pytest.fixture(scope="module")
def drawn(tmp_path_factory):
    """Two slots: at 06:00 all 19 hexagons have a value, two of them an unreliable one; at 07:00 twelve."""
    rows = [row(cell, 6, 10.0 + index, half_kmh=30.0 if index < 2 else 5.0) for index, cell in enumerate(CELLS)]
    rows += [row(cell, 7, 33.0 if index < 12 else None) for index, cell in enumerate(CELLS)]
    return drawn_map(tmp_path_factory.mktemp("drawn"), rows)


@pytest.fixture
def map_page(page, drawn):
    """The page of this map, opened."""
    page.open(drawn)
    return page


def click_on(page, cell):
    """As a finger does, in the middle of the hexagon."""
    page.click_at("#map", *asked(page, MIDDLE, CELLS.index(cell)))


MIDDLE = "((x, y) => [screenX(x), screenY(y)])(...middle(arguments[0]))"
PIXEL = (
    "((x, y) => [...el('map').getContext('2d').getImageData(screenX(x) * devicePixelRatio, screenY(y) * "
    "devicePixelRatio, 1, 1).data])(...middle(arguments[0]))"
)
DRAWN = "DATA.places.id.map((_, place) => drawnAs(state.slot, place))"


def test_every_value_is_drawn_and_what_is_not_known_stands_out(map_page):
    assert asked(map_page, DRAWN) == ["unknown"] * 2 + ["known"] * 17
    map_page.one("#slot").send_keys(Keys.ARROW_RIGHT)
    map_page.wait(lambda: "07:00 to 08:00" in map_page.one("#when").text)
    assert map_page.one("#slot").get_attribute("aria-valuetext") == "Wed 13 May 2026, 07:00 to 08:00"
    map_page.wait(lambda: asked(map_page, DRAWN) == ["known"] * 12 + ["none"] * 7)
    ground = asked(map_page, "[...el('map').getContext('2d').getImageData(2, 2, 1, 1).data]")
    map_page.wait(lambda: asked(map_page, PIXEL, 15) == ground)
    assert asked(map_page, PIXEL, 3) != asked(map_page, PIXEL, 15)


def test_a_click_opens_what_is_known_of_a_place_with_a_warning_and_asks_for_nothing(map_page):
    click_on(map_page, CELLS[3])
    map_page.wait(lambda: map_page.all("#p-value"))
    assert CELLS[3] in map_page.one("#panel").text
    assert map_page.one("#p-value").text == "13.0 km/h"
    assert map_page.one("#p-interval").text == "95 % interval: 8.0 to 18.0 km/h"
    click_on(map_page, CELLS[0])
    map_page.wait(lambda: map_page.all("#p-warn"))
    assert "do not act on it" in map_page.one("#p-warn").text
    assert "wider than 15 km/h" in map_page.one("#p-status").text
    assert (map_page.complaints(), map_page.requests()) == ([], [])


def test_one_tab_stop_and_arrows_reach_every_place_and_speak(map_page):
    assert len(map_page.all("canvas[tabindex='0']")) == 1
    assert map_page.all("svg [tabindex], #panel [tabindex]") == []
    map_page.one("#map").send_keys(Keys.ARROW_DOWN)
    spoken = map_page.one("#live").get_attribute("textContent")
    map_page.one("#map").send_keys(Keys.ARROW_LEFT)
    map_page.wait(lambda: map_page.one("#live").get_attribute("textContent") != spoken)
    map_page.one("#map").send_keys(Keys.ENTER)
    map_page.wait(lambda: map_page.all("#p-value"))
    assert "95 % interval" in map_page.one("#live").get_attribute("textContent")
    names = asked(
        map_page,
        "(() => { const seen = new Set([0]); for (const place of seen) for (const way of "
        "Object.values(ARROWS)) { const next = neighbour(place, ...way); if (next >= 0) seen.add(next); } "
        "return seen.size; })()",
    )
    assert names == len(CELLS)


def test_a_place_that_only_its_area_tells_shows_the_area_s_value(page, tmp_path, hatstream):
    rows = [known_of(row(CELLS[0], 6, 30.0, half_kmh=25.0), PARENT, 21.0)]
    rows += [known_of(row(CELLS[1], 6, 30.0, half_kmh=25.0), "day", 17.0), row(CELLS[2], 6, 20.0)]  # of an older file
    days = [row(cell, 6, 17.0) | {"product": "days"} for cell in CELLS[:2]]
    page.open(mapped(tmp_path, hatstream, [*rows, *days]))
    assert asked(page, DRAWN) == ["area", "day", "known"]
    asked(page, "choose(0)")
    assert page.one("#p-value").text == "21.0 km/h"
    assert page.one("#p-interval").text == "95 % interval: 17.0 to 25.0 km/h"
    assert PARENT in page.one("#p-status").text
    asked(page, "choose(1)")
    assert (page.one("#p-value").text, "whole day" in page.one("#p-status").text) == ("17.0 km/h", True)


def test_forecasts_and_live_values_are_marked(page, tmp_path, hatstream):
    """And texts of rows cannot leave the page's data."""
    rows = [row(CELLS[0], 6, 30.0, status="forecast"), row(CELLS[0], 7, 30.0) | {"mechanism": "levels-live"}]
    rows[0]["mechanism"] = "</script><script>document.title='x'</script>"
    page.open(mapped(tmp_path, hatstream, rows, "--title", "<b>t</b>"))
    assert page.driver.title == "<b>t</b>"
    asked(page, "go(0)")
    assert (page.one("#kind").text, asked(page, DRAWN)) == ("forecast", ["forecast"])
    asked(page, "go(1)")
    assert page.one("#kind").text == "live"


def test_a_slot_without_any_value_says_why_and_what_to_do(page, tmp_path, hatstream):
    page.open(mapped(tmp_path, hatstream, [row(cell, 6, None, status="held-back") for cell in CELLS]))
    assert "Held back" in page.one("#empty").text
    assert "--whole" in page.one("#empty").text


def test_the_hour_that_comes_twice_when_clocks_are_set_back_has_two_names(page, tmp_path, hatstream):
    times = [f"2026-10-25T{time}:00:00+{offset}:00" for time, offset in zip(HOURS_BACK, OFFSETS_BACK, strict=True)]
    rows = [row(CELLS[0], 0, 20.0) | {"slot_start": times[slot], "slot_end": times[slot + 1]} for slot in range(4)]
    page.open(mapped(tmp_path, hatstream, rows))
    asked(page, "(choose(0), go(2))")
    assert page.one("#when").text == "Sun 25 Oct 2026, 01:00 again to 02:00"
    assert [field.get_attribute("data-slot") for field in page.all(".week [data-slot]")] == ["0", "1", "2", "3"]


def test_the_ear_is_told_the_place_when_the_time_changes_or_a_search_finds_it(map_page):
    asked(map_page, "choose(3)")
    map_page.one("#map").send_keys(Keys.PAGE_DOWN)
    map_page.wait(lambda: map_page.one("#live").get_attribute("textContent") == f"{CELLS[3]}: 33.0 km/h")
    map_page.one("#search").send_keys(CELLS[15], Keys.ENTER)
    map_page.wait(lambda: map_page.one("#live").get_attribute("textContent") == f"{CELLS[15]}: no value")
    assert map_page.one("#when").get_attribute("aria-live") is None
    map_page.one("#play").click()
    assert map_page.one("#when").get_attribute("aria-live") == "off"
    map_page.one("#play").click()


def test_the_legend_tells_what_has_no_value_by_day_and_in_the_dark(map_page, tmp_path, hatstream):
    light = asked(map_page, "getComputedStyle(document.body).backgroundColor")
    map_page.one("#theme").click()
    assert asked(map_page, "getComputedStyle(document.body).backgroundColor") != light
    assert asked(map_page, "themeName()") == "dark"
    assert "no value" in map_page.one("#kinds").text
    assert map_page.one("#kinds").get_attribute("class") == ""
    asked(map_page, "(state.show = 'difference', showOther())")
    assert "nothing to compare with" in map_page.one("#kinds").text
    map_page.open(mapped(tmp_path, hatstream, [row(cell, 6, 20.0) for cell in CELLS]))
    assert "no value" not in map_page.one("#kinds").text


def test_search_finds_places_by_name_and_id_and_names_are_shown(page, tmp_path, hatstream):
    named = [(None, {"place": cell, "name": name, "note": "route 4"}) for cell, name in NAMED.items()]
    collected(tmp_path / "places.geojson", named)
    rows = [row(cell, 6, 20.0) for cell in CELLS]
    page.open(mapped(tmp_path, hatstream, rows, "--places", tmp_path / "places.geojson"))
    for wanted in ("market", CELLS[3], "route 4"):
        asked(page, "choose(-1)")
        page.one("#search").clear()
        page.one("#search").send_keys(wanted, Keys.ENTER)
        page.wait(lambda: page.one("#panel h2").text == "Market Square")
    page.one("#search").clear()
    page.one("#search").send_keys("nowhere", Keys.ENTER)
    assert "No place" in page.one("#found").text


def test_the_address_keeps_slot_place_and_what_is_shown(map_page, drawn):
    asked(map_page, "(go(1), choose(5), state.show = 'uncertainty', showOther())")
    map_page.wait(lambda: "uncertainty" in map_page.driver.current_url and CELLS[5] in map_page.driver.current_url)
    link = map_page.driver.current_url.partition("#")[2]
    map_page.driver.get("about:blank")
    map_page.open(drawn, link)
    assert asked(map_page, "[state.slot, state.place, state.show]") == [1, 5, "uncertainty"]
    map_page.driver.get("about:blank")
    map_page.open(drawn, "slot=nonsense&place=x&show=y&at=1,2")
    assert asked(map_page, "[state.place, state.show]") == [-1, "value"]


def test_the_usual_is_the_weighted_mean_of_the_other_days_of_its_kind(page, tmp_path, hatstream):
    """13 May 2026 is a Wednesday: 16 and 17 are a weekend, and no day alike for the others."""
    halves = {13: 5.0, 14: 2.0, 15: 4.0, 16: 5.0}
    values = {13: 20.0, 14: 30.0, 15: 10.0, 16: 50.0}
    rows = [row(CELLS[0], 6, values[day], half_kmh=halves[day], day=day) for day in values]
    page.open(mapped(tmp_path, hatstream, rows))
    usual_kmh = (30 / 2**2 + 10 / 4**2) / (1 / 2**2 + 1 / 4**2)
    assert asked(page, "usualAt(0, 0)") == pytest.approx(usual_kmh)
    weights = {day: halves[day] ** -2 for day in (13, 14, 15)}
    expected = sum(values[day] * weight for day, weight in weights.items()) / sum(weights.values())
    assert asked(page, "usualAt(3, 0)") == pytest.approx(expected)
    assert asked(page, "isBeyondNoise(0, 0)") is True
    assert asked(page, "differenceAt(0, 0)") == pytest.approx(20 - usual_kmh)


def test_the_table_and_the_downloads_say_what_the_map_says_and_no_other_program_runs(map_page):
    map_page.one("#as-table").click()
    assert len(map_page.all("#table tbody tr")) == len(CELLS)
    map_page.all("#table thead button")[1].click()
    assert map_page.one("#table tbody th").text == CELLS[0]
    lines = asked(map_page, "[...csvRows([0])]")
    assert lines[0].startswith("slot_start,slot_end,place,name,statistic,value,lower95,upper95,unit,status,value_of")
    assert f",{CELLS[4]},,mean,14,9,19,km/h,ok,place" in lines[5]
    assert len(asked(map_page, "[...csvRows(DATA.slots.keys())]")) == 2 * len(CELLS) + 1
    features = json.loads(asked(map_page, "geojson(0)"))["features"]
    assert (len(features), features[4]["properties"]["value"]) == (len(CELLS), 14)
    script = "document.createElement('script'), {textContent: 'el(`when`).dataset.x = 1'}"
    asked(map_page, f"document.body.append(Object.assign({script}))")
    assert asked(map_page, "el('when').dataset.x") is None
    assert any("Content Security Policy" in complaint for complaint in map_page.complaints())


def test_streets_are_places_too(page, tmp_path, hatstream):
    line = {"type": "LineString", "coordinates": [[-104.6, 50.45], [-104.59, 50.452], [-104.58, 50.45]]}
    back = {"type": "LineString", "coordinates": line["coordinates"][::-1]}
    streets = [(line, {"place": "there", "name": "Main Street there"}), (back, {"place": "back", "name": "Back"})]
    collected(tmp_path / "places.geojson", streets)
    rows = [row("there", 6, 20.0), row("back", 6, 30.0)]
    page.open(mapped(tmp_path, hatstream, rows, "--places", tmp_path / "places.geojson"))
    aside = "placeAt(screenX(DATA.shapes.x[4]) + 3 * arguments[0], screenY(DATA.shapes.y[4]) + 4 * arguments[0])"
    assert {asked(page, aside, 1), asked(page, aside, -1)} <= {0, 1}
    asked(page, "choose(1)")
    assert page.one("#panel h2").text == "Main Street there"
    assert page.one("#kinds").get_attribute("class") == "lines"
    code, _, err = hatstream("map", "--input", tmp_path / "*.parquet", "--output", tmp_path / "map.html")
    assert (code, "no H3 cell and has no shape" in err) == (4, True)


def test_the_busiest_stops_water_and_a_scale_bar_orient(page, tmp_path, hatstream):
    named = [{"place": cell, "name": f"Stop {index}", "departures": index} for index, cell in enumerate(CELLS)]
    west, south, east, north = -97.76, 30.24, -97.70, 30.30
    lake = [[west, south], [east, south], [east, north], [west, north], [west, south]]
    collected(tmp_path / "places.geojson", [(None, properties) for properties in named])
    collected(tmp_path / "ground.geojson", [({"type": "Polygon", "coordinates": [lake]}, {"natural": "water"})])
    options = ("--places", tmp_path / "places.geojson", "--ground", tmp_path / "ground.geojson")
    page.open(mapped(tmp_path, hatstream, [row(cell, 6, 20.0) for cell in CELLS], *options))
    assert asked(page, "DATA.places.busiest.map(place => DATA.places.id[place])") == CELLS[:-6:-1]
    assert asked(page, "[DATA.ground[0][2], DATA.groundShapes.shapes[0].isLine]") == ["water", False]
    names = asked(page, "placedNames(el('map').getContext('2d')).map(name => name.lines.join(' ')).slice(0, 5)")
    assert names == [f"Stop {index}" for index in range(len(CELLS))][:-6:-1]
    bar = asked(page, "scaleBar()")
    length, unit = bar["text"].split()
    metres = float(length) * {"km": 1_000, "m": 1}[unit]
    degrees = asked(page, "longitude(worldX(arguments[0])) - longitude(worldX(0))", bar["width"])
    assert metres == pytest.approx(
        degrees * 111_320 * math.cos(math.radians(asked(page, "latitude(view.y)"))), rel=0.01
    )
    assert 40 <= bar["width"] <= 110


@pytest.mark.few(1)
@pytest.mark.parametrize("name", ["notes.txt", "hats.parquet", "hats.csv", "hats.avro", "hats.jsonl", "hats.geojson"])
def test_a_file_without_result_rows_is_refused_by_its_name(tmp_path, hatstream, name):
    (tmp_path / name).write_bytes(b"not a row\n")
    code, _, err = hatstream("map", "--input", tmp_path / "*", "--output", tmp_path / "map.html")
    assert code == 4
    assert name in err
