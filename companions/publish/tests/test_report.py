"""The report in a real browser, its odds, texts of pages in five languages, and pages on phones and on paper."""

import base64
import math
import re
import tomllib
from pathlib import Path

import pytest

from companions.publish.tests.conftest import collected, mapped
from hatstream_publish.commands.map import claim_of
from hatstream_publish.edition.site import TITLE_BY_PRODUCT
from hatstream_publish.pages.page import GUESSES, odds, reliability, words
from hatstream_publish.pages.rows import ADVICE, STATUSES, read_rows
from pipelines.account import location
from pipelines.specification import load
from tests import city, levels_city
from tests.kit.results import CELLS, drawn_map, known_of, row, write
from tests.servers import asked

AREAS = ((CELLS[0], 4.0), (CELLS[1], 20.0))  # cells, and half widths of the intervals around them


@pytest.fixture
def released(tmp_path, hatstream):
    """A city of which the first of two days is released."""
    city.opened(tmp_path, hatstream)
    assert hatstream(*city.release(tmp_path, end=city.DAYS[0]))[0] == 0
    return tmp_path


def report(folder, hatstream, *arguments):
    place = ["--spec", folder / "spec.toml", "--ledger", folder / "ledger.sqlite"]
    return hatstream("report", *place, "--output", folder / "report.html", *arguments)


def report_of(folder, hatstream, *arguments):
    code, _, err = report(folder, hatstream, *arguments)
    assert (code, err) == (0, "")
    return folder / "report.html"


def test_the_report_says_what_is_promised_spent_good_and_missing(page, released, hatstream):
    arguments = ["--input", released / "out" / "*.parquet", "--from", city.DAYS[0], "--to", city.DAYS[1]]
    path = report_of(released, hatstream, *arguments)
    page.open(path)
    text = page.one("main").text
    assert len(page.all("#budget rect.bar")) == 1
    assert "4 of 8 slots are due and not released whole" in text
    assert "that a vehicle drove, when and where is treated as public" in text
    assert "A driver of several is protected less: the factors multiply" in text
    assert city.DAYS[0] in page.one("details").get_attribute("textContent")
    assert (page.complaints(), page.requests()) == ([], [])


def test_a_total_with_delta_is_what_was_spent_and_decides_the_odds(tmp_path, hatstream):
    spec = levels_city.SPEC.replace("limit = 2.64", "limit = { epsilon = 2.64, delta = 1e-6 }")
    publisher = '[publisher]\ncontroller = "Town"\ncontact = "a@b.example"\n'
    publisher += 'also_published = "a GTFS-realtime feed of all buses"\n'
    with_delta = spec.replace("epsilon = 2.64\nper", "epsilon = 2.64\ndelta = 1e-6\nper")
    levels_city.write(tmp_path, spec=with_delta + publisher)
    assert load(tmp_path / "spec.toml").spec_id == load(tomllib.loads(with_delta)).spec_id
    hatstream(*city.init(tmp_path))
    first = levels_city.DAYS[0]
    assert hatstream(*city.release(tmp_path, start=first, end=first))[0] == 0
    page = report_of(tmp_path, hatstream, "--input", tmp_path / "out" / "*.parquet").read_text()
    text = re.sub(r"\s+", " ", page)
    assert "A habit of a month is not protected" in text
    assert '<td class="number">more than 99.999 %</td><td class="number">less than 0.001 %</td>' in text  # of 30 days
    assert "<dd>a GTFS-realtime feed of all buses</dd>" in text
    assert "<dd>Town, a@b.example</dd>" in text
    assert "Of 100 rows, a place in a slot each, 0 are usable by themselves" in text
    assert "0 are, and 100 are held back until more days tell of them." in text
    assert "At the epsilon of 2.64 that was spent on the day with the most, at a delta of 1e-06 (the noise" in text
    assert "(the noise carries each number below further with a chance of 2.1e-06):" in text
    assert '<td class="number">50&nbsp;%</td><td class="number">93.34 %</td><td class="number">6.66 %</td>' in text
    assert f'<td>{first}</td><td class="number">2.64</td>' in text
    assert "an epsilon of 2.64 at delta 1e-06 may be spent" in text


def test_the_report_ends_in_a_record_to_sign(released, hatstream):
    """Of an epsilon of 9 for each day, as every limit without delta adds up: 1, 5, 7 and 30 days."""
    text = re.sub(r"\s+", " ", report_of(released, hatstream).read_text())
    spec = load(released / "spec.toml")
    book = location.find(str(released / "ledger.sqlite"), None).reader()
    newest = book.hash_of(book.last_of(spec.spec_id, city.DAYS[0])).partition(".")[0]
    for phrase in (spec.spec_id, newest, "The signatures of all its entries were compared", "Signature", "kept until"):
        assert phrase in text
    spent = float(sum(debit.epsilon for debit in book.spent(spec.account.name)))
    rows = re.findall(r'<tr><td class="number">(\d+)</td><td class="number">([\d.]+)</td>', text)
    assert [(int(days), float(epsilon)) for days, epsilon in rows] == [(days, days * spent) for days in (1, 5, 7, 30)]


def test_a_ledger_that_is_not_whole_has_no_report(released, hatstream):
    newest = "UPDATE entry SET period = '2022-01-09' WHERE seq = (SELECT max(seq) FROM entry)"
    city.tamper(released, "DROP TRIGGER IF EXISTS no_update", newest)
    assert report(released, hatstream)[0] == 4
    assert not (released / "report.html").exists()


def test_an_account_without_releases_has_a_report_too(tmp_path, hatstream):
    city.write(tmp_path)
    hatstream(*city.init(tmp_path))
    assert "Nothing has been released yet" in report_of(tmp_path, hatstream).read_text()


def test_rows_of_another_specification_are_refused(released, hatstream):
    (released / "spec.toml").write_text(city.SPEC.replace("upper_kmh = 65", "upper_kmh = 60"))
    code, _, err = report(released, hatstream, "--input", released / "out" / "*.parquet")
    assert (code, "the result files hold rows of" in err) == (4, True), err


def test_rows_are_counted_by_status_with_the_widths_of_their_intervals(tmp_path):
    rows = [row(CELLS[0], 6, 20.0, half_kmh=5.0), row(CELLS[1], 6, 20.0, half_kmh=20.0), row(CELLS[2], 6, None)]
    counted = reliability(read_rows([str(write(tmp_path / "hats.parquet", rows))])[0])
    assert [(row["status"], row["rows"], row["reliable"]) for row in counted] == [("no-data", 1, 0.0), ("ok", 2, 0.5)]
    assert counted[0]["half"] is None


def test_of_rows_known_by_their_area_the_areas_interval_is_counted(tmp_path):
    rows = [known_of(row(cell, 6, 20.0, half_kmh=30.0), "86", 20.0, half_kmh=width) for cell, width in AREAS]
    (counted,) = reliability(read_rows([str(write(tmp_path / "hats.parquet", rows))])[0])
    assert (counted["status"], counted["reliable"], counted["half"][1]) == ("parent", 0.5, pytest.approx(12.0))


def test_the_odds_are_bayes_rule_at_the_worst_likelihood_ratio():
    for guess in odds(1.0):
        assert guess.most / (1 - guess.most) == pytest.approx(math.e * guess.before / (1 - guess.before))
        assert guess.least / (1 - guess.least) == pytest.approx(guess.before / (1 - guess.before) / math.e)
    assert [guess.before for guess in odds(1.0)] == list(GUESSES)


def test_with_places_the_report_says_what_they_tell_of_who_comes_every_day(tmp_path, hatstream):
    levels_city.opened(tmp_path, hatstream, spec=levels_city.SPEC + "[places]\nresolution = 8\n")
    text = re.sub(r"\s+", " ", report_of(tmp_path, hatstream).read_text())
    assert "A place where somebody is every day" in text
    pattern = r'<td class="number">([\d.]+)</td><td class="number">([\d.]+)</td>'
    rows = re.findall(pattern, text.split('id="standing"')[1])
    assert rows[:2] == [("1", "2.64"), ("28", "73.92")]
    assert "little protection for who never moves" in text


TEMPLATES = Path(__file__).parents[1] / "hatstream_publish" / "pages" / "templates"
CALLED = re.compile(r"""\bt\((?:[^()"']*\? )?("[^"]+"|'[^']+')(?: : ("[^"]+"))?""")


def test_each_text_of_the_program_is_in_the_table_in_every_language() -> None:
    languages, *rows = words()
    assert languages == ["en", "de", "fr", "es", "pt"]
    assert all(len({text.count("{}") for text in row}) == 1 and all(row) for row in rows)
    english = {row[0] for row in rows}
    program = "".join(path.read_text() for path in TEMPLATES.glob("map/*.js"))
    texts = {text[1:-1] for found in CALLED.findall(program) for text in found if text}
    assert len(texts) > 30
    assert texts | {*STATUSES.values(), *ADVICE.values(), *TITLE_BY_PRODUCT.values()} <= english


DAY, MONTH = "epsilon = 2.64, delta = 1e-6 }", "{ days = 28, epsilon = 10, delta = 1e-6 }"


@pytest.mark.parametrize("limit", [f"limit = {{ {DAY}", f"limits = [{{ days = 1, {DAY}, {MONTH}]"])
def test_what_a_map_of_a_drafted_specification_claims_is_in_the_table(tmp_path, limit) -> None:
    text = levels_city.SPEC.replace("limit = 2.64", limit)
    (tmp_path / "spec.toml").write_text(text.replace("epsilon = 2.64\nper", "delta = 1e-6\nepsilon = 1\nper"))
    english = {row[0] for row in words()}
    sentences = re.split(r"(?<=\.) ", claim_of(load(tmp_path / "spec.toml")))
    assert [said for said in sentences if re.sub(r"\d[\d.,:e^-]*\d|\d", "{}", said) not in english] == []


def test_a_map_speaks_the_language_that_is_asked_for_before_the_sites(page, tmp_path, hatstream) -> None:
    for options, asks, language, value, shown in (
        ((), "", "en", "10.5 km/h", "Table"),
        ((), "?lang=de", "de", "10,5 km/h", "Tabelle"),
        (("--language", "fr"), "", "fr", "10,5 km/h", "Tableau"),
        (("--language", "fr"), "?lang=pt", "pt", "10,5 km/h", "Tabela"),
    ):
        path = mapped(tmp_path, hatstream, [row(cell, 6, 10.5) for cell in CELLS], *options)
        page.open(path.as_uri() + asks, f"place={CELLS[3]}")
        assert asked(page, "LANGUAGE") == language
        assert (page.one("#p-value").text, page.one("#as-table").text) == (value, shown)
        assert page.one("#legend-title").text.endswith(", km/h")
    assert page.one("#claim summary").text == "O que protege os veículos"
    assert "privacidade diferencial" in page.one("#claim p").get_attribute("textContent")
    page.open(path.as_uri() + "?lang=es")
    check_sentences(page)
    assert (page.complaints(), page.requests()) == ([], [])


def check_sentences(page) -> None:
    """Numbers of a sentence are its values, and no sentence is half translated."""
    said = "By definition (epsilon 2.64, delta 1e-06), any set of such figures is at most 14 times as likely with the "
    said += "vehicle as without it, plus 1e-06, and vice versa."
    assert asked(page, "plainly(arguments[0])", said).startswith("Por definición (épsilon 2.64, delta 1e-06), ")
    assert asked(page, "plainly(arguments[0])", f"{said} Not in the table.") == f"{said} Not in the table."
    of_days = (
        "Everything that the account releases about any 28 consecutive days of one vehicle raises the odds of a true "
        "guess about them by at most a factor of 22,100 (epsilon 10), but for a chance of 6.3e-06 under the noise "
        "that is drawn, on however many of them it drove."
    )
    both = asked(page, "plainly(arguments[0])", f"{said} {of_days}")
    assert both.startswith("Por definición (épsilon 2.64, ")
    assert "un factor de 22\u202f100 como máximo" in both


def test_a_title_that_publish_makes_is_translated_and_the_city_s_own_is_not(page, tmp_path, hatstream) -> None:
    for title, shown in (
        ("Hourly speeds of vehicles: Town", "Stündliche Geschwindigkeiten von Fahrzeugen: Town"),
        ("30-minute speeds of vehicles: Town", "Geschwindigkeiten von Fahrzeugen je 30 Minuten: Town"),
        ("Buses of Town: a map", "Buses of Town: a map"),
    ):
        path = mapped(tmp_path, hatstream, [row(cell, 6, 10.5) for cell in CELLS], "--title", title)
        page.open(path.as_uri() + "?lang=de")
        assert (page.driver.title, page.one("h1").text) == (shown, shown)


def test_a_place_has_a_small_day_for_each_day_of_the_week(page, tmp_path, hatstream) -> None:
    rows = [row(CELLS[0], hour, 10.0 + hour, day=day) for day in (13, 14) for hour in (6, 7, 8)]
    path = mapped(tmp_path, hatstream, [*rows, row(CELLS[1], 6, 9.0)])
    page.open(path, f"place={CELLS[0]}")
    assert [bool(path.get_attribute("d")) for path in page.all(".days .values")] == [day in (2, 3) for day in range(7)]
    page.driver.get("about:blank")
    page.open(path, f"place={CELLS[1]}")
    assert page.all(".days") == []


# --- pages on phones and on paper: what only these show, how many sheets they take, and that the screen stays ---------


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


def test_a_report_is_three_sheets_with_the_table_open_and_a_line_to_sign(page, released, hatstream):
    report = report_of(released, hatstream, "--input", released / "out" / "*.parquet")
    with page.screen(390, 844):
        page.open(report)
        tables = "[...document.querySelectorAll('.scroll > table')]"
        assert asked(page, f"{tables}.every(e => e.scrollWidth <= e.parentNode.clientWidth)")
        assert asked(page, "document.getElementById('figures').rows.length") > 1
    page.open(report)
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
        tops = asked(
            page, "['.legend', '#panel'].map(part => document.querySelector(part).getBoundingClientRect().top)"
        )
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
    named = {"place": CELLS[0], "name": "Queen's / Kingston General Hospital and Old Station", "departures": 9}
    places = collected(tmp_path / "places.geojson", [(None, named)])
    path = mapped(tmp_path, hatstream, [row(cell, 6, 10.0) for cell in CELLS], "--places", places)
    page.open(path)
    name = "placedNames(el('map').getContext('2d'))[0]"
    assert len(asked(page, f"{name}.lines")) <= 2
    with page.screen(390, 844):
        page.open(path)
        lines, half = asked(page, f"[{name}.lines, {name}.half]")
        assert [line[-1] for line in lines] == ["…"]
        assert 2 * half[0] <= 390 / 2.5
