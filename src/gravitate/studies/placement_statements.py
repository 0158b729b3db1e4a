"""What the paper says of POP and GRAPE, held against runs of the publisher-placement study.

A statement is about ratios between runs on the same network, workload and seed; with several seeds
their mean. "At most" and "up to" are taken over X. Owns the statements, how near is equal, and the
picture.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import fmean
from typing import Any, Final, Literal

import msgspec

from gravitate.studies.bars import Bar, Panel, svg
from gravitate.studies.findings import Finding, mean_interval, percent
from gravitate.studies.placement_runs import X_QUICK, X_THRESHOLDS, Seen, Setting

Metric = Literal["message_rate", "input_utilisation", "delay_ms", "hops", "overhead"]

LOAD: Final = "GRAPE load 100 %"
DELAY: Final = "GRAPE delay 100 %"
POP: Final = "POP"
ALIKE: Final = 0.1
"""Changes that differ by less are taken to be equal."""
AS_STATIC: Final = 0.15
"""On random a few publishers have a better place after all; what they gain is little."""
BETWEEN: Final[tuple[tuple[str, Metric], ...]] = (
    ("delay", "delay_ms"),
    ("hops", "hops"),
    ("input utilisation", "input_utilisation"),
)
"""Where POP lies between GRAPE's two extremes."""
DRAWN: Final[tuple[tuple[str, Metric], ...]] = (
    ("message rate", "message_rate"),
    ("delivery delay", "delay_ms"),
    ("hops", "hops"),
)
ENTERPRISE: Final[dict[str, Any]] = {"mix": "enterprise", "brokers": 63, "fanout": 2}


class Results:
    """Runs, found by what they had in common."""

    def __init__(self, seen: Sequence[Seen]) -> None:
        self.seen = list(seen)

    def change(self, mover: str, metric: Metric, **common: Any) -> float | None:
        """By how much a mover changes a metric against static: the mean over seeds; None when
        there is no such run."""
        changes = self.changes(mover, metric, **common)
        return fmean(changes) if changes else None

    def changes(self, mover: str, metric: Metric, **common: Any) -> list[float]:
        """The same, one for each seed."""
        changes = []
        common = {"threshold": 0} | common
        for seen in self.seen:
            if seen.setting.name == mover and _is(seen.setting, common):
                static = self._static_of(seen.setting)
                if static is not None and getattr(static, metric):
                    changes.append(getattr(seen, metric) / getattr(static, metric) - 1.0)
        return changes

    def value(self, mover: str, metric: Metric, **common: Any) -> float | None:
        """The mean over seeds; None when there is no such run."""
        common = {"threshold": 0} | common
        found = [
            getattr(seen, metric)
            for seen in self.seen
            if seen.setting.name == mover and _is(seen.setting, common)
        ]
        return fmean(found) if found else None

    def overhead_most(self, mover: str) -> float:
        """With the default thresholds."""
        return max(
            (
                seen.overhead
                for seen in self.seen
                if seen.setting.name.startswith(mover) and not seen.setting.threshold
            ),
            default=0.0,
        )

    def best_x(self, mover: str, metric: Metric, **common: Any) -> tuple[int, float]:
        """The X at which a mover lowers a metric most, and by how much."""
        found = [
            (change, x)
            for x in dict.fromkeys(seen.setting.subscriber_brokers for seen in self.seen)
            if (change := self.change(mover, metric, subscriber_brokers=x, **common)) is not None
        ]
        change, x = min(found)
        return x, change

    def _static_of(self, setting: Setting) -> Seen | None:
        """The run that differs in nothing but that nobody moves publishers."""
        wanted = msgspec.structs.replace(
            setting, mechanism="static", prioritised="delay", weight_percent=100.0, threshold=0
        )
        return next((seen for seen in self.seen if seen.setting == wanted), None)

    def share(self, mover: str, metric: Metric, **common: Any) -> Bar | None:
        """What is left of a metric, in percent of static: the mean over seeds with its interval."""
        changes = self.changes(mover, metric, **common)
        return Bar(*mean_interval([100 + 100 * change for change in changes])) if changes else None


def _is(setting: Setting, common: dict[str, Any]) -> bool:
    return all(getattr(setting, name) == value for name, value in common.items())


def findings(seen: Sequence[Seen]) -> list[Finding]:
    """Every statement of the paper that these runs can be held against."""
    results = Results(seen)
    return [
        *_reductions(results),
        *_costs(results),
        *_enterprise_shapes(results),
        *_random_shapes(results),
        *_fanout_shapes(results),
        *_threshold_shapes(results),
        _sound(seen),
    ]


def figure(seen: Sequence[Seen]) -> str:
    """Message rate, delay and hops over X, as a picture."""
    results = Results(seen)
    xs = sorted(
        {one.setting.subscriber_brokers for one in seen if _is(one.setting, ENTERPRISE)},
        key=lambda x: x or 10**6,
    )
    return svg(
        *(
            Panel(
                f"{what}, % of static (enterprise, 63 brokers, fan-out 2, X brokers with "
                "subscribers)",
                tuple(f"X = {x or 'all'}" for x in xs),
                {
                    mover: [
                        results.share(mover, metric, **ENTERPRISE, subscriber_brokers=x) for x in xs
                    ]
                    for mover in (POP, LOAD, DELAY)
                },
            )
            for what, metric in DRAWN
        )
    )


def _reductions(results: Results) -> Iterator[Finding]:
    statements: tuple[tuple[str, str, Metric, str, float], ...] = (
        ("average broker message rate (Fig. 5a)", LOAD, "message_rate", "up to -85 %", -0.80),
        ("average delivery delay (Fig. 5c)", DELAY, "delay_ms", "up to -68 %", -0.60),
        ("average input utilisation (Fig. 5b)", LOAD, "input_utilisation", "up to -68 %", -0.60),
        ("average broker message rate (Fig. 5a)", POP, "message_rate", "up to -85 %", -0.60),
        ("average delivery delay (Fig. 5c)", POP, "delay_ms", "up to -63 %", -0.55),
    )
    for figure, mover, metric, paper, wanted in statements:
        x, change = results.best_x(mover, metric, **ENTERPRISE)
        yield Finding(
            figure,
            f"enterprise, 63 brokers, fan-out 2, {mover}, X = {x or 'all'}",
            paper,
            percent(change),
            change <= wanted,
        )


def _costs(results: Results) -> Iterator[Finding]:
    for mover, most in (("GRAPE", 0.16), (POP, 0.32)):
        overhead = results.overhead_most(mover)
        yield Finding(
            "message overhead (Fig. 6b)",
            f"{mover}, the most over all runs",
            f"at most {100 * most:.0f} %",
            f"{100 * overhead:.1f} %",
            overhead <= most,
        )


def _enterprise_shapes(results: Results) -> Iterator[Finding]:
    for x in X_QUICK[1:]:
        at: dict[str, Any] = {**ENTERPRISE, "subscriber_brokers": x}
        change = _changes(results, (LOAD, DELAY, POP), at)
        if change is None:
            continue
        setting = f"enterprise, 63 brokers, fan-out 2, X = {x}"
        yield _lowest("message rate", setting, LOAD, change["message_rate"])
        yield _lowest("delivery delay", setting, DELAY, change["delay_ms"])
        rate = change["message_rate"]
        yield Finding(
            "POP's message rate is above GRAPE's",
            setting,
            "above load 100 %",
            f"{percent(rate[POP])} against {percent(rate[LOAD])}",
            rate[POP] >= rate[LOAD],
        )
        for what, metric in BETWEEN:
            yield _between(what, setting, change[metric])
        yield from _weights(results, setting, at)
    at = {**ENTERPRISE, "subscriber_brokers": 1}
    change = _changes(results, (LOAD, DELAY, POP), at)
    if change is not None:
        delays = change["delay_ms"].values()
        yield Finding(
            "all are equal when every subscriber is on one broker",
            "enterprise, 63 brokers, fan-out 2, X = 1: delay",
            "equal",
            ", ".join(map(percent, delays)),
            max(delays) - min(delays) <= 0.05,
        )


def _weights(results: Results, setting: str, at: dict[str, Any]) -> Iterator[Finding]:
    """One metric with weight 1 % is as good as the other one with 100 %."""
    for one, other in (("GRAPE load 1 %", DELAY), ("GRAPE delay 1 %", LOAD)):
        change = _changes(results, (one, other), at)
        if change is None:
            continue
        apart = max(
            abs(change[metric][one] - change[metric][other])
            for metric in ("message_rate", "delay_ms")
        )
        yield Finding(
            f"{one} practically equals {other}",
            f"{setting}: message rate and delay",
            "practically equal",
            "; ".join(
                f"{percent(change[metric][one])} and {percent(change[metric][other])}"
                for metric in ("message_rate", "delay_ms")
            ),
            apart <= ALIKE,
        )


def _random_shapes(results: Results) -> Iterator[Finding]:
    at: dict[str, Any] = {"mix": "random", "brokers": 63, "fanout": 2}
    change = _changes(results, (LOAD, DELAY, POP), at)
    if change is None:
        return
    setting = "random, 63 brokers, fan-out 2"
    rate, busy, delay = (change[m] for m in ("message_rate", "input_utilisation", "delay_ms"))
    yield Finding(
        "GRAPE's settings are hard to tell apart on random",
        f"{setting}: message rate and delay",
        "load 100 % as delay 100 %",
        f"{percent(rate[LOAD])} and {percent(rate[DELAY])}; "
        f"{percent(delay[LOAD])} and {percent(delay[DELAY])}",
        max(abs(rate[LOAD] - rate[DELAY]), abs(delay[LOAD] - delay[DELAY])) <= ALIKE,
    )
    yield Finding(
        "GRAPE's message rate and input utilisation are those of static on random",
        f"{setting}, {LOAD} and {DELAY}",
        "equal",
        ", ".join(percent(part[mover]) for part in (rate, busy) for mover in (LOAD, DELAY)),
        max(abs(part[mover]) for part in (rate, busy) for mover in (LOAD, DELAY)) <= AS_STATIC,
    )
    yield _lowest("delivery delay", setting, POP, delay)
    above = (1 + rate[POP]) / (1 + rate[LOAD]) - 1
    yield Finding(
        "POP's message rate is above GRAPE's on random",
        setting,
        "about 50 % above",
        percent(above),
        above >= 0.1,
    )


def _threshold_shapes(results: Results) -> Iterator[Finding]:
    at: dict[str, Any] = {**ENTERPRISE, "subscriber_brokers": X_THRESHOLDS}
    setting = f"enterprise, 63 brokers, fan-out 2, X = {X_THRESHOLDS}"
    few, usual = (
        {m: results.value(LOAD, m, **at, threshold=n) for m in ("message_rate", "overhead")}
        for n in (10, 0)
    )
    if None not in (*few.values(), *usual.values()):
        yield Finding(
            "GRAPE is best with its threshold in the hundreds (Fig. 7b-e)",
            f"{setting}, {LOAD}: 10 and 100 publications",
            "at 10 more overhead and more load",
            f"overhead {_given(few['overhead']):.1%} and {_given(usual['overhead']):.1%}, message "
            f"rate {_given(few['message_rate']):.1f} and {_given(usual['message_rate']):.1f} /s",
            _given(few["overhead"]) > _given(usual["overhead"])
            and _given(few["message_rate"]) > _given(usual["message_rate"]),
        )
    few, many = (
        {m: results.value(POP, m, **at, threshold=n) for m in ("delay_ms", "overhead")}
        for n in (50, 200)
    )
    if None not in (*few.values(), *many.values()):
        yield Finding(
            "POP is best with its threshold below 100 (Fig. 7f-i)",
            f"{setting}: 50 and 200 publications",
            "less overhead, no smaller gain",
            f"overhead {_given(few['overhead']):.1%} and {_given(many['overhead']):.1%}, delay "
            f"{_given(few['delay_ms']):.0f} and {_given(many['delay_ms']):.0f} ms",
            _given(few["overhead"]) < _given(many["overhead"])
            and _given(few["delay_ms"]) <= (1 + ALIKE) * _given(many["delay_ms"]),
        )


def _fanout_shapes(results: Results) -> Iterator[Finding]:
    narrow: dict[str, Any] = {**ENTERPRISE, "subscriber_brokers": 4}
    wide = {**narrow, "fanout": 4}
    for mover, metric in ((LOAD, "message_rate"), (DELAY, "delay_ms")):
        two = results.value("static", metric, **narrow), results.value(mover, metric, **narrow)  # type: ignore[arg-type]
        four = results.value("static", metric, **wide), results.value(mover, metric, **wide)  # type: ignore[arg-type]
        if None in (*two, *four):
            continue
        gain_two = _given(two[0]) - _given(two[1])
        gain_four = _given(four[0]) - _given(four[1])
        yield Finding(
            "gains shrink from fan-out 2 to 4",
            f"enterprise, 63 brokers, X = 4, {mover}: {metric}",
            "smaller at fan-out 4",
            f"{gain_two:.3g} and {gain_four:.3g}",
            gain_four <= gain_two,
        )


def _sound(seen: Sequence[Seen]) -> Finding:
    broken = sum(one.violations for one in seen)
    moves = sum(one.moves for one in seen)
    return Finding(
        "nothing is lost, doubled or reordered",
        f"all {len(seen)} runs, {moves} publishers moved",
        "seamless",
        f"{broken} violations",
        broken == 0,
    )


def _changes(
    results: Results, movers: Sequence[str], at: dict[str, Any]
) -> dict[str, dict[str, float]] | None:
    """What each mover changes, by metric; None when a run is missing."""
    metrics: tuple[Metric, ...] = ("message_rate", "input_utilisation", "delay_ms", "hops")
    found = {
        metric: {mover: results.change(mover, metric, **at) for mover in movers}
        for metric in metrics
    }
    if any(change is None for part in found.values() for change in part.values()):
        return None
    return found  # type: ignore[return-value]


def _lowest(what: str, setting: str, expected: str, changes: dict[str, float]) -> Finding:
    return Finding(
        f"{expected} has the lowest {what}",
        setting,
        "lowest",
        ", ".join(f"{mover} {percent(change)}" for mover, change in changes.items()),
        changes[expected] <= min(changes.values()) + 0.02,
    )


def _between(what: str, setting: str, changes: dict[str, float]) -> Finding:
    low, high = sorted((changes[LOAD], changes[DELAY]))
    return Finding(
        f"POP's {what} is between GRAPE's extremes",
        setting,
        "between",
        ", ".join(f"{mover} {percent(change)}" for mover, change in changes.items()),
        low - ALIKE / 2 <= changes[POP] <= high + ALIKE / 2,
    )


def _given(value: float | None) -> float:
    assert value is not None
    return value
