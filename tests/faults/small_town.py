"""What tests of losses ask of the small city."""

import json

from tests import city

LEDGER, KEY, HEAD = "ledger.sqlite", "ledger.key", "ledger.key.head"


def released(town, hatstream, end):
    return hatstream(*city.release(town, end=end))


def results(town):
    return {path.name: path.read_bytes() for path in (town / "out").glob("*.*")}


def spent(town, hatstream):
    shown = json.loads(hatstream("ledger", "show", "--json", "--ledger", town / LEDGER)[1])
    return [(entry["period"], entry["epsilon"]) for account in shown for entry in account["spent"]]


def lose(town, name):
    for path in town.glob(f"{name}*" if name == LEDGER else name):
        path.unlink()


def passages(*, slots: int, busy_slots: int, files: int, feeds: int = 1) -> dict[str, int]:
    """How often a release of two periods passes each failpoint."""
    return {
        **dict.fromkeys(("read", "parse", "assign"), feeds),
        "tally": busy_slots,  # or twice that, as the vehicles' keyed hashes spread over shards
        "before-noise": 1,  # all slots are drawn together
        "after-noise": 1,
        **dict.fromkeys(("before-record", "before-commit", "after-commit"), 2),
        "before-publish": slots,
        "mid-file": files,
        "before-rename": files,
        "after-publish": slots,
    }
