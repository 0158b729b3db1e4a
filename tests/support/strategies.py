"""Values, predicates and filters drawn from a small, spiteful world.

Few attributes, few literals and patterns over few characters make overlaps, borders and double
readings ('10' as text and as number) likely instead of rare.
"""

from __future__ import annotations

import math

from hypothesis import strategies as st

from gravitate.model.canonical import any_of
from gravitate.model.filters import Filter, Op, Predicate

NAMES = ("x", "y", "topic")

TEXTS = (
    *("", "a", "ab", "abc", "b", "ba", "aa", "a\0", "A", "z", "_", "%", "a%", "\\"),
    *("5", "5.0", "+5", "10", "1e1", "-5", "0", "-0", ".5", "5.", "1e999", "5x", " 5", "e5", "nan"),
    *("true", "false", "True", "inf", "$a", "$a/b", "a/b", "a/b/c", "a/", "/", "a//b", "b/a/b"),
    *("\U0010ffff", "a\U0010ffff"),
)
NUMBERS = (
    *(-math.inf, -5.0, -1.0, 0.0, 0.5, 5.0, math.nextafter(5.0, 6.0), math.nextafter(5.0, 4.0)),
    *(10.0, 1e300, math.inf),
)

texts = st.sampled_from(TEXTS) | st.text("ab5/$.-e", max_size=5)
numbers = st.sampled_from(NUMBERS) | st.floats(allow_nan=False) | st.integers(-6, 11).map(float)
literals = st.one_of(texts, numbers, st.booleans())
values = st.one_of(
    literals, st.integers(-6, 11), st.just(math.nan), st.just(10**400), st.just(2**53 + 1)
)
events = st.dictionaries(st.sampled_from(NAMES), values, max_size=3)

patterns = st.lists(
    st.sampled_from(("a", "b", "5", "/", "%", "%", "_", "\\%", "\\_", "\\\\")), max_size=6
).map("".join)
levels = st.sampled_from(("a", "b", "c", "", "$a", "+", "+"))
topic_filters = st.builds(
    lambda parts, rest: "/".join([*parts, "#"] if rest else parts),
    st.lists(levels, min_size=1, max_size=4),
    st.booleans(),
).filter(bool) | st.just("#")

_operands = {
    **dict.fromkeys((Op.EQ, Op.NE), literals),
    **dict.fromkeys((Op.LT, Op.LE, Op.GT, Op.GE), texts | numbers),
    **{op: st.lists(literals, max_size=4).map(tuple) for op in (Op.IN, Op.NOT_IN)},
    **dict.fromkeys((Op.PREFIX, Op.SUFFIX, Op.CONTAINS), texts),
    **dict.fromkeys((Op.LIKE, Op.NOT_LIKE), patterns),
    **dict.fromkeys((Op.TOPIC, Op.NOT_TOPIC), topic_filters),
    **{op: st.none() for op in (Op.EXISTS, Op.MISSING)},
}


def predicates_on(names: st.SearchStrategy[str]) -> st.SearchStrategy[Predicate]:
    """Predicates of every operator with operands that fit."""
    return st.sampled_from(list(Op)).flatmap(
        lambda op: st.builds(Predicate, names, st.just(op), _operands[op])
    )


predicates = predicates_on(st.sampled_from(NAMES))
conjunctions = st.lists(predicates, max_size=4)
raw_filters = st.lists(conjunctions, max_size=3).map(
    lambda found: Filter(tuple(tuple(conjunction) for conjunction in found))
)
filters = st.lists(conjunctions, max_size=3).map(any_of)
single_attribute_filters = st.lists(
    st.lists(predicates_on(st.just("x")), min_size=1, max_size=3), min_size=1, max_size=2
).map(any_of)
