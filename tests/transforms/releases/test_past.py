"""What a ledger's per-HAT entries teach: how smooth the city is, once a day; and the same to whoever follows them."""

import numpy as np
import pytest
from msgspec import structs

from tests.statistical.checks import seeded
from tests.transforms.releases.hats import sealed, tally_of
from transforms.recorded.units import HatUnit, Sequenced
from transforms.releases.hats import past
from transforms.releases.hats.past import Fitter, Past, day_of, means_of

DAYS, HOURS = ("2026-05-01", "2026-05-02", "2026-05-03"), (8, 9, 10)


def unit(day: str, hour: int) -> HatUnit:
    """Of three cells, of which one is slower; each with six vehicles of three reports."""
    table = tally_of(*((6 * cell + bus, cell, 3, 3 * (1500 + 500 * cell), 0) for cell in range(3) for bus in range(6)))
    drawn = sealed(table, seeded(hour), epsilon=50)
    return structs.replace(drawn, slot_start=f"{day}T{hour:02}:00:00-05:00", period=day)


ENTRIES = [
    Sequenced(number, unit(day, hour)) for number, (day, hour) in enumerate([(d, h) for d in DAYS for h in HOURS], 1)
]


def test_a_slots_model_is_a_function_of_the_entries_whoever_follows_them() -> None:
    fitter = Fitter()
    for upto in range(1, len(ENTRIES) + 1):
        past = Past.none().after(ENTRIES[:upto])
        one, other = fitter.fitted(past), Fitter().fitted(past)
        newest = ENTRIES[upto - 1].unit
        assert one is not None
        assert other is not None
        ours, theirs = (model.belief(day_of(newest), means_of(newest), 65.0) for model in (one, other))
        assert all(np.array_equal(a, b) for a, b in zip(ours, theirs, strict=True))


def test_how_smooth_the_city_is_earlier_days_tell_once(monkeypatch: pytest.MonkeyPatch) -> None:
    learned, fits = past.learned_hats, list[bool]()

    def counted(state, design, smoothness):
        fits.append(smoothness is None)
        return learned(state, design, smoothness)

    monkeypatch.setattr(past, "learned_hats", counted)
    fitter, so_far = Fitter(), Past.none()
    for entry in ENTRIES:
        so_far = so_far.after([entry])
        fitter.fitted(so_far)
    assert fits == [True] * 3 + [True, False, False, False] * 2


def test_what_suppression_leaves_out_may_be_anything_and_pulls_nowhere() -> None:
    rows = [(bus, 0, 3, 4500, 0) for bus in range(6)] + [(6, 0, 0, 0, 4)]
    errors = means_of(sealed(tally_of(*rows), seeded(1), epsilon=50)).errors
    assert errors.bias_kmh[0] > 65 * 4 / 22 - 0.01
    assert errors.pull_kmh[0] < 1e-5
    assert errors.pull_sd_kmh[0] < 1e-5


def test_an_entry_says_what_its_plan_makes_public() -> None:
    means = means_of(ENTRIES[0].unit)
    assert means.vehicles.tolist() == [6, 6, 6]
    assert means.reports.tolist() == [18, 18, 18]
    assert means.heaviest.tolist() == [3, 3, 3]
    assert np.all(means.is_noisy)
