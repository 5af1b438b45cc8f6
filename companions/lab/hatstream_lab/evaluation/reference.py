"""The published errors that the mechanisms are compared with: reference.toml says of what they are."""

import tomllib
from pathlib import Path

_FIGURES = tomllib.loads(Path(__file__).with_suffix(".toml").read_text())
DECIMALS: dict[str, dict[str, int]] = _FIGURES.pop("decimals")
"""Printed decimals by data set and mechanism, where they are not three."""

REFERENCE: dict[str, dict[str, dict[str, float]]] = {
    data: {label: dict(zip(table["epsilons"], row, strict=True)) for label, row in table.items() if label != "epsilons"}
    for data, table in _FIGURES.items()
}
"""Mean absolute errors in km/h, by data set, mechanism and epsilon."""


def last_digit(data: str, label: str, figure: float) -> float:
    """Tells what one unit of the printed last digit is worth; large figures are printed with fewer decimals."""
    decimals = DECIMALS.get(data, {}).get(label, 3)
    return 0.1 if decimals == 2 and figure >= 11 and figure == round(figure, 1) else 10.0**-decimals
