"""Filters: disjunctions of conjunctions of predicates over an event's attributes.

Owns the shape of a filter and nothing else: `language` writes and reads them, `covering`
compares them, `semantics` says which values satisfy a predicate. A filter is immutable,
hashable and canonical: predicates and conjunctions are sorted and free of repetitions, so two
filters built from the same predicates are equal whatever the order they were written in.

Invariants: `conjunctions == ()` matches nothing; `conjunctions == ((),)` matches every event.
"""

from __future__ import annotations

import enum
from typing import Final

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


class Predicate(msgspec.Struct, frozen=True, array_like=True):
    """One test on one attribute: `attribute op operand`."""

    attribute: str
    op: Op
    operand: Operand = None


Conjunction = tuple[Predicate, ...]


class Filter(msgspec.Struct, frozen=True, array_like=True):
    """A canonical disjunction of conjunctions. Build it with `any_of`, `language` or `topics`."""

    conjunctions: tuple[Conjunction, ...]


EVERYTHING: Final = Filter(((),))
NOTHING: Final = Filter(())
