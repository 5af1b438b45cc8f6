"""Tells fields by the names of columns."""

import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from operator import eq

_POINT_NAME = r"(coordinates|coords|geometry|geom|thegeom|point|shape|location|position|loc|pos|gps|wkb)"
_SPEED = r".*(geschwindigkeit|velocidad|velocidade|vitesse|velocita|snelheid|hastighet|predkosc|rychlost).*"
_NAMES: Mapping[str, tuple[str, ...]] = {
    "vehicle": (
        r"(vehicle|veh|bus|tram|train|unit|device|fleet)(id|no|nr|num|number|ref)?",
        r"vid|imei|(license|number)?plate|.*(vehicleid|busid|vehicleref)",
        r"(vehicle|bus)?label|id",
        r"(fahrzeug|vehiculo|veiculo|vehicule|voertuig|autobus|onibus)(id|nr)?|ordem|prefixo|interno",
    ),
    "time": (
        r"timestamp|time|ts|datetime|dt|(?!server|receiv|creat).*(datetime|timestamp|timestmp.*|attime)",
        r"(gps|fix|device|event|report|recorded|utc|unix)(time|at|ts)|epoch(s|ms)?|utc|date",
        r"zeit(stempel|punkt)?|hora|fechahora|datahora|heure|horodatage|tijd(stip)?",
        r"(server|receiv|creat).*",
    ),
    "lat": (r"lat|latitude", r".*(lat|latitude)", r"y|" + _POINT_NAME + "1", r"latitud|(geo)?breite(ngrad)?"),
    "lon": (
        r"lon|lng|long|longitude",
        r".*(lon|lng|longitude)",
        r"x|" + _POINT_NAME + "0",
        r"longitud|(geo)?lae?nge(ngrad)?",
    ),
    "speed": (r"speed|velocity", r".*(speed|velocity).*", r"v|.*spd|sog|.*(kmh|kmph|kph|mph|mps|knots?|kts)", _SPEED),
}  # names of a field without case, accents, marks and blanks, the plainest first; English, then some others
_NOT_OF_VEHICLE = re.compile(r"stop|dest|depot|limit|max|accuracy|speeding")  # in names of what no vehicle measures


def by_name(field: str, names: Sequence[str]) -> list[str]:
    """Lists columns that match a field's patterns, the plainest pattern and shortest name first."""
    matches = []  # pattern's rank, length of the name, name
    for name in names:
        texts = [re.sub(r"[^a-z0-9]", "", unicodedata.normalize("NFKD", text.lower())) for text in last_parts(name)]
        ranks = (i for i, pattern in enumerate(_NAMES[field]) if any(re.fullmatch(pattern, text) for text in texts))
        is_other = _NOT_OF_VEHICLE.search("".join(name.split(".")[-2:]).lower())
        if not is_other and (rank := next(ranks, None)) is not None:
            matches.append((rank, len(name), name))
    return [name for _, _, name in sorted(matches)]


def last_parts(name: str) -> tuple[str, ...]:
    """Lists texts that identify a path: "speed" of "a.speed", "busid" of "bus.id"."""
    *_, last = steps = name.split(".")
    last_two = "".join(steps[-2:])
    if last.isdigit():  # an index of an array, such as coordinates.0
        return (last_two,)
    return (last, last_two) if last.lower() == "id" else (last,)


def letters_of(name: str) -> str:
    """Returns the lower-case letters of a path's last key: "time" of "gps.Time_1"."""
    return re.sub(r"[^a-z]", "", name.split(".")[-1].lower())


def most_alike(name: str, others: Iterable[str]) -> str:
    """Picks the name with the most letters in common, from either end."""
    return max(others, key=lambda rival: sum(map(eq, name, rival)) + sum(map(eq, name[::-1], rival[::-1])))
