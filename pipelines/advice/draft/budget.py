"""The total that is drafted under secret counts: of a day, of four weeks where a fleet is large enough; and places."""

SPAN_DAYS, SPAN_VEHICLES = 28, 150
"""A limit for so many days is drafted for fleets of at least so many vehicles."""


PLACES = (
    "# A map of places smaller than cells, for a share of the same total: `hatstream plan` says from which day on\n"
    "# it is useful, or that it is not worth it (docs/streets.md).\n"
    '# [places]\n# resolution = 8\n# [[output]]\n# product = "place-standing"\n'
)
"""Comments, which ask for nothing."""


def limits(vehicles: int) -> str:
    """Lines of [account]."""
    if vehicles >= SPAN_VEHICLES:
        return (
            "limits = [\n  { days = 1, epsilon = 2.64, delta = 1e-6 },\n"
            f"  {{ days = {SPAN_DAYS}, epsilon = 10, delta = 1e-6 }},  # all that a vehicle does in any four weeks\n]\n"
        )
    return (
        f"# A limit for any {SPAN_DAYS} days is drafted from {SPAN_VEHICLES} vehicles on: with fewer, a day's share is "
        "so small\n# that first days are held back and errors are a tenth larger and more for weeks; "
        "`hatstream plan` tells\n# (docs/guarantee.md, Several days behind one total). "
        "Without it four weeks of a day's limit come to 18.2.\n"
        "limit = { epsilon = 2.64, delta = 1e-6 }\n"
    )


def total(vehicles: int) -> str:
    """Lines of [privacy]."""
    if vehicles >= SPAN_VEHICLES:
        return (
            f"epsilon = 10  # all that a vehicle spends in any {SPAN_DAYS} days, of which each has an equal share\n"
            f"delta = 1e-6\nspan_days = {SPAN_DAYS}\n"
        )
    return "epsilon = 2.64  # all that a vehicle spends in a day\ndelta = 1e-6\n"
