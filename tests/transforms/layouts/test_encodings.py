"""Texts that are not UTF-8 as a whole: their file is refused by name, not row by row."""

import gzip

import pytest

from tests.kit import feed_layouts
from tests.transforms.inputs import good_row, mapped
from transforms.layouts import UnreadableFile


@pytest.mark.parametrize("ending", ["", ".gz"])
@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-be"])
@pytest.mark.parametrize("kind", feed_layouts.TEXTS)
def test_utf16_is_refused_as_a_file(kind, encoding, ending, tmp_path):
    path = tmp_path / f"a{ending}"
    text = feed_layouts.WRITERS[kind][1]([good_row(i) for i in range(3)]).decode()
    data = (text if encoding == "utf-16" else "\ufeff" + text).encode(encoding)
    path.write_bytes(gzip.compress(data) if ending else data)
    with pytest.raises(UnreadableFile, match="the text is UTF-16: save it as UTF-8"):
        list(mapped(kind).read(str(path)))


@pytest.mark.parametrize("size", [0, 1])
@pytest.mark.parametrize("kind", ["jsonl", "json"])
def test_a_file_that_is_too_short_for_any_mark_is_read(kind, size, tmp_path):
    (tmp_path / "a").write_bytes(b"\xff"[:size])
    assert sum(batch.table.num_rows for batch in mapped(kind).read(str(tmp_path / "a"))) == 0
