"""The declared columns of the result table, in the words of a specification."""

from collections.abc import Mapping

from pipelines.further_columns import value_meaning
from pipelines.specification import Specification
from transforms.sinks.columns import COLUMNS, ResultColumn

_INTERVAL = "end of the interval that holds the true value with a probability of 95 % or more"
_LEARNED = "end of an interval that about 95 % of the rows with status ok, and fewer of others, have the truth in"


def result_columns(spec: Specification) -> Mapping[str, ResultColumn]:
    """Declares the columns that rows of a specification may have, by name.

    Args:
        spec: Of the rows.

    Returns:
        Of each its Arrow type (`kind`), `presence`, `unit` and `meaning`.

    >>> from hatstream.api import load
    >>> result_columns(load("examples/hourly-means.toml"))["lower95"].unit
    'column unit'
    """
    words = {
        "value": value_meaning(spec),
        "interval": _LEARNED if spec.is_learned else _INTERVAL,
        "learned": _LEARNED,
        "resolution": spec.cells.resolution,
    }
    return {column.name: column._replace(meaning=column.meaning.format(**words)) for column in COLUMNS}
