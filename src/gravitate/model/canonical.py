"""The canonical form of filters, and the constructors that give it.

A canonical predicate has its simplest operator (LIKE 'ab%' is a prefix, IN of one literal is
equality) and checked operands; a canonical conjunction is sorted, and no predicate follows from
the others on its attribute; a canonical filter is sorted and has no conjunction that cannot
match or that another covers. Filters that came from elsewhere, such as a peer's message, go
through `checked`. Taking the canonical form twice is taking it once.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, Final, cast

from gravitate.errors import FilterError
from gravitate.model.filters import Conjunction, Filter, Op, Operand, Predicate, Scalar
from gravitate.model.patterns import classified, glob_like, text_glob
from gravitate.model.regions import (
    ConjunctionRegion,
    conjunction_region,
    conjunction_within,
    meet_of,
    predicate_region,
    region_within,
)
from gravitate.model.semantics import double
from gravitate.model.topics import has_wildcards, topic_pattern

PATTERN_CHARACTERS_MAX: Final = 1024
"""The longest text of the LIKE predicates on one attribute in a conjunction, taken together;
comparing patterns is quadratic."""
SAME_ATTRIBUTE_MAX: Final = 16
"""The most predicates on one attribute in a conjunction; reducing them is cubic."""

_TEXT_OPS: Final = frozenset((Op.PREFIX, Op.SUFFIX, Op.CONTAINS, Op.LIKE, Op.NOT_LIKE))
_ORDER_OPS: Final = frozenset((Op.LT, Op.LE, Op.GT, Op.GE))
_PERHAPS_UNSATISFIABLE: Final = ((), "", math.inf, -math.inf)
"""The operands with which a single predicate may match nothing: IN (), < '', > infinity."""


def _literal(predicate: Predicate, literal: Any) -> Scalar:
    """A checked literal: numbers become doubles, and minus zero zero."""
    if isinstance(literal, str | bool):
        return literal
    if not isinstance(literal, int | float) or literal != literal:
        raise FilterError(
            f"{predicate.attribute} {predicate.op.value}: expected a number, a text or a truth "
            f"value, found {literal!r}"
        )
    return double(literal) + 0.0


def literal_key(operand: Operand) -> tuple[Any, ...]:
    """A sort key that orders operands of all types, equal only for equal ones."""
    if operand is None:
        return (0,)
    if isinstance(operand, bool):
        return (1, operand)
    if isinstance(operand, str):
        return (3, operand)
    if isinstance(operand, tuple):
        return (4, tuple(literal_key(literal) for literal in operand))
    return (2, operand)


def predicate_key(predicate: Predicate) -> tuple[Any, ...]:
    """The place of a predicate in a canonical conjunction."""
    return (predicate.attribute, predicate.op.value, literal_key(predicate.operand))


def _conjunction_key(conjunction: Conjunction) -> tuple[Any, ...]:
    return tuple(predicate_key(predicate) for predicate in conjunction)


def _canonical_choice(predicate: Predicate) -> Predicate:
    attribute, op, operand = predicate.attribute, predicate.op, predicate.operand
    if not isinstance(operand, tuple | list):
        raise FilterError(f"{attribute} {op.value}: expected a list of values, found {operand!r}")
    found = {literal_key(literal): literal for literal in (_literal(predicate, x) for x in operand)}
    literals = tuple(found[key] for key in sorted(found))
    if len(literals) == 1:
        return Predicate(attribute, Op.EQ if op is Op.IN else Op.NE, literals[0])
    if not literals and op is Op.NOT_IN:
        return Predicate(attribute, Op.EXISTS)
    return Predicate(attribute, op, literals)


def _canonical_text(predicate: Predicate, operand: str) -> Predicate:
    attribute, op = predicate.attribute, predicate.op
    if op is Op.TOPIC or op is Op.NOT_TOPIC:
        topic_pattern(operand)
        if not has_wildcards(operand):
            op = Op.EQ if op is Op.TOPIC else Op.NE
        return Predicate(attribute, op, operand)
    if op is Op.NOT_LIKE:
        glob = text_glob(Op.LIKE, operand)
        if classified(glob)[0] is Op.EQ:
            return Predicate(attribute, Op.NE, "".join(glob))
        op, operand = Op.NOT_LIKE, glob_like(glob)
    elif op is Op.LIKE or not operand:
        op, operand = classified(text_glob(op, operand))
    return Predicate(attribute, op, operand)


def canonical_predicate(predicate: Predicate) -> Predicate:
    """The predicate in its simplest form; raises `FilterError` when its operand does not fit."""
    attribute, op, operand = predicate.attribute, predicate.op, predicate.operand
    if not attribute:
        raise FilterError("an attribute's name must not be empty")
    if op in (Op.IN, Op.NOT_IN):
        return _canonical_choice(predicate)
    if op in (Op.EXISTS, Op.MISSING):
        return Predicate(attribute, op)
    if op in _TEXT_OPS or op in (Op.TOPIC, Op.NOT_TOPIC):
        if not isinstance(operand, str):
            raise FilterError(f"{attribute} {op.value}: expected a text, found {operand!r}")
        return _canonical_text(predicate, operand)
    literal = _literal(predicate, operand)
    if op in _ORDER_OPS and isinstance(literal, bool):
        raise FilterError(f"{attribute} {op.value}: truth values are compared with = and <> only")
    return Predicate(attribute, op, literal)


def _without_redundant(predicates: list[Predicate]) -> list[Predicate]:
    """Of predicates on one attribute those that do not follow from the others."""
    index = 0
    while len(predicates) > 1 and index < len(predicates):
        others = predicates[:index] + predicates[index + 1 :]
        if region_within(meet_of(others), predicate_region(predicates[index])):
            predicates = others
        else:
            index += 1
    return predicates


def _refuse_costly(attribute: str, predicates: list[Predicate]) -> None:
    if len(predicates) > SAME_ATTRIBUTE_MAX:
        raise FilterError(
            f"expected at most {SAME_ATTRIBUTE_MAX} comparisons of {attribute} that must all "
            f"hold, found {len(predicates)} (IN and NOT IN take many values)"
        )
    size = sum(len(cast(str, p.operand)) for p in predicates if p.op in _TEXT_OPS)
    if size > PATTERN_CHARACTERS_MAX:
        raise FilterError(
            f"expected patterns for {attribute} of at most {PATTERN_CHARACTERS_MAX} characters "
            f"together, found {size}"
        )


def _canonical_conjunction(predicates: Iterable[Predicate]) -> Conjunction | None:
    """The canonical conjunction, or None when it is found to match nothing."""
    distinct = {canonical_predicate(predicate) for predicate in predicates}
    by_attribute: dict[str, list[Predicate]] = {}
    for predicate in sorted(distinct, key=predicate_key):
        by_attribute.setdefault(predicate.attribute, []).append(predicate)
    kept: list[Predicate] = []
    for attribute, alike in by_attribute.items():
        _refuse_costly(attribute, alike)
        if len(alike) > 1 or alike[0].operand in _PERHAPS_UNSATISFIABLE:
            if not meet_of(alike):
                return None
            alike = _without_redundant(alike)
        kept.extend(alike)
    return tuple(kept)


def _without_covered(conjunctions: list[Conjunction]) -> list[Conjunction]:
    """The conjunctions that no other covers; of equivalent ones the shortest, or the first."""
    kept: list[tuple[Conjunction, ConjunctionRegion]] = []
    for conjunction in sorted(conjunctions, key=len):
        region = conjunction_region(conjunction)
        if region is None or any(conjunction_within(region, other) for _, other in kept):
            continue
        kept = [pair for pair in kept if not conjunction_within(pair[1], region)]
        kept.append((conjunction, region))
    return [conjunction for conjunction, _ in kept]


def any_of(conjunctions: Iterable[Iterable[Predicate]]) -> Filter:
    """The canonical filter that matches what any of the conjunctions matches."""
    found = {_canonical_conjunction(conjunction) for conjunction in conjunctions}
    distinct = sorted((c for c in found if c is not None), key=_conjunction_key)
    if len(distinct) > 1:
        distinct = sorted(_without_covered(distinct), key=_conjunction_key)
    return Filter(tuple(distinct))


def all_of(*predicates: Predicate) -> Filter:
    """The canonical filter of one conjunction."""
    return any_of((predicates,))


def conjoin(f: Filter, g: Filter) -> Filter:
    """What both filters match."""
    return any_of((*c, *d) for c in f.conjunctions for d in g.conjunctions)


def disjoin(*filters: Filter) -> Filter:
    """What any of the filters matches."""
    return any_of(c for f in filters for c in f.conjunctions)


def checked(filter: Filter) -> Filter:
    """The canonical form of a filter from elsewhere; raises `FilterError` on a bad operand."""
    return any_of(filter.conjunctions)
