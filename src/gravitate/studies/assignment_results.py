"""Runs of the subscriber-assignment study, found by what they had in common.

Figures of several seeds are their mean; a bound holds when it does with every seed. Owns the lookup
and how figures are put into words; judges nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from statistics import fmean
from typing import Any

import msgspec

from gravitate.studies.assignment_instances import Instance
from gravitate.studies.assignment_runs import Outcome, Part, Seen, Setting


class Case(msgspec.Struct, frozen=True, eq=False):
    """Runs that differ in their seed alone."""

    setting: Setting
    seen: tuple[Seen, ...]

    @property
    def instance(self) -> Instance:
        return self.setting.instance

    def outcomes(self, algorithm: str) -> list[Outcome]:
        """One for each seed."""
        return [one for seen in self.seen if (one := seen.of(algorithm)) is not None]

    def mean(self, algorithm: str, what: Callable[[Outcome], float]) -> float:
        return fmean(what(outcome) for outcome in self.outcomes(algorithm))

    def bandwidth(self, algorithm: str) -> float:
        return self.mean(algorithm, lambda outcome: outcome.bandwidth)

    def load_balance_factor(self, algorithm: str) -> float:
        return self.mean(algorithm, lambda outcome: outcome.load_balance_factor)

    def ratios(self, algorithm: str) -> list[float]:
        """Bandwidth over the paper's LP value, one for each seed."""
        return [
            one.bandwidth / seen.yardstick
            for seen in self.seen
            if (one := seen.of(algorithm)) is not None and seen.yardstick
        ]

    def ratio(self, algorithm: str) -> float:
        return fmean(self.ratios(algorithm))

    def over_bound(self, algorithm: str) -> float | None:
        """Bandwidth over the proven bound; None where there is none."""
        found = [
            one.bandwidth / seen.bound
            for seen in self.seen
            if (one := seen.of(algorithm)) is not None and seen.bound
        ]
        return fmean(found) if found else None

    def is_valid(self, algorithm: str) -> bool:
        return all(outcome.is_valid for outcome in self.outcomes(algorithm))

    def breaks(self, algorithm: str, kind: str) -> bool:
        """With every seed."""
        return all(kind in outcome.broken for outcome in self.outcomes(algorithm))

    def broken(self, algorithm: str) -> dict[str, int]:
        """By kind, the most brokers that break a bound with any seed."""
        found: dict[str, int] = {}
        for outcome in self.outcomes(algorithm):
            for kind, count in outcome.broken.items():
                found[kind] = max(found.get(kind, 0), count)
        return found

    def over_load_max(self, algorithm: str) -> float:
        """By which share the greatest load is above beta_max; negative when it is below."""
        return fmean(
            one.load_balance_factor / seen.beta_max - 1.0
            for seen in self.seen
            if (one := seen.of(algorithm)) is not None
        )

    def figure_of(self, what: Callable[[Seen], float | None]) -> float | None:
        found = [value for seen in self.seen if (value := what(seen)) is not None]
        return fmean(found) if found else None


class Results:
    """Runs by their part."""

    def __init__(self, seen: Sequence[Seen]) -> None:
        self.seen = list(seen)
        grouped: dict[Setting, list[Seen]] = {}
        for one in seen:
            grouped.setdefault(_without_seed(one.setting), []).append(one)
        self._cases = [Case(setting, tuple(runs)) for setting, runs in grouped.items()]

    def cases(self, part: Part, **common: Any) -> list[Case]:
        """Of a part of the study; `common` are attributes of the setting or of its instance."""
        return [
            case
            for case in self._cases
            if case.setting.part == part
            and all(
                getattr(case.setting if hasattr(case.setting, name) else case.instance, name)
                == value
                for name, value in common.items()
            )
        ]


def _without_seed(setting: Setting) -> Setting:
    if setting.part == "exact":
        return setting  # each has a seed of its own
    return msgspec.structs.replace(
        setting, instance=msgspec.structs.replace(setting.instance, seed=0)
    )


def listed(values: Iterable[float], digits: int = 2) -> str:
    """Numbers in words: "1.60, 1.72"."""
    return ", ".join(f"{value:.{digits}f}" for value in values)


def broken_in_words(broken: dict[str, int]) -> str:
    """What is broken: "valid" or "breaks load at 12 brokers"."""
    if not broken:
        return "valid"
    parts = [f"{kind} at {count} brokers" for kind, count in broken.items()]
    return "breaks " + ", ".join(parts)


def where(instance: Instance) -> str:
    """How large an instance is, in words."""
    levels = f", out-degree {instance.out_degree}" if instance.out_degree else ", one level"
    return f"{instance.subscribers:,} subscribers, {instance.brokers} brokers{levels}"
