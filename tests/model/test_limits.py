"""What a filter may ask for: counted, told, and the same for everybody who takes it."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from tests.support.strategies import conjunctions, filters

from gravitate.errors import FilterError
from gravitate.model import alternatives, canonical
from gravitate.model.canonical import any_of, checked, conjoin, taken
from gravitate.model.covering import covers, intersects
from gravitate.model.filters import Filter, Op, Predicate
from gravitate.model.language import (
    CONDITION_CHARACTERS_MAX,
    narrowed,
    parse,
    parse_query,
    wanted_filter,
)
from gravitate.model.lexer import TOKENS_MAX
from gravitate.model.limits import FILTER_BYTES_MAX, PREDICATES_MAX, WEIGHT_MAX
from gravitate.model.topics import topic_filter

LIKES = " OR ".join(f"x LIKE '%{i}{'ab' * 40}%{'ba' * 40}%{i}%'" for i in range(250))
TWO_TO_THE_EIGHTH = " AND ".join(f"(a{i} = 1 OR b{i} LIKE '%x%')" for i in range(8))


@pytest.fixture
def compared(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is said of one attribute, each time it is compared with what else is said of it."""
    seen: list[str] = []

    def counting(compare: Callable[..., bool]) -> Callable[..., bool]:
        def counted(a: object, b: object) -> bool:
            seen.append(compare.__name__)
            return compare(a, b)

        return counted

    for module, name in (
        (alternatives, "region_within"),
        (alternatives, "regions_overlap"),
        (canonical, "region_within"),
        (canonical, "region_meet"),
    ):
        monkeypatch.setattr(module, name, counting(getattr(module, name)))
    return seen


def test_a_condition_that_would_take_long_to_compare_is_refused_uncompared(
    compared: list[str],
) -> None:
    with pytest.raises(FilterError, match=f"weighs at most {WEIGHT_MAX}.* where it has _"):
        wanted_filter("t/x0/#", LIKES)
    matches = " OR ".join(f"x MATCHES '+/{i}/+/#'" for i in range(256))
    with pytest.raises(FilterError, match=f"weighs at most {WEIGHT_MAX}"):
        wanted_filter("t/x0/#", matches)
    unequal = " OR ".join(
        "(" + " AND ".join(f"x{i} <> {j}" for j in range(16)) + ")" for i in range(100)
    )
    with pytest.raises(FilterError, match=f"weighs at most {WEIGHT_MAX}"):
        wanted_filter("t/x0/#", unequal)
    assert compared == []


def test_what_alternatives_say_alike_is_compared_once(compared: list[str]) -> None:
    f = parse(TWO_TO_THE_EIGHTH)
    g = parse(TWO_TO_THE_EIGHTH.replace("= 1", "= 2"))
    assert len(f.conjunctions) == 256
    assert not covers(f, g)
    assert intersects(f, g)
    # 16 attributes with one thing said of each, in two filters; not 65,536 pairs.
    assert len(compared) < 100


def test_a_topic_filter_joins_a_condition_without_comparing_its_alternatives(
    compared: list[str],
) -> None:
    condition = parse(" OR ".join(f"x LIKE '%{i:02}%a'" for i in range(40)))
    assert compared
    compared.clear()
    for number in range(50):
        filter, measure = narrowed(f"t/x{number}/#?y=1", condition)
        assert len(filter.conjunctions) == 40
        assert 0 < measure.weight <= WEIGHT_MAX
    assert compared == []


def test_a_filter_of_a_broker_is_taken_without_comparing_its_alternatives(
    compared: list[str],
) -> None:
    f = wanted_filter("t/#", " OR ".join(f"x LIKE '%{i:02}%a'" for i in range(40)))
    compared.clear()
    same = Filter(f.conjunctions)
    assert taken(same) is same
    assert compared == []


@given(filters)
def test_every_filter_that_one_takes_the_others_take_as_it_is(f: Filter) -> None:
    assert taken(Filter(f.conjunctions)) == checked(f) == f


def test_a_filter_that_is_not_canonical_is_made_so_when_it_is_taken() -> None:
    low, high = Predicate("x", Op.GT, 3.0), Predicate("x", Op.GT, 5)
    assert taken(Filter(((high,), (low,)))) == any_of([[low]])
    with pytest.raises(FilterError, match="number"):
        taken(Filter(((Predicate("x", Op.LT, None),),)))


def test_what_a_broker_sends_is_held_to_the_same_bounds() -> None:
    likes = sorted(f"{i}a%b" for i in range(200))
    with pytest.raises(FilterError, match=f"weighs at most {WEIGHT_MAX}"):
        taken(Filter(tuple((Predicate("x", Op.LIKE, like),) for like in likes)))
    numbers = tuple((Predicate("x", Op.EQ, float(i)),) for i in range(257))
    with pytest.raises(FilterError, match="at most 256 alternatives"):
        taken(Filter(numbers))


@given(filters, filters)
def test_conjoining_canonical_filters_is_multiplying_them_out(f: Filter, g: Filter) -> None:
    product = any_of((*c, *d) for c in f.conjunctions for d in g.conjunctions)
    assert conjoin(f, g) == conjoin(g, f) == product


@given(conjunctions, filters)
def test_a_condition_on_other_attributes_changes_nothing_between_alternatives(
    other: list[Predicate], f: Filter
) -> None:
    renamed = any_of([[Predicate(f"other {p.attribute}", p.op, p.operand) for p in other]])
    product = any_of((*c, *d) for c in renamed.conjunctions for d in f.conjunctions)
    assert conjoin(renamed, f) == product


def test_a_filter_that_grows_too_large_when_multiplied_out_is_refused() -> None:
    where = " OR ".join(f"x = {i}" for i in range(100))
    assert len(wanted_filter("t" * 2000, where).conjunctions) == 100
    with pytest.raises(FilterError, match=f"at most {FILTER_BYTES_MAX} bytes"):
        wanted_filter("t" * 40_000, where)


def test_the_text_of_a_condition_is_bounded_before_it_is_looked_at() -> None:
    with pytest.raises(FilterError, match=f"at most {CONDITION_CHARACTERS_MAX} characters"):
        parse("x = '" + "a" * CONDITION_CHARACTERS_MAX + "'")
    with pytest.raises(FilterError, match=f"at most {TOKENS_MAX} words") as raised:
        parse("NOT " * TOKENS_MAX + "x = 1")
    assert raised.value.column > 1
    with pytest.raises(FilterError, match=f"at most {PREDICATES_MAX} comparisons"):
        parse_query("t?" + "&".join(["x=1"] * 5000))


def test_texts_that_cannot_be_encoded_are_refused() -> None:
    for condition in ("x LIKE 'a\ud801'", "x LIKE '\ud800%b'", "x = '\ud800'"):
        with pytest.raises(FilterError, match="valid Unicode"):
            parse(condition)
    with pytest.raises(FilterError, match="valid Unicode"):
        any_of([[Predicate("x", Op.PREFIX, "\ud801")]])


def test_a_long_run_of_the_last_character_is_no_burden() -> None:
    last = "a" + "\U0010ffff" * 15_000
    assert not covers(parse(f"x >= '{last}' AND x < 'b'"), topic_filter("x"))
