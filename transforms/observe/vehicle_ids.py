"""Vehicle ids as canonical text, and their keyed hashes.

A code is the index of a row's id among the distinct ones; missing and bad rows, which are refused, have any code.
`_plain` casts texts to bytes and numbers to wide types.
"""

import hmac
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import repeat
from typing import Literal, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dpops.types import Int64s
from transforms.layouts import columns
from transforms.layouts.columns import Bools, nulls
from transforms.layouts.open_file import is_utf8
from transforms.order import factorize


@dataclass(frozen=True)
class Secret:
    """An account's secret key, from which others are derived."""

    key: bytes = field(repr=False)

    def derive(self, purpose: str) -> bytes:
        """Derives a key for a purpose."""
        return hmac.digest(self.key, b"hatstream/" + purpose.encode(), "sha256")


def vehicle_hashes(key: bytes, periods: list[str], ids: list[bytes]) -> Int64s:
    """Hashes (period, id) pairs to 63 bits by HMAC-SHA-256."""
    return np.fromiter(map(_hash, repeat(key), periods, ids), np.int64, len(ids))


@lru_cache(maxsize=1 << 16)  # a vehicle comes in every batch, and a hash takes as long as ten events
def _hash(key: bytes, period: str, vehicle: bytes) -> int:
    """Computes a vehicle's keyed hash in a period: 63 bits of HMAC-SHA256."""
    tag = period.encode()
    # The period's length stands in front, so that no other period and id are the same bytes.
    digest = hmac.digest(key, len(tag).to_bytes(2, "big") + tag + vehicle, "sha256")
    return int.from_bytes(digest[:8], "big") & ((1 << 63) - 1)  # positive in int64


VehicleForm = Literal["text", "integer", "casefold"]
"""Which spellings are one id: casefold, in any case; integer, with or without zeros in front, a plus and `.0`."""

VEHICLE_BYTES = 256
NULL_IDS = (*columns.NULL_WORDS, "nan", "<na>", "undefined", "unknown")
"""What exports write for no id, in small letters: many vehicles would share one's bound, and each be protected less."""

_WHITE_SPACE = "".join(
    map(chr, [*range(9, 14), 0x20, 0x85, 0xA0, 0x1680, *range(0x2000, 0x200B), 0x2028, 0x2029, 0x202F, 0x205F, 0x3000])
)  # Unicode's property White_Space, spelled out: no version of a library decides which vehicle a row is of
# Spellings of whole numbers: of 0, and of others, whose sign and digits are groups 1 and 2.
_ZERO, _WHOLE = r"^[+-]?0+(\.0*)?$", r"^\+?(-?)0*([1-9][0-9]*)(\.0*)?$"


class VehicleIds(NamedTuple):
    """Distinct ids as bytes, rows' codes, and refusals."""

    code: NDArray[np.integer]
    ids: list[bytes]  # empty for refused rows
    missing: Bools
    bad: Bools


class MergedIds(NamedTuple):
    """Number of distinct ids, and how many other forms would merge.

    >>> MergedIds(12, 2, 0).advice[0][:57]
    '2 of 12 vehicle ids differ from another one by case alone'
    """

    ids: int
    by_case: int  # so many fewer, were case ignored
    by_zeros: int  # so many fewer, were whole numbers read as such

    @property
    def advice(self) -> list[str]:
        """Lists sentences on ids that another form would merge."""
        forms = {("case", "casefold"): self.by_case, ("zeros in front, a plus or .0", "integer"): self.by_zeros}
        return [
            f"{number:,} of {self.ids:,} vehicle ids differ from another one by {difference} alone: if they are one "
            f'vehicle, write input.vehicle_form = "{form}"'
            for (difference, form), number in forms.items()
            if number
        ]


def vehicle_ids(column: pa.Array, form: VehicleForm = "text", null_words: Sequence[str] = NULL_IDS) -> VehicleIds:
    """Reads ids as stripped text, each row by itself.

    form: `text`; `casefold`, ignoring case; `integer`, ignoring leading zeros, a plus and `.0`. null_words: missing in
    any case of letters.

    >>> vehicle_ids(pa.array(["07", "7", None]), "integer").ids
    [b'7']

    Integers, and floats and decimals without a fraction, are their decimal text. Other types are bad, as are fractions,
    floats from 2^53 on, invalid UTF-8, and texts over VEHICLE_BYTES. The parts of a struct make one id together.
    """
    if columns.are_parts(column.type):
        return join_ids([vehicle_ids(chunk, form, null_words) for chunk in column.flatten()])
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    rows = len(column)
    if not (columns.is_text(kind) or pa.types.is_integer(kind) or columns.is_number(kind)):
        missing = nulls(column)
        return VehicleIds(np.zeros(rows, np.int64), ids=[], missing=missing, bad=~missing)
    coded = column if pa.types.is_dictionary(column.type) else _plain(column).dictionary_encode()
    absent = nulls(coded.indices)
    if absent.all():
        return VehicleIds(np.zeros(rows, np.int64), ids=[], missing=absent, bad=~absent)
    # `used`: indices of the dictionary's values that the rows have; `code`: each row's index in `used`.
    used, code = factorize(coded.indices.fill_null(0).to_numpy(zero_copy_only=False))
    values = coded.dictionary.take(pa.array(used))
    texts = _normalised(_texts(_plain(values)), form)
    empty = nulls(values) | pc.is_in(pc.utf8_lower(texts), pa.array(["", *null_words])).to_numpy(zero_copy_only=False)
    is_long = pc.greater(pc.binary_length(texts), VEHICLE_BYTES).fill_null(False).to_numpy(zero_copy_only=False)
    bad = (nulls(texts) & ~empty) | is_long
    distinct = pc.if_else(pa.array(bad | empty), "", texts).dictionary_encode()
    ids = distinct.dictionary.cast(pa.binary()).to_pylist()
    missing, bad = absent | _of_rows(empty, code), _of_rows(bad, code)
    if len(ids) < len(texts):  # several spellings are one id; else `code` indexes `ids` already
        code = distinct.indices.to_numpy(zero_copy_only=False)[code]
    return VehicleIds(code, ids, missing, bad)


def join_ids(columns: Sequence[VehicleIds], sep: bytes = b"\x1f") -> VehicleIds:
    """Joins the parts of ids by a separator; one bad part refuses all."""
    first, *others = columns  # a column has no ids if all its rows are refused
    code, ids, missing, bad = first.code.astype(np.int64), first.ids, first.missing, first.bad
    for column in others:
        base = max(len(column.ids), 1)
        # A pair: the code of the earlier columns' id, and this column's.
        pairs, code = np.unique(code * base + column.code, return_inverse=True)
        code_pairs = (divmod(pair, base) for pair in pairs.tolist())
        texts = ((ids or [b""])[prefix] + sep + (column.ids or [b""])[suffix] for prefix, suffix in code_pairs)
        ids, missing, bad = list(texts), missing | column.missing, bad | column.bad
    return VehicleIds(code, ids, missing, bad & ~missing)


def spellings(column: pa.Array, form: VehicleForm, key: bytes) -> Int64s:
    """Hashes distinct ids as in `form`, in small letters, and as integers; (ids, 3)."""
    read = vehicle_ids(column, form)
    good = np.unique(read.code[~(read.missing | read.bad)]).tolist()
    texts = pa.array([read.ids[code] for code in good], pa.binary()).cast(pa.string())
    forms = (texts, _normalised(texts, "casefold"), _normalised(texts, "integer"))
    # Of no period: they are compared over all days.
    hashes = [vehicle_hashes(key, [""] * len(good), columns.as_binary(spelled).to_pylist()) for spelled in forms]
    return np.stack(hashes, axis=1)


def merged(columns: Sequence[Int64s]) -> MergedIds:
    """Counts distinct ids in batches' `spellings`, and how many other forms would merge."""
    hashes = np.concatenate([*columns, np.zeros((0, 3), np.int64)])
    texts, folded, integers = (np.unique(column).size for column in hashes.T)  # distinct ones of each form
    return MergedIds(texts, texts - folded, texts - integers)


def _plain(column: pa.Array) -> pa.Array:
    """Casts texts to bytes and numbers to wide ones, which Arrow's functions take."""
    if columns.is_text(column.type):
        return columns.as_binary(column)
    return columns.widened(column) if columns.is_number(column.type) else column


def _texts(values: pa.Array) -> pa.Array:
    """Writes ids as texts; null for fractions, and bytes that are no UTF-8."""
    if pa.types.is_integer(values.type):
        return values.cast(pa.string())
    if not pa.types.is_binary(values.type):  # a float or decimal: `_plain` has made texts bytes
        return columns.whole_number_texts(values)
    try:
        return values.cast(pa.string())
    except pa.ArrowInvalid:  # some are no UTF-8
        texts = [value if value is not None and is_utf8(value) else None for value in values.to_pylist()]
        return pa.array(texts, pa.binary()).cast(pa.string())


def _normalised(texts: pa.Array, form: VehicleForm) -> pa.Array:
    """Normalises spellings of ids by the form."""
    texts = pc.utf8_trim(texts, characters=_WHITE_SPACE)
    if form == "casefold":
        return pc.utf8_lower(pc.utf8_upper(texts))  # both: some letters have two small forms
    if form == "integer":  # "+07.0" becomes "7", "-0" becomes "0"; what is no integer stays
        return pc.replace_substring_regex(pc.replace_substring_regex(texts, _ZERO, "0"), _WHOLE, r"\1\2")
    return texts


def _of_rows(of_values: Bools, code: NDArray[np.integer]) -> Bools:  # fast where no value is marked
    return of_values[code] if of_values.any() else np.zeros(len(code), np.bool_)
