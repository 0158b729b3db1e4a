"""What the paper says of its algorithms on whole instances, held against runs of the study.

Every algorithm on every set is a record of its own, with all figures; statements about several of
them follow. Owns the statements, how near is near, and the picture. What the paper varies one by
one is in `assignment_effects`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from gravitate.studies.assignment_results import Case, Results, broken_in_words, listed, where
from gravitate.studies.assignment_runs import ONE_LEVEL, SEARCHED, SEARCHED_ON, Seen
from gravitate.studies.bars import Bar, Panel, svg
from gravitate.studies.findings import Finding, mean_interval, percent

TIGHT: Final = "tight"
AS_PAPER: Final = "tight as the paper's"
LOOSE: Final = "loose"

WITHIN_PAPER: Final = 2.7
"""Of the LP value: SLP1 and Gr* on set 1 (Table 1)."""
WITHIN_OURS: Final = 1.5
"""Of the LP value: what the local search is to reach on half of set 1."""
MANY_TIMES: Final = 2.0
"""As much bandwidth as SLP1, at least, where the event space is ignored."""
TOO_LOW: Final = 0.5
"""Of the best valid bandwidth, at most, where latency is ignored."""
COMPARABLE: Final = 1.5
"""The greater over the smaller, at most."""
OVERLOADED_PAPER: Final = {"set2": 0.39, "set3": 0.58}
"""By how much Gr's greatest load is over beta_max."""

BLIND: Final = ("Closest-b", "Closest", "Balance")
"""These ignore the event space."""
EXPECTED: Final[dict[str, tuple[str, str, tuple[str, ...]]]] = {
    "Gr": ("breaks the load bound", "load", ()),
    "Gr*": ("holds all bounds", "", ("load", "latency")),
    "Gr-l": ("holds the load bound, breaks latency", "latency", ("load",)),
    "Closest-b": ("some brokers may be overloaded", "", ()),
    "Closest": ("holds the load bound", "", ("load",)),
    "Balance": ("holds all bounds", "", ("load", "latency")),
    "SLP1": ("holds all bounds", "", ("load", "latency")),
    "SLP": ("holds all bounds", "", ("load", "latency")),
    SEARCHED: ("not in the paper; holds all bounds", "", ("load", "latency")),
    SEARCHED_ON: ("not in the paper; holds all bounds", "", ("load", "latency")),
}
"""In words, what it breaks and what it holds (section 6)."""
STRUCTURE: Final = ("complexity", "nesting", "interest")
"""Nobody may break these."""


def statements(results: Results) -> Iterator[Finding]:
    """On one level, then on several."""
    one_level = results.cases("one level")
    for case in one_level:
        for algorithm in ONE_LEVEL:
            if case.outcomes(algorithm):
                yield _record(case, algorithm)
    if one_level:
        yield from _yardstick(one_level)
        yield from _bounds_held(one_level)
        yield from _ignored(one_level)
    yield from _multi_level(results)
    yield from _proven(results.seen)


def _record(case: Case, algorithm: str) -> Finding:
    """One algorithm on one instance."""
    said, breaks, holds = EXPECTED[algorithm]
    broken = case.broken(algorithm)
    figures = {
        "bandwidth": case.bandwidth(algorithm),
        "delay_rms": case.mean(algorithm, lambda one: one.delay_rms),
        "load_deviation": case.mean(algorithm, lambda one: one.load_deviation),
        "load_balance_factor": case.load_balance_factor(algorithm),
        "valid": float(not broken),
    }
    words = [f"bandwidth {figures['bandwidth']:.4g}"]
    if case.ratios(algorithm):
        figures["over_lp_value"] = case.ratio(algorithm)
        words.append(f"{figures['over_lp_value']:.2f} of the LP value")
    if (over_bound := case.over_bound(algorithm)) is not None:
        figures["over_proven_bound"] = over_bound
        words.append(f"{over_bound:.2f} of the proven bound")
    words += [
        f"RMS delay {figures['delay_rms']:.3f}",
        f"load deviation {figures['load_deviation']:.0f}",
        f"lbf {figures['load_balance_factor']:.2f}",
        broken_in_words(broken),
    ]
    return Finding(
        f"{algorithm} (Figs. 6 and 8, Tables 1 and 2)",
        f"{case.instance.name}, {where(case.instance)}",
        said,
        ", ".join(words),
        (not breaks or case.breaks(algorithm, breaks))
        and not any(kind in broken for kind in (*holds, *STRUCTURE)),
        figures,
    )


def _yardstick(cases: Sequence[Case]) -> Iterator[Finding]:
    first = [case for case in cases if case.instance.workload == "set1"]
    setting = "set 1: " + "; ".join(
        f"IS {case.instance.skewness} BI {case.instance.broad}" for case in first
    )
    for algorithm in ("SLP1", "Gr*"):
        ratios = [case.ratio(algorithm) for case in first]
        yield Finding(
            f"{algorithm} is within {WITHIN_PAPER} of the LP value (Table 1)",
            setting,
            f"1.3 to {WITHIN_PAPER}",
            listed(ratios),
            max(ratios) <= WITHIN_PAPER,
        )
    ratios = [min(case.ratio(name) for name in (SEARCHED, SEARCHED_ON)) for case in first]
    near = sum(ratio <= WITHIN_OURS for ratio in ratios)
    kept = [case.ratio(SEARCHED) for case in first]
    yield Finding(
        f"the local search is within {WITHIN_OURS} of the LP value on half of set 1",
        setting,
        "not in the paper",
        f"{listed(ratios)}: {near} of {len(ratios)}, loads up to beta_max; "
        f"{listed(kept)} with loads up to beta",
        2 * near >= len(ratios),
    )
    for case in cases:
        if case.instance.workload == "set2":
            ratio = case.ratio("Gr*")
            yield Finding(
                "Gr* is below the LP value on set 2 (Table 2)",
                f"set 2, {where(case.instance)}",
                "below 1",
                f"{ratio:.2f}",
                ratio < 1.0,
            )


def _bounds_held(cases: Sequence[Case]) -> Iterator[Finding]:
    over = [case.over_load_max("Gr") for case in cases if case.instance.workload == "set1"]
    yield Finding(
        "Gr breaks the load bound (Figs. 8c and 8d)",
        "set 1: the greatest load over beta_max",
        "on all four",
        ", ".join(percent(share) for share in over),
        min(over) > 0.0,
    )
    for case in cases:
        said = OVERLOADED_PAPER.get(case.instance.workload)
        if said is not None:
            share = case.over_load_max("Gr")
            yield Finding(
                "Gr breaks the load bound",
                f"{case.instance.name}: the greatest load over beta_max",
                percent(said),
                percent(share),
                share > 0.0,
            )
    for algorithm in ("SLP1", "Gr*", SEARCHED, SEARCHED_ON):
        invalid = [case.instance.name for case in cases if not case.is_valid(algorithm)]
        yield Finding(
            f"{algorithm} holds all bounds in one level",
            f"sets 1 to 3: {len(cases)} instances",
            "all" if algorithm in ("SLP1", "Gr*") else "not in the paper",
            f"not on {', '.join(invalid)}" if invalid else f"on all {len(cases)}",
            not invalid,
        )


def _ignored(cases: Sequence[Case]) -> Iterator[Finding]:
    first = [case for case in cases if case.instance.workload == "set1"]
    times = [min(case.bandwidth(name) for name in BLIND) / case.bandwidth("SLP1") for case in first]
    yield Finding(
        "who ignores the event space needs many times the bandwidth (Fig. 8a)",
        f"set 1: the least of {', '.join(BLIND)} over SLP1",
        "many times",
        listed(times),
        min(times) >= MANY_TIMES,
    )
    shares = [
        case.bandwidth("Gr-l") / min(case.bandwidth(name) for name in ("SLP1", "Gr*", SEARCHED))
        for case in first
    ]
    late = all(case.breaks("Gr-l", "latency") for case in first)
    yield Finding(
        "Gr-l breaks latencies, and its bandwidth is too low to be a yardstick (Figs. 6 and 8a)",
        "set 1: over the least that is valid",
        "just too low",
        f"{listed(shares)}; latencies {'broken' if late else 'held'}",
        late and max(shares) <= TOO_LOW,
    )


def _multi_level(results: Results) -> Iterator[Finding]:
    for label in (TIGHT, LOOSE):
        for case in results.cases("multi-level", label=label):
            for algorithm in case.setting.algorithms:
                yield _level_record(case, algorithm)
    for label in (AS_PAPER, TIGHT):
        yield from _tight(results.cases("multi-level", label=label), label)
    loose = results.cases("multi-level", label=LOOSE)
    if not loose:
        return
    invalid = [case.instance.name for case in loose if not case.is_valid("SLP")]
    yield Finding(
        "SLP holds all bounds under loose latencies (Fig. 10b)",
        f"set 1, {where(loose[0].instance)}: {len(loose)} instances",
        "all",
        f"not on {', '.join(invalid)}" if invalid else f"on all {len(loose)}",
        not invalid,
    )
    for algorithm in ("Gr", "Gr*"):
        ratios = [case.bandwidth(algorithm) / case.bandwidth("SLP") for case in loose]
        yield Finding(
            f"{algorithm} is comparable to SLP under loose latencies (Figs. 9 and 10a)",
            f"set 1, {where(loose[0].instance)}: bandwidth over SLP's",
            "comparable" if algorithm == "Gr" else "slightly lower",
            listed(ratios),
            all(1.0 / COMPARABLE <= ratio <= COMPARABLE for ratio in ratios),
        )


def _level_record(case: Case, algorithm: str) -> Finding:
    found = _record(case, algorithm)
    instance, loose = case.instance, case.setting.label == LOOSE
    least = case.figure_of(lambda seen: seen.least_load_factor)
    bounds = [case.figure_of(lambda seen: seen.beta), case.figure_of(lambda seen: seen.beta_max)]
    greedy = algorithm in ("Gr", "Gr*")
    said = EXPECTED[algorithm][0]
    if greedy:
        said = "comparable to SLP" if loose else "breaks the load bound"
    return Finding(
        f"{algorithm}, {case.setting.label} latencies (Figs. 9 and 10)",
        f"{instance.name}, {where(instance)}, tree {instance.tree}, delay {instance.delay_max:g}, "
        f"beta {bounds[0]:.2f} and {bounds[1]:.2f}, least lbf {least:.2f}",
        said,
        found.measured,
        # What the paper says of Gr and Gr* is judged over all trees together.
        found.holds or greedy,
        found.figures,
    )


def _tight(cases: Sequence[Case], label: str) -> Iterator[Finding]:
    if not cases:
        return
    least = [case.figure_of(lambda seen: seen.least_load_factor) or 0.0 for case in cases]
    beta, beta_max = cases[0].instance.bounds
    setting = (
        f"set 1, {where(cases[0].instance)}, {len(cases)} trees, delay 0.2, beta {beta:.2f} and "
        f"beta_max {beta_max:.2f} times the least lbf ({listed(least)})"
    )
    for algorithm in ("Gr", "Gr*"):
        broken = [case for case in cases if not case.is_valid(algorithm)]
        worst = max(case.broken(algorithm).get("load", 0) for case in cases)
        yield Finding(
            f"{algorithm} breaks the load bound under latencies that are {label} (Figs. 9, 10b)",
            setting,
            "breaks it" if label == AS_PAPER else "breaks it, at 7/6 and 8/6 of the least",
            f"on {len(broken)} of {len(cases)} trees, at most {worst} of {cases[0].seen[0].leaves} "
            "leaves overloaded",
            bool(broken),
        )
    if cases[0].outcomes("SLP"):
        failed = [case for case in cases if not case.is_valid("SLP")]
        instead = [case for case in cases if not case.is_valid("Gr*") and case.is_valid("SLP")]
        yield Finding(
            f"SLP holds all bounds under {label} latencies where Gr* does not (Fig. 10b)",
            setting,
            "all",
            f"on {len(cases) - len(failed)} of {len(cases)} trees, on {len(instead)} of them "
            "where Gr* does not",
            not failed and bool(instead),
        )


def _proven(seen: Sequence[Seen]) -> Iterator[Finding]:
    """The proven bound against everything that is valid."""
    pairs = [
        outcome.bandwidth / one.bound
        for one in seen
        if one.bound
        for outcome in one.outcomes
        if outcome.is_valid
    ]
    if pairs:
        yield Finding(
            "no valid result is below the proven bound",
            f"{len(pairs)} valid results",
            "not in the paper",
            f"from {min(pairs):.2f} to {max(pairs):.1f} times the bound",
            min(pairs) >= 1.0 - 1e-9,
        )


def figure(seen: Sequence[Seen]) -> str:
    """Bandwidths over the LP value on the three sets, and loads over beta_max on trees."""
    results = Results(seen)
    cases = results.cases("one level")
    groups = tuple(_short(case) for case in cases)

    def bars(algorithm: str) -> list[Bar | None]:
        return [
            Bar(*mean_interval(ratios)) if (ratios := case.ratios(algorithm)) else None
            for case in cases
        ]

    proven = [
        [one.bound / one.yardstick for one in case.seen if one.bound and one.yardstick]
        for case in cases
    ]
    near = {name: bars(name) for name in ("Gr", "Gr*", "SLP1", SEARCHED, SEARCHED_ON)}
    near["proven bound"] = [Bar(*mean_interval(part)) if part else None for part in proven]
    levels = [
        case for label in (TIGHT, LOOSE) for case in results.cases("multi-level", label=label)
    ]
    loads = {
        name: [
            Bar(1.0 + case.over_load_max(name)) if case.outcomes(name) else None for case in levels
        ]
        for name in ("Gr", "Gr*", "SLP", SEARCHED)
    }
    return svg(
        Panel("bandwidth over the paper's LP value, one level", groups, near),
        Panel(
            "the same, where the event space (and, last, latency) is ignored",
            groups,
            {name: bars(name) for name in (*BLIND, "Gr-l")},
        ),
        Panel(
            "greatest load over beta_max, several levels (1: just allowed)",
            tuple(f"{case.setting.label} {number}" for number, case in enumerate(levels, 1)),
            loads,
        ),
    )


def _short(case: Case) -> str:
    instance = case.instance
    if instance.workload != "set1":
        return instance.name
    return f"1: IS {instance.skewness}, BI {instance.broad}"
