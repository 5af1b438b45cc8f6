"""What becomes of a row is a matter of its own bytes: no other row of its file, batch or poll decides about it."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.transforms.inputs import good_row, iudx_element, json_line, mapped
from tests.transforms.layouts.strange_rows import CASES, MESSAGES
from transforms.layouts import layout


@pytest.mark.parametrize("name", CASES)
def test_a_row_more_in_a_file_leaves_all_others_as_they_were(
    name: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    case, path = CASES[name], tmp_path_factory.mktemp("rows") / "file"

    @given(st.lists(case.rows, min_size=1, max_size=5), case.rows, st.integers(0, 5))
    def check(rows: list[object], more: object, place: int) -> None:
        alone, single = case.of_file(rows, path), case.of_file([more], path)
        assert case.of_file([*rows[:place], more, *rows[place:]], path) == alone + single

    check()


@pytest.mark.parametrize("name", MESSAGES)
def test_a_message_more_in_a_poll_leaves_all_others_as_they_were(name: str) -> None:
    case = CASES[name]

    @given(st.lists(case.rows, min_size=1, max_size=5), case.rows, st.integers(0, 5))
    def check(rows: list[object], more: object, place: int) -> None:
        assert case.of_messages([*rows[:place], more, *rows[place:]]) == case.of_messages(rows) + case.of_messages(
            [more]
        )

    check()


@pytest.mark.parametrize("first", [b"[]", b"[5]", b'[{"vehicle":"bus"}]', b"[]\n[[]]\n5"])
def test_lines_stay_lines_whatever_the_first_of_them_is(first: bytes, tmp_path: Path) -> None:
    rows = [good_row(i) for i in range(3)]
    for source, lines in (
        (mapped("json"), map(json_line, rows)),
        (layout("iudx", None, None, None), map(iudx_element, rows)),
    ):
        path = tmp_path / "lines"
        path.write_bytes(b"\n".join([first, *lines]))
        assert sum(batch.table.num_rows for batch in source.read(str(path))) == len(rows)


@pytest.mark.parametrize(
    "text", [b"[]", b" [\n]\n", b'[{"vehicle":"a"}]', b'[\n {"vehicle":"a"},\n {"vehicle":"b"}\n]\n']
)
def test_an_array_is_an_array_in_whatever_lines(text: bytes, tmp_path: Path) -> None:
    path = tmp_path / "array"
    path.write_bytes(text)
    batches = list(mapped("json").read(str(path)))
    assert sum(batch.rows for batch in batches) == text.count(b"vehicle")
    assert all(batch.refused == {} for batch in batches)
