"""Collects the public facts about one published folder.

`account` is read from a verified ledger: `most` is the largest privacy loss of one period, `costs` those of so many
days in a row, `record` the newest release and whether signatures were compared. Odds are probabilities of a guess about
one vehicle.
"""

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from importlib.resources import files
from typing import Any, NamedTuple

from hatstream.api import AccountReport, Specification
from hatstream_publish.pages.page import Odds, odds, shown, span_odds
from hatstream_publish.pages.places import Box


class Licence(NamedTuple):
    """Licence of the values; url empty if unknown."""

    name: str
    title: str
    url: str


_LICENCES = [Licence(*row) for row in csv.reader(files(__package__).joinpath("licences.csv").read_text().splitlines())]
NAMES = tuple(licence.name for licence in _LICENCES)


def licence(name: str) -> Licence:
    """Looks up a licence by name in any case, or makes an unknown one."""
    return next((entry for entry in _LICENCES if entry.name.lower() == name.lower()), Licence(name, title=name, url=""))


PERIODS = {
    "vehicle-day": "one local day",
    "vehicle-week": "one week, from Monday",
    "vehicle-ever": "the account's life",
}


@dataclass(frozen=True, kw_only=True)
class DatasetInfo:
    """Texts of a published dataset, from options of `publish` and the specification."""

    title: str
    description: str
    publisher: str
    contact: str
    licence: Licence
    url: str  # address of the folder, or empty
    everything: bool  # unusable values are published too


@dataclass(frozen=True, kw_only=True)
class Edition:
    """Facts about a folder; `spec` is the account's; `hides_driving`: its adjacency is add-remove."""

    info: DatasetInfo
    account: AccountReport
    first: str  # start of the first of its slots
    last: str  # end of the last of its slots
    slots: int
    missing: Sequence[str]  # starts of slots that are due and lack
    bbox: Box
    version: str  # of hatstream
    created: datetime

    @property
    def spec(self) -> Specification:
        """Specification of the releases."""
        return self.account.spec

    @property
    def odds(self) -> list[Odds]:
        """Odds of a guess about a vehicle, by the most it spends."""
        return odds(float(self.account.most.epsilon))

    @property
    def spans(self) -> list[dict[str, Any]]:
        """Bounds of spans of several days."""
        return span_odds(self.account)

    @property
    def protects(self) -> str:
        """Protected facts, privacy unit and period, in words."""
        secret = "that it drove at all, when, where and how fast" if self.hides_driving else "its speeds"
        return f"everything that one vehicle does in {PERIODS[self.spec.account.unit]}: {secret}"

    @property
    def rows_said(self) -> str:
        """Sentence on which places and slots have a row."""
        if self.info.everything:
            return "Values that are not to be used are here too: see the column status."
        no_trip = "" if self.spec.trips is None else ", or has no trip by the timetable (trips.csv)"
        return f"Only values that are known well enough are here; a place and slot without a row is not known{no_trip}."

    @property
    def hides_driving(self) -> bool:
        """Whether the adjacency hides a vehicle's presence."""
        return self.spec.account.adjacency == "add-remove"

    @property
    def not_protected(self) -> list[str]:
        """Facts that a reader may wrongly believe protected."""
        fleet = "" if self.spec.fleet is None else f", a fleet of about {self.spec.fleet.vehicles:,}"
        trips = "" if self.spec.trips is None else ", the hours of each place's trips by the timetable"
        days = "A habit of many days: the table says what such days cost together."
        return [
            "What is true of all traffic: that a street is slow at eight in the morning is what the data are for."
            if self.hides_driving
            else "That a vehicle reported, when, where, how often, and whether a report carried a speed: only speeds "
            "are.",
            f"Public facts: the area, the hours of service{trips}{fleet}.",
            *([days] if self.spec.account.unit != "vehicle-ever" else []),
            "A driver who changes vehicles is protected once for each of them; what they give away multiplies.",
            "What others publish about the same vehicles adds up with this, and no ledger knows of both.",
        ]

    def privacy(self) -> Mapping[str, Any]:
        """Encodes the privacy card for programs."""
        account = self.spec.account
        return {  # most: largest loss of a period; odds: of a guess about a vehicle; shown(..) rounds up
            "guarantee": self.account.guarantee,
            "protects": self.protects,
            "unit": account.unit,
            "adjacency": account.adjacency,
            "epsilon": shown(float(self.account.most.epsilon)),
            "delta": float(self.account.most.delta),
            "chance_beyond_epsilon": self.account.most.chance,
            "odds": self.odds,
            "spans": self.spans,
            "cost_of_days": [
                {"days": cost.days, "epsilon": shown(float(cost.loss.epsilon)), "delta": float(cost.loss.delta)}
                for cost in self.account.costs
            ],
            "not_protected": self.not_protected,
        }

    def provenance(self) -> Mapping[str, Any]:
        """Encodes the values' provenance; `account` was read from a verified, whole ledger."""
        record, created = self.account.record, self.created.isoformat(timespec="seconds")
        ledger = {"newest_release": record.newest, "whole": True, "signatures_compared": record.is_signed}
        slots = {"first": self.first, "end": self.last, "number": self.slots, "missing": list(self.missing)}
        origin = {"software": "hatstream", "version": self.version, "specification": self.spec.name}
        return {**origin, "spec_id": self.spec.spec_id, "ledger": ledger, "slots": slots, "created": created}
