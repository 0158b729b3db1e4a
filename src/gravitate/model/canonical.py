"""The canonical form of filters, and the constructors that give it.

A canonical predicate has its simplest operator (LIKE 'ab%' is a prefix, IN of one literal is
equality) and checked operands; a canonical conjunction is sorted, and no predicate follows from
the others on its attribute; a canonical filter is sorted and has no conjunction that cannot
match or that another covers. Filters that came from elsewhere, such as a peer's message, go
through `checked`. Taking the canonical form twice is taking it once.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable
from itertools import islice
from typing import Any, Final

from gravitate.errors import FilterError
from gravitate.model.alternatives import Alternatives
from gravitate.model.filters import EVERYTHING, Conjunction, Filter, Op, Operand, Predicate, Scalar
from gravitate.model.limits import CONJUNCTIONS_MAX, TEXT_OPS, Measure, refuse_beyond, refuse_many
from gravitate.model.patterns import classified, glob_like, text_glob
from gravitate.model.regions import (
    ConjunctionRegion,
    Region,
    Regions,
    conjunction_region,
    predicate_region,
    region_meet,
    region_within,
)
from gravitate.model.semantics import double
from gravitate.model.topics import has_wildcards, topic_pattern

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
            return Predicate(attribute, Op.NE, glob)
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
    if op in TEXT_OPS or op in (Op.TOPIC, Op.NOT_TOPIC):
        if not isinstance(operand, str):
            raise FilterError(f"{attribute} {op.value}: expected a text, found {operand!r}")
        return _canonical_text(predicate, operand)
    literal = _literal(predicate, operand)
    if op in _ORDER_OPS and isinstance(literal, bool):
        raise FilterError(f"{attribute} {op.value}: truth values are compared with = and <> only")
    return Predicate(attribute, op, literal)


def _without_redundant(predicates: Conjunction) -> Conjunction | None:
    """Of predicates on one attribute those that do not follow from the others.

    None when they are found to match nothing together."""
    regions = [predicate_region(predicate) for predicate in predicates]
    behind: list[Region] = [regions[-1]]
    for region in reversed(regions[:-1]):
        behind.append(region_meet(region, behind[-1]))
    if not behind.pop():
        return None
    kept: list[Predicate] = []
    ahead: Region | None = None
    for predicate, region in zip(predicates, regions, strict=True):
        others = ahead
        if behind:
            rest = behind.pop()
            others = rest if ahead is None else region_meet(ahead, rest)
        if others is None or not region_within(others, region):
            kept.append(predicate)
            ahead = region if ahead is None else region_meet(ahead, region)
    return tuple(kept)


def _constraints(distinct: Iterable[Predicate]) -> list[Conjunction]:
    """What a conjunction says, attribute by attribute, in canonical order."""
    by_attribute: dict[str, list[Predicate]] = {}
    for predicate in sorted(distinct, key=predicate_key):
        by_attribute.setdefault(predicate.attribute, []).append(predicate)
    return [tuple(alike) for alike in by_attribute.values()]


def _reduced(
    constraints: Iterable[Conjunction], reduce: Callable[[Conjunction], Conjunction | None]
) -> Conjunction | None:
    """The canonical conjunction, or None when it is found to match nothing."""
    kept: list[Predicate] = []
    for alike in constraints:
        if len(alike) > 1 or alike[0].operand in _PERHAPS_UNSATISFIABLE:
            reduced = reduce(alike)
            if reduced is None:
                return None
            alike = reduced
        kept.extend(alike)
    return tuple(kept)


def _without_covered(conjunctions: list[Conjunction]) -> list[Conjunction]:
    """The conjunctions that no other covers; of equivalent ones the shortest, or the first."""
    regions = Regions()
    found: list[tuple[Conjunction, ConjunctionRegion]] = []
    for conjunction in sorted(conjunctions, key=len):
        region = conjunction_region(conjunction, regions)
        if region is not None:
            found.append((conjunction, region))
    parts = [region for _, region in found]
    around = list(Alternatives(parts).around(parts))

    def is_covered(index: int) -> bool:
        if around[index] & ((1 << index) - 1):
            return True
        later = around[index] >> (index + 1)
        while later:
            lowest = later & -later
            # One that comes later is wider, unless the two are equivalent.
            if not around[index + lowest.bit_length()] >> index & 1:
                return True
            later ^= lowest
        return False

    return [conjunction for i, (conjunction, _) in enumerate(found) if not is_covered(i)]


def any_of(conjunctions: Iterable[Iterable[Predicate]]) -> Filter:
    """The canonical filter that matches what any of the conjunctions matches.

    Raises `FilterError` for an operand that does not fit, and beyond the bounds of `limits`."""
    return measured_any_of(conjunctions)[0]


def measured_any_of(conjunctions: Iterable[Iterable[Predicate]]) -> tuple[Filter, Measure]:
    """The same, and what it measured before it was made canonical."""
    written = [tuple(c) for c in islice(conjunctions, CONJUNCTIONS_MAX + 1)]
    refuse_many(len(written), sum(map(len, written)))
    # The same predicate stands in many conjunctions that were multiplied out.
    simplest = {id(p): canonical_predicate(p) for c in written for p in c}
    constraints = [_constraints({simplest[id(p)] for p in c}) for c in written]
    measure = refuse_beyond(constraints)
    reduce = functools.cache(_without_redundant)
    found = {_reduced(told, reduce) for told in constraints}
    distinct = sorted((c for c in found if c is not None), key=_conjunction_key)
    if len(distinct) > 1:
        distinct = sorted(_without_covered(distinct), key=_conjunction_key)
    return Filter(tuple(distinct)), measure


def all_of(*predicates: Predicate) -> Filter:
    """The canonical filter of one conjunction."""
    return any_of((predicates,))


def conjoin(f: Filter, g: Filter) -> Filter:
    """What both filters, which are canonical, match."""
    return measured_conjoin(f, g)[0]


def measured_conjoin(f: Filter, g: Filter) -> tuple[Filter, Measure]:
    """The same, and what it measured before it was made canonical."""
    if len(f.conjunctions) == 1 and (g is EVERYTHING or _are_apart(f, g)):
        return _narrowed(g, f.conjunctions[0])
    return measured_any_of((*c, *d) for c in f.conjunctions for d in g.conjunctions)


def _are_apart(f: Filter, g: Filter) -> bool:
    """Whether a filter of one conjunction and another speak of different attributes."""
    attributes = {predicate.attribute for predicate in f.conjunctions[0]}
    return not any(p.attribute in attributes for c in g.conjunctions for p in c)


def _narrowed(filter: Filter, further: Conjunction) -> tuple[Filter, Measure]:
    """A canonical filter with a condition on other attributes in each of its alternatives.

    That changes neither what follows from what nor which alternative covers which."""
    found = [
        tuple(sorted((*conjunction, *further), key=predicate_key)) if conjunction else further
        for conjunction in filter.conjunctions
    ]
    refuse_many(len(found), sum(map(len, found)))
    measure = refuse_beyond([_constraints(conjunction) for conjunction in found])
    return Filter(tuple(sorted(found, key=_conjunction_key))), measure


def checked(filter: Filter) -> Filter:
    """The canonical form of a filter from elsewhere; raises `FilterError` on a bad operand."""
    return any_of(filter.conjunctions)


def taken(filter: Filter) -> Filter:
    """A filter from a broker, which has made it canonical; raises `FilterError` on a bad operand.

    What can be seen part by part is looked at, and when it is in order the filter stays as it is:
    comparing its alternatives with each other takes long, and one that another covers does no
    harm."""
    conjunctions = filter.conjunctions
    refuse_many(len(conjunctions), sum(map(len, conjunctions)))
    ordered = [
        tuple(sorted({canonical_predicate(p) for p in c}, key=predicate_key)) for c in conjunctions
    ]
    if tuple(sorted(set(ordered), key=_conjunction_key)) != conjunctions:
        return checked(filter)
    refuse_beyond([_constraints(conjunction) for conjunction in ordered])
    return filter
