"""Pools of filters on one attribute, drawn by a seeded generator: many at once, compared all
with all, so that a broken law shows where one example in a million would."""

from __future__ import annotations

import math
import random
from collections.abc import Callable

from tests.support.strategies import NUMBERS, TEXTS

from gravitate.model.events import Value
from gravitate.model.filters import Filter, Op, Operand, Predicate, Scalar

VALUES: list[Value | None] = [*TEXTS, *NUMBERS, True, False, math.nan, None]

_PATTERN_SYMBOLS = ("a", "b", "5", "/", "%", "%", "%", "_", "\\%", "\\_", "\\\\")
_LEVELS = ("a", "b", "c", "", "$a", "+", "+")


def _text(rng: random.Random) -> str:
    if rng.random() < 0.5:
        return rng.choice(TEXTS)
    return "".join(rng.choices("ab5/$.-e", k=rng.randrange(5)))


def _number(rng: random.Random) -> float:
    return rng.choice(NUMBERS) if rng.random() < 0.7 else float(rng.randrange(-6, 12))


def _literal(rng: random.Random) -> Scalar:
    kind = rng.random()
    return _text(rng) if kind < 0.5 else _number(rng) if kind < 0.85 else kind < 0.925


def _bound(rng: random.Random) -> Scalar:
    return _text(rng) if rng.random() < 0.4 else _number(rng)


def _choice(rng: random.Random) -> tuple[Scalar, ...]:
    return tuple(_literal(rng) for _ in range(rng.randrange(4)))


def _pattern(rng: random.Random) -> str:
    return "".join(rng.choices(_PATTERN_SYMBOLS, k=rng.randrange(1, 6)))


def _topic_filter(rng: random.Random) -> str:
    levels = rng.choices(_LEVELS, k=rng.randrange(1, 5))
    return "/".join([*levels, "#"] if rng.random() < 0.4 else levels) or "#"


_OPERANDS: dict[Op, Callable[[random.Random], Operand]] = {
    **dict.fromkeys((Op.EQ, Op.NE), _literal),
    **dict.fromkeys((Op.LT, Op.LE, Op.GT, Op.GE), _bound),
    **dict.fromkeys((Op.IN, Op.NOT_IN), _choice),
    **dict.fromkeys((Op.PREFIX, Op.SUFFIX, Op.CONTAINS), _text),
    **dict.fromkeys((Op.LIKE, Op.NOT_LIKE), _pattern),
    **dict.fromkeys((Op.TOPIC, Op.NOT_TOPIC), _topic_filter),
    **dict.fromkeys((Op.EXISTS, Op.MISSING), lambda rng: None),
}


def pool_of_filters(seed: int, size: int) -> list[Filter]:
    """Filters of one conjunction of one to three predicates on `x`, as written."""
    rng = random.Random(seed)
    found = []
    for _ in range(size):
        ops = rng.choices(list(Op), k=rng.choice((1, 1, 2, 2, 3)))
        found.append(Filter((tuple(Predicate("x", op, _OPERANDS[op](rng)) for op in ops),)))
    return found


def pool_of_values(seed: int) -> list[Value | None]:
    """Values that the filters of a pool tell apart; None is a missing one."""
    rng = random.Random(seed)
    drawn = ["".join(rng.choices("abc/", k=rng.randrange(8))) for _ in range(100)]
    return [*VALUES, *(_text(rng) for _ in range(60)), *drawn]
