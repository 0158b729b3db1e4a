"""Where checkers write down what must not have happened."""

from __future__ import annotations

from collections import Counter

KEPT_MAX = 200
"""Sentences kept; beyond that violations are only counted."""


class Violations:
    """Counts by kind, and the first sentences. Empty means that every checker was silent."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.sentences: list[str] = []

    def __bool__(self) -> bool:
        return bool(self.counts)

    def add(self, kind: str, now: float, sentence: str) -> None:
        self.counts[kind] += 1
        if len(self.sentences) < KEPT_MAX:
            self.sentences.append(f"{now:.6f} s: {kind}: {sentence}")

    def summary(self) -> str:
        """One line: how many of each kind."""
        return ", ".join(f"{count} {kind}" for kind, count in sorted(self.counts.items()))
