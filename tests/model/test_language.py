"""Conditions: what they mean, how they are written back, and where errors point."""

from __future__ import annotations

import math

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from tests.support.strategies import filters, texts

from gravitate.errors import FilterError
from gravitate.model.canonical import all_of, any_of
from gravitate.model.events import Attributes
from gravitate.model.filters import EVERYTHING, NOTHING, Filter, Op, Operand, Predicate
from gravitate.model.language import DEPTH_MAX, parse, parse_query, render
from gravitate.model.lexer import KEYWORDS
from gravitate.model.limits import CONJUNCTIONS_MAX
from gravitate.model.semantics import matches


def one(attribute: str, op: Op, operand: Operand = None) -> Filter:
    return Filter(((Predicate(attribute, op, operand),),))


@pytest.mark.parametrize(
    ("text", "op", "operand"),
    [
        ("x = 5", Op.EQ, 5.0),
        ("x = 'it''s'", Op.EQ, "it's"),
        ("x = true", Op.EQ, True),
        ("x <> 5", Op.NE, 5.0),
        ("x != 5", Op.NE, 5.0),
        ("x<-.5", Op.LT, -0.5),
        ("x <= +1e3", Op.LE, 1000.0),
        ("x > 'a'", Op.GT, "a"),
        ("x >= 5.", Op.GE, 5.0),
        ("5 < x", Op.GT, 5.0),
        ("'a' = x", Op.EQ, "a"),
        ("x IN (1, 'a', FALSE)", Op.IN, (False, 1.0, "a")),
        ("x NOT IN (1, 2)", Op.NOT_IN, (1.0, 2.0)),
        ("x in ('a')", Op.EQ, "a"),
        ("x LIKE 'ab'", Op.EQ, "ab"),
        ("x LIKE 'ab%'", Op.PREFIX, "ab"),
        ("x LIKE '%ab'", Op.SUFFIX, "ab"),
        ("x LIKE '%ab%'", Op.CONTAINS, "ab"),
        ("x LIKE 'a_b%'", Op.LIKE, "a_b%"),
        ("x LIKE '100!%' ESCAPE '!'", Op.EQ, "100%"),
        ("x LIKE '!_%' ESCAPE '!'", Op.PREFIX, "_"),
        ("x LIKE 'a\\b%'", Op.PREFIX, "a\\b"),
        ("x NOT LIKE 'a%'", Op.NOT_LIKE, "a%"),
        ("x NOT LIKE 'a'", Op.NE, "a"),
        ("x IS NULL", Op.MISSING, None),
        ("x IS NOT NULL", Op.EXISTS, None),
        ("x MATCHES 'a/+/#'", Op.TOPIC, "a/+/#"),
        ("x NOT MATCHES 'a/#'", Op.NOT_TOPIC, "a/#"),
        ("x MATCHES 'a/b'", Op.EQ, "a/b"),
        ("NOT x > 5", Op.LE, 5.0),
        ("NOT (x = 5)", Op.NE, 5.0),
        ("NOT x <> 5", Op.EQ, 5.0),
        ("NOT NOT x < 5", Op.LT, 5.0),
        ("NOT x IN (1, 2)", Op.NOT_IN, (1.0, 2.0)),
        ("NOT x NOT IN (1, 2)", Op.IN, (1.0, 2.0)),
        ("NOT x LIKE 'a%'", Op.NOT_LIKE, "a%"),
        ("NOT x NOT LIKE 'a%'", Op.PREFIX, "a"),
        ("NOT x IS NULL", Op.EXISTS, None),
        ("NOT x IS NOT NULL", Op.MISSING, None),
        ("NOT x MATCHES '#'", Op.NOT_TOPIC, "#"),
    ],
)
def test_predicates(text: str, op: Op, operand: Operand) -> None:
    assert parse(text) == one("x", op, operand)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("payload.x.y = 1", "payload.x.y"),
        ('"openClose%Diff" = 1', "openClose%Diff"),
        ('"say ""hi""" = 1', 'say "hi"'),
        ('payload."odd name" = 1', "payload.odd name"),
        ("payload.in = 1", "payload.in"),
        ('"and" = 1', "and"),
        ("größe = 1", "größe"),
        ("_x9 = 1", "_x9"),
    ],
)
def test_names(text: str, name: str) -> None:
    assert parse(text) == one(name, Op.EQ, 1.0)


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("x = 1 AND y = 2 OR z = 3", "(x = 1 AND y = 2) OR z = 3"),
        ("x = 1 and (y = 2 or z = 3)", "x = 1 AND y = 2 OR x = 1 AND z = 3"),
        ("NOT (x = 1 AND y > 2)", "x <> 1 OR y <= 2"),
        ("NOT (x = 1 OR y > 2)", "x <> 1 AND y <= 2"),
        ("NOT x = 1 AND y = 2", "(x <> 1) AND y = 2"),
        ("x BETWEEN 1 AND 5 AND y = 2", "x >= 1 AND x <= 5 AND y = 2"),
        ("x NOT BETWEEN 1 AND 5", "x < 1 OR x > 5"),
        ("NOT x BETWEEN 'a' AND 'b'", "x < 'a' OR x > 'b'"),
        ("NOT x NOT BETWEEN 1 AND 5", "x BETWEEN 1 AND 5"),
        ("x = 1 AND TRUE", "x = 1"),
        ("x = 1 OR TRUE", "TRUE"),
        ("x = 1 AND FALSE", "FALSE"),
        ("NOT TRUE", "FALSE"),
        ("x > 5 AND x < 3", "FALSE"),
        ("\tx\n=\r\n1  ", "x=1"),
    ],
)
def test_conditions_that_mean_the_same(text: str, same: str) -> None:
    assert parse(text) == parse(same)


def test_literals_that_mean_everything_and_nothing() -> None:
    assert parse("TRUE") == EVERYTHING
    assert parse("false") == NOTHING
    assert render(EVERYTHING) == "TRUE"
    assert render(NOTHING) == "FALSE"
    assert parse("TRUE = x") == one("x", Op.EQ, True)


@pytest.mark.parametrize(
    ("text", "column", "words"),
    [
        ("", 1, "expected a name"),
        ("x", 2, "expected a comparison"),
        ("x >", 4, "expected a number, a text"),
        ("x > AND", 5, "found AND"),
        ("x > 5 y", 7, "expected AND, OR or the end"),
        ("(x = 1", 7, r"AND, OR or \)"),
        ("x = 1)", 6, "the end"),
        ("x = 'abc", 5, "closing '"),
        ('"abc = 5', 1, 'closing "'),
        ('"" = 5', 1, "a name between"),
        ("x = 5a", 5, "a number such as"),
        ("x = 1.2.3", 5, "a number such as"),
        ("x # 5", 3, "unexpected '#'"),
        ("x = y", 5, "found y"),
        ("5 5", 3, "expected = <>"),
        ("5 = 5", 5, "expected a name"),
        ("and = 5", 1, "expected a name"),
        ("payload. = 5", 10, "after the point"),
        ("x IS 5", 6, "NULL or NOT NULL"),
        ("x IS NOT 5", 10, "NULL"),
        ("x BETWEEN 1 OR 2", 13, "AND and the upper end"),
        ("x IN 5", 6, r"\("),
        ("x IN ()", 7, "a number"),
        ("x IN (1 2)", 9, r", or \)"),
        ("x LIKE 5", 8, "pattern"),
        ("x LIKE 'a' ESCAPE 'ab'", 19, "one character"),
        ("x LIKE 'a' ESCAPE '%'", 19, "other than %"),
        ("x LIKE 'ab!c' ESCAPE '!'", 12, "after the escape"),
        ("x LIKE 'ab!' ESCAPE '!'", 11, "ends with its escape"),
        ("topic MATCHES 'a/b#'", 19, "alone"),
        ("topic MATCHES 'it''s#'", 21, "alone"),
        ("topic MATCHES ''", 16, "empty"),
        ("x < TRUE", 5, "no order"),
        ("TRUE > x", 1, "no order"),
        ("x NOT = 5", 7, "expected a comparison"),
    ],
)
def test_errors_point_at_the_column(text: str, column: int, words: str) -> None:
    with pytest.raises(FilterError, match=words) as raised:
        parse(text)
    assert raised.value.column == column
    assert raised.value.text == text
    assert raised.value.pointed().startswith(text)


def test_a_condition_that_multiplies_out_too_far_is_refused() -> None:
    pairs = [f"(a{i} = 1 OR b{i} = 1)" for i in range(9)]
    assert len(parse(" AND ".join(pairs[:8])).conjunctions) == CONJUNCTIONS_MAX
    with pytest.raises(FilterError, match="multiplied out"):
        parse(" AND ".join(pairs))
    with pytest.raises(FilterError, match="multiplied out"):
        parse("NOT (" + " OR ".join(p.replace("OR", "AND") for p in pairs) + ")")


def test_nesting_is_bounded() -> None:
    assert parse("(" * DEPTH_MAX + "x = 1" + ")" * DEPTH_MAX) == one("x", Op.EQ, 1.0)
    with pytest.raises(FilterError, match="nested"):
        parse("(" * 10000 + "x = 1" + ")" * 10000)
    assert parse("NOT " * 10000 + "x = 1") == one("x", Op.EQ, 1.0)


@given(filters)
def test_a_rendered_filter_parses_to_itself(f: Filter) -> None:
    assert parse(render(f)) == f


@given(st.text(min_size=1), texts | st.text() | st.floats(allow_nan=False) | st.booleans())
def test_any_name_and_literal_can_be_written(name: str, literal: float | str | bool) -> None:
    f = all_of(Predicate(name, Op.EQ, literal))
    assert parse(render(f)) == f


@pytest.mark.parametrize("number", [0.1, 1e22, 5e-324, 1.7976931348623157e308, math.inf, -math.inf])
def test_numbers_are_written_without_loss(number: float) -> None:
    f = one("x", Op.LE, number)
    assert parse(render(f)) == f


words = st.sampled_from(
    [
        *sorted(KEYWORDS),
        "x",
        "y.z",
        '"q"',
        "'a%'",
        "'+'",
        "5",
        "-1",
        "(",
        ")",
        ",",
        "=",
        "<",
        ".",
        "%",
    ]
)


@given(st.lists(words, max_size=12).map(" ".join) | st.text() | st.text("x='\"()<>%_.,5 \\"))
def test_the_parser_raises_nothing_but_filter_errors(text: str) -> None:
    try:
        f = parse(text)
    except FilterError as error:
        column = error.column
    else:
        assert parse(render(f)) == f
        column = 1
    assert 1 <= column <= len(text) + 1


comparable_conditions = st.recursive(
    st.builds(
        lambda name, sign, number: f"{name} {sign} {number}",
        st.sampled_from(("x", "y")),
        st.sampled_from(("=", "<>", "<", "<=", ">", ">=")),
        st.integers(0, 3),
    )
    | st.sampled_from(("x IN (1, 2)", "y NOT IN (0, 3)", "x BETWEEN 1 AND 2", "y IS NULL")),
    lambda inner: (
        st.builds("NOT ({})".format, inner)
        | st.builds("({}) AND ({})".format, inner, inner)
        | st.builds("({}) OR ({})".format, inner, inner)
    ),
    max_leaves=6,
)


@given(comparable_conditions, st.integers(0, 3), st.integers(0, 3).map(str))
def test_not_is_the_complement_where_everything_is_present_and_comparable(
    condition: str, x: int, y: str
) -> None:
    event: Attributes = {"x": x, "y": y}
    assert matches(parse(f"NOT ({condition})"), event) != matches(parse(condition), event)


@given(comparable_conditions)
def test_neither_a_comparison_nor_its_negation_holds_for_a_missing_attribute(
    condition: str,
) -> None:
    assume("NULL" not in condition)
    assert not matches(parse(condition), {})
    assert not matches(parse(f"NOT ({condition})"), {})


@pytest.mark.parametrize(
    ("text", "topic", "condition"),
    [
        ("a/+", "a/+", "TRUE"),
        ("a/#?k=v", "a/#", "k = 'v'"),
        ("a?k=v&n>5", "a", "k = 'v' AND n > 5"),
        ("a?n>=-1.5&n<=2e3", "a", "n BETWEEN -1.5 AND 2000"),
        ("a?k<>v&m!=2", "a", "k <> 'v' AND m <> 2"),
        ("a?k=10", "a", "k = 10"),
        ("a?k='10'", "a", "k = '10'"),
        ("a?k=true", "a", "k = TRUE"),
        ("a?k=", "a", "k = ''"),
        ("a?k%26x=a%26b", "a", "\"k&x\" = 'a&b'"),
        ("a?k=a=b", "a", "k = 'a=b'"),
        ("a?payload.x<5", "a", "payload.x < 5"),
    ],
)
def test_queries(text: str, topic: str, condition: str) -> None:
    assert parse_query(text) == (topic, parse(condition))


@pytest.mark.parametrize(
    ("text", "column"),
    [
        ("?k=v", 1),
        ("a/#/b?k=v", 3),
        ("a?", 3),
        ("a?k", 3),
        ("a?k=1&&n=2", 7),
        ("a?=5", 3),
        ("a?k<true", 3),
    ],
)
def test_bad_queries_point_at_the_column(text: str, column: int) -> None:
    with pytest.raises(FilterError) as raised:
        parse_query(text)
    assert raised.value.column == column


@given(st.text("ab/+#?=<>!&%2'5.", max_size=12))
def test_queries_raise_nothing_but_filter_errors(text: str) -> None:
    try:
        topic, f = parse_query(text)
    except FilterError:
        return
    assert topic == text.partition("?")[0]
    assert parse(render(f)) == f


def test_alternatives_are_written_in_one_order() -> None:
    f = any_of(
        [[Predicate("y", Op.EQ, "b")], [Predicate("x", Op.GT, 5.0), Predicate("a", Op.EXISTS)]]
    )
    assert render(f) == "a IS NOT NULL AND x > 5 OR y = 'b'"
