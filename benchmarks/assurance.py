"""Guards measurements/assurance.md, measured: what stands behind each sentence of docs/guarantee.md (five minutes).

Writes docs/assurance.json, and measurements/assurance.md from that and from the table of claims; with `--page`
only the page, from results that are there.
"""

import argparse
import json
import os
import re
import time
from collections.abc import Callable, Iterator
from fractions import Fraction
from itertools import product
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
RESULTS, PAGE = ROOT / "docs" / "assurance.json", ROOT / "measurements" / "assurance.md"
CLAIMS = Path(__file__).with_name("claims.md")
COPIES, DRAWS, NEIGHBOURS = 200_000, 1_000_000, 10_000
TOTALS = [(Fraction(1, 2), -6), (Fraction(1), -6), (Fraction(66, 25), -6), (Fraction(66, 25), -9), (Fraction(10), -6)]
"""Epsilon, and the power of ten of delta."""


def mutants() -> list[dict[str, Any]]:
    """Each leak, and how many seconds of a processor the gate takes to find it."""
    import pytest

    from tests.noninterference.mutating import MUTANTS, broken
    from tests.noninterference.test_mutants import ALL

    results = []
    for mutant in MUTANTS:
        with pytest.MonkeyPatch.context() as patch:
            broken(mutant, patch)
            before = time.process_time()
            differences = ALL[mutant.case]().differences()
        seconds = round(time.process_time() - before, 1)
        found = bool(differences)
        told = {"name": mutant.name, "breaks": mutant.breaks, "case": mutant.case}
        results.append({**told, "s": seconds, "found": found})
        print(mutant.name, seconds, found, flush=True)
    return results


def audits() -> dict[str, float]:
    """Lower bounds of what a release really spends, by COPIES of each neighbour; wrong with probability 1e-6."""
    from tests.statistical import levels_audit as audit
    from tests.statistical import span_audit as span
    from tests.statistical.audit import bound_of_samples

    audit.COPIES = COPIES
    cells = audit.h3.cell_to_children(audit.h3.latlng_to_cell(0, 0, 3), 10)
    audit.REGION = tuple(sorted(audit.h3.str_to_int(cell) for cell in cells))[: 2 * COPIES]
    pure = audit.likelihoods(*audit.released("laplace", audit.policy("laplace")), "laplace")
    gaussian, rounded = (
        audit.likelihoods(*audit.released("gaussian", audit.policy("gaussian", accounting=accounting)), "gaussian")
        for accounting in ("zcdp", "gdp")
    )
    return {
        "epsilon": bound_of_samples(*pure, audit.ALPHA),
        "epsilon_claimed": float(audit.EPSILON),
        "mu": audit.mu_bound(*gaussian),
        "mu_claimed": audit.mu_claimed(),
        "rounded_mu": audit.mu_bound(*rounded),
        "rounded_mu_claimed": audit.mu_claimed("gdp"),
        "span_epsilon": bound_of_samples(*span.likelihoods("laplace"), audit.ALPHA),
        "span_epsilon_claimed": float(span.TOTAL),
        "span_mu": audit.mu_bound(*span.likelihoods("gaussian")),
        "span_mu_claimed": span.MU,
    }


def samplers() -> list[dict[str, Any]]:
    """Chi-square tests of draws against the exact laws."""
    from dpops.noise import Noise
    from tests.statistical.test_samplers import GAUSSIAN, LAPLACE, ROUNDED

    return [
        {"law": name, "scale": prefix + str(spread), "p": law.fit(law.sample(spread, Noise(), DRAWS), spread)}
        for name, prefix, law in (
            ("discrete Laplace", "", LAPLACE),
            ("discrete Gaussian", "root of ", GAUSSIAN),
            ("rounded Gaussian", "root of ", ROUNDED),
        )
        for spread in law.spreads
    ]


def conversions() -> list[dict[str, Any]]:
    """The rho of a total with delta, and what dp-accounting says that the Gaussian noise for it spends."""
    from dp_accounting import dp_event, pld, rdp

    from dpops.claims import NOISE_CLAIMS

    results = []
    for (accounting, claim), (epsilon, power) in product(NOISE_CLAIMS.items(), TOTALS):
        rho = claim.within(epsilon, Fraction(10) ** power).rho
        event = dp_event.GaussianDpEvent(float(1 / (2 * rho)) ** 0.5)
        exact = pld.PLDAccountant(value_discretization_interval=1e-4).compose(event).get_epsilon(10.0**power)
        renyi = rdp.RdpAccountant(orders=[1 + step / 50 for step in range(1, 20_000)]).compose(event)
        results.append(
            {"accounting": accounting, "epsilon": float(epsilon), "delta": 10.0**power, "rho": float(rho),
             "pld": float(exact), "rdp": float(renyi.get_epsilon(10.0**power))}
        )  # fmt: skip
    return results


def neighbours() -> dict[str, Any]:
    """Generated neighbours, each the road three times: together, without the vehicle, the vehicle alone."""
    from hypothesis import HealthCheck, given, settings

    from tests.noninterference.neighbours import neighbours as generated

    seen = {"neighbours": 0, "differences": 0, "s": 0.0}

    @settings(
        max_examples=int(os.environ.get("NEIGHBOURS", NEIGHBOURS)),
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(generated())
    def run(case: Any) -> None:
        seen["neighbours"] += 1
        seen["differences"] += bool(case.differences())

    before = time.process_time()
    run()
    return seen | {"s": round(time.process_time() - before)}


PARTS: dict[str, Callable[[], Any]] = {
    "mutants": mutants,
    "audits": audits,
    "samplers": samplers,
    "conversions": conversions,
    "neighbours": neighbours,
}


def page(results: dict[str, Any], claims: str) -> str:
    """Writes measurements/assurance.md. claims: a table of sentences, with the code and the tests of each."""
    return "\n".join(
        [
            "# What stands behind the guarantee",
            "",
            "Of [guarantee.md](../docs/guarantee.md). Made by `python -m benchmarks.assurance` from what it measured",
            "(`docs/assurance.json`) and from `benchmarks/claims.md`. Seconds are of one processor.",
            "",
            *_sentences(claims),
            *_mutants(results.get("mutants", [])),
            *_neighbours(results.get("neighbours")),
            *_audits(results.get("audits")),
            *_conversions(results.get("conversions", [])),
            *_samplers(results.get("samplers", [])),
            *NOTHING_CHECKS,
        ]
    )


def _sentences(claims: str) -> Iterator[str]:
    yield from ("## Each sentence, its value in code and its tests", "", *claims.splitlines())
    yield "| all of these | all together, on every road and in histories of runs | `tests/noninterference/` |"
    yield ""


def tests_of(claim: str) -> list[str]:
    """Lists the tests of a row of the table; those without a folder are in the one before."""
    names = re.findall(r"`((?:tests/)?[\w/]*(?:test_\w+\.py|/))`", claim.rpartition(" | ")[2])
    folder, tests = "", []
    for name in names:
        folder = name if name.endswith("/") else folder
        tests.append(name if name.startswith("tests/") else folder + name)
    return tests


def _mutants(results: list[dict[str, Any]]) -> Iterator[str]:
    yield from (f"## Leaks that the gate finds: {sum(mutant['found'] for mutant in results)} of {len(results)}", "")
    yield "Each is a wrong implementation, put in place of the right one (`mutants.py` and `mutants_published.py` in"
    yield "`tests/noninterference`)."
    yield from ("", "| leak | what is wrong | found by | s |", "|---|---|---|---|")
    for mutant in results:
        yield f"| {mutant['name']} | {' '.join(mutant['breaks'].split())} | {mutant['case']} | {mutant['s']:g} |"
    yield ""


def _neighbours(counts: dict[str, Any] | None) -> Iterator[str]:
    if counts is None:
        return
    yield from ("## Generated neighbours", "")
    number, unlike, seconds = (f"{counts[name]:,}" for name in ("neighbours", "differences", "s"))
    yield f"{number} vehicles of any rows among others of any rows, in every layout and as elements. In {unlike} of"
    yield "them the integers of all were not those of the others and the vehicle's own added up, or other rows were"
    yield f"refused ({seconds} s). `make test-all` generates 10,000. Histories of whole runs:"
    yield from ("`tests/noninterference/histories.py`.", "")


def _audits(audit: dict[str, float] | None) -> Iterator[str]:
    if audit is None:
        return
    yield from ("## What a release really spends, from below", "")
    yield f"{COPIES:,} copies of each of two neighbours, two stages, from tallies to recorded integers; a bound is"
    yield "wrong with probability 1e-6. With a 28th of a pure total a day, hardly any copy tells all that it might;"
    yield "the Gaussian's mu adds up to what all days spend."
    yield from ("", "| noise | measured, at least | claimed |", "|---|---|---|")
    yield f"| Laplace: epsilon | {audit['epsilon']:.2f} | {audit['epsilon_claimed']:.2f} |"
    yield f"| discrete Gaussian (`zcdp`): mu | {audit['mu']:.3f} | {audit['mu_claimed']:.3f} |"
    yield f"| rounded Gaussian (`gdp`): mu | {audit['rounded_mu']:.3f} | {audit['rounded_mu_claimed']:.3f} |"
    yield f"| 28 released days, Laplace: epsilon | {audit['span_epsilon']:.2f} | {audit['span_epsilon_claimed']:.2f} |"
    yield f"| 28 released days, Gaussian: mu | {audit['span_mu']:.3f} | {audit['span_mu_claimed']:.3f} |"
    yield ""


def _conversions(results: list[dict[str, Any]]) -> Iterator[str]:
    yield from ("## Totals with delta: a second opinion", "")
    yield "What dp-accounting says of the Gaussian noise that a total gets: by its privacy loss, and by Rényi"
    yield "divergences, which hold for every concentrated claim. Under `zcdp` neither may exceed the total but for"
    yield from ("rounding, under `gdp`, whose noise is rounded and normal, the first may not.", "")
    names = ("accounting", "epsilon, delta", "rho, or mu² / 2", "by privacy loss", "by Rényi divergences")
    yield from (f"| {' | '.join(names)} |", "|---|---|---|---|---|")
    for row in results:
        of = f"| {row['accounting']} | {row['epsilon']:g}, {row['delta']:g} | {row['rho']:.6f} |"
        yield f"{of} {row['pld']:.4f} | {row['rdp']:.4f} |"
    yield ""


def _samplers(results: list[dict[str, Any]]) -> Iterator[str]:
    yield from ("## Samplers against their exact law", "")
    yield f"{DRAWS:,} draws each from the operating system's generator; p: chance of no better a fit (chi-square)."
    yield from ("", "| law | scale or standard deviation, in steps | p |", "|---|---|---|")
    for sampler in results:
        yield f"| {sampler['law']} | {sampler['scale']} | {sampler['p']:.3f} |"
    yield ""


NOTHING_CHECKS = (
    "## What nothing checks",
    "",
    "* How long anything takes: runs, polls, answers of a server. Time is the operator's (guarantee.md).",
    "* Engines themselves: the gate's streams and clusters run on Beam's own runner. That Flink and Kafka do what that",
    "  runner does is shown by `tests/stream`, for the roads' results, not by comparing neighbours there.",
    "* The laws of private choices (bins, quantiles, bounds) by replay: with frozen draws another one may be chosen,",
    "  and no norm says how likely that was. They are audited in `tests/dpops/mechanisms/test_private_choices.py`.",
    "* What vehicles said before they perturbed it: the gate masks local reports, and their laws are audited in",
    "  `companions/local/tests`.",
    "* Health lines, metrics and logs of engines under secret counts: they are the operator's, and hold counts. That",
    "  what they count goes nowhere else is seen by mypy (`tests/transforms/leaks.py`), not by replay.",
    "* Roads that the gate does not take: topics of several partitions, or of GTFS-realtime and SIRI-VM messages;",
    "  messages of `--kafka-output` (the same rows are compared as files); accounts by week or for ever; inputs that",
    "  are not on this machine; `collect`, `spec new`, copies of a ledger.",
    "* File systems: one from elsewhere must set the time of a file's change when it is renamed, as Linux's own do.",
    "* Neighbours that could not be read: a damaged container takes other rows with it (guarantee.md says which).",
    "* That the mutants are all the leaks there are. They are those that somebody thought of, or found.",
    "",
)


def _a_line_each(results: dict[str, Any]) -> str:
    """JSON with a line for each result."""
    spread = json.dumps(results, indent=1) + "\n"
    return re.sub(r"\{[^{}\[\]]*\}", lambda result: re.sub(r"\n\s*", " ", result[0]), spread)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--page", action="store_true", help="only the page, from results that are there")
    parser.add_argument("--part", choices=PARTS, action="append", help="measure only this; may be given several times")
    asked = parser.parse_args()
    results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    for name in [] if asked.page else asked.part or PARTS:
        results[name] = PARTS[name]()
        RESULTS.write_text(_a_line_each(results))
    PAGE.write_text(page(results, CLAIMS.read_text()))


if __name__ == "__main__":
    main()
