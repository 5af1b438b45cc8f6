"""The map in a real browser: what is drawn, what slider, click and keyboard do, and that nothing is asked for."""

import pytest
from selenium.webdriver.common.keys import Keys

from tests.browser import browser
from tests.pipelines.advice.results import CELLS, row, write

HEXAGONS = "#map .choroplethlayer path"


@pytest.fixture(scope="module")
def page():
    with browser() as found:
        yield found


@pytest.fixture
def drawn(tmp_path, hatstream):
    """Two slots: 19 hexagons at 06:00, of which two are not reliable, and 12 at 07:00."""
    rows = [row(cell, 6, 10.0 + at, half_kmh=30.0 if at < 2 else 5.0) for at, cell in enumerate(CELLS)]
    rows += [row(cell, 7, 33.0 if at < 12 else None) for at, cell in enumerate(CELLS)]
    write(tmp_path / "hats.parquet", rows)
    code, out, _ = hatstream("map", "--input", tmp_path / "*.parquet", "--output", tmp_path / "map.html")
    assert (code, out.splitlines()[0][:22]) == (0, "19 hexagons, 2 slots: ")
    return tmp_path / "map.html"


def opened(page, path):
    page.open(path)
    return page


def test_every_hexagon_with_a_value_is_drawn_and_what_is_not_reliable_is_hatched_and_faint(page, drawn):
    hexagons = opened(page, drawn).all(HEXAGONS)
    assert len(hexagons) == len(CELLS)
    assert sum("not reliable" in hexagon.get_attribute("aria-label") for hexagon in hexagons) == 2
    assert sum(float(hexagon.value_of_css_property("opacity")) < 0.5 for hexagon in hexagons) == 2
    assert sum("#stripes" in hexagon.get_attribute("style") for hexagon in hexagons) == 2
    assert len(page.all("#stripes")) == 1


@pytest.mark.slow
def test_arrow_keys_move_the_slots_wherever_the_focus_is(page, drawn):
    opened(page, drawn).one("body").send_keys(Keys.ARROW_RIGHT)
    page.wait(lambda: "07:00 to 08:00" in page.one("#when").text)
    page.one("body").send_keys(Keys.ARROW_LEFT)
    page.wait(lambda: "06:00 to 07:00" in page.one("#when").text)


@pytest.mark.slow
def test_an_open_panel_leaves_the_map_its_place(page, drawn):
    page.click(opened(page, drawn).all(HEXAGONS)[3])
    page.wait(lambda: page.all("#p-value"))
    panel, shown = page.one("#panel").rect, page.one("#map svg.main-svg").rect
    assert shown["x"] + shown["width"] <= panel["x"] + 1
    sizes = "return [document.documentElement.scrollHeight, innerHeight]"
    assert len(set(page.driver.execute_script(sizes))) == 1  # the panel scrolls by itself


def test_the_slider_changes_what_is_drawn_by_keyboard_too(page, drawn):
    opened(page, drawn).one("#slot").send_keys(Keys.ARROW_RIGHT)
    page.wait(lambda: len(page.all(HEXAGONS)) == 12)
    assert "07:00 to 08:00" in page.one("#when").text


def test_a_click_opens_what_is_known_of_a_hexagon(page, drawn):
    hexagon = opened(page, drawn).all(HEXAGONS)[3]
    page.click(hexagon)
    page.wait(lambda: page.all("#p-value"))
    cell = CELLS[int(hexagon.get_attribute("data-cell"))]
    assert cell in page.one("#panel").text
    assert page.one("#p-value").text == "13.0 km/h"
    assert page.one("#p-interval").text == "95 % interval: 8.0 to 18.0 km/h"


def test_enter_opens_a_hexagon_without_a_mouse(page, drawn):
    opened(page, drawn).all(HEXAGONS)[0].send_keys(Keys.ENTER)
    page.wait(lambda: page.all("#p-value"))
    assert "do not act on it" in page.one("#p-warn").text


@pytest.mark.slow
def test_play_moves_the_slider_until_it_is_paused(page, drawn):
    opened(page, drawn).one("#play").click()
    page.wait(lambda: "07:00 to 08:00" in page.one("#when").text)
    page.one("#play").click()
    assert page.one("#play").text == "Play"


def test_the_page_asks_for_nothing_and_complains_of_nothing(page, drawn):
    page.complaints(), page.requests()
    page.click(opened(page, drawn).all(HEXAGONS)[0])
    assert (page.complaints(), page.requests()) == ([], [])


@pytest.mark.slow
def test_a_phone_shows_the_panel_below_the_map(drawn):
    with browser(width=500, height=900) as phone:
        panel, drawn_map = opened(phone, drawn).one("#panel").rect, phone.one("#map").rect
        assert panel["y"] >= drawn_map["y"] + drawn_map["height"] - 1


def test_texts_of_rows_cannot_leave_the_page_s_data(tmp_path, hatstream, page):
    write(
        tmp_path / "hats.parquet",
        [row(CELLS[0], 6, 10.0) | {"mechanism": "</script><script>document.title='x'</script>"}],
    )
    hatstream("map", "--input", tmp_path / "*.parquet", "--output", tmp_path / "map.html", "--title", "<b>t</b>")
    opened(page, tmp_path / "map.html")
    assert page.driver.title == "<b>t</b>"


@pytest.mark.parametrize("name", ["notes.txt", "hats.parquet", "hats.csv", "hats.avro", "hats.jsonl"])
def test_a_file_without_result_rows_is_refused_by_its_name(tmp_path, hatstream, name):
    (tmp_path / name).write_bytes(b"not a row\n")
    code, _, err = hatstream("map", "--input", tmp_path / "*", "--output", tmp_path / "map.html")
    assert code == 4
    assert name in err
