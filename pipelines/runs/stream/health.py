"""Health of a stream: a JSON line per slot.

Row counts and lags are the operator's part of a line, secret where counts are. Each second is a look at engine and
ledger. A period that is released as a whole, beside live slots, is recorded by its first slot. A unit is lost if the
account's limit refuses it.
"""

import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from threading import Event
from typing import Any

from dpops.levels.parts import is_too_few
from pipelines.account.guarantee import is_due
from pipelines.engine import ENDED, EngineError
from pipelines.runs.flink.engine import FlinkJob
from pipelines.specification import Specification
from transforms import counters
from transforms.ledger.head import LedgerError
from transforms.ledger.ledger import Ledger
from transforms.public import Fact, Operator, Summary
from transforms.recorded.stage_plan import is_complete, of_period
from transforms.time.calendar import slots_from

LOOK_EVERY_S = 1.0
SILENT_S = 60.0  # after so long without an answer from the engine, nobody can say whether the stream still runs
LOST = counters.health_name(counters.UNITS_LOST)
LOSSES_EVERY = 10  # looks without a new slot until lost units are reported: an exhausted account records no slot
OVERDUE_S = 60  # a slot is overdue if it is not recorded so long after its allowed lateness
OVERDUE_EVERY = 60  # looks between two lines about slots that stay overdue
TOO_FEW = "far fewer vehicles than declared: nothing else of it is released"
TOO_MANY = "released weights show over ten times the vehicles declared: correct [fleet]"
_MOST_KEPT_SLOTS = 2_000  # reported slots that are remembered; older ones are looked at no more
_SHOWN_ABOVE_0 = tuple(map(counters.health_name, (counters.MISSED, counters.LATE_FOR_LIVE, counters.OVERTAKEN)))
"""Shown where above 0; the last of them is a fault: a clock that is behind, or a producer's."""
_FOR_EVER_S = 1 << 40  # end of an open range, seconds since 1970

Say = Callable[[Summary], None]


def attend(spec: Specification, life_s: tuple[int, int], ledger: Ledger, job: FlinkJob, stop: Event, say: Say) -> None:
    """Says a stream's state and health until `stop`. Raises EngineError on end or silence."""
    watch = _Watch(spec, life_s, ledger, job)  # life_s: first second, and end
    heard_s, state = time.monotonic(), None
    while not stop.wait(LOOK_EVERY_S):
        answer = job.state()
        if answer is None:
            if time.monotonic() - heard_s > SILENT_S:
                engine = f"the engine at {job.cluster.rest}"
                raise EngineError(f"{engine} has not answered for {SILENT_S:.0f} s: job {job.id} may run on")
            continue
        heard_s = time.monotonic()
        if answer != state:
            say(Summary({"state": answer}))
            state = answer
        if answer in ENDED:
            page = f"the page of job {job.id} at {job.cluster.rest}"
            raise EngineError(f"the stream has ended ({answer}): {page} says why")
        for line in watch.lines():
            say(line)


class _Watch:
    """Health monitor of a stream; remembers the reported slots and periods."""

    def __init__(self, spec: Specification, life_s: tuple[int, int], ledger: Ledger, job: FlinkJob) -> None:
        """Marks slots and periods recorded so far as reported. life_s: first second, and end."""
        self._spec, self._ledger, self._job = spec, ledger, job
        self._from_s, self._to_s = life_s  # older slots than `_from_s` are looked at no more
        self._reported: set[int] = set()  # starts of slots that have had their line
        self._counted: Mapping[str, int] = {}  # counters at the last line that had them
        self._idle = self._overdue = self._overdue_looks = 0  # looks without a slot; overdue slots, and looks with them
        self._is_away = False  # whether the ledger gave no answer at the last look
        self._ended: set[int] = set()  # first slots of periods whose end was reported
        with suppress(LedgerError):  # without an answer, slots recorded earlier are reported again later
            self._reported = set(self._complete_slots())
            self._ended = self._ended_since(self._first_of_period(self._from_s)) if self._spec.has_live else set()

    def lines(self) -> list[Summary]:
        """Returns health lines of newly recorded slots and periods, and of overdue slots."""
        ledger_state, lines, was_away = "answers", list[Summary](), self._is_away
        try:
            new_slots = sorted(set(self._complete_slots()) - self._reported)
            lines = self._slot_lines(new_slots) if new_slots else self._loss_lines()  # lines of slots have losses too
            lines += self._period_lines() if self._spec.has_live else []
            self._is_away = False
        except LedgerError as error:
            self._is_away, ledger_state = True, str(error)
        changed_state = [] if was_away == self._is_away else [Summary({"ledger": ledger_state})]
        return changed_state if self._is_away else changed_state + lines + self._overdue_lines()

    def _slot_lines(self, slots_s: list[int]) -> list[Summary]:
        """Returns a health line per newly recorded slot, and counts them as reported.

        slots_s: starts, ascending, in seconds since 1970. The counters go to the newest slot's line alone: they count
        since the last look, and cannot be divided over slots.
        """
        with_data, timetable = set(slots_s), self._spec.timetable  # under secret counts no slot is said to lack data
        if self._spec.counts_are_public:
            units = self._ledger.released_of(self._spec.spec_id, slots_s)
            # A HAT without a report is recorded without a plan.
            with_data = {unit.slot_s for unit in units for hat in unit.released if hat.plan is not None}
        self._reported.update(slots_s)
        if len(self._reported) > _MOST_KEPT_SLOTS:
            self._from_s = max(self._reported) - _MOST_KEPT_SLOTS * timetable.slot_s  # none older is looked at
            self._reported = {slot_s for slot_s in self._reported if slot_s >= self._from_s}
        counts, lines = self._since_the_last(), []
        if not counts:
            reason = "not known: the counters cannot be had"
        elif not counts["rows"]:
            reason = "no row came in"
        elif counts["rows"] == sum(counts["refused"].values()):
            reason = "every row that came in was refused"
        else:
            reason = "quiet: rows of other slots came in"
        for slot_s in slots_s:
            facts: dict[str, Fact] = {"lag_s": round(time.time() - slot_s - timetable.slot_s, 1)}
            facts |= ({} if slot_s in with_data else {"no_data": reason}) | (counts if slot_s == slots_s[-1] else {})
            lines.append(Summary({"slot": timetable.text(slot_s)}, Operator(facts)))
        return lines

    def _overdue_lines(self) -> list[Summary]:
        """Returns a line when slots become or stop being overdue, and every OVERDUE_EVERY looks."""
        timetable, due_s = self._spec.timetable, int(time.time()) - OVERDUE_S
        ended = slots_from(timetable, self._from_s, min(due_s, self._to_s))
        overdue = [slot_s for slot_s in ended if slot_s not in self._reported and is_due(self._spec, slot_s, due_s)]
        if overdue and self._spec.has_live:  # live slots are due once another period is recorded, until their own is
            recorded, first = self._ended_since(from_s=0), self._first_of_period  # recorded: periods' first slots
            overdue = [slot_s for slot_s in overdue if recorded - {first(slot_s)} and first(slot_s) not in recorded]
        former, self._overdue = self._overdue, len(overdue)
        self._overdue_looks = self._overdue_looks + 1 if former and overdue else 0
        if self._overdue_looks % OVERDUE_EVERY or not (former or overdue):
            return []
        oldest: dict[str, Fact] = {"oldest": timetable.text(overdue[0])} if overdue else {}
        return [Summary({"overdue": len(overdue), **oldest})]

    def _loss_lines(self) -> list[Summary]:
        """Returns the counters every LOSSES_EVERY looks if units were lost since the last line."""
        self._idle += 1
        if self._idle % LOSSES_EVERY:
            return []
        has_lost = False
        with suppress(OSError):
            has_lost = self._counters().get(LOST, 0) > self._counted.get(LOST, 0)  # now, and at the last line
        counted = self._since_the_last() if has_lost else {}
        return [Summary(public={}, operator_only=Operator(counted))] if counted else []

    def _period_lines(self) -> list[Summary]:
        """Returns health lines of newly released or stopped periods, each by its first slot."""
        from transforms.releases.periods.stages import read_unit

        spec, levels, lines = self._spec, self._spec.by_levels, []
        region = spec.cells.region or ()
        if not (new := self._ended_since(self._first_of_period(self._from_s)) - self._ended):  # _ended: reported ones
            return []
        stages = self._ledger.stages(spec.account.name, spec.spec_id)
        for slot_s in sorted(new):
            period = spec.timetable.period_of(spec.timetable.day_of(slot_s))
            is_whole, first = is_complete(stages, period), read_unit(of_period(stages, period)[0].unit, region)
            # A first stage that counts too few vehicles stops the period; else further stages are still to come.
            if is_whole or is_too_few(first, levels.fleet.vehicles):
                self._ended.add(slot_s)
                facts: dict[str, Fact] = {"fleet": TOO_MANY} if levels.shows_too_many(first) else {}
                lines.append(Summary({"period": period} | ({} if is_whole else {"stopped": TOO_FEW}), Operator(facts)))
        return lines

    def _ended_since(self, from_s: int) -> set[int]:
        """Finds the first slots of periods of which a stage is recorded."""
        recorded = self._ledger.recorded_slots(self._spec.account.name, self._spec.spec_id, from_s, _FOR_EVER_S)
        return {slot_s for slot_s, _ in recorded}

    def _first_of_period(self, slot_s: int) -> int:
        """Finds the first slot of a slot's period."""
        return self._spec.slots_of_period(slot_s)[0]

    def _complete_slots(self) -> list[int]:
        """Lists starts of slots that are recorded with all of their shards."""
        sought = self._spec.account.name, self._spec.spec_id, self._from_s, _FOR_EVER_S
        shards_of = Counter(slot_s for slot_s, _ in self._ledger.recorded_slots(*sought, is_live=self._spec.has_live))
        return [slot_s for slot_s, shards in shards_of.items() if shards == self._spec.privacy.release_shards]

    def _counters(self) -> dict[str, int]:
        """Reads the job's counters, under the names of health lines. Raises OSError."""
        return {counters.health_name(name): count for name, count in self._job.counters().opened().items()}

    def _since_the_last(self) -> dict[str, Any]:
        """Returns the job's counts since the last health line; empty without an answer."""
        try:
            now = self._counters()
        except OSError:
            return {}
        former, self._counted = self._counted, now
        new = {name: count - former.get(name, 0) for name, count in now.items()}
        if any(count < 0 for count in new.values()):  # the job was restarted, and its counters with it
            new = now
        prefix = counters.REFUSED
        refused = {name.removeprefix(prefix): count for name, count in new.items() if name.startswith(prefix)}
        return {
            "rows": new.get(counters.ROWS, 0),
            "duplicates": new.get(counters.DUPLICATES, 0),
            "refused": {reason: count for reason, count in sorted(refused.items()) if count},
            LOST: new.get(LOST, 0),  # of units; `health_name` replaces spaces, which the names above lack
            "units_changed": new.get(counters.health_name(counters.UNITS_CHANGED), 0),
            **{name: count for name in _SHOWN_ABOVE_0 if (count := new.get(name, 0))},
            "units_redrawn": new.get(counters.health_name(counters.UNITS_REDRAWN), 0),
        }
