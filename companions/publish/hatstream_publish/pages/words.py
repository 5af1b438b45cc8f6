"""What the columns and statuses of result rows mean, in the words of maps, dictionaries and cards."""

from collections.abc import Mapping

STATUSES: Mapping[str, str] = {
    "ok": "Known well enough to use, within its interval.",
    "parent": "Not known by itself; the value of the area around it, or of its own whole day, is.",
    "forecast": "Expected from earlier days: nothing of this day is released yet.",
    "unreliable": "Too few vehicles are likely to have been there for the value to be used, or its interval believed.",
    "constant": "Too little is known: the value is a public constant and says nothing of what was driven.",
    "held-back": "Held back: of the whole city too little is known on this day, so that values would mislead.",
    "no-data": "Nobody reported there, or nobody is left of those who did.",
}

ADVICE: Mapping[str, str] = {
    "held-back": (
        "What helps: more days on the same account (each teaches about the others: `hatstream estimate --whole`), "
        "a fleet that is declared right ([fleet] vehicles), larger hexagons, or a larger total; `hatstream plan` says "
        "what to expect."
    ),
    "no-data": "Look at another slot, or check with `hatstream release --check-input` what the input holds.",
    "constant": "What helps: larger hexagons, longer slots, or a larger epsilon; `hatstream plan` says what to expect.",
}
"""What to do where no value is published, by status."""
