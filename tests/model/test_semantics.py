"""Which values satisfy which predicates."""

from __future__ import annotations

import math

import pytest
from hypothesis import assume, given
from tests.support.strategies import events, predicates, raw_filters, values

from gravitate.model.events import Attributes, Value
from gravitate.model.filters import EVERYTHING, NOTHING, Filter, Op, Operand, Predicate
from gravitate.model.semantics import (
    compile_filter,
    compile_predicate,
    matches,
    satisfies,
    text_number,
    value_number,
)

GOLDEN: list[tuple[Op, Operand, list[Value], list[Value]]] = [
    (Op.EQ, 10.0, [10, 10.0, "10", "10.0", "1e1", "+10", "010"], [11, "ten", " 10", True, ""]),
    (Op.EQ, "10", ["10"], [10, 10.0, "10.0", "1e1", ""]),
    (Op.EQ, 0.0, [0, -0.0, "0", "-0", "-0.0e7"], [False, "false", ""]),
    (Op.EQ, True, [True, "true"], [False, "false", "True", "TRUE", 1, 1.0, "1"]),
    (Op.EQ, False, [False, "false"], [True, 0, "", "0"]),
    (Op.NE, 10.0, [11, "ten", " 10", True, math.nan], [10, "10", "1e1"]),
    (Op.NE, "10", [10, "10.0", False], ["10"]),
    (Op.NE, True, [False, "false", 1, "1"], [True, "true"]),
    (Op.LT, 5.0, [4, "4.9", -math.inf, "-1e999"], [5, "5", "a", True, False, math.nan]),
    (Op.LE, 5.0, [5, "5.0", "4"], [5.000001, "6", "", True]),
    (Op.GT, 5.0, [6, "10", "1e999"], [5, "5", "a", "inf", "nan", True, math.nan]),
    (Op.GE, 5.0, [5, "5", 10**400], [4, -(10**400), "z"]),
    (Op.LT, "5", ["10", "", "49"], ["5", "50", 4, False]),
    (Op.LE, "b", ["b", "a", "B", ""], ["ba", "c", 1]),
    (Op.GT, "b", ["ba", "c", "é"], ["b", "a", "Z", 7]),
    (Op.GE, "b", ["b", "\U0010ffff"], ["a", "B", True]),
    (Op.IN, (1.0, "a", True), [1, "1", "1e0", "a", True, "true"], [False, "b", 2, "A"]),
    (Op.IN, (), [], [1, "a", True]),
    (Op.NOT_IN, (1.0, "a"), [2, "b", True, math.nan], [1, "1.0", "a"]),
    (Op.NOT_IN, (), [1, "a", True], []),
    (Op.PREFIX, "ab", ["ab", "abc"], ["a", "Ab", "cab", 5]),
    (Op.PREFIX, "", ["", "a"], [5, True]),
    (Op.SUFFIX, "ab", ["ab", "cab"], ["abc", 5]),
    (Op.CONTAINS, "b", ["b", "abc"], ["", "a", True]),
    (Op.LIKE, "a_c%", ["abc", "axcd", "a\nc"], ["ac", "abd", "xabc", 5]),
    (Op.LIKE, "100\\%", ["100%"], ["1000", "100", "100\\%"]),
    (Op.LIKE, "%a%b%", ["ab", "xaxbx"], ["ba", "a", "b"]),
    (Op.NOT_LIKE, "a%", ["b", "", 5, True], ["a", "abc"]),
    (Op.TOPIC, "a/+/c", ["a/b/c", "a//c"], ["a/c", "a/b/c/d", "b/b/c", 5]),
    (Op.TOPIC, "a/#", ["a", "a/", "a/b/c"], ["ab", "b", ""]),
    (Op.TOPIC, "#", ["a", "a/b", "/"], ["$SYS", "$SYS/x", 5]),
    (Op.NOT_TOPIC, "a/+", ["a", "b", "$x", 5, True], ["a/b", "a/"]),
    (Op.EXISTS, None, [0, "", False, math.nan], []),
    (Op.MISSING, None, [], [0, "", False, math.nan]),
]


@pytest.mark.parametrize(("op", "operand", "satisfying", "others"), GOLDEN)
def test_values_of_every_operator(
    op: Op, operand: Operand, satisfying: list[Value], others: list[Value]
) -> None:
    predicate = Predicate("x", op, operand)
    fast = compile_predicate(predicate)
    for value in satisfying:
        assert satisfies(predicate, value), value
        assert fast(value), value
    for value in others:
        assert not satisfies(predicate, value), value
        assert not fast(value), value


def test_every_operator_has_a_golden_example() -> None:
    assert {op for op, *_ in GOLDEN} == set(Op)


@pytest.mark.parametrize("op", list(Op))
def test_a_predicate_on_a_missing_attribute_is_false_except_missing(op: Op) -> None:
    operand = next(operand for golden, operand, *_ in GOLDEN if golden is op)
    predicate = Predicate("x", op, operand)
    assert satisfies(predicate, None) == (op is Op.MISSING)
    f = Filter(((predicate,),))
    assert matches(f, {"y": 1}) == compile_filter(f)({"y": 1}) == (op is Op.MISSING)


@pytest.mark.parametrize("text", ["10", "-1", "+1", "1.", ".5", "1.5e-7", "1E5", "00012", "1e999"])
def test_texts_that_read_as_numbers(text: str) -> None:
    assert text_number(text) == float(text)


@pytest.mark.parametrize(
    "text", ["", " 1", "1 ", "1\n", "nan", "inf", "-infinity", "0x1f", "1_0", "١", ".", "e5", "1e"]
)
def test_texts_that_do_not_read_as_numbers(text: str) -> None:
    assert text_number(text) is None


def test_numbers_are_doubles() -> None:
    assert value_number(2**53 + 1) == 2.0**53
    assert value_number(10**400) == math.inf
    assert value_number(-(10**400)) == -math.inf
    assert satisfies(Predicate("x", Op.EQ, 2.0**53), 2**53 + 1)


def test_a_filter_matches_when_some_conjunction_holds() -> None:
    f = Filter(
        ((Predicate("x", Op.GT, 5.0), Predicate("y", Op.EQ, "a")), (Predicate("z", Op.EXISTS),))
    )
    assert matches(f, {"x": "10", "y": "a"})
    assert matches(f, {"z": 0})
    assert not matches(f, {"x": 10})
    assert matches(EVERYTHING, {})
    assert not matches(NOTHING, {"x": 1})


@given(raw_filters, events)
def test_the_compiled_filter_answers_as_the_plain_one(f: Filter, event: Attributes) -> None:
    assert compile_filter(f)(event) == matches(f, event)


COMPLEMENTS = {Op.NE: Op.EQ, Op.NOT_IN: Op.IN, Op.NOT_LIKE: Op.LIKE, Op.NOT_TOPIC: Op.TOPIC}


@given(predicates, values)
def test_negative_operators_are_complements_among_present_values(
    predicate: Predicate, value: Value
) -> None:
    assume(predicate.op in COMPLEMENTS)
    positive = Predicate(predicate.attribute, COMPLEMENTS[predicate.op], predicate.operand)
    assert satisfies(predicate, value) != satisfies(positive, value)
