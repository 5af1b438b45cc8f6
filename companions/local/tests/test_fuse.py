"""`hatstream perturb` makes reports of telemetry, `hatstream fuse` fuses them: each is a matter of its own row."""

import csv
import io
import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from companions.local.tests.worlds import GOOD, rules
from hatstream_local.mechanisms.mechanism import LOCAL_MECHANISMS, Service
from hatstream_local.specification import load_fusion, parse_reports
from pipelines.cli import hatstream, main
from pipelines.errors import BAD_SPECIFICATION, DONE, FAILED, WRONG_USE
from pipelines.specification import SpecificationError
from tests.kit import feed_layouts, fusion_city
from transforms.layouts import layout


def write(folder: Path, text: str) -> Path:
    path = folder / "fusion.toml"
    path.write_text(text)
    return path


def key_in(folder: Path) -> Path:
    key = folder / "reports.key"
    key.write_text("ab" * 32)
    key.chmod(0o600)
    return key


@pytest.fixture
def reports(tmp_path: Path) -> Path:
    """A folder with a specification and the reports of 200 vehicles in two hours, all at 26 km/h, in every format."""
    lines = ["bus,ts,lat,lon,v"]
    for bus in range(200):
        lines += [f"{bus},2026-03-01T{hour}:{minute}:00Z,30.1,-97.7,26" for hour in (17, 18) for minute in (10, 40)]
    (tmp_path / "feed.csv").write_text("\n".join([*lines, "7,never,30,-97,1"]) + "\n")
    spec = write(tmp_path, fusion_city.spec())
    for kind in ("csv", "jsonl", "parquet", "avro"):
        arguments = ["perturb", "--spec", str(spec), "--input", str(tmp_path / "feed.csv"), "--json"]
        arguments += ["--key", str(key_in(tmp_path))]
        result = CliRunner().invoke(hatstream, [*arguments, "--output", str(tmp_path / f"reports.{kind}")])
        assert result.exit_code == DONE, result.output
        summary = json.loads(result.output)
        assert (summary["reports"], summary["vehicles"], summary["leakage"]) == (1_200, 200, 7.0)
        assert summary["refused"] == {"bad-time": 1}
    return tmp_path


def fused(folder: Path, kind: str) -> tuple[dict[str, object], list[dict[str, str]]]:
    spec = write(folder, fusion_city.spec(layout=kind))
    arguments = ["fuse", "--spec", str(spec), "--input", str(folder / f"reports.{kind}"), "--formats", "csv,parquet"]
    result = CliRunner().invoke(hatstream, [*arguments, "--output", str(folder / "out"), "--json"])
    assert result.exit_code == DONE, result.output
    document = json.loads(result.output)
    written, table = (Path(name) for name in document["files"])
    with written.open() as file:
        rows = list(csv.DictReader(file))
    assert pq.read_table(table).num_rows == len(rows)
    return document, rows


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet", "avro"])
def test_reports_of_every_layout_are_fused_per_hour(reports: Path, kind: str) -> None:
    document, rows = fused(reports, kind)
    assert document["refused"] == {}
    assert (document["reports"], document["users"]) == (1_200, 200)
    assert (document["epsilon_user_value"], document["epsilon_user_most"]) == (3.5, 7.0)
    means = [row for row in rows if row["statistic"] == "mean"]
    starts = [row["slot_start"] for row in means if row["service"] == "all"]
    assert starts == [f"2026-03-01T{hour}:00:00-06:00" for hour in (11, 12)]
    for row in means:
        assert float(row["lower95"]) <= float(row["value"]) <= float(row["upper95"])
    for row in means[::4]:
        assert row["users"] == "200"
        assert abs(float(row["value"]) - 26) < 15  # six standard errors
        assert row["epsilon_user"] == "3.5"
    assert len([row for row in rows if row["statistic"] == "share"]) == 2 * 16


def test_bad_reports_are_counted_dead_letters_and_change_nothing_else(reports: Path) -> None:
    _, clean = fused(reports, "csv")
    lines = (reports / "reports.csv").read_text().splitlines()
    user, service, _, mechanism, time, cell, _ = lines[1].split(",")
    bad = [
        f"{user},{service},0.7,{mechanism},{time},{cell},0.1",
        f"{user},spam,0.5,{mechanism},{time},{cell},0.1",
        f"{user},{service},0.5,{mechanism},{time},{cell},1e9",
        "half a line",
        lines[1],
    ]
    (reports / "reports.csv").write_text("\n".join([*lines, *bad]) + "\n")
    document, spoiled = fused(reports, "csv")
    assert spoiled == clean
    assert document["refused"] == {
        "read/malformed": 1,
        "parse/other-epsilon": 1,
        "parse/unknown-service": 1,
        "parse/outside-range": 1,
        "join/repeated": 1,
    }


def test_an_input_without_a_usable_report_is_a_failure(reports: Path) -> None:
    spec = write(reports, fusion_city.spec())
    (reports / "empty.csv").write_text("user,service,epsilon,mechanism,time,report\nu,maps,0.5,pm,never,0.1\n")
    arguments = ["fuse", "--spec", str(spec), "--input", str(reports / "empty.csv"), "--output", str(reports / "out")]
    assert main(arguments) == FAILED
    assert main([*arguments[:2], str(reports / "feed.csv"), *arguments[3:]]) == BAD_SPECIFICATION


@pytest.mark.parametrize("layout", ["parquet", "jsonl", "csv"])
def test_telemetry_without_a_row_makes_no_reports(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], layout: str
) -> None:
    text = fusion_city.spec().replace('[telemetry]\nlayout = "csv"', f'[telemetry]\nlayout = "{layout}"')
    feed = tmp_path / "feed"
    feed.write_text("bus,ts,lat,lon,v\n" if layout == "csv" else "")
    if layout == "parquet":
        pq.write_table(pa.table({name: pa.array([], pa.string()) for name in ("bus", "ts", "lat", "lon", "v")}), feed)
    arguments = ["--spec", str(write(tmp_path, text)), "--input", str(feed), "--output", str(tmp_path / "r.csv")]
    assert main(["perturb", *arguments, "--key", str(key_in(tmp_path))]) == FAILED
    assert "no row of the telemetry is usable, of 0 rows (there are none)" in capsys.readouterr().err


def test_no_map_is_drawn_without_cells_and_no_reports_are_written_that_cannot_be_fused(
    reports: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spec = write(reports, fusion_city.spec())
    arguments = ["--spec", str(spec), "--input", str(reports / "reports.csv"), "--output", str(reports / "out")]
    assert main(["fuse", *arguments, "--formats", "csv,geojson"]) == WRONG_USE
    assert "the specification needs [cells]" in capsys.readouterr().err
    assert not (reports / "out").exists()
    arguments[-1] = str(reports / "more.geojson")
    assert main(["perturb", *arguments, "--key", str(reports / "reports.key")]) == WRONG_USE
    assert "--output must end in one of" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("upper_kmh = 65", "upper_kmh = 0", "upper_kmh"),
        ("minutes = 60", "minutes = 90", "slot.minutes must divide an hour"),
        ('"America/Chicago"', '"Nowhere"', "slot.timezone"),
        ('mechanism = "pm"', 'mechanism = "gauss"', "service.mechanism must be one of laplace, pm, sr, sw"),
        ("epsilon = 0.5", "epsilon = 0", "service.epsilon"),
        ('name = "traffic"', 'name = "maps"', "all different"),
        ("buckets = 16", "buckets = 1", "fusion.buckets"),
        ("buckets = 16", "bucket = 16", "bucket"),
        ('time = "time"\n', "", "needs exactly"),
        ('layout = "csv"', 'layout = "capmetro"', "input.layout"),
    ],
)
def test_a_wrong_specification_is_refused_by_field_rule_and_value(
    tmp_path: Path, old: str, new: str, message: str
) -> None:
    text = fusion_city.spec()
    assert old in text
    with pytest.raises(SpecificationError, match=message):
        load_fusion(write(tmp_path, text.replace(old, new, 1)))


def test_what_decides_the_result_decides_the_spec_id(tmp_path: Path) -> None:
    text = fusion_city.spec()
    first = load_fusion(write(tmp_path, text)).spec_id
    assert load_fusion(write(tmp_path, text.replace("three services", "others"))).spec_id == first
    assert load_fusion(write(tmp_path, text.replace("epsilon = 2", "epsilon = 3"))).spec_id != first


RULES = rules([Service("maps", LOCAL_MECHANISMS["pm"](0.5))])
TEXTS = ["", "b", "7", "maps", "é"]
JSON: list[Any] = [7, 2**70, 7.0, None, True, [1], {}, 10**400]
AVRO: list[Any] = [7, 7.0, True, b"maps", b"\xff", None]
NUMBERS: list[Any] = ["0.25", "nan", "1e999", ""]


def rows(texts: Sequence[Any], numbers: Sequence[Any]) -> st.SearchStrategy[Mapping[str, Any]]:
    pools = {name: numbers if name in ("epsilon", "report") else texts for name in GOOD}
    odd = st.fixed_dictionaries({}, optional={name: st.sampled_from(pool) for name, pool in pools.items()})
    return odd.map(lambda fields: GOOD | fields)


def avro(rows: Sequence[Mapping[str, Any]]) -> bytes:
    kinds = ["null", "boolean", "long", "double", "string", "bytes"]
    file, schema = io.BytesIO(), {"type": "record", "name": "r", "fields": [{"name": n, "type": kinds} for n in GOOD]}
    fastavro.writer(file, schema, rows)
    return file.getvalue()


WAYS = {
    "csv": (feed_layouts.csv, rows(TEXTS, NUMBERS)),
    "jsonl": (feed_layouts.jsonl, rows([*TEXTS, *JSON], [*NUMBERS, *JSON])),
    "json": (feed_layouts.array, rows([*TEXTS, *JSON], [*NUMBERS, *JSON])),
    "avro": (avro, rows([*TEXTS, *AVRO], [*NUMBERS, *AVRO])),
}


@pytest.mark.few(2)
@pytest.mark.parametrize("name", WAYS)
def test_a_report_more_leaves_all_others_as_they_were(name: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    written: Callable[[Sequence[Mapping[str, Any]]], bytes]
    (written, path_of), path = WAYS[name], tmp_path_factory.mktemp("reports") / "file"
    reports = layout(name, {field: field for field in GOOD}, "iso", fields=tuple(GOOD))

    def fates(rows: Sequence[Mapping[str, Any]]) -> Counter[Any]:
        path.write_bytes(written(rows))
        counted = Counter[Any]()
        for batch in reports.read(str(path)):
            accepted, refused = parse_reports(batch.table, RULES)
            counted.update(zip(*(column.tolist() for column in accepted), strict=True))
            counted.update(Counter(batch.refused) + Counter(refused))
        return counted

    @given(st.lists(path_of, min_size=1, max_size=5), path_of, st.integers(0, 5))
    def check(rows: list[Mapping[str, Any]], extra: Mapping[str, Any], place: int) -> None:
        assert fates([*rows[:place], extra, *rows[place:]]) == fates(rows) + fates([extra])

    check()
