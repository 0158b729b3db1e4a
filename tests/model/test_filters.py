"""Filters as values: equality, hashing and their encoding."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from tests.support.strategies import filters

from gravitate.model.covering import covers
from gravitate.model.filters import EVERYTHING, NOTHING, Filter, Op, Predicate


def test_a_truth_value_is_not_the_number_that_python_takes_it_for() -> None:
    assert Predicate("x", Op.EQ, True) != Predicate("x", Op.EQ, 1.0)
    assert Predicate("x", Op.IN, (False, "a")) != Predicate("x", Op.IN, (0.0, "a"))
    assert len({Predicate("x", Op.EQ, True), Predicate("x", Op.EQ, 1.0)}) == 2
    assert Filter(((Predicate("x", Op.EQ, False),),)) != Filter(((Predicate("x", Op.EQ, 0.0),),))


def test_equal_predicates_are_equal_whoever_made_them() -> None:
    assert Predicate("x", Op.IN, (1.0, "a")) == Predicate("x", Op("in"), (1.0, "a"))
    assert hash(Predicate("x", Op.EQ, "a")) == hash(Predicate("x", Op.EQ, "a"))
    assert Predicate("x", Op.EQ, "a") != "x = 'a'"


@given(filters)
def test_encoding_returns_the_same_filter_with_the_same_types(f: Filter) -> None:
    decoded = msgspec.msgpack.decode(msgspec.msgpack.encode(f), type=Filter)
    assert decoded == f
    assert hash(decoded) == hash(f)


def test_what_is_kept_with_a_filter_is_neither_encoded_nor_compared() -> None:
    f, g = (Filter(((Predicate("x", Op.GT, 5.0),),)) for _ in range(2))
    assert covers(EVERYTHING, f)
    assert f.__dict__
    assert f == g
    assert msgspec.msgpack.encode(f) == msgspec.msgpack.encode(g)


def test_an_unknown_operator_does_not_decode() -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(b'[[["x", "almost", 5]]]', type=Filter)


def test_everything_and_nothing_differ() -> None:
    assert EVERYTHING.conjunctions == ((),)
    assert NOTHING.conjunctions == ()
