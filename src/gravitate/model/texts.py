"""Sets of texts: what a conjunction of predicates on one attribute leaves of all texts.

A `TextClass` is an intersection of constraints: an interval in code-point order (a prefix is
one), what the text reads as when it reads as a number, patterns that must match, patterns that
must not, and excluded texts. It is exact: it holds just the texts that satisfy the predicates.

`class_within` is sound for inclusion, reflexive and transitive. It is transitive because each
part is compared by a transitive relation, and because what is derived from one part for another
(a pattern's literal prefix narrows the interval, an interval may rule numbers out) only grows
stronger when the class gets smaller. Keep both properties when adding a kind of constraint.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable
from typing import Final

from gravitate.model.intervals import (
    ALL_NUMBERS,
    NO_NUMBERS,
    Numbers,
    numbers_meet,
    numbers_overlap,
    numbers_within,
    points,
)
from gravitate.model.patterns import (
    MANY,
    ONE,
    Glob,
    glob_covers,
    glob_matcher,
    globs_overlap,
    literal_prefix,
    normalised,
)
from gravitate.model.semantics import text_number
from gravitate.model.topics import (
    prefix_intersects_topic,
    prefix_within_topic,
    topic_covers,
    topic_intersects,
    topic_matcher,
)

_LAST_CHARACTER: Final = "\U0010ffff"
_in_no_number: Final = re.compile(f"[^0-9+\\-.eE{ONE}{MANY}]").search
_NUMBERS_LOW: Final = "+"
_NUMBERS_HIGH: Final = ":"
"""Texts that read as numbers lie between these: they start with a sign, a point or a digit."""
_PREFIX_CHARACTERS_MAX: Final = 1024


class Shape:
    """A pattern texts may have to match: a glob, or a topic filter and the glob it implies."""

    __slots__ = (
        "_matches",
        "glob",
        "prefix",
        "prefix_end",
        "prefix_only",
        "spells_no_number",
        "topic",
    )

    def __init__(self, glob: Glob, topic: str | None = None) -> None:
        self.glob = glob
        self.topic = topic
        self._matches: Callable[[str], bool] | None = None
        self.prefix = literal_prefix(glob)
        self.prefix_only = topic is None and glob == self.prefix + MANY
        self.prefix_end = after_prefix(self.prefix)
        self.spells_no_number = _in_no_number(glob) is not None

    @property
    def matches(self) -> Callable[[str], bool]:
        """The test of a text; made when it is asked for, since that takes a while."""
        if self._matches is None:
            topic = self.topic
            self._matches = glob_matcher(self.glob) if topic is None else topic_matcher(topic)
        return self._matches


def after_prefix(prefix: str) -> str | None:
    """The first text after all those that start with `prefix`; None when there is none."""
    prefix = prefix.rstrip(_LAST_CHARACTER)
    return prefix[:-1] + chr(ord(prefix[-1]) + 1) if prefix else None


@functools.lru_cache(maxsize=1024)
def glob_shape(glob: Glob) -> Shape:
    """The shape of a LIKE pattern."""
    return Shape(glob)


@functools.lru_cache(maxsize=1024)
def topic_shape(pattern: str) -> Shape:
    """The shape of a topic filter."""
    symbols: list[str] = []
    for index, level in enumerate(pattern.split("/")):
        if level == "#":
            symbols.append(MANY)
            break
        if index:
            symbols.append("/")
        symbols.extend(MANY if level == "+" else level)
    return Shape(normalised("".join(symbols)), pattern)


# Normal forms compare the same patterns again and again, at quadratic cost each time.
@functools.lru_cache(maxsize=16384)
def _glob_within(a: Shape, b: Shape) -> bool:
    return glob_covers(b.glob, a.glob)


@functools.lru_cache(maxsize=16384)
def _globs_meet(a: Shape, b: Shape) -> bool:
    return globs_overlap(a.glob, b.glob)


def shape_within(a: Shape, b: Shape) -> bool:
    """Whether every text of shape `a` has shape `b`: sound, reflexive and transitive."""
    if a is b:
        return True
    if b.topic is None:
        return _glob_within(a, b)
    if a.topic is None:
        return prefix_within_topic(a.prefix, b.topic)
    return topic_covers(b.topic, a.topic)


def shapes_overlap(a: Shape, b: Shape) -> bool:
    """Whether some text may have both shapes; never false when one has."""
    if a is b:
        return True
    if a.topic is not None and b.topic is not None:
        return topic_intersects(a.topic, b.topic)
    if a.topic is not None and b.prefix_only:
        return prefix_intersects_topic(b.prefix, a.topic)
    if b.topic is not None and a.prefix_only:
        return prefix_intersects_topic(a.prefix, b.topic)
    return _globs_meet(a, b)


class TextClass:
    """The texts in [low, high) that satisfy every constraint.

    A text that reads as a number must read as one of `numbers`; when `numeric` is set it must
    read as a number. `high` is None where the interval has no end. `plain` classes have an
    interval and shapes only, apart from numbers that are left out."""

    __slots__ = (
        "_prefix_shape",
        "excluded",
        "high",
        "low",
        "numbers",
        "numeric",
        "plain",
        "shapes",
        "unlike",
    )

    def __init__(
        self,
        low: str = "",
        high: str | None = None,
        numeric: bool = False,
        numbers: Numbers = ALL_NUMBERS,
        shapes: tuple[Shape, ...] = (),
        unlike: tuple[Shape, ...] = (),
        excluded: frozenset[str] = frozenset(),
    ) -> None:
        self.low = low
        self.high = high
        self.numeric = numeric
        self.numbers = numbers
        self.shapes = shapes
        self.unlike = unlike
        self.excluded = excluded
        self.plain = not (numeric or unlike or excluded)
        self._prefix_shape: Shape | None = None

    def __contains__(self, text: str) -> bool:
        if text < self.low or (self.high is not None and text >= self.high):
            return False
        if text in self.excluded:
            return False
        if self.numeric or self.numbers is not ALL_NUMBERS:
            number = text_number(text)
            if self.numeric if number is None else number not in self.numbers:
                return False
        for shape in self.shapes:
            if not shape.matches(text):
                return False
        for shape in self.unlike:  # noqa: SIM110 - a generator doubles the cost here
            if shape.matches(text):
                return False
        return True

    def holds_all(self, texts: frozenset[str]) -> bool:
        """Whether all of some texts are in the class: constraint by constraint."""
        if not self.excluded.isdisjoint(texts) or min(texts) < self.low:
            return False
        if self.high is not None and max(texts) >= self.high:
            return False
        if self.numeric or self.numbers is not ALL_NUMBERS:
            numbers, others = _readings(texts)
            if (self.numeric and others) or not numbers_within(numbers, self.numbers):
                return False
        for shape in self.shapes:
            if not all(map(shape.matches, texts)):
                return False
        return not any(any(map(shape.matches, texts)) for shape in self.unlike)

    def holds_any(self, texts: frozenset[str]) -> bool:
        """Whether one of some texts is in the class."""
        if self.numeric and not numbers_overlap(_readings(texts)[0], self.numbers):
            return False
        found: Iterable[str] = texts
        for shape in self.shapes:
            found = filter(shape.matches, found)
        return any(text in self for text in found)

    @property
    def prefix_shape(self) -> Shape:
        """The shape of the prefix that the interval gives all its texts."""
        if self._prefix_shape is None:
            self._prefix_shape = _prefix_shape(self.low, self.high)
        return self._prefix_shape


ALL_TEXTS: Final = TextClass()


@functools.lru_cache(maxsize=256)
def _readings(texts: frozenset[str]) -> tuple[Numbers, bool]:
    """The numbers that texts read as, and whether one reads as none."""
    found = [text_number(text) for text in texts]
    return points(frozenset(number for number in found if number is not None)), None in found


def common_prefix(low: str, high: str | None) -> str:
    """The longest text that all texts in [low, high) start with."""
    if high is None:
        return ""
    size = _shared_size(low, high)
    if size < len(low):
        end = after_prefix(low[: size + 1])
        if end is None or high <= end:
            # The next character is common too: [ab, ac) has the prefix ab. So is what follows it
            # while nothing greater can stand there.
            rest = low[size + 1 :]
            size += 1 + len(rest) - len(rest.lstrip(_LAST_CHARACTER))
    return low[:size]


def _shared_size(a: str, b: str) -> int:
    """How many characters two texts have in common from the start."""
    same, size = 0, min(len(a), len(b))
    while same < size:
        middle = (same + size + 1) // 2
        if a[same:middle] == b[same:middle]:
            same = middle
        else:
            size = middle - 1
    return same


def _prefix_shape(low: str, high: str | None) -> Shape:
    """What an interval says of its texts as a shape; of a very long prefix just the beginning."""
    return glob_shape(common_prefix(low, high)[:_PREFIX_CHARACTERS_MAX] + MANY)


def _reads_as_no_number(low: str, high: str | None, shapes: Iterable[Shape]) -> bool:
    if low >= _NUMBERS_HIGH or (high is not None and high <= _NUMBERS_LOW):
        return True
    if any(shape.spells_no_number for shape in shapes):
        return True
    return _in_no_number(common_prefix(low, high)) is not None


def _contradictory(shapes: tuple[Shape, ...], unlike: tuple[Shape, ...], prefix: Shape) -> bool:
    facts = (*shapes, prefix)
    for index, shape in enumerate(facts):
        if any(not shapes_overlap(shape, other) for other in facts[:index]):
            return True
        if any(shape_within(shape, refused) for refused in unlike):
            return True
    return False


def _strongest(
    shapes: Iterable[Shape], within: Callable[[Shape, Shape], bool] = shape_within
) -> tuple[Shape, ...]:
    """The shapes without those that another implies."""
    kept: list[Shape] = []
    for shape in shapes:
        if not any(within(other, shape) for other in kept):
            kept = [other for other in kept if not within(shape, other)]
            kept.append(shape)
    return tuple(kept)


def _weakest(shapes: Iterable[Shape]) -> tuple[Shape, ...]:
    """The shapes without those that imply another."""
    return _strongest(shapes, lambda one, other: shape_within(other, one))


def _outside(shape: Shape, low: str, high: str | None) -> bool:
    """Whether the texts of a shape all lie outside the interval, by its prefix."""
    if high is not None and shape.prefix >= high:
        return True
    return shape.prefix_end is not None and shape.prefix_end <= low


def text_class(
    low: str = "",
    high: str | None = None,
    numeric: bool = False,
    numbers: Numbers = ALL_NUMBERS,
    shapes: tuple[Shape, ...] = (),
    unlike: tuple[Shape, ...] = (),
    excluded: frozenset[str] = frozenset(),
) -> tuple[frozenset[str], TextClass | None]:
    """The normal form: (that one text, None), or (none, the class), or (none, None) if empty."""
    empty: tuple[frozenset[str], TextClass | None] = (frozenset(), None)
    for shape in shapes:
        low = max(low, shape.prefix)
        end = shape.prefix_end
        if end is not None and (high is None or end < high):
            high = end
    if numeric:
        low = max(low, _NUMBERS_LOW)
        high = _NUMBERS_HIGH if high is None else min(high, _NUMBERS_HIGH)
    if high is not None and low >= high:
        return empty
    if (numeric or numbers is not NO_NUMBERS) and _reads_as_no_number(low, high, shapes):
        numbers = NO_NUMBERS
    if numeric and not numbers:
        return empty
    if high == low + "\0":
        single = low in TextClass(low, high, numeric, numbers, shapes, unlike, excluded)
        return (frozenset((low,)), None) if single else empty
    if shapes or unlike:
        shapes = _strongest(shapes)
        unlike = _weakest(shape for shape in unlike if not _outside(shape, low, high))
        if _contradictory(shapes, unlike, _prefix_shape(low, high)):
            return empty
    if excluded:
        bare = TextClass(low, high, numeric, numbers, shapes, unlike)
        excluded = frozenset(text for text in excluded if text in bare)
    return frozenset(), TextClass(low, high, numeric, numbers, shapes, unlike, excluded)


def number_texts(numbers: Numbers) -> TextClass:
    """The texts that read as one of these numbers, which are not empty."""
    return TextClass(_NUMBERS_LOW, _NUMBERS_HIGH, True, numbers)


def class_meet(a: TextClass, b: TextClass) -> tuple[frozenset[str], TextClass | None]:
    """The texts in both classes, as `text_class` gives them."""
    if b is ALL_TEXTS or a is b:
        return frozenset(), a
    if a is ALL_TEXTS:
        return frozenset(), b
    high = a.high if b.high is None else b.high if a.high is None else min(a.high, b.high)
    return text_class(
        max(a.low, b.low),
        high,
        a.numeric or b.numeric,
        numbers_meet(a.numbers, b.numbers),
        a.shapes + b.shapes,
        a.unlike + b.unlike,
        a.excluded | b.excluded,
    )


def class_within(a: TextClass, b: TextClass) -> bool:
    """Whether `a` is part of `b`: sound, reflexive and transitive."""
    if a is b or b is ALL_TEXTS:
        return True
    if a.low < b.low or (b.high is not None and (a.high is None or a.high > b.high)):
        return False
    if b.numeric and not a.numeric:
        return False
    if not numbers_within(a.numbers, b.numbers):
        return False
    for shape in b.shapes:
        for other in a.shapes:
            if shape_within(other, shape):
                break
        else:
            if not shape_within(a.prefix_shape, shape):
                return False
    for shape in b.unlike:
        for other in a.unlike:
            if shape_within(shape, other):
                break
        else:
            if not _outside(shape, a.low, a.high):
                return False
    return not b.excluded or not a.holds_any(b.excluded)


def _shapes_compatible(a: TextClass, b: TextClass) -> bool:
    """Whether no shape of one class excludes those of the other.

    Intervals are known to overlap; their prefixes stand in where a class has no shapes."""
    others = b.shapes or (b.prefix_shape,)
    for shape in a.shapes or (a.prefix_shape,):
        for other in others:
            if not shapes_overlap(shape, other):
                return False
    return True


def classes_overlap(a: TextClass, b: TextClass) -> bool:
    """Whether some text may be in both; never false when one is."""
    if (a.high is not None and b.low >= a.high) or (b.high is not None and a.low >= b.high):
        return False
    if (a.numeric or b.numeric) and not numbers_overlap(a.numbers, b.numbers):
        return False
    if not _shapes_compatible(a, b):
        return False
    if a.plain and b.plain:
        return True
    single, rest = class_meet(a, b)
    return bool(single) or rest is not None
