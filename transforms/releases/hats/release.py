"""HAT releases of slots or periods, and their estimates."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from dpops.allocation import Allocation
from dpops.claims import ZERO
from dpops.estimate import Estimates
from dpops.mechanism import PlanError
from dpops.mechanisms import stored_estimates
from dpops.noise import Noise
from dpops.statistics import VALUE, named
from transforms.count.tally import ContributionBound
from transforms.errors import StepError
from transforms.failpoints import failpoint
from transforms.recorded.units import Debit, HatUnit, Released, all_of
from transforms.records import HatColumns, RecordedSlot, SlotEstimates, SlotShard
from transforms.releases import SlotFacts
from transforms.releases.base import DrawnUnit, History, Request, Tallies
from transforms.releases.hats.draw import Policy, draw_releases, is_plain
from transforms.wire import joined


@dataclass(frozen=True, kw_only=True)
class HatRelease(Policy):
    """Release of HATs, together for slots of one `plan`."""

    slots: Mapping[int, SlotFacts]  # facts by start
    cap: ContributionBound | None = None
    draws_in_order = False
    learns = False
    keeps_late = True

    @classmethod
    def of(cls, request: Request) -> "HatRelease":
        """Creates the release of a specification."""
        names = ("spec_id", "value", "statistics", "allocation", "shards", "region", "digest_key", "slots", "cap")
        return cls(**{name: getattr(request, name) for name in names})

    @staticmethod
    def why_no_stream(allocation: Allocation, _options: object) -> str | None:
        """Explains why slots cannot be released singly, or None."""
        if not allocation.whole_periods:
            return None
        return (
            "privacy.scope = 'period' plans and seals a period as a whole, which a stream never holds: "
            "use `hatstream release`, or scope = 'slot'"
        )

    def with_digest_form(self, digest: str | None) -> "HatRelease":
        """Continues with the ledger's form of digests (transforms.releases.hats.draw)."""
        return replace(self, plain_digests=digest is not None and is_plain(digest))

    def claims(self, _history: History) -> dict[str, list[Debit]] | None:
        """Returns None: debits depend on counts."""
        return None

    def group(self, slot_s: int) -> int:
        """Returns the first slot planned together with a slot."""
        return self.slots[slot_s].joint_slots_s[0]

    def draw(self, groups: Mapping[SlotShard, Tallies], history: History, noise: Noise) -> list[DrawnUnit]:
        """Draws all groups' HATs, once. Raises StepError where one has no plan."""
        if history.recorded:  # a HAT has one draw, no stages
            return []
        failpoint("before-noise")
        try:
            tables = {group: joined(list(tallies())) for group, tallies in groups.items()}  # tallies() reads a group's
            units = draw_releases(tables, self.slots, self, noise)
        except PlanError as error:
            raise StepError(f"a HAT cannot be released: {error}") from None
        failpoint("after-noise")
        return units

    def estimates(self, recorded: RecordedSlot, _history: History) -> Iterator[SlotEstimates]:
        """Yields the estimates of a recorded slot."""
        yield estimates_of(all_of(HatUnit, recorded.units), self.names, self.value.lower)


MISS = 0.05  # an interval [lower95, upper95] misses the true value with at most this probability


def estimates_of(units: Sequence[HatUnit], statistics: Sequence[str], lower: Fraction = ZERO) -> SlotEstimates:
    """Reads a slot's estimates by cell and statistic; `lower`: value of integer 0."""
    everything = [release for unit in units for release in unit.released]
    spent = [text for unit in units for text in [str(unit.spent)] * len(unit.released)]
    cells, names = [release.cell for release in everything], [release.statistic for release in everything]
    lengths = list(map(len, cells))  # compared first, as cells are hexadecimal numbers without leading zeros
    is_plain = len({*lengths}) == len({*names}) == 1  # then the cells' texts alone give the same order, faster
    sort_keys: Sequence[Any] = cells if is_plain else list(zip(lengths, cells, names, strict=True))
    order = sorted(range(len(cells)), key=sort_keys.__getitem__)
    released = [everything[index] for index in order]
    vehicles, reports = counts_of([release.plan for release in released])
    estimates = _estimates(released)
    if lower:  # added to all numbers that are values: not to squares of differences
        numbers = estimates.numbers.copy()  # (outputs, value and two bounds, HATs)
        for hat, release in enumerate(released):
            outputs = [output for output in named(release.statistic).outputs if not output.is_list]
            value_outputs = [index for index, output in enumerate(outputs[: len(numbers)]) if output.unit == VALUE]
            numbers[value_outputs, :, hat] += float(lower)  # no rows stand for outputs of which no HAT has data
        estimates = replace(estimates, numbers=numbers)
    hats = HatColumns(
        cell=[release.cell for release in released],
        statistic=[release.statistic for release in released],
        mechanism=[release.mechanism for release in released],
        epsilon_slot=[spent[index] for index in order],
        estimates=estimates,
        vehicles=vehicles,
        reports=reports,
    )
    slot = units[0]
    return SlotEstimates(slot.spec_id, slot.slot_start, slot.slot_end, slot.unit, tuple(statistics), hats)


def counts_of(plans: Sequence[Mapping[str, Any] | None]) -> tuple[list[int | None], list[int | None]]:
    """Reads HATs' vehicles and reports from plans, None where they are secret."""
    facts = [{} if plan is None else plan.get("facts", {}) for plan in plans]
    public = [fact if "users" in fact and "samples" in fact else {} for fact in facts]
    # Where a plan does not say what was reported, its samples are all.
    return [fact.get("users") for fact in public], [fact.get("reported", fact.get("samples")) for fact in public]


def _estimates(released: Sequence[Released]) -> Estimates:
    """Reads estimates in release order, computed per mechanism."""
    by_mechanism: dict[str, list[int]] = {}
    for index, release in enumerate(released):  # HATs without data have neither plan nor integers
        if release.plan is not None and release.integers is not None:
            by_mechanism.setdefault(release.mechanism, []).append(index)
    indexed_estimates: list[tuple[list[int], Estimates]] = []
    for name, indices in by_mechanism.items():
        integers, plans = ([getattr(released[index], column) for index in indices] for column in ("integers", "plan"))
        indexed_estimates.append((indices, stored_estimates(name, integers, plans, MISS)))  # MISS: 5 %, of intervals
    if len(indexed_estimates) == 1 and len(indexed_estimates[0][0]) == len(released):  # in order already
        return indexed_estimates[0][1]
    return Estimates.placed(len(released), indexed_estimates)
