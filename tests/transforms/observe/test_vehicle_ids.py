"""A vehicle is one text: every spelling of its id is read as that, and no other row has a say in it."""

from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kit import feed_layouts
from tests.transforms.inputs import good_row, mapped, rules, run
from transforms.layouts import layout
from transforms.observe.vehicle_ids import VEHICLE_BYTES, merged, spellings, vehicle_ids

FORMS = ("text", "integer", "casefold")
WHITE = [chr(code) for code in range(0x3001) if chr(code).isspace() and not 0x1C <= code <= 0x1F]
"""All of Unicode: nothing behind U+3000 is white."""


def read(column, form="text"):
    """The id of each row, or why it has none."""
    ids = vehicle_ids(column, form)
    rows = zip(ids.code.tolist(), ids.missing.tolist(), ids.bad.tolist(), strict=True)
    return ["missing" if missing else "bad" if bad else ids.ids[code].decode() for code, missing, bad in rows]


def test_white_space_at_the_ends_of_an_id_says_nothing():
    assert len(WHITE) == 25
    texts = [f"{white}bus 1{white}{white}" for white in WHITE]
    assert read(pa.array([*texts, "bus 1", "bus  1", "\x1cbus 1"])) == ["bus 1"] * 26 + ["bus  1", "\x1cbus 1"]
    assert read(pa.array(["".join(WHITE), ""])) == ["missing", "missing"]
    assert read(pa.array([" " * VEHICLE_BYTES + "x", " x" * VEHICLE_BYTES])) == ["x", "bad"]


@pytest.mark.parametrize(
    "column",
    [
        pa.array([100.0, -0.0, None, 0.5, float("nan"), float("inf"), 2.0**53, 1e300, -7.0]),
        pa.array([Decimal(100), Decimal(0), None, Decimal("0.5"), *[Decimal("1e-3")] * 4, Decimal(-7)]),
        pa.array([Decimal(100), Decimal(0), None, Decimal("0.5"), *[Decimal("1e-3")] * 4, Decimal(-7)]).cast(
            pa.decimal64(18, 3)
        ),
    ],
)
def test_whole_numbers_of_every_type_are_the_integer(column):
    expected = ["100", "0", "missing", "bad", "bad", "bad", "bad", "bad", "-7"]
    assert read(column) == read(column, "integer") == expected
    if not pa.types.is_decimal64(column.type):
        assert read(column.dictionary_encode()) == expected


def test_text_forms_say_which_spellings_are_one():
    texts = pa.array(["0100", "100", "100.0", "+100.", "-0", "00", "1e2", "100.5", "BUS-1", "bus-1", "0x1", "-007"])
    assert read(texts) == texts.to_pylist()
    assert read(texts, "integer") == [*["100"] * 4, "0", "0", *texts.to_pylist()[6:11], "-7"]
    assert read(texts, "casefold") == [text.lower() for text in texts.to_pylist()]
    assert len(set(read(pa.array(["ΟΔΟΣ", "οδος", "οδοσ"]), "casefold"))) == 1


def test_words_for_no_id_are_missing_in_any_part_and_spelling():
    words = pa.array(["None", "N/A", "<NA>", b"-", "null ", "null 1", "--1"])
    expected = [*["missing"] * 5, "null 1", "--1"]
    assert (
        read(words) == read(words, "casefold") == read(words, "integer") == read(words.dictionary_encode()) == expected
    )
    parts = pa.StructArray.from_arrays([pa.array(["7"] * 2), pa.array(["unknown", "8"])], ["0", "1"])
    assert read(parts) == ["missing", "7\x1f8"]
    assert vehicle_ids(pa.array(["NA", ""]), null_words=()).missing.tolist() == [False, True]


STRANGE = [b"\xff", b"\xc2\xa0A ", b"a", b"01.0", b"1", b" "]
VALUES = {
    pa.binary(): st.binary(max_size=4) | st.sampled_from(STRANGE),
    pa.string(): st.text(max_size=3) | st.sampled_from(["ß", "İ", "ſ", "\u3000"]),
    pa.float64(): st.floats() | st.integers(-3, 3).map(float),
    pa.decimal128(38, 10): st.decimals(-(10**27), 10**27, places=10),
}
COLUMNS = st.one_of(
    [st.lists(st.none() | values).map(lambda some, kind=kind: pa.array(some, kind)) for kind, values in VALUES.items()]
)


@given(COLUMNS, st.sampled_from(FORMS))
def test_no_id_decides_how_another_is_read(column, form):
    alone = [read(column[row : row + 1], form)[0] for row in range(len(column))]
    assert read(column, form) == alone
    ids = vehicle_ids(column, form)
    assert len(set(ids.ids)) == len(ids.ids)


@pytest.mark.parametrize("name", feed_layouts.MAPPED)
def test_each_layout_reads_an_id_with_blanks_and_a_whole_float_alike(name, tmp_path):
    rows = [good_row(i) for i in range(60)]

    def vehicles(*ids):
        spelled = [row | {"vehicle": ids[i % len(ids)]} for i, row in enumerate(rows)]
        path = tmp_path / f"in.{name}"
        path.write_bytes(feed_layouts.WRITERS[name][1](spelled))
        observed, refused, _ = run(mapped(name), str(path), rules())
        assert not refused
        return observed.vehicle.tolist()

    plain = vehicles("100", "101")
    assert len(set(plain)) == 2
    assert vehicles("100 ", "101", " 100", "\u00a0101") == plain
    if name != "csv":  # its floats are texts
        assert vehicles(100.0, 101.0) == plain


def test_a_time_that_is_a_float_is_no_id_where_files_name_vehicles(tmp_path):
    path = tmp_path / "7.jsonl"
    path.write_text('{"t": 1700049600.5, "lat": 30.1, "lon": -97.1, "v": 1}\n')
    columns = {"vehicle": "{file}", "time": "t", "lat": "lat", "lon": "lon", "speed": "v"}
    named = layout("jsonl", columns, "s", None)
    observed, refused, _ = run(named, str(path), rules(named.units))
    assert (observed.event_us.tolist(), dict(refused)) == ([1_700_049_600_500_000], {})


def test_ids_that_another_form_makes_one_are_counted_over_columns():
    columns = [["BUS", "bus", "100"], ["bus ", "0100", None, ""], [100.0, 101.0]]
    parts = [spellings(pa.array(part), "text", b"k") for part in columns]
    counts = merged(parts)
    assert counts == (5, 1, 1)
    assert [line.split(" differ")[0] for line in counts.advice] == ["1 of 5 vehicle ids"] * 2
    assert merged([spellings(pa.array(["BUS", "bus"]), "casefold", b"k")]) == (1, 0, 0)
    assert (merged([]), merged([]).advice) == ((0, 0, 0), [])
