"""Conjunctions as atoms: what a kernel can check, and what is left to check value by value.

Owns the translation of predicates, whose meaning `model.semantics` gives. Ranges on one attribute
are merged; a negation becomes existence and the absence of what is negated. A predicate that
needs the text itself (LIKE, suffix, contains, order among texts) is checked by the caller on the
few events that pass the rest, or gets a cell of its own when nothing else narrows the search.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

from gravitate.matching.layout import INSIDE, OUTSIDE
from gravitate.matching.vocabulary import Condition, Vocabulary
from gravitate.model.events import Attributes
from gravitate.model.filters import Conjunction, Filter, Op, Predicate
from gravitate.model.semantics import compile_filter, double
from gravitate.model.topics import has_wildcards


class Remainder(NamedTuple):
    """What the kernels leave to check, and the attributes it mentions."""

    holds: Callable[[Attributes], bool]
    attributes: tuple[str, ...]


class Compiled(NamedTuple):
    """A conjunction's atoms, three numbers each, and what they leave to check."""

    atoms: list[float]
    remainder: Remainder | None


class _Parts:
    """A conjunction sorted into kinds, before anything is mentioned to the vocabulary."""

    def __init__(self) -> None:
        self.ranges: dict[str, tuple[float, float]] = {}
        self.gaps: list[tuple[str, float]] = []
        self.inside: dict[Condition, None] = {}
        self.outside: dict[Condition, None] = {}
        self.tried: list[Predicate] = []
        self.satisfiable = True

    def narrow(self, attribute: str, low: float, high: float) -> None:
        old_low, old_high = self.ranges.get(attribute, (-math.inf, math.inf))
        low, high = max(low, old_low), min(high, old_high)
        self.ranges[attribute] = (low, high)
        self.satisfiable &= low <= high

    def take(self, predicate: Predicate) -> None:
        name, op, operand = predicate.attribute, predicate.op, predicate.operand
        match op:
            case Op.LT | Op.LE | Op.GT | Op.GE:
                self._take_order(predicate)
            case Op.EQ | Op.IN:
                self._take_member(name, operand if op is Op.IN else (operand,))
            case Op.NE | Op.NOT_IN:
                self.inside[Condition(name, Op.EXISTS)] = None
                self._take_stranger(name, operand if op is Op.NOT_IN else (operand,))
            case Op.TOPIC:
                self.inside[_topic(name, operand)] = None
            case Op.NOT_TOPIC:
                self.inside[Condition(name, Op.EXISTS)] = None
                self.outside[_topic(name, operand)] = None
            case Op.PREFIX | Op.EXISTS:
                self.inside[Condition(name, op, operand)] = None
            case Op.MISSING:
                self.outside[Condition(name, Op.EXISTS)] = None
            case _:
                self.tried.append(predicate)

    def _take_order(self, predicate: Predicate) -> None:
        operand = predicate.operand
        if isinstance(operand, str):
            self.tried.append(predicate)
            return
        if isinstance(operand, bool) or not isinstance(operand, float | int):
            self.satisfiable = False
            return
        number = double(operand)
        if math.isnan(number):
            self.satisfiable = False
            return
        match predicate.op:
            case Op.LT:
                low, high = -math.inf, math.nextafter(number, -math.inf)
                self.satisfiable &= number > -math.inf
            case Op.LE:
                low, high = -math.inf, number
            case Op.GT:
                low, high = math.nextafter(number, math.inf), math.inf
                self.satisfiable &= number < math.inf
            case _:
                low, high = number, math.inf
        self.narrow(predicate.attribute, low, high)

    def _take_member(self, name: str, literals: Any) -> None:
        known = _known(literals)
        if not known:
            self.satisfiable = False
        elif len(known) == 1 and not isinstance(known[0], str | bool):
            self.narrow(name, known[0], known[0])
        else:
            self.inside[_literals(name, known)] = None

    def _take_stranger(self, name: str, literals: Any) -> None:
        known = _known(literals)
        if len(known) == 1 and not isinstance(known[0], str | bool) and math.isfinite(known[0]):
            self.gaps.append((name, known[0]))
        elif known:
            self.outside[_literals(name, known)] = None


def _topic(name: str, pattern: Any) -> Condition:
    if has_wildcards(pattern):
        return Condition(name, Op.TOPIC, pattern)
    return _literals(name, (pattern,))


def _literals(name: str, known: tuple[Any, ...]) -> Condition:
    return Condition(name, Op.IN, known, tuple(type(one) for one in known))


def _known(literals: Any) -> tuple[Any, ...]:
    """A set's literals, numbers as doubles, without those that equal nothing."""
    return tuple(
        one if isinstance(one, str | bool) else double(one) for one in literals if one == one
    )


def compile_conjunction(conjunction: Conjunction, vocabulary: Vocabulary) -> Compiled | None:
    """A conjunction's atoms, mentioned to the vocabulary; None when no event can match."""
    parts = _Parts()
    for predicate in conjunction:
        parts.take(predicate)
    if not parts.satisfiable:
        return None
    remainder = None
    if parts.tried:
        if parts.ranges or any(c.op is not Op.EXISTS for c in parts.inside):
            names = tuple(predicate.attribute for predicate in parts.tried)
            for name in names:
                vocabulary.mention(name)
            remainder = Remainder(compile_filter(Filter((tuple(parts.tried),))), names)
        else:
            for p in parts.tried:
                parts.inside[Condition(p.attribute, p.op, p.operand)] = None
    atoms: list[float] = []
    for name, (low, high) in parts.ranges.items():
        atoms += (vocabulary.lane(name), low, high)
    for name, number in parts.gaps:
        above, below = math.nextafter(number, math.inf), math.nextafter(number, -math.inf)
        atoms += (vocabulary.lane(name), above, below)
    for condition in parts.inside:
        atoms += (INSIDE, vocabulary.cell(condition), 0.0)
    for condition in parts.outside:
        atoms += (OUTSIDE, vocabulary.cell(condition), 0.0)
    return Compiled(atoms, remainder)


def release(atoms: tuple[float, ...], vocabulary: Vocabulary) -> None:
    """Take back what a conjunction's atoms mentioned."""
    for at in range(0, len(atoms), 3):
        lane = int(atoms[at])
        if lane >= 0:
            vocabulary.forget_lane(lane)
        else:
            vocabulary.forget_cell(int(atoms[at + 1]))
