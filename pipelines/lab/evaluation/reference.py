"""Mean absolute errors (km/h) that the mechanisms are compared with: 10,000 runs of an independent implementation.

Keys: data set, then mechanism label, then epsilon. Those of the first three sets are for the exact data of the
reference (same counts and speeds); other data that meet the same published statistics give other figures.
"""

_FOUR = ("0.5", "1", "1.5", "2")
_SEVEN = ("0.2", "0.5", "1", "1.5", "1.9", "2", "3")

Table = dict[str, dict[str, float]]


def _rows(epsilons: tuple[str, ...], **errors: tuple[float, ...]) -> Table:
    return {label.replace("_", "-"): dict(zip(epsilons, row, strict=True)) for label, row in errors.items()}


REFERENCE: dict[str, Table] = {
    "itms-like": _rows(
        _FOUR,
        baseline=(3.158, 1.579, 1.053, 0.789),
        array_average=(0.745, 0.376, 0.254, 0.194),
        levy=(1.244, 0.637, 0.428, 0.332),
        fixed_quantile=(0.864, 0.423, 0.274, 0.199),
        epsilon_quantile=(0.972, 0.517, 0.354, 0.277),
        opt_array=(3.095, 1.548, 1.032, 0.774),
        array_average_wrap_around=(0.77, 0.39, 0.26, 0.20),
    ),
    "samples-x10": _rows(
        _FOUR,
        baseline=(3.158, 1.579, 1.053, 0.789),
        array_average=(0.743, 0.372, 0.248, 0.186),
        levy=(0.393, 0.200, 0.134, 0.104),
        fixed_quantile=(0.778, 0.386, 0.251, 0.176),
        epsilon_quantile=(0.808, 0.410, 0.273, 0.206),
        opt_array=(3.095, 1.548, 1.032, 0.774),
    ),
    "users-x10": _rows(
        _FOUR,
        baseline=(0.316, 0.158, 0.105, 0.079),
        array_average_argmax=(0.080, 0.042, 0.029, 0.023),
        levy=(0.143, 0.073, 0.050, 0.039),
        fixed_quantile=(0.019, 0.012, 0.011, 0.011),
        epsilon_quantile=(0.087, 0.046, 0.032, 0.026),
        opt_array=(0.315, 0.157, 0.105, 0.079),
    ),
    "geometric": _rows(
        _SEVEN,
        baseline=(46.4, 18.57, 9.29, 6.19, 4.89, 4.64, 3.10),
        worst_case_optimal=(5.80, 4.70, 4.73, 3.14, 2.43, 4.62, 3.03),
        akmv=(45.5, 19.6, 10.0, 6.80, 5.52, 5.44, 3.70),
    ),
    "extreme": _rows(
        _SEVEN,
        baseline=(29.5, 11.8, 5.91, 3.94, 3.11, 2.95, 1.97),
        worst_case_optimal=(2.94, 1.20, 0.59, 0.40, 0.31, 2.97, 1.96),
        akmv=(30.9, 12.3, 6.05, 4.13, 3.30, 3.15, 2.25),
    ),
}

DECIMALS: dict[str, dict[str, int]] = {
    "itms-like": {"array-average-wrap-around": 2},
    "geometric": {"baseline": 2, "worst-case-optimal": 2, "akmv": 2},
    "extreme": {"baseline": 2, "worst-case-optimal": 2, "akmv": 2},
}
"""Printed decimals where they are not three."""


def last_digit(data: str, label: str, figure: float) -> float:
    """What one unit of the printed last digit is worth; large figures are printed with fewer decimals."""
    decimals = DECIMALS.get(data, {}).get(label, 3)
    return 0.1 if decimals == 2 and figure >= 11 and figure == round(figure, 1) else 10.0**-decimals
