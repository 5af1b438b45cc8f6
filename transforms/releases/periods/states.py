"""State of the model from recorded entries, cached.

The cache is signed for one specification with a key derived from the account's (none without key), and rebuilt from the
ledger where missing, damaged or not matching. A state is of so many `days`, which are periods: `recent` ones (at least
`least_recent`, or all if that is None) are as released, `older` ones folded into mean days; `start` has initial values
of fits. The digest of n periods covers the public facts and all their entries: equal digests have equal states.
"""

import hashlib
import hmac
import logging
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec
import numpy as np

from dpops.learning import DayValues, Facts, Learned, LevelValues, StageValues, State, add_day, learned
from dpops.learning.effects import Start
from dpops.learning.state import RECENT, VERSION
from dpops.levels.bounded import ReleasedStage
from dpops.levels.defaults import Fleet, standing, vehicle_weight, weight_gain
from dpops.levels.parts import is_too_few, slot_weight
from dpops.levels.stages import CENTRE_STEP_KMH
from dpops.types import Float64s, Int64s
from transforms.atomic_files import locked, read_regular, replacing
from transforms.errors import reason_of
from transforms.places.ground import design_of, texts_of
from transforms.recorded.stage_plan import part_of
from transforms.recorded.units import StageEntry, encode
from transforms.releases.periods.stages import LevelsPolicy, read_part
from transforms.time.trips import Trips

if TYPE_CHECKING:
    from transforms.ledger.chain import Signature


LOG = logging.getLogger("hatstream.learned")
LOG.setLevel(logging.WARNING)
_SIGN_BYTES = 32  # of HMAC-SHA256, before the state


class Folded(NamedTuple):
    """Folded days of a state, as in `State`."""

    older: tuple[DayValues, ...]
    start: Start | None


class StoredState(NamedTuple):
    """State of a number of periods, in a file."""

    version: int  # of the model
    rests_on: str  # digest of the periods' entries
    number: int  # of periods
    folded: bytes  # encoded `Folded`: arrays as type, shape and bytes


@dataclass(frozen=True)
class StateFile:
    """Cache file of a specification's state, rebuilt from entries."""

    path: Path
    key: bytes = field(repr=False)

    @staticmethod
    def of_head(head: Path, spec_id: str, signature: "Signature | None") -> "StateFile | None":
        """Names a file beside the head file; None where nothing can sign it."""
        if signature is None:
            return None
        return StateFile(head.with_name(f"{head.name}.{spec_id}.learned"), signature.key_of(f"learned/{spec_id}"))

    def read(self) -> StoredState | None:
        """Reads the file; removes a damaged or forged one with a warning.

        None without file, or where another version of hatstream wrote it: entries are then fitted anew.
        """
        try:
            data = read_regular(self.path, 1 << 30)  # a larger file is not read
            signature, content = data[:_SIGN_BYTES], data[_SIGN_BYTES:]
            if hmac.compare_digest(hmac.digest(self.key, content, "sha256"), signature):
                stored = msgspec.msgpack.decode(content, type=StoredState)
                return stored if stored.version == VERSION else None
            LOG.warning(
                "%s is damaged, or not signed with the account's key: it is learned anew from the ledger", self.path
            )
            with suppress(OSError):
                self.path.unlink(missing_ok=True)
        except (FileNotFoundError, msgspec.MsgspecError):  # the latter: signed, but in another version's form
            pass
        except OSError as error:
            LOG.warning("%s cannot be read (%s): it is learned anew from the ledger", self.path, reason_of(error))
        return None

    def write(self, state: StoredState) -> None:
        """Writes the file atomically, or warns."""
        if not self.path.parent.is_dir():
            return  # nowhere to put it: it is a cache, and is rebuilt
        data = msgspec.msgpack.encode(state)
        try:
            with locked(self.path.parent), replacing(self.path, 0o600) as file:
                file.write(hmac.digest(self.key, data, "sha256") + data)
        except OSError as error:
            LOG.warning("%s cannot be written (%s): it will be learned anew", self.path, reason_of(error))


def learned_from(entries: Sequence[StageEntry], policy: LevelsPolicy, least_recent: int | None = RECENT) -> Learned:
    """Fits the model to all periods' means, the newest entry's period last, with cache."""
    by_period: dict[str, list[StageEntry]] = {period: [] for period in period_order(entries)}
    for entry in entries:
        if part_of(entry.unit) == "means":  # others say nothing of means of cells
            by_period[entry.unit.period].append(entry)
    facts = [policy.spec_id, policy.region, msgspec.to_builtins(policy.fleet), least_recent]
    digest = hashlib.sha256(msgspec.json.encode(facts))
    if policy.trips is not None and policy.trips.are_counted:  # only numbers of trips enter the model
        digest.update(msgspec.json.encode([policy.trips.cells, policy.trips.packed]))
    digests = [digest.hexdigest()]
    for entries_of_period in by_period.values():
        for entry in entries_of_period:
            digest.update(msgspec.json.encode([entry.sequence, msgspec.Raw(encode(entry.unit))]))
        digests.append(digest.hexdigest())
    return _fitted(StateSource(tuple(digests), least_recent, list(by_period.values()), policy))


@dataclass(frozen=True)
class StateSource:
    """Inputs that determine a state."""

    digests: tuple[str, ...]  # of the first 0, 1, .. periods, in order
    least_recent: int | None  # fewest periods that stay recent; None: all
    periods: Sequence[Sequence[StageEntry]] = field(compare=False, repr=False)  # each one's stages of means
    policy: LevelsPolicy = field(compare=False, repr=False)

    def days(self, start: int, end: int) -> list[DayValues]:
        """Reads releases of periods from `start` to before `end`."""
        days, fleet = [], self.policy.fleet
        for entries in self.periods[start:end]:
            released, hours = zip(*read_part(entries, self.policy, "means"), strict=True)  # hours: equal in all stages
            # Without counts of too few vehicles, at which a run stopped: perhaps its input was wrong.
            stages = tuple(stage_values(read, fleet) for read in released if not is_too_few(read, fleet.vehicles))
            days.append(DayValues(hours=np.array(hours[0]), stages=stages))
        return days


@lru_cache(maxsize=2)
def _fitted(source: StateSource) -> Learned:
    """Fits all periods; most are folded into a state that is stored on disk.

    Whole multiples of `least_recent` periods are stored, from two on: the file changes seldom. With None nothing is.
    """
    policy, periods, step = source.policy, len(source.periods), source.least_recent
    state = empty = _empty_state(policy.region, facts_of(policy.fleet), step, policy.trips)
    if step is not None and periods >= 2 * step:
        folded_periods = periods // step * step
        file, digest = policy.cache_file, source.digests[folded_periods]
        stored = None if file is None else file.read()  # number: of its periods; rests_on: their digest
        state = _newest_known(source, folded_periods, stored, empty)  # of at most so many periods, in memory or file
        if state.days < folded_periods:
            for day in source.days(state.days, folded_periods):
                state = add_day(state, day)
            _FOLDED.append((digest, state))  # from which this process's next estimate goes on
        # A stored state of more periods than are needed here may be another run's, and right.
        is_right = stored is not None and (stored.number > folded_periods or stored.rests_on == digest)
        if file is not None and not is_right:
            older = Folded(state.older, state.start)
            folded = msgspec.msgpack.encode(older, enc_hook=lambda x: (x.dtype.str, x.shape, x.tobytes()))  # arrays
            file.write(StoredState(VERSION, digest, state.days, folded))
    for day in source.days(state.days, periods):
        state = add_day(state, day)
    return learned(state)


@lru_cache(maxsize=2)  # all fits of a city share its layouts of effects, which remember their `pair_sums`
def _empty_state(region: Sequence[int], facts: Facts, least_recent: int | None, trips: Trips | None) -> State:
    """Makes a city's state without days; trips: a timetable's, whose visits the model expects."""
    visits = None if trips is None or not trips.are_counted else trips.of_habits(texts_of(region))
    return State.new(replace(design_of(region), visits=visits), facts, least_recent)


_FOLDED: deque[tuple[str, State]] = deque(maxlen=2)
"""Digests and states of this process's last folds: estimates of many days go from one to the next."""


def _newest_known(source: StateSource, most_periods: int, stored: StoredState | None, empty: State) -> State:
    """Finds the newest state known to this process or the file, else `empty`."""
    for digest, state in reversed(_FOLDED):
        if state.days <= most_periods and source.digests[state.days] == digest:
            return state
    if stored is not None and stored.number <= most_periods and source.digests[stored.number] == stored.rests_on:
        # The file lacks a state's recent days, `least_recent` of them: they are read from entries.
        recent = tuple(source.days(stored.number - (source.least_recent or 0), stored.number))
        with suppress(msgspec.MsgspecError):  # of another form
            older, start = msgspec.msgpack.decode(stored.folded, type=Folded, dec_hook=_array_of)
            return replace(empty, days=stored.number, recent=recent, older=older, start=start)
    return empty


def _array_of(_kind: object, parts: tuple[str, list[int], bytes]) -> Float64s | Int64s:
    dtype, shape, data = parts
    return np.frombuffer(data, dtype).reshape(shape)


def period_order(entries: Sequence[StageEntry]) -> list[str]:
    """Sorts periods by first stage; the newest entry's, which is estimated, comes last."""
    order = dict.fromkeys(entry.unit.period for entry in entries)
    return sorted(order, key=lambda period: period == entries[-1].unit.period)


def stage_values(released: ReleasedStage, fleet: Fleet, *, is_live: bool = False) -> StageValues:
    """Reads a stage's sums in units of a typical vehicle-day's (live: vehicle-slot's) weight."""
    stage = released.stage
    typical_weight = slot_weight(stage, fleet.profile) if is_live else vehicle_weight(stage, fleet)
    # A clip of speeds lowers weights as well. The model expects what the usual bound leaves; a wider one leaves
    # `weight_gain` times that. Exact weights and counts of vehicles aren't clipped; a live slot's less: not corrected.
    if not (is_live or stage.counts_public or stage.counts_vehicles):
        typical_weight *= weight_gain(stage.bound_kmh)
    levels = tuple(
        LevelValues(
            groups=level.level.groups,
            weights=level.weights.reshape(level.level.groups.shape) / typical_weight,
            speeds=level.speeds.reshape(level.level.groups.shape) / typical_weight,
            weight_variances=np.square(level.weight_sd / typical_weight),
            speed_variances=np.square(level.speed_sd / typical_weight),
        )
        for level in released.levels
    )
    centre = (stage.laid.centres * float(CENTRE_STEP_KMH)).astype(np.float64)
    return StageValues(centre=centre, levels=levels, counts_vehicles=stage.counts_vehicles)


def facts_of(fleet: Fleet) -> Facts:
    """Converts a fleet's profile to the model's facts."""
    profile = fleet.profile
    return Facts(
        vehicles=fleet.vehicles,
        hat_weight=1 / profile.hats,  # a vehicle-day weighs 1 in the model
        hats_in_hour=profile.hats / profile.hours,
        hats_in_cell=profile.hats / profile.cells,
        standing=standing(profile),  # a typical vehicle-day's weight over that of one that stands all day
    )
