"""Filters: disjunctions of conjunctions of predicates over an event's attributes.

Owns the shape of a filter and nothing else: `language` writes and reads them, `canonical`
builds them, `covering` compares them, `semantics` says which values satisfy a predicate. A
filter is immutable, hashable and canonical when built by `canonical.any_of`, `language` or
`topics`: predicates and conjunctions are sorted and free of repetitions, so two filters built
from the same predicates are equal whatever the order they were written in.

Invariants: `conjunctions == ()` matches nothing; `conjunctions == ((),)` matches every event.
"""

from __future__ import annotations

import enum
from typing import Any, Final

import msgspec

Scalar = float | str | bool
"""A literal: a number (always a double), a text or a truth value."""


class Op(str, enum.Enum):
    """What a predicate asks of a value. All are false on a missing attribute, MISSING excepted."""

    EQ = "="
    NE = "<>"
    LT = "<"
    LE = "<="
    GT = ">"
    GE = ">="
    IN = "in"
    NOT_IN = "not in"
    PREFIX = "prefix"
    SUFFIX = "suffix"
    CONTAINS = "contains"
    LIKE = "like"
    NOT_LIKE = "not like"
    TOPIC = "topic"
    NOT_TOPIC = "not topic"
    EXISTS = "exists"
    MISSING = "missing"


Operand = float | str | bool | tuple[float | str | bool, ...] | None


def literal_kinds(operand: Operand) -> tuple[type, ...]:
    """The types of an operand's literals: Python takes `True` for `1.0`, filters do not."""
    if type(operand) is tuple:
        return tuple(
            bool if literal is True or literal is False else type(literal) for literal in operand
        )
    return (type(operand),)


class Predicate(msgspec.Struct, frozen=True, array_like=True, cache_hash=True):
    """One test on one attribute: `attribute op operand`.

    The operand of LIKE and NOT_LIKE is a pattern with `%`, `_` and the backslash as escape; of
    IN and NOT_IN a tuple; of TOPIC and NOT_TOPIC an MQTT topic filter; of EXISTS and MISSING
    `None`."""

    attribute: str
    op: Op
    operand: Operand = None

    def __eq__(self, other: Any) -> bool:
        if self is other:
            return True
        return (
            isinstance(other, Predicate)
            and self.attribute == other.attribute
            and self.op is other.op
            and self.operand == other.operand
            and literal_kinds(self.operand) == literal_kinds(other.operand)
        )

    __hash__ = msgspec.Struct.__hash__


Conjunction = tuple[Predicate, ...]


class Filter(msgspec.Struct, frozen=True, array_like=True, cache_hash=True, dict=True):
    """A canonical disjunction of conjunctions.

    Its `__dict__` holds what other modules derive from it once and look up often (`covering`
    keeps its regions there); it is neither compared nor encoded."""

    conjunctions: tuple[Conjunction, ...]


EVERYTHING: Final = Filter(((),))
NOTHING: Final = Filter(())
