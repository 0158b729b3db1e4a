"""What the paper varies one by one, and the comparison with the optimum, held against runs.

Owns these statements and how near is near. A curve *falls* when its end is below its beginning by
more than a rounding; single steps may rise, because the algorithms draw at random.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import fmean
from typing import Final

from gravitate.studies.assignment_results import Case, Results, listed, where
from gravitate.studies.assignment_runs import OPTIMUM, SEARCHED
from gravitate.studies.findings import Finding, percent

CANDIDATES_PAPER: Final = 0.17
"""Of the brokers, at a maximum delay of 0.3 (Fig. 12a)."""
CANDIDATES_NEAR: Final = (0.10, 0.30)
ABOUT_ONE: Final = 1.2
"""A load balance factor up to this is about one."""
BETWEEN: Final = 0.05
"""By how much a load balance factor may be outside of where it should lie."""
OPTIMUM_WITHIN: Final = 1.2
COMPLEXITY_CHOSEN: Final = 3
"""The paper's choice."""
LOAD_SAMPLE_CHOSEN: Final = 10


def effects(results: Results) -> Iterator[Finding]:
    yield from _filter_complexity(results.cases("filter complexity"))
    yield from _maximum_delay(results.cases("maximum delay"))
    yield from _broker_distribution(results.cases("broker distribution"))
    yield from _load_sample(results.cases("load sample"))
    yield from _super_interests(results.cases("super-interests"))
    yield from _exact(results.cases("exact"))


def _filter_complexity(cases: Sequence[Case]) -> Iterator[Finding]:
    if not cases:
        return
    alphas = [case.instance.complexity for case in cases]
    setting = f"{_on(cases)}: alpha {_numbers(alphas)}"
    chosen = alphas.index(COMPLEXITY_CHOSEN)
    for algorithm in ("Gr", "Gr*", "SLP1"):
        curve = [case.bandwidth(algorithm) for case in cases]
        before, after = curve[0] - curve[chosen], curve[chosen] - curve[-1]
        yield Finding(
            f"{algorithm}'s bandwidth falls with alpha, from {COMPLEXITY_CHOSEN} on little "
            "(Fig. 11b)",
            setting,
            "falls, then flattens",
            listed(curve, 0),
            curve[-1] < curve[0] and after < before,
        )
    excess = [case.bandwidth("SLP1") / case.bandwidth("Gr*") for case in cases]
    yield Finding(
        f"SLP1 suffers more than Gr* where alpha is below {COMPLEXITY_CHOSEN} (Fig. 11b)",
        f"{setting}: bandwidth over Gr*'s",
        "more vulnerable at 1 and 2",
        listed(excess),
        fmean(excess[:chosen]) > fmean(excess[chosen:]),
    )


def _maximum_delay(cases: Sequence[Case]) -> Iterator[Finding]:
    if not cases:
        return
    delays = [case.instance.delay_max for case in cases]
    setting = f"{_on(cases)}: maximum delay {_numbers(delays)}"
    shares = [case.figure_of(lambda seen: seen.candidate_share) or 0.0 for case in cases]
    yield Finding(
        "more delay, more candidate brokers (Fig. 12a)",
        setting,
        "rises",
        ", ".join(f"{share:.0%}" for share in shares),
        shares == sorted(shares) and shares[0] < shares[-1],
    )
    for delay, share in zip(delays, shares, strict=True):
        if delay == 0.3:
            low, high = CANDIDATES_NEAR
            yield Finding(
                "candidate brokers at a maximum delay of 0.3 (Fig. 12a)",
                _on(cases),
                f"{CANDIDATES_PAPER:.0%}",
                f"{share:.0%}",
                low <= share <= high,
            )
    for algorithm in ("Gr*", "SLP1", SEARCHED):
        valid = [case for case in cases if case.is_valid(algorithm)]
        curve = [case.bandwidth(algorithm) for case in valid]
        kept = _numbers([case.instance.delay_max for case in valid])
        yield Finding(
            f"{algorithm}'s bandwidth falls with the maximum delay (Fig. 12b)",
            f"{_on(cases)}: maximum delay {kept}, where the bounds can be held",
            "falls",
            listed(curve, 0),
            len(curve) > 1 and curve[-1] < curve[0],
        )


def _broker_distribution(cases: Sequence[Case]) -> Iterator[Finding]:
    for case in cases:
        least, mine, free = (
            case.load_balance_factor(name) for name in ("Balance", "SLP1", "Closest-b")
        )
        regions = case.instance.broker_regions
        setting = f"{_on([case])}: brokers {regions}, subscribers 4:1:4"
        yield Finding(
            "the lbf of SLP1 lies between those of Balance and Closest-b (Table 3)",
            setting,
            "between",
            f"Balance {least:.2f}, SLP1 {mine:.2f}, Closest-b {free:.2f}",
            least * (1 - BETWEEN) <= mine <= free * (1 + BETWEEN),
        )
        if regions == "4:1:4":
            yield Finding(
                "the lbf of Balance is about one where brokers are as subscribers (Table 3)",
                setting,
                "about 1",
                f"{least:.2f}",
                least <= ABOUT_ONE,
            )
    found = {case.instance.broker_regions: case.load_balance_factor("Balance") for case in cases}
    if "4:1:4" in found:
        alike = found.pop("4:1:4")
        yield Finding(
            "the lbf of Balance grows where brokers are elsewhere (Table 3)",
            f"{_on(cases)}: brokers 4:1:4, {', '.join(found)}",
            "larger, but where more brokers are near the publisher",
            listed([alike, *found.values()]),
            max(found.values()) > alike,
        )


def _load_sample(cases: Sequence[Case]) -> Iterator[Finding]:
    for case in cases:
        if case.setting.load_sample_per_child == LOAD_SAMPLE_CHOSEN:
            beta_max = case.instance.bounds[1]
            factors = [one.load_balance_factor("SLP1") for one in cases]
            sizes = _numbers([one.setting.load_sample_per_child for one in cases])
            yield Finding(
                f"a load sample of {LOAD_SAMPLE_CHOSEN} |B| is enough (Fig. 13)",
                f"{_on(cases)}: |Sb| = {sizes} times |B|, lbf of SLP1",
                f"within beta_max = {beta_max:g} from {LOAD_SAMPLE_CHOSEN} on",
                listed(factors),
                all(
                    one.load_balance_factor("SLP1") <= beta_max * (1 + 1e-9)
                    for one in cases
                    if one.setting.load_sample_per_child >= LOAD_SAMPLE_CHOSEN
                ),
            )


def _super_interests(cases: Sequence[Case]) -> Iterator[Finding]:
    if not cases:
        return
    numbers = _numbers([case.setting.super_interests_per_broker for case in cases])
    setting = f"{_on(cases)}: {numbers} times |B| super-interests"
    curve = [case.bandwidth("SLP1") for case in cases]
    yield Finding(
        "more super-interests, less bandwidth (Fig. 14)",
        setting,
        "gradually decreases",
        f"{listed(curve, 0)}: {percent(curve[-1] / curve[0] - 1)}",
        curve[-1] < curve[0],
    )
    counts = [case.figure_of(lambda seen: seen.rectangles) or 0.0 for case in cases]
    yield Finding(
        "more super-interests, more candidate rectangles (Fig. 15)",
        setting,
        "increases",
        listed(counts, 0),
        counts == sorted(counts) and counts[0] < counts[-1],
    )


def _exact(cases: Sequence[Case]) -> Iterator[Finding]:
    if not cases:
        return
    setting = f"{len(cases)} random instances, {where(cases[0].instance)}, alpha 1 and 2"
    proven = [
        (case.figure_of(lambda seen: seen.bound) or 0.0) / case.bandwidth(OPTIMUM) for case in cases
    ]
    yield Finding(
        "the proven bound is at most the optimum",
        setting,
        "not in the paper",
        f"{min(proven):.2f} to {max(proven):.2f} of the optimum",
        max(proven) <= 1.0 + 1e-9,
    )
    ours = [case.bandwidth(SEARCHED) / case.bandwidth(OPTIMUM) for case in cases]
    valid = all(case.is_valid(name) for case in cases for name in (SEARCHED, OPTIMUM))
    yield Finding(
        f"the local search is within {OPTIMUM_WITHIN} of the optimum",
        setting,
        "not in the paper",
        f"{min(ours):.3f} to {max(ours):.3f}, mean {sum(ours) / len(ours):.3f}",
        valid and max(ours) <= OPTIMUM_WITHIN,
    )


def _on(cases: Sequence[Case]) -> str:
    return f"{cases[0].instance.name}, {where(cases[0].instance)}"


def _numbers(values: Sequence[float]) -> str:
    return ", ".join(f"{value:g}" for value in values)
