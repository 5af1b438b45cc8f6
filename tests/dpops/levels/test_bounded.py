"""A vehicle-day's vector stays within its share of the norm, is its own, and is what the formulas say."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from decimal import Decimal, getcontext
from fractions import Fraction
from math import isqrt

import numpy as np
import pytest

from dpops.claims import ZCDP, GaussianDP
from dpops.levels import bounded
from dpops.levels.bounded import Rows, Vectors, release, sum_up, unchecked, units, vectors, within
from dpops.levels.parts import with_places
from dpops.levels.stages import UNIT, Differences, Kind, Level, Stage, StageHats
from dpops.noise import Noise
from dpops.types import Int64s
from tests.dpops.levels.cities import HATS, KINDS, LEVELS, STEP, Visit, days_of, excess, random_days, rows, stage

ALONE = [(0, 0, 1, 6500)]


def two_stages(kind: Kind, *, shares: tuple[str, str] = (".3", ".7")) -> list[Stage]:
    first, second = (Fraction(share) for share in shares)
    early = stage(kind, ("cell", "hour"), first, bound=Fraction(14), alpha=Fraction(1, 2))
    return [early, stage(kind, ("cell", "hour", "parent"), second, bound=Fraction(14))]


def with_least(norm: int, stages: list[Stage]) -> list[Stage]:
    return [replace(planned, least_norm=norm) for planned in stages]


# the bound


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("norm", [1, 4, 20, 10_000])
def test_a_brief_day_weighs_less_and_no_day_exceeds_its_bound(kind, norm):
    days = [*days_of(), *random_days(6, 100)]
    assert excess(with_least(norm, two_stages(kind)), days) <= 1
    live = stage(kind, ("hour", "parent", "cell"), weight_shares=(Fraction(1), Fraction(0), Fraction(0)))
    assert excess(with_least(norm, [live]), days) <= 1
    brief, long = ([[(0, 0, n, 2000)]] for n in (2, 4))
    weights = [sum_up(rows(day), replace(stage(kind), least_norm=6)).weights[0] for day in (brief, long)]
    assert weights[1] == pytest.approx(2**0.75 * weights[0], rel=1e-3), "as its reports do"


@pytest.mark.parametrize("kind", KINDS)
def test_no_vehicle_day_of_a_small_city_exceeds_its_bound_over_all_levels_and_stages(kind):
    assert Fraction(99, 100) < excess(two_stages(kind), days_of()) <= 1


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("names", [("hat",), ("cell", "hour", "hat"), LEVELS, ("city", "part"), ("parent-day", "hour")])
def test_no_level_exceeds_the_bound(kind, names):
    assert Fraction(3, 10) < excess([stage(kind, names)], [*days_of(), *random_days(1, 200)]) <= 1


@pytest.mark.parametrize("kind", KINDS)
def test_live_slots_with_other_levels_for_weights_than_for_speeds_keep_the_bound(kind):
    """Source: docs/released.md, "Live slots": with the norm of the speed levels alone it would be exceeded."""
    some = stage(kind, ("hour", "parent", "cell"), weight_shares=(Fraction(1), Fraction(0), Fraction(0)))
    assert Fraction(99, 100) < excess([some], [*days_of(), *random_days(2, 200)]) <= 1


@pytest.mark.parametrize("kind", KINDS)
def test_a_vehicle_that_shares_an_id_spends_up_to_twice_the_budget(kind):
    """Source: docs/guarantee.md, "What a vehicle is": without it the id has another vector."""
    power, first, second = (2 if kind == "gaussian" else 1), [(0, 0, 1, 6500)], [(2, 1, 400, 0)]
    shared, alone = (sum_up(rows([day]), stage(kind, ("hat",))) for day in (first + second, first))
    moved = sum(int(np.sum(np.abs(a - b) ** power)) for a, b in zip(shared, alone, strict=True)) / UNIT**power
    assert 1.2 < moved <= 2**power


@pytest.mark.parametrize("kind", KINDS)
def test_under_public_counts_speeds_have_half_the_bound(kind):
    assert Fraction(99, 100) < excess([stage(kind, counts_public=True)], days_of()) <= 1


@pytest.mark.parametrize("kind", KINDS)
def test_the_check_in_integers_finds_nothing_wrong(kind):
    visits = rows([*days_of(), *random_days(3, 500)])
    for one in (*two_stages(kind), stage(kind, LEVELS), stage(kind, counts_public=True)):
        assert all(np.array_equal(a, b) for a, b in zip(vectors(visits, one), unchecked(visits, one), strict=True))


@pytest.mark.parametrize("kind", KINDS)
def test_a_vehicle_that_broke_the_bound_would_count_as_nothing_and_the_others_stay(kind, monkeypatch):
    some, visits = stage(kind), rows([ALONE, [(1, 1, 2, 3000)], ALONE])
    honest = vectors(visits, some)

    def twice_for_the_middle_one(rows: Rows, stage: Stage) -> Vectors:
        made = unchecked(rows, stage)
        return made._replace(value=np.where(made.vehicle == 1, 2 * made.value, made.value))

    monkeypatch.setattr(bounded, "unchecked", twice_for_the_middle_one)
    broken = vectors(visits, some)
    assert not broken.value[broken.vehicle == 1].any()
    assert np.array_equal(broken.value[broken.vehicle != 1], honest.value[honest.vehicle != 1])


def with_its_places(kind: Kind, *, share: Fraction = Fraction(3, 10)) -> list[Stage]:
    """A first day's stages and the one of its places, which here lie as the cells do, laid on the city."""
    planned = with_places(tuple(replace(stage, around=None) for stage in two_stages(kind)), share)
    differences = Differences(
        cell=np.arange(3), steps=np.array([-900, 0, 4_000]), lowest=300, highest=6_200, slot_weights=(1,) * 4
    )
    of_cells = np.full((HATS.cells, HATS.slots), 2_000)
    laid = {
        is_of_places: StageHats(HATS, of_cells, STEP, 0, differences if is_of_places else None)
        for is_of_places in (True, False)
    }
    return [replace(stage, around=laid[stage.is_of_places]) for stage in planned]


@pytest.mark.parametrize("kind", KINDS)
def test_the_stage_of_places_and_those_before_it_keep_one_bound_together(kind):
    days = [*days_of(), *random_days(8, 200)]
    assert Fraction(19, 20) < excess(with_its_places(kind), days) <= 1
    (*_, alone) = with_its_places(kind)
    assert Fraction(9, 10) * alone.share < excess([alone], days) <= alone.share
    assert excess([*two_stages(kind), alone], days) > 1, "beside all of the total it is too much"


def test_speeds_at_a_place_are_compared_with_its_cells_centre_and_how_it_differs():
    (*_, last) = with_its_places("gaussian")
    assert last.laid.centres[:, 0].tolist() == [1_100, 2_000, 6_000]
    assert replace(last.laid, of_cells=last.laid.of_cells + 500).centres[2, 0] == 6_200, "within the bounds"


# wrong formulas are caught


Mutant = Callable[[pytest.MonkeyPatch], None]


def forgets_a_level(patch: pytest.MonkeyPatch) -> None:
    norm = bounded._norm
    patch.setattr(bounded, "_norm", lambda t, s, p, n, stage: norm(t[:-1], s[:-1], p[:-1], n, stage))


def keeps_the_signs(patch: pytest.MonkeyPatch) -> None:
    def norm(touched, sums, shares, count, stage):  # noqa: ARG001
        total = sum(
            share * np.bincount(groups.vehicle, weights=values, minlength=count)
            for groups, values, share in zip(touched, sums, shares, strict=True)
        )
        return np.abs(total)

    patch.setattr(bounded, "_norm", norm)


def clips_after_the_share(patch: pytest.MonkeyPatch) -> None:
    """What is multiplied with the stage's share already is compared to the whole bound."""
    integers = bounded._integers

    def late(touched, weights, speeds, scale, stage):
        share = float(stage.share) ** 0.5 if stage.kind == "gaussian" else float(stage.share)
        return integers(touched, weights, speeds, np.minimum(1, scale / np.where(scale < 1, share, 1)), stage)

    patch.setattr(bounded, "_integers", late)


def makes_brief_days_as_heavy_as_others(patch: pytest.MonkeyPatch) -> None:
    """Divides by the least norm, where a vehicle-day's own is larger too."""
    patch.setattr(bounded.np, "maximum", lambda _, least: np.full_like(_, least))


def truncates_upwards(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(bounded, "_SHRINK", 1.0)
    patch.setattr(bounded, "_truncated", lambda v: (np.sign(v) * np.ceil(np.abs(v))).astype(np.int64))


def clips_each_coordinate(patch: pytest.MonkeyPatch) -> None:
    integers = bounded._integers

    def clipped(touched, weights, speeds, scale, stage):
        bound = float(stage.bound_kmh)
        return integers(touched, weights, [np.clip(v, -bound, bound) for v in speeds], np.ones_like(scale), stage)

    patch.setattr(bounded, "_integers", clipped)


@pytest.mark.parametrize(
    ("mutant", "kinds"),
    [
        (forgets_a_level, KINDS),
        (keeps_the_signs, ("laplace",)),  # squares have none
        (clips_after_the_share, KINDS),
        (truncates_upwards, KINDS),
        (clips_each_coordinate, KINDS),
    ],
)
def test_a_wrong_vector_is_caught(mutant, kinds, monkeypatch):
    mutant(monkeypatch)
    for kind in kinds:
        assert excess(two_stages(kind), [*days_of(), *random_days(4, 100)]) > 1


@pytest.mark.parametrize("kind", KINDS)
def test_a_least_norm_in_the_place_of_a_larger_own_one_is_caught(kind, monkeypatch):
    makes_brief_days_as_heavy_as_others(monkeypatch)
    assert excess(with_least(4, two_stages(kind)), days_of()) > 1


@pytest.mark.parametrize("kind", KINDS)
def test_shares_of_stages_above_one_are_caught(kind):
    assert excess(two_stages(kind, shares=(".4", ".8")), days_of()) > 1


@pytest.mark.few(1)
@pytest.mark.parametrize("kind", KINDS)
def test_a_share_for_each_of_24_slots_is_too_much_on_a_day_of_25(kind):
    day = [stage(kind, share=Fraction(1, 24))] * 25
    assert excess(day, days_of()) > 1
    assert excess([stage(kind, share=Fraction(1, 25))] * 25, days_of()) <= 1


def test_scaled_weights_that_were_exact_would_publish_speeds():
    """Under public counts two vehicle-days that differ in speeds alone have equal weights; scaled ones have not."""
    slow, fast = ([[(0, 0, 3, speed), (1, 2, 1, speed)]] for speed in (2000, 6500))
    some = stage("gaussian", counts_public=True)
    assert np.array_equal(sum_up(rows(slow), some).weights, sum_up(rows(fast), some).weights)
    scaled = stage("gaussian")
    assert not np.array_equal(sum_up(rows(slow), scaled).weights, sum_up(rows(fast), scaled).weights)


# a function of one's own rows


@pytest.mark.parametrize("kind", KINDS)
def test_every_other_vehicles_integers_are_equal_when_one_is_taken_out(kind):
    days, some = random_days(5, 60), stage(kind, LEVELS)
    whole = _by_vehicle(vectors(rows(days), some), len(days))
    for out in range(len(days)):
        left = _by_vehicle(vectors(rows(days[:out] + days[out + 1 :]), some), len(days) - 1)
        assert left == whole[:out] + whole[out + 1 :]


@pytest.mark.parametrize("kind", KINDS)
def test_any_split_of_the_vehicles_gives_the_same_sums(kind):
    days, some = random_days(6, 80), stage(kind, LEVELS)
    whole = sum_up(rows(days), some)
    for parts in (2, 3, 7):
        sums = [sum_up(rows(days[part::parts]), some) for part in range(parts)]
        assert np.array_equal(sum(partial.weights for partial in sums), whole.weights)
        assert np.array_equal(sum(partial.speeds for partial in sums), whole.speeds)


# the formulas


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("counts_public", [False, True])
def test_the_integers_are_those_of_the_formulas_in_fifty_digits(kind, counts_public):
    getcontext().prec = 50
    some = stage(kind, LEVELS, Fraction(7, 10), counts_public=counts_public)
    for day in random_days(7, 40):
        vector = vectors(rows([day]), some)
        made = dict(zip(vector.query.tolist(), vector.value.tolist(), strict=True))
        for query, exact in _literally(day, some).items():
            assert abs(made.get(query, 0) - exact) < Decimal("1.001"), (query, exact)
            assert abs(made.get(query, 0)) <= abs(exact) + Decimal("1e-6")


def _literally(day: list[Visit], stage: Stage) -> dict[int, Decimal]:
    """The vector as the document words it, one vehicle and one HAT at a time."""
    alpha = Fraction(1) if stage.counts_public else stage.alpha

    def root(x: Fraction | Decimal) -> Decimal:
        number = _decimal(x)
        return number.sqrt() if stage.kind == "gaussian" else number

    def norm(sums: dict[tuple[int, int], Decimal], share: Callable[[Level], Fraction]) -> Decimal:
        power = 2 if stage.kind == "gaussian" else 1
        return root(
            sum((_decimal(share(stage.levels[index])) * abs(x) ** power for (index, _), x in sums.items()), Decimal(0))
        )

    def sums(values: list[Decimal]) -> dict[tuple[int, int], Decimal]:
        totals: dict[tuple[int, int], Decimal] = {}
        for index, level in enumerate(stage.levels):
            for (cell, slot, _, _), value in zip(day, values, strict=True):
                key = index, int(level.groups.index[cell, slot])
                totals[key] = totals.get(key, Decimal(0)) + value
        return totals

    u = [Decimal(isqrt(isqrt(n**3 << 80))) for _, _, n, _ in day]
    whole = norm(sums(u), lambda lv: alpha * lv.speed_share + (1 - alpha) * lv.weight_share)
    w = [amount / whole for amount in u]
    v = [amount * (_decimal(mean * stage.laid.step_kmh) - 20) for amount, (_, _, _, mean) in zip(w, day, strict=True)]
    size, allowed = norm(sums(v), lambda lv: lv.speed_share), _decimal(stage.bound_kmh)
    s = min(Decimal(1), allowed / size) if size else Decimal(1)
    start, queries = 0, {}
    for index, level in enumerate(stage.levels):
        weight = root(stage.share * (1 - alpha) * level.weight_share) * s * UNIT
        if stage.counts_public:
            weight = Decimal(UNIT)
        speed = root(stage.share * alpha * level.speed_share) / allowed * s * UNIT / (2 if stage.counts_public else 1)
        for (of, group), value in sums(w).items():
            if of == index:
                queries[start + group] = weight * value
        for (of, group), value in sums(v).items():
            if of == index:
                queries[stage.groups + start + group] = speed * value
        start += level.size
    return queries


def _decimal(x: Fraction | Decimal) -> Decimal:
    return x if isinstance(x, Decimal) else Decimal(x.numerator) / Decimal(x.denominator)


@pytest.mark.parametrize("quarters", [0, 1, 2, 3, 4])
def test_the_table_of_powers_is_rounded_down_exactly(quarters):
    some = replace(stage("gaussian"), exponent=Fraction(quarters, 4))
    n = np.array([1, 2, 15, 16, 81, 4095, 4096], np.int64)
    for reports, unit in zip(n.tolist(), units(n, some).tolist(), strict=True):
        assert unit**4 <= reports**quarters << 80 < (unit + 1) ** 4
    large = np.array([4097, 10_000, 86_400, 10**9], np.int64)
    assert np.all(units(large, some) <= large ** (quarters / 4) * 2**20 * (1 + 1e-12))
    assert np.all(units(large, some) >= large ** (quarters / 4) * 2**20 * (62 / 64))


def test_integers_on_the_bound_fit_and_one_more_does_not():
    for kind, most in (("gaussian", isqrt(UNIT * UNIT // 2)), ("laplace", UNIT // 2)):
        some = stage(kind, share=Fraction(1, 2))
        assert within(np.array([0]), np.array([-most]), some).all()
        assert not within(np.array([0]), np.array([most + 1]), some).any()
        assert not within(np.array([0, 0]), np.array([most, -most]), some).any()
        assert not within(np.array([0]), np.array([2**62]), some).any()


def _by_vehicle(integers: Vectors, vehicles: int) -> list[list[tuple[int, int]]]:
    entries: list[list[tuple[int, int]]] = [[] for _ in range(vehicles)]
    for vehicle, query, value in zip(*(_listed(column) for column in integers), strict=True):
        entries[vehicle].append((query, value))
    return entries


def _listed(column: Int64s) -> list[int]:
    integers: list[int] = column.tolist()
    return integers


class _Named(Noise):
    """Notes which law was asked for, and with which variances."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[tuple[str, set[Fraction]]] = []

    def gaussian(self, variances: Sequence[Fraction]) -> Int64s:
        self.asked.append(("discrete", {*variances}))
        return super().gaussian(variances)

    def rounded_gaussian(self, variances: Sequence[Fraction]) -> Int64s:
        self.asked.append(("rounded", {*variances}))
        return super().rounded_gaussian(variances)


@pytest.mark.parametrize(("accounting", "law"), [("zcdp", "discrete"), ("gdp", "rounded")])
def test_the_accounting_decides_the_law_of_the_noise(accounting, law):
    """A claim in mu holds of rounded normal numbers alone (tests/statistical/test_noise.py)."""
    planned, noise = replace(stage("gaussian"), accounting=accounting), _Named()
    sums = sum_up(rows([[(0, 0, 3, 3_000)]]), planned)
    drawn = release(sums, planned, noise)
    assert noise.asked == [(law, {planned.spread})]
    assert np.count_nonzero(drawn - np.concatenate(sums)) > planned.groups


def test_a_stage_claims_what_its_share_of_a_vector_costs_under_its_noise():
    planned = stage("gaussian", share=Fraction(3, 10))
    rho = Fraction(3, 10) * UNIT * UNIT / (2 * planned.spread)
    assert planned.claim == ZCDP(rho)
    assert replace(planned, accounting="gdp").claim == GaussianDP(rho)
