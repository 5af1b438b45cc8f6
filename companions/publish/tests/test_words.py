"""Texts of map and portal in five languages, by one table."""

import re
from pathlib import Path

import pytest

from hatstream_publish.commands.map import claim_of
from hatstream_publish.pages.page import words
from hatstream_publish.pages.rows import ADVICE, STATUSES
from pipelines.specification import load
from tests import levels_city
from tests.kit.results import CELLS, row, write
from tests.servers import asked

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
    assert texts | {*STATUSES.values(), *ADVICE.values()} <= english


@pytest.mark.parametrize(
    "limit",
    [
        "limit = { epsilon = 2.64, delta = 1e-6 }",
        "limits = [{ days = 1, epsilon = 2.64, delta = 1e-6 }, { days = 28, epsilon = 10, delta = 1e-6 }]",
    ],
)
def test_what_a_map_of_a_drafted_specification_claims_is_in_the_table(tmp_path, limit) -> None:
    text = levels_city.SPEC.replace("limit = 2.64", limit).replace(
        "epsilon = 2.64\nper", "delta = 1e-6\nepsilon = 1\nper"
    )
    (tmp_path / "spec.toml").write_text(text)
    english = {row[0] for row in words()}
    sentences = re.split(r"(?<=\.) ", claim_of(load(tmp_path / "spec.toml")))
    assert [said for said in sentences if re.sub(r"\d[\d.,:e^-]*\d|\d", "{}", said) not in english] == []


def test_a_map_speaks_the_language_that_is_asked_for_before_the_sites(page, tmp_path, hatstream) -> None:
    write(tmp_path / "hats.parquet", [row(cell, 6, 10.5) for cell in CELLS])
    drawn = ("map", "--input", tmp_path / "*.parquet", "--output", tmp_path / "map.html")
    for options, asks, language, value, shown in (
        ((), "", "en", "10.5 km/h", "Table"),
        ((), "?lang=de", "de", "10,5 km/h", "Tabelle"),
        (("--language", "fr"), "", "fr", "10,5 km/h", "Tableau"),
        (("--language", "fr"), "?lang=pt", "pt", "10,5 km/h", "Tabela"),
    ):
        assert hatstream(*drawn, *options)[0] == 0
        page.open((tmp_path / "map.html").as_uri() + asks, f"place={CELLS[3]}")
        assert asked(page, "LANGUAGE") == language
        assert (page.one("#p-value").text, page.one("#as-table").text) == (value, shown)
        assert page.one("#legend-title").text.endswith(", km/h")
    assert page.one("#claim summary").text == "O que protege os veículos"
    assert "privacidade diferencial" in page.one("#claim p").get_attribute("textContent")
    page.open((tmp_path / "map.html").as_uri() + "?lang=es")
    check_sentences(page)
    assert (page.complaints(), page.requests()) == ([], [])


def check_sentences(page) -> None:
    """Numbers of a sentence are its values, and no sentence is half translated."""
    said = "By definition (epsilon 2.64, delta 1e-06), any set of such figures is at most 14 times as likely with the "
    said += "vehicle as without it, plus 1e-06, and vice versa."
    assert asked(page, "plainly(arguments[0])", said).startswith("Por definición (épsilon 2.64, delta 1e-06), ")
    assert asked(page, "plainly(arguments[0])", f"{said} Not in the table.") == f"{said} Not in the table."
    of_days = "Everything that the account releases about any 28 consecutive days of one vehicle raises the odds of a "
    of_days += (
        "true guess about them by at most a factor of 22,100 (epsilon 10), but for a chance of 6.3e-06 under the "
    )
    of_days += "noise that is drawn, on however many of them it drove."
    both = asked(page, "plainly(arguments[0])", f"{said} {of_days}")
    assert both.startswith("Por definición (épsilon 2.64, ")
    assert "un factor de 22\u202f100 como máximo" in both


def test_a_title_that_publish_makes_is_translated_and_the_city_s_own_is_not(page, tmp_path, hatstream) -> None:
    write(tmp_path / "hats.parquet", [row(cell, 6, 10.5) for cell in CELLS])
    for title, shown in (
        ("Hourly speeds of vehicles: Town", "Stündliche Geschwindigkeiten von Fahrzeugen: Town"),
        ("30-minute speeds of vehicles: Town", "Geschwindigkeiten von Fahrzeugen je 30 Minuten: Town"),
        ("Buses of Town: a map", "Buses of Town: a map"),
    ):
        drawn = ("map", "--input", tmp_path / "*.parquet", "--title", title, "--output", tmp_path / "map.html")
        assert hatstream(*drawn)[0] == 0
        page.open((tmp_path / "map.html").as_uri() + "?lang=de")
        assert (page.driver.title, page.one("h1").text) == (shown, shown)


def test_a_place_has_a_small_day_for_each_day_of_the_week(page, tmp_path, hatstream) -> None:
    rows = [row(CELLS[0], hour, 10.0 + hour, day=day) for day in (13, 14) for hour in (6, 7, 8)]
    write(tmp_path / "hats.parquet", [*rows, row(CELLS[1], 6, 9.0)])
    assert hatstream("map", "--input", tmp_path / "*.parquet", "--output", tmp_path / "map.html")[0] == 0
    page.open(tmp_path / "map.html", f"place={CELLS[0]}")
    assert [bool(path.get_attribute("d")) for path in page.all(".days .values")] == [day in (2, 3) for day in range(7)]
    page.driver.get("about:blank")
    page.open(tmp_path / "map.html", f"place={CELLS[1]}")
    assert page.all(".days") == []
