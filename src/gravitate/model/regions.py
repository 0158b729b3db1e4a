"""Regions: the values that a conjunction's predicates on one attribute leave, exactly.

A region has four parts: atoms (missing, not-a-number, the truth values), numbers, a finite set
of texts, and a class of texts (`texts`). A text that reads as a number is subject to number
literals and text literals alike, so `x > 5` leaves numbers above 5 and the texts that read as
one. A conjunction is a map from attribute to region, or nothing when some region is empty.

`region_within` and `conjunction_within` are sound for inclusion, reflexive and transitive;
`regions_overlap` and `conjunctions_overlap` are never false when a value or event is in both.
"""

from __future__ import annotations

import functools
from typing import Final, cast

from gravitate.model.filters import Conjunction, Filter, Op, Operand, Predicate, Scalar
from gravitate.model.intervals import (
    ALL_NUMBERS,
    NO_NUMBERS,
    Numbers,
    above,
    below,
    interval,
    numbers_meet,
    numbers_overlap,
    numbers_within,
    points,
)
from gravitate.model.patterns import has_wildcard, text_glob
from gravitate.model.texts import (
    ALL_TEXTS,
    Shape,
    TextClass,
    after_prefix,
    class_meet,
    class_within,
    classes_overlap,
    glob_shape,
    number_texts,
    text_class,
    topic_shape,
)
from gravitate.model.topics import has_wildcards

ATOM_MISSING: Final = 1
ATOM_NAN: Final = 2
ATOM_TRUE: Final = 4
ATOM_FALSE: Final = 8
_PRESENT_ATOMS: Final = ATOM_NAN | ATOM_TRUE | ATOM_FALSE
_NO_TEXTS: Final[frozenset[str]] = frozenset()
_INFINITY: Final = float("inf")
_KNOWN_SIZE_MAX: Final = 256
"""The longest text or list of values whose region is kept beyond its filter."""


def _reads_as_just(numbers: Numbers, texts: TextClass) -> bool:
    """Whether the class is just the texts that read as one of these numbers, an interval."""
    return (
        texts.numeric
        and not numbers.holes
        and not texts.numbers.holes
        and texts.numbers.points == numbers.points
        and (texts.numbers.low, texts.numbers.high) == (numbers.low, numbers.high)
        and (texts.low, texts.high) == ("+", ":")
        and not (texts.shapes or texts.unlike or texts.excluded)
    )


class Region:
    """A set of values.

    `ranged` marks the most frequent shape, one number or an interval of them with the texts that
    read as one of them; `point` the next, a single text. Both are shortcuts, not parts."""

    __slots__ = ("atoms", "high", "low", "numbers", "open_texts", "point", "ranged", "texts")

    def __init__(
        self,
        atoms: int = 0,
        numbers: Numbers = NO_NUMBERS,
        texts: frozenset[str] = _NO_TEXTS,
        open_texts: TextClass | None = None,
    ) -> None:
        self.atoms = atoms
        self.numbers = numbers
        self.texts = texts
        self.open_texts = open_texts
        self.low = numbers.low
        self.high = numbers.high
        self.ranged = (
            not atoms
            and not texts
            and (numbers.points is None or len(numbers.points) == 1)
            and open_texts is not None
            and _reads_as_just(numbers, open_texts)
        )
        alone = not atoms and not numbers and open_texts is None and len(texts) == 1
        self.point = next(iter(texts)) if alone else None

    def __bool__(self) -> bool:
        return bool(self.atoms or self.texts or self.numbers or self.open_texts is not None)

    def has_text(self, text: str) -> bool:
        """Whether a text is in the region."""
        return text in self.texts or (self.open_texts is not None and text in self.open_texts)

    def has_texts(self, texts: frozenset[str]) -> bool:
        """Whether all of some texts are in the region."""
        rest = texts - self.texts
        return not rest or (self.open_texts is not None and self.open_texts.holds_all(rest))

    def has_some_text(self, texts: frozenset[str]) -> bool:
        """Whether one of some texts is in the region."""
        if not self.texts.isdisjoint(texts):
            return True
        return self.open_texts is not None and self.open_texts.holds_any(texts)


NO_REGION: Final = Region()
PRESENT: Final = Region(_PRESENT_ATOMS, ALL_NUMBERS, _NO_TEXTS, ALL_TEXTS)


def _numeric(numbers: Numbers, atoms: int = 0, texts: frozenset[str] = _NO_TEXTS) -> Region:
    """These numbers and the texts that read as one of them."""
    return Region(atoms, numbers, texts, number_texts(numbers) if numbers else None)


def _texts(single: frozenset[str], rest: TextClass | None) -> Region:
    return Region(0, NO_NUMBERS, single, rest)


def _equal(literals: tuple[Scalar, ...]) -> Region:
    atoms = 0
    texts: set[str] = set()
    numbers: set[float] = set()
    for literal in literals:
        if isinstance(literal, bool):
            atoms |= ATOM_TRUE if literal else ATOM_FALSE
            texts.add("true" if literal else "false")
        elif isinstance(literal, str):
            texts.add(literal)
        else:
            numbers.add(literal)
    return _numeric(points(frozenset(numbers)), atoms, frozenset(texts))


def _unequal(literals: tuple[Scalar, ...]) -> Region:
    equal = _equal(literals)
    holes = equal.numbers.points or frozenset()
    numbers = interval(-_INFINITY, _INFINITY, holes) if holes else ALL_NUMBERS
    single, rest = text_class(numbers=numbers, excluded=equal.texts)
    return Region(_PRESENT_ATOMS & ~equal.atoms, numbers, single, rest)


def _ordered(op: Op, literal: Operand) -> Region:
    if isinstance(literal, str):
        if op is Op.LT or op is Op.LE:
            return _texts(*text_class(high=literal if op is Op.LT else literal + "\0"))
        return _texts(*text_class(low=literal if op is Op.GE else literal + "\0"))
    if isinstance(literal, bool):
        return NO_REGION
    bound = cast(float, literal)
    if op is Op.LT:
        return _numeric(below(bound))
    if op is Op.GT:
        return _numeric(above(bound))
    low, high = (-_INFINITY, bound) if op is Op.LE else (bound, _INFINITY)
    return _numeric(interval(low, high))


def _topic(pattern: str) -> Region:
    if pattern.endswith("/#") and "+" not in pattern:
        inside = pattern[:-1]
        single, rest = text_class(low=inside, high=after_prefix(inside))
        return _texts(single | {pattern[:-2]}, rest)
    return _texts(*text_class(shapes=(topic_shape(pattern),)))


def _unlike(shape: Shape) -> Region:
    single, rest = text_class(unlike=(shape,))
    return Region(_PRESENT_ATOMS, ALL_NUMBERS, single, rest)


def predicate_region(predicate: Predicate) -> Region:
    """The values that satisfy a predicate; known for a while unless that takes much memory."""
    operand = predicate.operand
    size = len(operand) if isinstance(operand, str | tuple) else 0
    if isinstance(operand, tuple):
        size += sum(len(value) for value in operand if isinstance(value, str))
    return _predicate_region(predicate) if size > _KNOWN_SIZE_MAX else _known_region(predicate)


def _predicate_region(predicate: Predicate) -> Region:
    op, operand = predicate.op, predicate.operand
    if op is Op.EXISTS:
        return PRESENT
    if op is Op.MISSING:
        return Region(ATOM_MISSING)
    if op is Op.EQ or op is Op.NE:
        literals: tuple[Scalar, ...] = (cast(Scalar, operand),)
        return _equal(literals) if op is Op.EQ else _unequal(literals)
    if op is Op.IN or op is Op.NOT_IN:
        literals = cast(tuple[Scalar, ...], operand)
        return _equal(literals) if op is Op.IN else _unequal(literals)
    if op in (Op.LT, Op.LE, Op.GT, Op.GE):
        return _ordered(op, operand)
    text = cast(str, operand)
    if op is Op.PREFIX:
        return _texts(*text_class(low=text, high=after_prefix(text)))
    negative = op is Op.NOT_TOPIC or op is Op.NOT_LIKE
    if op is Op.TOPIC or op is Op.NOT_TOPIC:
        only = None if has_wildcards(text) else text
        shape = topic_shape(text)
    else:
        glob = text_glob(op, text)
        only = None if has_wildcard(glob) else glob
        shape = glob_shape(glob)
    if only is not None:
        return _unequal((only,)) if negative else _equal((only,))
    if negative:
        return _unlike(shape)
    return _topic(text) if op is Op.TOPIC else _texts(*text_class(shapes=(shape,)))


_known_region: Final = functools.lru_cache(maxsize=65536)(_predicate_region)
"""Invalidated by: nothing, predicates are immutable."""


def region_meet(a: Region, b: Region) -> Region:
    """The values in both."""
    if a is b:
        return a
    numbers = numbers_meet(a.numbers, b.numbers)
    found = {text for text in a.texts if b.has_text(text)}
    found.update(text for text in b.texts if a.has_text(text))
    rest: TextClass | None = None
    if a.open_texts is not None and b.open_texts is not None:
        single, rest = class_meet(a.open_texts, b.open_texts)
        found.update(single)
    return Region(a.atoms & b.atoms, numbers, frozenset(found), rest)


def region_within(a: Region, b: Region) -> bool:
    """Whether `a` is part of `b`: sound, reflexive and transitive."""
    if a is b:
        return True
    if a.ranged and b.ranged:
        return a.low >= b.low and a.high <= b.high
    if a.point is not None:
        return b.has_text(a.point)
    if a.atoms & ~b.atoms:
        return False
    if not numbers_within(a.numbers, b.numbers):
        return False
    if a.open_texts is not None and (
        b.open_texts is None or not class_within(a.open_texts, b.open_texts)
    ):
        return False
    return not a.texts or b.has_texts(a.texts)


def regions_overlap(a: Region, b: Region) -> bool:
    """Whether some value may be in both; never false when one is."""
    if a.ranged and b.ranged:
        return a.low <= b.high and b.low <= a.high
    if a.point is not None:
        return b.has_text(a.point)
    if b.point is not None:
        return a.has_text(b.point)
    if a.atoms & b.atoms or numbers_overlap(a.numbers, b.numbers):
        return True
    if (a.texts and b.has_some_text(a.texts)) or (b.texts and a.has_some_text(b.texts)):
        return True
    if a.open_texts is None or b.open_texts is None:
        return False
    return classes_overlap(a.open_texts, b.open_texts)


class ConjunctionRegion:
    """A conjunction's regions by attribute, and as pairs with the most selective first."""

    __slots__ = ("by_attribute", "pairs")

    def __init__(self, by_attribute: dict[str, Region]) -> None:
        self.by_attribute = by_attribute
        self.pairs = tuple(
            sorted(by_attribute.items(), key=lambda pair: (pair[1].point is None, pair[0]))
        )


class Regions:
    """Regions while many conjunctions are looked at: what is equal is the same object."""

    __slots__ = ("_meets", "_predicates")

    def __init__(self) -> None:
        self._predicates: dict[Predicate, Region] = {}
        self._meets: dict[tuple[Region, Region], Region] = {}

    def of(self, predicate: Predicate) -> Region:
        found = self._predicates.get(predicate)
        if found is None:
            found = self._predicates[predicate] = predicate_region(predicate)
        return found

    def meet(self, a: Region, b: Region) -> Region:
        found = self._meets.get((a, b))
        if found is None:
            found = self._meets[a, b] = region_meet(a, b)
        return found


def conjunction_region(
    conjunction: Conjunction, regions: Regions | None = None
) -> ConjunctionRegion | None:
    """The regions of a conjunction, or None when it is found that no event matches."""
    of, meet = (predicate_region, region_meet) if regions is None else (regions.of, regions.meet)
    by_attribute: dict[str, Region] = {}
    for predicate in conjunction:
        region = of(predicate)
        known = by_attribute.get(predicate.attribute)
        by_attribute[predicate.attribute] = region if known is None else meet(known, region)
    return ConjunctionRegion(by_attribute) if all(by_attribute.values()) else None


def conjunction_within(a: ConjunctionRegion, b: ConjunctionRegion) -> bool:
    """Whether every event in `a` is in `b`: sound, reflexive and transitive."""
    get = a.by_attribute.get
    for attribute, wide in b.pairs:
        narrow = get(attribute)
        if narrow is None:
            return False
        if narrow is not wide:
            if narrow.ranged and wide.ranged:
                if narrow.low < wide.low or narrow.high > wide.high:
                    return False
            elif not region_within(narrow, wide):
                return False
    return True


def conjunctions_overlap(a: ConjunctionRegion, b: ConjunctionRegion) -> bool:
    """Whether some event may be in both; attributes that only one constrains do not matter."""
    get = a.by_attribute.get
    for attribute, mine in b.pairs:
        other = get(attribute)
        if other is not None and other is not mine:
            if other.ranged and mine.ranged:
                if other.low > mine.high or mine.low > other.high:
                    return False
            elif not regions_overlap(other, mine):
                return False
    return True


def filter_regions(filter: Filter) -> tuple[ConjunctionRegion, ...]:
    """The regions of a filter's conjunctions, those that match nothing left out.

    Kept with the filter, which is immutable: nothing invalidates them."""
    memory = filter.__dict__
    known = memory.get("regions")
    if known is None:
        regions = Regions() if len(filter.conjunctions) > 1 else None
        found = (conjunction_region(conjunction, regions) for conjunction in filter.conjunctions)
        known = memory["regions"] = tuple(region for region in found if region is not None)
    return cast(tuple[ConjunctionRegion, ...], known)
