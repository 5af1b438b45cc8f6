"""Result files read back: the rows that sinks wrote, of any format, as one table."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.csv
import pyarrow.json
import pyarrow.parquet as pq

from pipelines.errors import InputError
from transforms.releases.periods.products import PRODUCTS

_TEXTS = ("slot_start", "slot_end", "cell", "statistic", "unit", "mechanism", "status")
_NUMBERS = ("value", "lower95", "upper95", "epsilon", "epsilon_slot")
COLUMNS = (*_TEXTS, *_NUMBERS)


def read_rows(paths: Sequence[str]) -> pa.Table:
    """The columns `COLUMNS` of all rows. Raises InputError where a file is no result file."""
    tables = [_read(Path(path)) for path in paths]
    table = pa.concat_tables(tables)
    if table.num_rows == 0:
        raise InputError("the result files hold no row: there is nothing to draw")
    return table


def _read(path: Path) -> pa.Table:
    if path.name.startswith(PRODUCTS):
        raise InputError(f"{path} holds a coarser product, and these are rows of slots: take 'hats-*' of the folder")
    kind = path.suffix.removeprefix(".")
    if kind not in _READERS:
        raise InputError(f"{path} is no result file: it must end in {', '.join(f'.{name}' for name in _READERS)}")
    try:
        table = _READERS[kind](path)
        schema = [(name, pa.string()) for name in _TEXTS] + [(name, pa.float64()) for name in _NUMBERS]
        return pa.table([table[name].cast(to) for name, to in schema], names=list(COLUMNS))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, KeyError, ValueError):
        raise InputError(f"{path} is no result file of hatstream, or it is damaged") from None


def _avro(path: Path) -> pa.Table:
    with path.open("rb") as file:
        rows: list[Any] = list(fastavro.reader(file))
    return pa.table({name: [row[name] for row in rows] for name in COLUMNS})


def _csv(path: Path) -> pa.Table:
    texts = {name: pa.string() for name in _TEXTS} | {name: pa.float64() for name in _NUMBERS}
    return pyarrow.csv.read_csv(path, convert_options=pyarrow.csv.ConvertOptions(column_types=texts))


_READERS: Mapping[str, Callable[[Path], pa.Table]] = {
    "parquet": lambda path: pq.read_table(path, columns=list(COLUMNS)),
    "csv": _csv,
    "jsonl": lambda path: pyarrow.json.read_json(path),
    "avro": _avro,
}
