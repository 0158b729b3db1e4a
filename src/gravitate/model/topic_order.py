"""Topics in a row, so that a topic filter is an interval: one axis of an event space.

    order = TopicOrder(["a/b", "a/b/c", "a/b-2"])
    order.extent(topic_filter("a/b/#").conjunctions[0])          (0.0, 1.0)

Topics are sorted level by level: a topic comes right before those below it, and all below it come
together. So `a/b/#` is an interval of ranks with nothing else in it. Any other condition on the
topic gets the smallest interval that holds all topics it lets pass.

Owns the order and the extents. It knows no events, and no topics but those it was given.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from typing import Final

from gravitate.model.events import TOPIC
from gravitate.model.filters import Conjunction, Filter, Op
from gravitate.model.regions import ATOM_MISSING, Region, conjunction_region

_BETWEEN_LEVELS: Final = "\0"
_AFTER_LEVELS: Final = "\1"
"""A topic has no NUL, so this comes after everything below a topic and before its siblings."""

EVERYWHERE: Final = (-math.inf, math.inf)


class TopicOrder:
    """Some topics and their ranks from 0."""

    def __init__(self, topics: Iterable[str]) -> None:
        self.topics = tuple(sorted(set(topics), key=_key))
        self._keys = [_key(topic) for topic in self.topics]
        self._rank = {topic: rank for rank, topic in enumerate(self.topics)}

    def __len__(self) -> int:
        return len(self.topics)

    def rank(self, topic: str) -> int | None:
        """The place of a topic; None when it was not given."""
        return self._rank.get(topic)

    def extent(self, conjunction: Conjunction) -> tuple[float, float] | None:
        """The least and the greatest rank that pass, None when no topic does.

        Infinite both ways when events without a topic pass too."""
        own = tuple(predicate for predicate in conjunction if predicate.attribute == TOPIC)
        if not own:
            return EVERYWHERE
        conjunct = conjunction_region(own)
        if conjunct is None:
            return None
        region = conjunct.by_attribute[TOPIC]
        if region.atoms & ATOM_MISSING:
            return EVERYWHERE
        low, high = self._candidates(own)
        first = self._first(region, range(low, high))
        if first is None:
            return None
        last = self._first(region, range(high - 1, first - 1, -1))
        assert last is not None, "the first one passes"
        return float(first), float(last)

    def _first(self, region: Region, ranks: range) -> int | None:
        return next((rank for rank in ranks if region.has_text(self.topics[rank])), None)

    def _candidates(self, conjunction: Conjunction) -> tuple[int, int]:
        """Ranks beyond which nothing passes: from the first to before the second."""
        low, high = 0, len(self.topics)
        for predicate in conjunction:
            operand = predicate.operand
            if predicate.op is Op.TOPIC and isinstance(operand, str):
                start, end = self._below(operand)
            elif predicate.op in (Op.EQ, Op.IN):
                known = [self._rank[text] for text in _texts(operand) if text in self._rank]
                start, end = min(known, default=0), max(known, default=-1) + 1
            else:
                continue
            low, high = max(low, start), min(high, end)
        return low, high

    def _below(self, pattern: str) -> tuple[int, int]:
        """The ranks of all topics with the levels that a topic filter has before a wildcard."""
        fixed: list[str] = []
        for level in pattern.split("/"):
            if level in ("+", "#"):
                break
            fixed.append(level)
        if not fixed:
            return 0, len(self.topics)
        stem = _BETWEEN_LEVELS.join(fixed)
        return bisect_left(self._keys, stem), bisect_left(self._keys, stem + _AFTER_LEVELS)


def topics_named(filter: Filter) -> Iterator[str]:
    """The topics that a filter names without wildcards."""
    for conjunction in filter.conjunctions:
        for predicate in conjunction:
            if predicate.attribute == TOPIC and predicate.op in (Op.EQ, Op.IN):
                yield from _texts(predicate.operand)


def _key(topic: str) -> str:
    return topic.replace("/", _BETWEEN_LEVELS)


def _texts(operand: object) -> Iterator[str]:
    literals = operand if isinstance(operand, tuple) else (operand,)
    return (literal for literal in literals if isinstance(literal, str))
