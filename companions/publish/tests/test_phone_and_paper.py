"""Pages on phones and on paper: what only these show, how many sheets they take, and that the screen stays."""

import base64
import json

import pytest

from tests import city
from tests.kit.results import CELLS, drawn_map, row, write
from tests.servers import asked

MIDDLE = "((x, y) => [screenX(x), screenY(y)])(...middle(arguments[0]))"
A4 = {"paperWidth": 8.27, "paperHeight": 11.69, "printBackground": True}


@pytest.fixture(scope="module")
def drawn(tmp_path_factory):
    rows = [row(cell, hour, 10.0 + index) for hour in (6, 7) for index, cell in enumerate(CELLS)]
    return drawn_map(tmp_path_factory.mktemp("drawn"), rows)


def sheets(page):
    """Of the page as a browser prints it into a PDF."""
    pdf = base64.b64decode(page.driver.execute_cdp_cmd("Page.printToPDF", A4)["data"])
    assert pdf.startswith(b"%PDF-")
    return pdf.count(b"/Type /Page\n")


def seen(page, selector):
    return page.driver.execute_script("return document.querySelector(arguments[0]).checkVisibility()", selector)


def shown_on_paper(page, *selectors):
    page.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    try:
        return [seen(page, selector) for selector in selectors]
    finally:
        page.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})


def test_a_map_is_one_light_sheet_that_says_its_time_and_no_control(page, drawn):
    """And the screen is as dark afterwards as before."""
    page.open(drawn)
    page.one("#theme").click()
    page.driver.execute_script(
        "window.seen = []; addEventListener('beforeprint', () => seen.push(themeName()));"
        "addEventListener('afterprint', () => seen.push(themeName()))"
    )
    assert sheets(page) == 1
    assert page.driver.execute_script("return seen") == ["light", "dark"]
    assert shown_on_paper(page, "#printed", "#map", ".legend") == [True] * 3
    assert shown_on_paper(page, ".controls", "#theme", ".zoom", "#panel .hint") == [False] * 4
    assert page.one("#printed").get_attribute("textContent") == page.one("#when").text
    assert not seen(page, "#printed")


def test_a_report_is_three_sheets_with_the_table_open_and_a_line_to_sign(page, tmp_path, hatstream):
    city.opened(tmp_path, hatstream)
    assert hatstream(*city.release(tmp_path, end=city.DAYS[0]))[0] == 0
    place = ("--spec", tmp_path / "spec.toml", "--ledger", tmp_path / "ledger.sqlite")
    results = ("--input", tmp_path / "out" / "*.parquet")
    assert hatstream("report", *place, *results, "--output", tmp_path / "report.html")[0] == 0
    with page.screen(390, 844):
        page.open(tmp_path / "report.html")
        tables = "[...document.querySelectorAll('.scroll > table')]"
        assert asked(page, f"{tables}.every(e => e.scrollWidth <= e.parentNode.clientWidth)")
        assert asked(page, "document.getElementById('figures').rows.length") > 1
    page.open(tmp_path / "report.html")
    assert sheets(page) <= 3
    assert shown_on_paper(page, ".sign", "details summary", ".on-screen") == [True, False, False]
    assert not seen(page, "details table")
    assert shown_on_paper(page, "details table") == [True]


def test_a_phone_shows_all_places_and_a_tap_opens_one_and_leaves_the_map_in_sight(page, drawn):
    with page.screen(390, 844):
        page.open(drawn)
        wide, high = asked(page, "[view.width, view.height]")
        boxes = asked(
            page,
            "DATA.shapes.shapes.map(s => [screenX(s.box[0]), screenY(s.box[1]), screenX(s.box[2]), screenY(s.box[3])])",
        )
        assert all(box[0] >= 0 and box[1] >= 0 and box[2] <= wide and box[3] <= high for box in boxes)
        assert wide == 390
        tops = [
            asked(page, f"document.querySelector('{part}').getBoundingClientRect().top")
            for part in (".legend", "#panel")
        ]
        bottom = asked(page, "el('map').getBoundingClientRect().bottom")
        assert bottom <= tops[0] < tops[1]
        page.one("#as-table").click()
        assert asked(page, "el('table').scrollWidth <= el('table').clientWidth")
        assert asked(page, "document.documentElement.scrollWidth") == 390
        lowest = asked(page, "[...DATA.places.id.keys()].sort((a, b) => middle(b)[1] - middle(a)[1])[0]")
        page.click_at("#map", *asked(page, MIDDLE, lowest))
        page.wait(lambda: asked(page, "state.place") == lowest)
        top, bottom = asked(page, "[el('map'), el('panel')].map(e => e.getBoundingClientRect().top)")
        assert asked(page, "scrollY") == 0
        assert top < top + asked(page, MIDDLE, lowest)[1] < bottom
        page.one("#close").click()
        page.wait(lambda: asked(page, "getComputedStyle(el('panel')).position") != "fixed")


def test_a_long_name_is_one_short_line_on_a_phone_and_at_most_two_elsewhere(page, tmp_path, hatstream):
    write(tmp_path / "hats.parquet", [row(cell, 6, 10.0) for cell in CELLS])
    named = [{"place": CELLS[0], "name": "Queen's / Kingston General Hospital and Old Station", "departures": 9}]
    features = [{"type": "Feature", "geometry": None, "properties": properties} for properties in named]
    (tmp_path / "places.geojson").write_text(json.dumps({"type": "FeatureCollection", "features": features}))
    drawn = ("map", "--input", tmp_path / "*.parquet", "--places", tmp_path / "places.geojson")
    assert hatstream(*drawn, "--output", tmp_path / "map.html")[0] == 0
    page.open(tmp_path / "map.html")
    name = "placedNames(el('map').getContext('2d'))[0]"
    assert len(asked(page, f"{name}.lines")) <= 2
    with page.screen(390, 844):
        page.open(tmp_path / "map.html")
        lines, half = asked(page, f"[{name}.lines, {name}.half]")
        assert [line[-1] for line in lines] == ["…"]
        assert 2 * half[0] <= 390 / 2.5
