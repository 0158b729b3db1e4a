"""How much one filter may ask of everybody who compares it with others.

Whoever takes a filter compares it with those it knows, and a filter is multiplied out: so what a
short condition costs is not seen from its text. Three measures bound it, each by counting and
none by the clock, so that what one broker takes every other one takes too.

- Its alternatives, and the comparisons in all of them.
- Its *weight*: what is to be compared with what another filter says of the same attribute.
  Comparing two filters takes time in proportion to the product of their weights. What several
  alternatives say alike of an attribute is compared once, and weighs once.
- Its size when it is sent: a long topic stands in each alternative.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple, cast

import msgspec

from gravitate.errors import FilterError
from gravitate.model.filters import Conjunction, Op, Predicate

CONJUNCTIONS_MAX: Final = 256
PREDICATES_MAX: Final = 4096
"""Bounds on a filter multiplied out: its conjunctions, and the predicates in all of them."""
SAME_ATTRIBUTE_MAX: Final = 16
"""The most predicates on one attribute in a conjunction."""
PATTERN_CHARACTERS_MAX: Final = 1024
"""The longest text of the LIKE predicates on one attribute in a conjunction, taken together."""
WEIGHT_MAX: Final = 4096
"""The most that a filter may weigh: 200 plain comparisons, or 50 patterns of 20 characters, or one
IN of 2,000 values. Two filters of this weight are compared within about 20 ms."""
FILTER_BYTES_MAX: Final = 256 * 1024
"""The most that a filter may take when it is encoded."""

_COMPARISON: Final = 20
_VALUE: Final = 2
_PATTERN: Final = 20
_CHARACTER: Final = 2
_CHARACTER_BESIDE_ONE: Final = 8
_WEIGHTS: Final = (
    f"{_COMPARISON} a comparison, {_VALUE} more a value of IN, {_PATTERN} more a pattern (one "
    f"that ends with its only % apart) and {_CHARACTER} for each of its characters, "
    f"{_CHARACTER_BESIDE_ONE} where it has _; MATCHES {_PATTERN} more and 1 for each /"
)

_encode: Final = msgspec.msgpack.Encoder().encode
_PATTERN_OPS: Final = frozenset((Op.SUFFIX, Op.CONTAINS, Op.LIKE, Op.NOT_LIKE))
TEXT_OPS: Final = _PATTERN_OPS | {Op.PREFIX}


def _weight(predicate: Predicate) -> int:
    op, operand = predicate.op, predicate.operand
    if op is Op.IN or op is Op.NOT_IN:
        return _COMPARISON + _VALUE * len(cast(tuple[Any, ...], operand))
    if op in _PATTERN_OPS:
        pattern = cast(str, operand)
        # Where pieces of a text are found at once, those with a gap are tried at every place.
        each = _CHARACTER_BESIDE_ONE if "_" in pattern else _CHARACTER
        return _COMPARISON + _PATTERN + each * len(pattern)
    if op is Op.TOPIC or op is Op.NOT_TOPIC:
        return _COMPARISON + _PATTERN + cast(str, operand).count("/")
    return _COMPARISON


def refuse_many(conjunctions: int, predicates: int) -> None:
    """Raise `FilterError` where a filter has more of these than it may."""
    if conjunctions > CONJUNCTIONS_MAX or predicates > PREDICATES_MAX:
        raise FilterError(
            f"expected a condition of at most {CONJUNCTIONS_MAX} alternatives and "
            f"{PREDICATES_MAX} comparisons when multiplied out, found {conjunctions} and "
            f"{predicates} or more"
        )


class Measure(NamedTuple):
    """What was found to be within the bounds."""

    weight: int
    size_bytes: int


def refuse_beyond(conjunctions: Sequence[Sequence[Conjunction]]) -> Measure:
    """The weight and size of a filter; raises `FilterError` where they are beyond the bounds.

    Each conjunction is given as its constraints: what it says of one attribute each."""
    constraints = {constraint for told in conjunctions for constraint in told}
    for constraint in constraints:
        _refuse_many_alike(constraint)
    weight = sum(_weight(predicate) for constraint in constraints for predicate in constraint)
    if weight > WEIGHT_MAX:
        raise FilterError(
            f"expected a condition that weighs at most {WEIGHT_MAX} when multiplied out, "
            f"found {weight} ({_WEIGHTS})"
        )
    try:
        size = len(_encode(conjunctions))
    except UnicodeEncodeError as error:
        raise FilterError(f"a text must be valid Unicode: {error.reason}") from None
    if size > FILTER_BYTES_MAX:
        raise FilterError(
            f"expected a topic filter and a condition of at most {FILTER_BYTES_MAX} bytes when "
            f"multiplied out, found {size}"
        )
    return Measure(weight, size)


def _refuse_many_alike(constraint: Conjunction) -> None:
    """Reducing what is said of one attribute takes long where that is much."""
    attribute = constraint[0].attribute
    if len(constraint) > SAME_ATTRIBUTE_MAX:
        raise FilterError(
            f"expected at most {SAME_ATTRIBUTE_MAX} comparisons of {attribute} that must all "
            f"hold, found {len(constraint)} (IN and NOT IN take many values)"
        )
    size = sum(len(cast(str, p.operand)) for p in constraint if p.op in TEXT_OPS)
    if size > PATTERN_CHARACTERS_MAX:
        raise FilterError(
            f"expected patterns for {attribute} of at most {PATTERN_CHARACTERS_MAX} characters "
            f"together, found {size}"
        )
