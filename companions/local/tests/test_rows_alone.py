"""What becomes of a report is a matter of its own row, in every layout that reports come in."""

import io
import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st

from companions.local.tests.worlds import rules
from hatstream_local.fusion.columns import parse_reports
from hatstream_local.mechanisms.mechanism import LOCAL_MECHANISMS, Service
from transforms.layouts import layout

RULES = rules([Service("maps", LOCAL_MECHANISMS["pm"](0.5))])
GOOD = {"user": "a1", "service": "maps", "epsilon": 0.5, "mechanism": "pm", "time": "2026-03-01T10:20:00-06:00",
        "cell": "872830828ffffff", "report": 0.25}  # fmt: skip
TEXTS = ["", "b", "7", "maps", "é"]
JSON: list[Any] = [7, 2**70, 7.0, None, True, [1], {}, 10**400]
AVRO: list[Any] = [7, 7.0, True, b"maps", b"\xff", None]
NUMBERS: list[Any] = ["0.25", "nan", "1e999", ""]


def rows(texts: Sequence[Any], numbers: Sequence[Any]) -> st.SearchStrategy[Mapping[str, Any]]:
    pools = {name: numbers if name in ("epsilon", "report") else texts for name in GOOD}
    odd = st.fixed_dictionaries({}, optional={name: st.sampled_from(pool) for name, pool in pools.items()})
    return odd.map(lambda fields: GOOD | fields)


def csv(rows: Sequence[Mapping[str, Any]]) -> bytes:
    return "\n".join([",".join(GOOD), *(",".join(map(str, row.values())) for row in rows)]).encode()


def lines(rows: Sequence[Mapping[str, Any]]) -> bytes:
    return "\n".join(map(json.dumps, rows)).encode()


def array(rows: Sequence[Mapping[str, Any]]) -> bytes:
    return json.dumps(list(rows)).encode()


def avro(rows: Sequence[Mapping[str, Any]]) -> bytes:
    kinds = ["null", "boolean", "long", "double", "string", "bytes"]
    file, schema = io.BytesIO(), {"type": "record", "name": "r", "fields": [{"name": n, "type": kinds} for n in GOOD]}
    fastavro.writer(file, schema, rows)
    return file.getvalue()


WAYS = {
    "csv": (csv, rows(TEXTS, NUMBERS)),
    "jsonl": (lines, rows([*TEXTS, *JSON], [*NUMBERS, *JSON])),
    "json": (array, rows([*TEXTS, *JSON], [*NUMBERS, *JSON])),
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
