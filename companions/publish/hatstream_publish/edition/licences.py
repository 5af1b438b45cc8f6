"""Licences that open-data portals know, by their SPDX name."""

from typing import NamedTuple


class Licence(NamedTuple):
    """url: empty for one that is not known here."""

    name: str
    title: str
    url: str


_KNOWN = (
    Licence("CC0-1.0", "Creative Commons Zero 1.0", "https://creativecommons.org/publicdomain/zero/1.0/"),
    Licence("CC-BY-4.0", "Creative Commons Attribution 4.0", "https://creativecommons.org/licenses/by/4.0/"),
    Licence("CC-BY-SA-4.0", "Creative Commons Attribution-ShareAlike 4.0", "https://creativecommons.org/licenses/by-sa/4.0/"),
    Licence("ODbL-1.0", "Open Data Commons Open Database License 1.0", "https://opendatacommons.org/licenses/odbl/1-0/"),
    Licence("ODC-By-1.0", "Open Data Commons Attribution License 1.0", "https://opendatacommons.org/licenses/by/1-0/"),
    Licence("PDDL-1.0", "Open Data Commons Public Domain Dedication 1.0", "https://opendatacommons.org/licenses/pddl/1-0/"),
    Licence("OGL-UK-3.0", "Open Government Licence 3.0", "https://www.nationalarchives.gov.uk/doc/open-government-licence/version/3/"),
    Licence("etalab-2.0", "Licence Ouverte 2.0", "https://spdx.org/licenses/etalab-2.0.html"),
    Licence("DL-DE-BY-2.0", "Datenlizenz Deutschland Namensnennung 2.0", "https://www.govdata.de/dl-de/by-2-0"),
)  # fmt: skip
NAMES = tuple(licence.name for licence in _KNOWN)


def licence(name: str) -> Licence:
    """Finds a licence by its name in any case; one that is not known has no address."""
    return next((other for other in _KNOWN if other.name.lower() == name.lower()), Licence(name, name, ""))
