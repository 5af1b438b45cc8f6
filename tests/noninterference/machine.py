"""Histories that nobody thought of: runs, late rows, kills and a second specification in any order, with both worlds.

The machine writes a history down, rule by rule; at its end the history is replayed in both worlds and compared.
"""

from collections.abc import Callable
from dataclasses import replace

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test

from tests.city import DAYS
from tests.noninterference import feeds
from tests.noninterference.cases import OPEN, STRANGE, TWO_LIMITS, bus, late_rows
from tests.noninterference.histories import BOTH, SECOND_SPEC, estimated, second_specification, timely
from tests.noninterference.roads import Job, reports
from tests.noninterference.world import Feed, Report, Town, World, differences
from transforms.failpoints import FailpointError, acting

Step = Callable[[Town, Feed], None]
PLACES = ("before-commit", "after-commit", "mid-file")
SPANS = st.sampled_from([(DAYS[0], DAYS[0]), (DAYS[1], DAYS[1]), (DAYS[0], DAYS[1])])
OTHERS = [*reports(8), *reports(8, day=DAYS[1])]
_NIGHT = [Report("PLATE-X", f"{DAYS[1]}T23:59:59+05:30", 21.17, 72.83, 5.0)]
_EXTRAS: tuple[Feed, ...] = (
    [*bus(9), *bus(9, day=DAYS[1]), *late_rows()],
    bus(2, day=DAYS[1]),
    [*(report for report in STRANGE if report.vehicle != 2.5), *late_rows()],  # which CSV makes another vehicle's id
    [report._replace(received_s=1e6) for report in bus(9)],
    [*STRANGE[3:6], *_NIGHT],
)
"""What a vehicle did: rows with a `received_s` are late ones."""


def under_secret_counts() -> st.SearchStrategy[World]:
    return st.builds(
        lambda extra, others: World(TWO_LIMITS, [*others[:9], *extra, *others[9:]], others),
        st.sampled_from(_EXTRAS),
        st.sampled_from([OTHERS, []]),
    )


def under_public_counts() -> st.SearchStrategy[World]:
    return st.builds(
        lambda slow, fast: World(OPEN, *([*_at(speed), *OTHERS] for speed in (slow, fast))),
        *[st.sampled_from([0.0, 3.0, 64.0, 1e300])] * 2,
    )


def _at(speed: float) -> Feed:
    late = [report._replace(received_s=1e6, speed=3.0) for report in bus(9)]
    return [*bus(9, speed=speed), *bus(9, speed=speed, day=DAYS[1]), *late]


RELAXED = settings(deadline=None, suppress_health_check=list(HealthCheck))


class Histories(RuleBasedStateMachine):
    """Few steps: each is a run of the command in both worlds."""

    @initialize(world=under_secret_counts() | under_public_counts())
    def begins(self, world: World) -> None:
        self._world, self._steps, self._is_late, self._is_killed = world, list[Step](), False, False

    @rule(days=SPANS, files=st.integers(1, 3))
    def releases(self, days: tuple[str, str], files: int) -> None:
        job, is_late = replace(BOTH, days=days, files=files), self._is_late
        self._steps.append(lambda town, feed: job(town, feed if is_late else timely(feed)))

    @rule(days=SPANS)
    def releases_for_people(self, days: tuple[str, str]) -> None:
        job, is_late = Job(days=days, formats=("csv", "parquet")), self._is_late
        self._steps.append(lambda town, feed: job(town, feed if is_late else timely(feed)))

    @precondition(lambda self: not self._is_late)
    @rule()
    def late_rows_come(self) -> None:
        self._is_late = True

    @precondition(lambda self: not self._is_killed)
    @rule(days=SPANS, place=st.sampled_from(PLACES), passage=st.integers(1, 3))
    def is_killed(self, days: tuple[str, str], place: str, passage: int) -> None:
        self._is_killed, job, is_late = True, replace(BOTH, days=days), self._is_late

        def stop(name: str, number: int) -> None:
            if (name, number) == (place, passage):
                raise FailpointError(name)

        def killed(town: Town, feed: Feed) -> None:
            with acting(stop):
                job(town, feed if is_late else timely(feed))

        self._steps.append(killed)

    @rule(days=SPANS)
    def another_specification_releases(self, days: tuple[str, str]) -> None:
        is_late = self._is_late

        def second(town: Town, feed: Feed) -> None:
            second_specification(town)
            pattern = feeds.write(feed if is_late else timely(feed), town.folder / "in", "csv")
            command = replace(BOTH, days=days).command(town, pattern)
            command[1:5] = town.ledger(spec=SECOND_SPEC)
            town.run(*command)

        self._steps.append(second)

    @precondition(lambda self: self._world.spec == TWO_LIMITS)
    @rule()
    def estimates_are_made_again(self) -> None:
        self._steps.append(lambda town, _: estimated(town))

    def teardown(self) -> None:
        def history(town: Town, feed: Feed) -> None:
            for step in self._steps:
                step(town, feed)

        if hasattr(self, "_world"):
            assert differences(self._world, history) == []


class Found:
    """The machine as a case: some histories, the same each time."""

    def differences(self) -> list[str]:
        some = settings(RELAXED, max_examples=40, stateful_step_count=6, derandomize=True, phases=[Phase.generate])
        try:
            run_state_machine_as_test(Histories, settings=settings(some, database=None))
        except AssertionError as error:
            return [str(error)]
        return []
