"""Which values satisfy a predicate, and which events a filter.

Numbers are IEEE doubles; an integer is rounded to one, or to an infinity when it is too large.
A text *reads as a number* when the whole of it is an optional sign, decimal ASCII digits with
an optional point and an optional exponent: `10`, `+10.0`, `.5`, `1e1`, but not ` 10`, `0x1f`,
`1_000`, `inf` or `nan`. The texts `true` and `false` read as truth values.

- A number literal compares with numbers and with texts that read as numbers.
- A text literal compares with texts, by code point; never with numbers.
- A truth literal equals truth values and the texts that read as them; it has no order.
- LIKE and its special cases, and topic filters, look at texts only.
- `<>`, NOT IN, NOT LIKE and NOT TOPIC are the complement of their positive forms among present
  values. Every predicate on a missing attribute is false, MISSING excepted.

`matches` says it plainly and is the reference; `compile_filter` gives the same answers faster.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from typing import Any, Final, cast

from gravitate.model.events import Attributes, Value
from gravitate.model.filters import Conjunction, Filter, Op, Operand, Predicate, Scalar
from gravitate.model.patterns import glob_matcher, like_glob
from gravitate.model.topics import topic_matcher

ValueTest = Callable[[Any], bool]
FilterTest = Callable[[Attributes], bool]

_number_match: Final = re.compile(
    r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"
).fullmatch

TRUTH_TEXTS: Final[Mapping[str, bool]] = {"true": True, "false": False}

_COMPLEMENTS: Final = {Op.NE: Op.EQ, Op.NOT_IN: Op.IN, Op.NOT_LIKE: Op.LIKE, Op.NOT_TOPIC: Op.TOPIC}
_ORDERS: Final[Mapping[Op, Callable[[Any, Any], bool]]] = {
    Op.LT: operator.lt,
    Op.LE: operator.le,
    Op.GT: operator.gt,
    Op.GE: operator.ge,
}


def text_number(text: str) -> float | None:
    """The number a text reads as, or None."""
    return float(text) if _number_match(text) else None


def double(number: float) -> float:
    """A number as the double that all comparisons use."""
    try:
        return float(number)
    except OverflowError:
        return float("inf") if number > 0 else float("-inf")


def value_number(value: Value) -> float | None:
    """The number that a value is or reads as, or None."""
    if isinstance(value, str):
        return text_number(value)
    if isinstance(value, bool):
        return None
    return double(value)


def value_truth(value: Value) -> bool | None:
    """The truth value that a value is or reads as, or None."""
    if isinstance(value, str):
        return TRUTH_TEXTS.get(value)
    return value if isinstance(value, bool) else None


def equals(value: Value, literal: Scalar) -> bool:
    """Whether a present value equals a literal."""
    if isinstance(literal, bool):
        return value_truth(value) is literal
    if isinstance(literal, str):
        return isinstance(value, str) and value == literal
    return value_number(value) == literal


def _in_order(compare: Callable[[Any, Any], bool], value: Value, literal: Operand) -> bool:
    if isinstance(literal, str):
        return isinstance(value, str) and compare(value, literal)
    if isinstance(literal, bool):
        return False
    number = value_number(value)
    return number is not None and compare(number, literal)


def satisfies(predicate: Predicate, value: Value | None) -> bool:
    """Whether a value, None for a missing one, satisfies a predicate."""
    op, operand = predicate.op, predicate.operand
    if value is None or op is Op.MISSING:
        return value is None and op is Op.MISSING
    if op in _COMPLEMENTS:
        return not satisfies(Predicate(predicate.attribute, _COMPLEMENTS[op], operand), value)
    if op is Op.EXISTS:
        return True
    if op in _ORDERS:
        return _in_order(_ORDERS[op], value, operand)
    if op is Op.IN:
        return any(equals(value, literal) for literal in cast(tuple[Scalar, ...], operand))
    if op is Op.EQ:
        return equals(value, cast(Scalar, operand))
    return isinstance(value, str) and _text_test(op, cast(str, operand))(value)


def matches(filter: Filter, attributes: Attributes) -> bool:
    """Whether an event with these attributes matches: some conjunction has all its predicates."""
    return any(
        all(satisfies(predicate, attributes.get(predicate.attribute)) for predicate in conjunction)
        for conjunction in filter.conjunctions
    )


def _text_test(op: Op, operand: str) -> Callable[[str], bool]:
    if op is Op.PREFIX:
        return lambda text: text.startswith(operand)
    if op is Op.SUFFIX:
        return lambda text: text.endswith(operand)
    if op is Op.CONTAINS:
        return lambda text: operand in text
    if op is Op.LIKE:
        return glob_matcher(like_glob(operand))
    assert op is Op.TOPIC, op
    return topic_matcher(operand)


def _compile_order(op: Op, operand: Operand) -> ValueTest:
    compare = _ORDERS[op]
    if isinstance(operand, bool):
        return lambda value: False
    if isinstance(operand, str):
        return lambda value: isinstance(value, str) and compare(value, operand)

    def number_order(value: Any) -> bool:
        if type(value) is float:
            return compare(value, operand)
        number = value_number(value)
        return number is not None and compare(number, operand)

    return number_order


def _compile_equal(literal: Scalar) -> ValueTest:
    if isinstance(literal, bool):
        return lambda value: value_truth(value) is literal
    if isinstance(literal, str):
        return lambda value: value == literal

    def number_equal(value: Any) -> bool:
        return bool(value == literal if type(value) is float else value_number(value) == literal)

    return number_equal


def _compile_in(literals: tuple[Scalar, ...]) -> ValueTest:
    texts = {literal for literal in literals if isinstance(literal, str)}
    truths = {literal for literal in literals if isinstance(literal, bool)}
    numbers = {literal for literal in literals if not isinstance(literal, str | bool)}
    texts |= {text for text, truth in TRUTH_TEXTS.items() if truth in truths}

    def member(value: Any) -> bool:
        if isinstance(value, str):
            if value in texts:
                return True
            return bool(numbers) and text_number(value) in numbers
        if isinstance(value, bool):
            return value in truths
        return double(value) in numbers

    return member


def compile_predicate(predicate: Predicate) -> ValueTest:
    """A fast test of a present value; not for MISSING, which no present value satisfies."""
    op, operand = predicate.op, predicate.operand
    if op is Op.MISSING:
        return lambda value: False
    if op is Op.EXISTS:
        return lambda value: True
    if op in _COMPLEMENTS:
        positive = compile_predicate(Predicate(predicate.attribute, _COMPLEMENTS[op], operand))
        return lambda value: not positive(value)
    if op in _ORDERS:
        return _compile_order(op, operand)
    if op is Op.IN:
        return _compile_in(cast(tuple[Scalar, ...], operand))
    if op is Op.EQ:
        return _compile_equal(cast(Scalar, operand))
    test = _text_test(op, cast(str, operand))
    return lambda value: isinstance(value, str) and test(value)


def _compile_conjunction(conjunction: Conjunction) -> FilterTest:
    absent = tuple(p.attribute for p in conjunction if p.op is Op.MISSING)
    tests = tuple(
        (p.attribute, compile_predicate(p)) for p in conjunction if p.op is not Op.MISSING
    )
    if len(tests) == 1 and not absent:
        ((attribute, test),) = tests

        def one_holds(attributes: Attributes) -> bool:
            value = attributes.get(attribute)
            return value is not None and test(value)

        return one_holds

    def all_hold(attributes: Attributes) -> bool:
        get = attributes.get
        for attribute, test in tests:
            value = get(attribute)
            if value is None or not test(value):
                return False
        for attribute in absent:  # noqa: SIM110 - a generator doubles the cost here
            if get(attribute) is not None:
                return False
        return True

    return all_hold


def compile_filter(filter: Filter) -> FilterTest:
    """A fast closure that answers as `matches` does."""
    tests = tuple(_compile_conjunction(conjunction) for conjunction in filter.conjunctions)
    if len(tests) == 1:
        return tests[0]

    def any_holds(attributes: Attributes) -> bool:
        for test in tests:  # noqa: SIM110 - a generator doubles the cost here
            if test(attributes):
                return True
        return False

    return any_holds
