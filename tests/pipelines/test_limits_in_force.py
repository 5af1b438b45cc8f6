"""What is said of an account's spans holds of what was really spent, whatever limits specifications write."""

import json
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import date, timedelta
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dpops.accountant import DeltaLimit, Limit, PureLimit, Span, SpanLimits
from dpops.claims import ZCDP, Accounting, GaussianDP, PureDP
from pipelines.account.guarantee import bounds_of_account, levels_sentence
from pipelines.specification import Specification, load
from tests import city, levels_city
from tests.pipelines.commands.releases import Run
from tests.transforms.ledger.entries import ACCOUNT, day, opened, unit
from transforms.ledger.ledger import Ledger
from transforms.ledger.spending import AccountRefusal

DAYS = tuple((date(2022, 1, 1) + timedelta(days=day)).isoformat() for day in range(12))
DAY = "{ days = 1, epsilon = 2.64 }"
ABOUT_WEEKS = (
    " Everything that the account releases about any 7 consecutive days of one vehicle changes the odds of any guess "
    "about them by at most a factor of {}, on however many of them it drove{}."
)
OVER = ABOUT_WEEKS.format(
    "7,580,000 (epsilon 15.84), so large that the vehicle is hardly protected",
    "; about days that begin on 2022-01-05 or later, by at most a factor of 196 (epsilon 5.28)",
)
"""Of six days of 2.64, and of a limit of 5.28 in 7 days that was set after them."""


def in_week(epsilon: str) -> str:
    return f"{{ days = 7, epsilon = {epsilon} }}"


def specification(limit: str, name: str = "small-city") -> str:
    spec = levels_city.SPEC.replace("limit = 2.64", limit).replace("vehicles = 50", "vehicles = 12")
    return spec.replace("small-city", name)


def limits(*spans: str) -> str:
    return f"limits = [{', '.join(spans)}]"


class Town:
    """Twelve buses on a dozen days, and their account."""

    def __init__(self, folder: Path, hatstream: Run) -> None:
        self.folder, self._hatstream = folder, hatstream
        levels_city.write(folder, lines=levels_city.rows(DAYS, buses=12))

    def run(self, *command: object) -> str:
        code, out, err = self._hatstream(*command)
        assert code == 0, err
        return out

    def init(self, spec: str) -> str:
        (self.folder / "spec.toml").write_text(spec)
        return self.run(*city.init(self.folder))

    def release(self, spec: str, first: str, last: str) -> str:
        """Releases days; returns the guarantee."""
        (self.folder / "spec.toml").write_text(spec)
        said: str = json.loads(self.run(*self._release(first, last), "--json"))["guarantee"]
        return said

    def code(self, day: str) -> int:
        """Releases a day by the newest specification; returns the exit code."""
        return self._hatstream(*self._release(day, day))[0]

    def _release(self, first: str, last: str) -> list[str]:
        more = ("--formats", "parquet", "--output", str(self.results))
        return city.release(self.folder, *more, start=first, end=last)

    @property
    def results(self) -> Path:
        """Where the results of the newest specification are."""
        return self.folder / load(self.folder / "spec.toml").name

    def report(self) -> str:
        self.run("report", *self._place, "--output", self.folder / "report.html")
        return re.sub(r"\s+", " ", (self.folder / "report.html").read_text())

    def publish(self) -> Mapping[str, Any]:
        """Publishes what the specification has released; returns the privacy card, with the record of DCAT in it."""
        texts = ("--publisher", "City", "--licence", "CC-BY-4.0", "--all", "--output", self.folder / "portal")
        self.run("publish", *self._place, "--input", self.results, *texts)
        card = json.loads((self.folder / "portal" / "privacy.json").read_text())
        record = json.loads((self.folder / "portal" / "dcat.jsonld").read_text())
        assert record["dct:provenance"]["dct:description"] == card["guarantee"]
        return dict(card)

    @property
    def _place(self) -> tuple[object, ...]:
        return "--spec", self.folder / "spec.toml", "--ledger", self.folder / "ledger.sqlite"


@pytest.fixture
def account(tmp_path: Path, hatstream: Run) -> Town:
    return Town(tmp_path, hatstream)


def is_said_of_six_days(account: Town, before: str, after: str) -> None:
    account.init(before)
    account.release(before, DAYS[0], DAYS[5])
    opened = account.init(after)
    assert "8 spans of 7 days that begin on these dates have spent more than the limit: 2021-12-28 (7.92)," in opened
    assert "2022-01-01 (15.84)" in opened
    assert "a release fits again on 2022-01-12" in opened
    assert account.release(after, DAYS[0], DAYS[0]).endswith(OVER)
    page = account.report()
    assert OVER in page
    assert "up to an epsilon of 15.84 in 7 days in a row. It holds of those that begin on 2022-01-05 or later." in page
    assert '<td class="limit">5.28, from 2022-01-05 on</td><td class="number">15.84</td>' in page
    assert '<td class="number">more than 99.999 %</td>' in page
    card = account.publish()
    assert card["guarantee"].endswith(OVER)
    (span,) = card["spans"]
    assert (span["limit"], span["since"], span["epsilon"]) == ("5.28", "2022-01-05", 15.84)
    assert span["odds"]["most"] > 0.9999998


@pytest.mark.slow
def test_a_limit_of_a_week_that_is_set_after_six_days_holds_from_a_date_on(account):
    is_said_of_six_days(account, specification("limit = 2.64"), specification(limits(DAY, in_week("5.28"))))
    assert [account.code(day) for day in DAYS[10:]] == [3, 0], "a release fits again on the day that init names"


@pytest.mark.slow
def test_a_week_s_limit_is_the_account_s_where_a_specification_writes_less(account):
    low = specification(limits(in_week("5.28")), "a")
    high = specification(limits(in_week("18.48")), "b").replace("vehicles = 12", "vehicles = 13")
    account.init(high)
    account.release(low, DAYS[0], DAYS[0])
    account.release(high, DAYS[1], DAYS[6])
    true = ABOUT_WEEKS.format("107,000,000 (epsilon 18.48), so large that the vehicle is hardly protected", "")
    assert account.release(low, DAYS[0], DAYS[0]).endswith(true)
    page = account.report()
    assert true in page
    assert "epsilon of 18.48 in any 7 days may be spent on a vehicle, over all releases of the account" in page
    card = account.publish()
    assert card["guarantee"].endswith(true)
    assert [(span["limit"], span["since"], span["epsilon"]) for span in card["spans"]] == [("18.48", None, 18.48)]


@pytest.mark.slow
def test_a_day_s_limit_is_the_account_s_where_a_specification_writes_less(account):
    low, high = specification("limit = 2.64", "a"), specification("limit = 5.28", "b")
    account.init(high)
    account.release(low, DAYS[0], DAYS[0])
    account.release(high.replace("vehicles = 12", "vehicles = 13"), DAYS[0], DAYS[0])
    assert "All figures of this release about one day" in account.release(low, DAYS[0], DAYS[0])
    page = account.report()
    assert "At most an epsilon of 5.28 may be spent on a vehicle in a day, over all releases of the account" in page
    assert "At the epsilon of 5.28 that was spent on the day with the most" in page
    assert account.publish()["epsilon"] == 5.28


def test_a_day_s_limit_that_is_lowered_names_what_was_spent_before(account):
    before, after = specification("limit = 2.64"), specification("limit = 2").replace("epsilon = 2.64", "epsilon = 2")
    account.init(before)
    account.release(before, DAYS[0], DAYS[0])
    opened = account.init(after)
    assert "1 periods that have spent more than the limit: 2022-01-01 (2.64)" in opened
    assert "a release fits again on 2022-01-02" in opened
    page = account.report()
    assert "up to an epsilon of 2.64 in a day. It holds of those that begin on 2022-01-02 or later." in page


# --- random histories ----------------------------------------------------------------------------------------------

DELTA = Fraction(1, 10**6)
CLAIMS: Mapping[str, Callable[[Fraction], PureDP | ZCDP]] = {"pure": PureDP, "zcdp": ZCDP, "gdp": GaussianDP}
Step = tuple[int, Fraction] | Mapping[int, Fraction]  # A day and what it is debited, or limits of spans by their days

amounts = st.integers(1, 12).map(lambda number: Fraction(number, 4))
lengths = st.dictionaries(st.sampled_from((1, 2, 4, 9)), st.integers(1, 16).map(Fraction), min_size=1)
histories = st.lists(st.tuples(st.integers(0, 14), amounts) | lengths, max_size=14)


def limit_by(kind: str, by_days: Mapping[int, Fraction]) -> Limit:
    pure = kind == "pure"
    accounting: Accounting = "gdp" if kind == "gdp" else "zcdp"
    spans = {days: PureLimit(most) if pure else DeltaLimit(most, DELTA, accounting=accounting)
             for days, most in by_days.items()}  # fmt: skip
    return SpanLimits(tuple(Span(days, spans[days]) for days in sorted(spans)))


@cache
def spent_in(kind: str, amount: Fraction) -> Fraction:
    """The epsilon of a window's sum, said once more."""
    return amount if kind == "pure" or not amount else CLAIMS[kind](amount).approx(DELTA).epsilon


def debited_after(book: Ledger, kind: str, steps: Sequence[Step]) -> Counter[int]:
    """Does the steps of a history, of which the account refuses some; returns what each day was debited."""
    debited = Counter[int]()
    for index, step in enumerate(steps):
        try:
            if isinstance(step, tuple):
                asked = unit(
                    step[0], epsilon=str(CLAIMS[kind](step[1])), period=day(step[0]), spec_id=str(index), plan=None
                )
                book.record("city", book.limit("city"), "name", "{}", [asked])
                debited[step[0]] += step[1]
            else:
                by_days = {span.days: span.limit.epsilon for span in book.limit("city").spans}
                book.open_account(replace(ACCOUNT, limit=str(limit_by(kind, {**by_days, **step}))))
        except AccountRefusal:
            continue
    return debited


NUMBER = r"\(epsilon ([\d.]+)[^;.]*(?:\.\d[^;.]*)*"
SENTENCE = rf"any (\d+) consecutive days[^(]*{NUMBER}drove(?:; about days that begin on (\S+) or later[^(]*{NUMBER})?"


@pytest.fixture(scope="module")
def spec(tmp_path_factory: pytest.TempPathFactory) -> Specification:
    return load(levels_city.write(tmp_path_factory.mktemp("spec"), lines=[])[0])


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(kind=st.sampled_from(sorted(CLAIMS)), steps=histories)
def test_no_window_of_any_history_spent_more_than_its_sentence_says(kind, steps, spec, tmp_path_factory):
    folder = tmp_path_factory.mktemp("ledger")
    first = limit_by(kind, {1: Fraction(20)})
    book = opened(f"sqlite:///{folder / 'ledger.sqlite'}", folder / "key.head", limit=str(first))
    debited = debited_after(book, kind, steps)
    text = levels_sentence(spec, bounds_of_account(book, "city"))
    sentences = re.findall(SENTENCE, text)
    limits_of = {span.days: span.limit.epsilon for span in book.limit("city").spans}
    assert [int(days) for days, *_ in sentences] == [days for days in limits_of if days > 1]
    for days, epsilon, since, later in sentences:
        sums = {
            day(begin): spent_in(kind, sum((debited[begin + step] for step in range(int(days))), Fraction(0)))
            for begin in range(-10, 16)
        }
        assert Fraction(epsilon) >= max(sums.values())
        assert Fraction(epsilon) <= max(limits_of[int(days)], *sums.values()) + Fraction(1, 100)
        assert bool(since) == (max(sums.values()) > limits_of[int(days)])
        if since:
            assert Fraction(later) == limits_of[int(days)]
            assert max(spent for begin, spent in sums.items() if begin >= since) <= limits_of[int(days)]
            assert sums[(date.fromisoformat(since) - timedelta(days=1)).isoformat()] > limits_of[int(days)]
