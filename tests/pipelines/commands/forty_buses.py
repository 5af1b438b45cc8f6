"""A feed of forty buses whose means one can learn from, and a specification of these."""

from tests import city
from tests.city import DAYS

SPEC = city.SPEC.replace("epsilon = 1.0", "epsilon = 4").replace("limit = 50", "limit = 10000")
LINES = [
    f"PLATE{bus},{day}T{hour:02}:{13 * i:02}:0{bus % 10}+05:30,{21.17 + 0.02 * ((bus + i) % 3)},72.83,"
    f"{5 + 20 * ((bus + i) % 3) + bus % 4 + hour - 8}\n"
    for day in DAYS
    for hour in range(8, 11)
    for bus in range(40)
    for i in range(3)
]
"""Of 40 buses: 5 to 10 km/h in the first cell, 25 to 30 and 45 to 50 in the others; faster by the hour."""
