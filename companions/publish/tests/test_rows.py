"""Result files read back: every format alike, each HAT once, and nothing that contradicts itself."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hatstream_publish.pages.rows import read_results, read_rows
from pipelines.errors import InputError
from pipelines.specification import load
from tests.city import AUSTIN
from tests.kit.results import CELLS, PARENT, WITH_PARENTS, known_of, row, write
from transforms.sinks.published import OPTIONAL, SCHEMA
from transforms.sinks.rows import FORMATS, columns_in, schema_of

LISTS = schema_of(["distribution"])


def with_lists() -> list[dict[str, object]]:
    numbers = {name: 12.5 for name in LISTS.names if name not in SCHEMA.names}
    return [row(CELLS[0], 6, 12.0) | numbers | {"cdf": [0.25, 1.0], "statistic": "distribution"}]


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize(
    ("rows", "schema"),
    [
        ([row(CELLS[0], 6, 12.25), row(CELLS[1], 6, None)], SCHEMA),
        ([known_of(row(CELLS[0], 6, 12.25), PARENT, 20.5), known_of(row(CELLS[1], 6, None), PARENT, 3)], WITH_PARENTS),
        (with_lists(), LISTS),
    ],
    ids=["plain", "parents", "lists"],
)
def test_every_format_says_the_same(tmp_path, kind, rows, schema):
    path = tmp_path / f"hats.{kind}"
    path.write_bytes(FORMATS[kind](columns_in(rows, schema), schema, "stem"))
    assert read_rows([str(path)])[0].to_pylist() == pa.Table.from_pylist(rows, schema=schema).to_pylist()


def test_live_values_give_way_to_those_of_the_whole_day(tmp_path):
    live_by = {"mechanism": "levels-live"}
    live = [row(cell, 6, 9.0) | live_by for cell in CELLS[:2]]
    paths = [write(tmp_path / "live.parquet", live), write(tmp_path / "hats.parquet", [row(CELLS[0], 6, 12.0)])]
    paths.append(write(tmp_path / "live-later.parquet", [row(CELLS[1], 6, 7.0, day=14) | live_by]))
    rows = read_rows(list(map(str, paths)))[0].to_pylist()
    assert {(row["cell"], row["value"]) for row in rows} == {(CELLS[0], 12.0), (CELLS[1], 7.0)}


@pytest.mark.parametrize("extra", [{}, {"spec_id": "1" * 16}], ids=["another estimate", "another specification"])
def test_two_files_of_the_same_rows_are_one_and_different_values_are_refused(tmp_path, extra):
    paths = [str(write(tmp_path / f"{name}.parquet", [row(CELLS[0], 6, 12.0)])) for name in ("a", "b")]
    assert read_rows(paths)[0].num_rows == 1
    paths.append(str(write(tmp_path / "c.parquet", [row(CELLS[0], 6, 12.5) | extra])))
    with pytest.raises(InputError, match="different values of the same place and slot"):
        read_rows(paths)


def test_coarser_products_are_tables_of_their_own(tmp_path):
    schema = pa.schema([*SCHEMA, pa.field("product", OPTIONAL["product"])])
    rows = [row("city", hour, 12.0) | {"product": "city-hour"} for hour in (6, 7)]
    coarse = tmp_path / "city-hour.parquet"
    coarse.write_bytes(FORMATS["parquet"](columns_in(rows, schema), schema, "stem"))
    hats = write(tmp_path / "hats.parquet", [row(CELLS[0], 6, 12.0)])
    tables = read_results([str(coarse), str(hats)])
    assert {name: table.num_rows for name, table in tables.items()} == {"hats": 1, "city-hour": 2}
    assert "product" not in tables["hats"].column_names
    with pytest.raises(InputError, match="coarser products"):
        read_rows([str(coarse)])


def test_what_no_page_can_hold_is_refused_in_a_sentence(tmp_path, hatstream):
    def refusal(rows: pa.Table) -> str:
        path = tmp_path / "hats.parquet"
        pq.write_table(rows, path)
        code, _, err = hatstream("map", "--input", path, "--output", tmp_path / "map.html")
        assert code == 4
        return err

    plain = pa.Table.from_pylist([row(CELLS[0], 6, 12.0)], schema=SCHEMA)
    repeated = plain.take(pa.array([0] * 20_000))
    index_of = SCHEMA.get_field_index
    starts = [f"2026-05-13T06:00:00.{slot:06}-06:00" for slot in range(20_000)]
    cells = [f"{number:x}" for number in range(20_000)]
    wide = repeated.set_column(index_of("slot_start"), "slot_start", pa.array(starts))
    wide = wide.set_column(index_of("cell"), "cell", pa.array(cells))
    assert "20,000 slots of 20,000 places" in refusal(wide)
    assert "is no H3 cell" in refusal(plain.set_column(index_of("cell"), "cell", pa.array(["x" * 5_000])))
    no_offset = plain.set_column(index_of("slot_start"), "slot_start", pa.array(["2026-05-13T06:00:00"]))
    assert "with a UTC offset" in refusal(no_offset)


def test_a_day_fills_no_hour_without_a_trip(tmp_path):
    """Rows of files that were written without the list are left out too."""
    schema = pa.schema([*SCHEMA, pa.field("product", OPTIONAL["product"])])
    days, path = [row(cell, 0, 12.0) | {"product": "days"} for cell in CELLS[:2]], tmp_path / "days.parquet"
    path.write_bytes(FORMATS["parquet"](columns_in(days, schema), schema, "stem"))
    hats = write(tmp_path / "hats.parquet", [row(CELLS[0], hour, 12.0) for hour in (6, 7)])
    (tmp_path / "hours.csv").write_text(f"cell,weekdays,hours\n{CELLS[0]},wed,6\n{CELLS[1]},wed,7\n")
    (tmp_path / "spec.toml").write_text(AUSTIN.replace("minutes = 60", 'minutes = 60\ntrips = "hours.csv"'))
    spec, paths = load(tmp_path / "spec.toml"), [str(hats), str(path)]
    tables = [read_rows(paths, listed)[0].to_pylist() for listed in (None, spec)]
    shown = [{(row["cell"], row["slot_start"][11:13]) for row in rows} for rows in tables]
    assert shown[1] == {(CELLS[0], "06"), (CELLS[1], "07")}
    assert shown[0] == {(cell, hour) for cell in CELLS[:2] for hour in ("06", "07")}
