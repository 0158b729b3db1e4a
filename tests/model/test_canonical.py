"""The canonical form: what is dropped, what is refused, and that nothing changes meaning."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from tests.support.strategies import events, filters, raw_filters

from gravitate.errors import FilterError
from gravitate.model.canonical import (
    all_of,
    any_of,
    canonical_predicate,
    checked,
    conjoin,
)
from gravitate.model.events import Attributes
from gravitate.model.filters import EVERYTHING, NOTHING, Filter, Op, Operand, Predicate
from gravitate.model.limits import PATTERN_CHARACTERS_MAX, SAME_ATTRIBUTE_MAX
from gravitate.model.semantics import matches

GT5, GT3 = Predicate("x", Op.GT, 5.0), Predicate("x", Op.GT, 3.0)
Y1 = Predicate("y", Op.EQ, 1.0)


def test_order_and_repetition_do_not_matter() -> None:
    assert any_of([[GT5, Y1], [Y1, GT5, GT5]]) == all_of(Y1, GT5)
    assert any_of([[Y1], [GT5]]) == any_of([[GT5], [Y1]])


def test_predicates_that_follow_from_others_are_dropped() -> None:
    assert all_of(GT3, GT5) == all_of(GT5)
    assert all_of(Predicate("x", Op.EXISTS), GT5) == all_of(GT5)
    assert all_of(Predicate("x", Op.NE, "a"), Predicate("x", Op.EQ, "b")).conjunctions == (
        (Predicate("x", Op.EQ, "b"),),
    )


def test_conjunctions_that_cannot_match_are_dropped() -> None:
    assert all_of(GT5, Predicate("x", Op.LT, 3.0)) == NOTHING
    assert all_of(GT5, Predicate("x", Op.MISSING)) == NOTHING
    assert all_of(Predicate("x", Op.IN, ())) == NOTHING
    assert all_of(Predicate("x", Op.GT, math.inf)) == NOTHING
    assert all_of(Predicate("x", Op.LT, "")) == NOTHING
    assert any_of([[GT5, Predicate("x", Op.EQ, "a")], [Y1]]) == all_of(Y1)


def test_conjunctions_that_another_covers_are_dropped() -> None:
    assert any_of([[GT5], [GT3], [GT5, Y1]]) == all_of(GT3)
    assert any_of([[], [GT5]]) == EVERYTHING


def test_of_equivalent_conjunctions_the_shortest_stays() -> None:
    between = [Predicate("x", Op.GE, "a"), Predicate("x", Op.LE, "a")]
    assert any_of([between, [Predicate("x", Op.EQ, "a")]]) == all_of(Predicate("x", Op.EQ, "a"))


@pytest.mark.parametrize(
    ("op", "operand", "canonical"),
    [
        (Op.EQ, 5, Predicate("x", Op.EQ, 5.0)),
        (Op.EQ, -0.0, Predicate("x", Op.EQ, 0.0)),
        (Op.LT, 10**400, Predicate("x", Op.LT, math.inf)),
        (Op.IN, ("a",), Predicate("x", Op.EQ, "a")),
        (Op.NOT_IN, (1, 1.0), Predicate("x", Op.NE, 1.0)),
        (Op.NOT_IN, (), Predicate("x", Op.EXISTS)),
        (Op.IN, ("b", 2, True, "a", 1), Predicate("x", Op.IN, (True, 1.0, 2.0, "a", "b"))),
        (Op.LIKE, "a%", Predicate("x", Op.PREFIX, "a")),
        (Op.LIKE, "a\\%", Predicate("x", Op.EQ, "a%")),
        (Op.NOT_LIKE, "ab", Predicate("x", Op.NE, "ab")),
        (Op.NOT_LIKE, "%%a", Predicate("x", Op.NOT_LIKE, "%a")),
        (Op.SUFFIX, "", Predicate("x", Op.PREFIX, "")),
        (Op.TOPIC, "a/b", Predicate("x", Op.EQ, "a/b")),
        (Op.NOT_TOPIC, "a/b", Predicate("x", Op.NE, "a/b")),
        (Op.EXISTS, "left over", Predicate("x", Op.EXISTS)),
    ],
)
def test_predicates_take_their_simplest_form(
    op: Op, operand: Operand, canonical: Predicate
) -> None:
    assert canonical_predicate(Predicate("x", op, operand)) == canonical
    assert canonical_predicate(canonical) == canonical


@pytest.mark.parametrize(
    ("op", "operand"),
    [
        (Op.EQ, None),
        (Op.EQ, math.nan),
        (Op.EQ, (1.0,)),
        (Op.LT, True),
        (Op.IN, "ab"),
        (Op.IN, (None,)),
        (Op.PREFIX, 5.0),
        (Op.LIKE, "a\\"),
        (Op.LIKE, "a%" * PATTERN_CHARACTERS_MAX),
        (Op.TOPIC, "a/#/b"),
        (Op.TOPIC, None),
    ],
)
def test_operands_that_do_not_fit_are_refused(op: Op, operand: Any) -> None:
    with pytest.raises(FilterError):
        checked(Filter(((Predicate("x", op, operand),),)))


def test_a_name_must_not_be_empty() -> None:
    with pytest.raises(FilterError, match="name"):
        all_of(Predicate("", Op.EXISTS))


def test_very_many_predicates_on_one_attribute_are_refused() -> None:
    many = [Predicate("x", Op.NE, float(i)) for i in range(SAME_ATTRIBUTE_MAX + 1)]
    with pytest.raises(FilterError, match="NOT IN"):
        all_of(*many)
    assert all_of(*many[1:])


@given(raw_filters, events)
def test_the_canonical_form_matches_the_same_events(f: Filter, event: Attributes) -> None:
    assert matches(checked(f), event) == matches(f, event)


@given(filters)
def test_the_canonical_form_of_a_canonical_filter_is_itself(f: Filter) -> None:
    assert checked(f) == f


@given(filters, filters, events)
def test_conjoin_is_and_and_any_of_is_or(f: Filter, g: Filter, event: Attributes) -> None:
    ours, others = matches(f, event), matches(g, event)
    assert matches(conjoin(f, g), event) == (ours and others)
    assert matches(any_of(f.conjunctions + g.conjunctions), event) == (ours or others)
