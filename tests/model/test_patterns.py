"""LIKE patterns: matching, covering and overlap, against plain recursion on short texts."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from tests.support.strategies import patterns, texts

from gravitate.errors import FilterError
from gravitate.model.filters import Op
from gravitate.model.patterns import (
    MANY,
    ONE,
    Glob,
    classified,
    glob_covers,
    glob_like,
    glob_matcher,
    globs_overlap,
    like_glob,
    literal_prefix,
    text_glob,
)

SHORT_TEXTS = ["".join(t) for size in range(6) for t in itertools.product("abz", repeat=size)]
GLOBS = sorted(
    {
        like_glob("".join(symbols))
        for size in range(5)
        for symbols in itertools.product("a%_b", repeat=size)
    }
)
MATCHED = {glob: frozenset(filter(glob_matcher(glob), SHORT_TEXTS)) for glob in GLOBS}


def plainly_matches(glob: Glob, text: str) -> bool:
    if not glob:
        return not text
    if glob[0] == MANY:
        return any(plainly_matches(glob[1:], text[i:]) for i in range(len(text) + 1))
    return bool(text) and glob[0] in (ONE, text[0]) and plainly_matches(glob[1:], text[1:])


@given(patterns, texts)
def test_matching_is_what_plain_recursion_says(pattern: str, text: str) -> None:
    glob = like_glob(pattern)
    assert glob_matcher(glob)(text) == plainly_matches(glob, text)


def test_many_wildcards_do_not_explode() -> None:
    assert not glob_matcher(like_glob("%a" * 30 + "b"))("a" * 3000)


@given(patterns)
def test_a_glob_is_written_as_the_pattern_that_reads_as_it(pattern: str) -> None:
    glob = like_glob(pattern)
    assert like_glob(glob_like(glob)) == glob
    op, operand = classified(glob)
    assert op is Op.EQ or text_glob(op, operand) == glob


@pytest.mark.parametrize(
    ("pattern", "op", "operand"),
    [
        ("ab", Op.EQ, "ab"),
        ("", Op.EQ, ""),
        ("ab%", Op.PREFIX, "ab"),
        ("%ab", Op.SUFFIX, "ab"),
        ("%ab%", Op.CONTAINS, "ab"),
        ("%", Op.PREFIX, ""),
        ("%%", Op.PREFIX, ""),
        ("a%b", Op.LIKE, "a%b"),
        ("a%_%", Op.LIKE, "a_%"),
        ("a\\%", Op.EQ, "a%"),
        ("a\\_%", Op.PREFIX, "a_"),
        ("a\\\\%", Op.PREFIX, "a\\"),
    ],
)
def test_patterns_become_the_simplest_operator(pattern: str, op: Op, operand: str) -> None:
    assert classified(like_glob(pattern)) == (op, operand)


@pytest.mark.parametrize(("pattern", "column"), [("a\\b", 3), ("ab\\", 3)])
def test_a_stray_escape_is_refused(pattern: str, column: int) -> None:
    with pytest.raises(FilterError) as raised:
        like_glob(pattern)
    assert raised.value.column == column


def test_covering_is_sound_and_finds_most() -> None:
    included = found = 0
    for wide, narrow in itertools.product(GLOBS[::2], GLOBS[1::2]):
        really = MATCHED[narrow] <= MATCHED[wide]
        said = glob_covers(wide, narrow)
        assert really or not said, (wide, narrow)
        included += really
        found += said
    assert found > 0.9 * included


def test_covering_is_reflexive_and_transitive() -> None:
    above = {glob: {wide for wide in GLOBS if glob_covers(wide, glob)} for glob in GLOBS}
    for glob, wides in above.items():
        assert glob in wides
        assert all(above[wide] <= wides for wide in wides)


def test_overlap_is_exact() -> None:
    for p, q in itertools.combinations_with_replacement(GLOBS[::2], 2):
        shared = any(plainly_matches(q, text) for text in MATCHED[p])
        if shared or len(p) + len(q) <= 5:
            assert globs_overlap(p, q) == globs_overlap(q, p) == shared, (p, q)


def test_a_literal_prefix_ends_at_the_first_wildcard() -> None:
    assert literal_prefix(like_glob("ab%c")) == "ab"
    assert literal_prefix(like_glob("_b")) == ""
    assert literal_prefix(like_glob("abc")) == "abc"


def test_overlap_is_exact_for_long_patterns_too() -> None:
    long = "ab" * 300
    assert not globs_overlap(like_glob(f"%{long}x"), like_glob(f"%{long}y"))
    assert globs_overlap(like_glob(f"%{long}x%"), like_glob(f"{long}%y"))
    assert globs_overlap(like_glob(f"%{long}_"), like_glob("_" * 601))
    assert not globs_overlap(like_glob(f"%{long}_"), like_glob("_" * 600))
