"""Text patterns as LIKE writes them: literals, `_` for one character, `%` for any run.

A *glob* is a normalised sequence of symbols: one-character literals, `ONE` and `MANY`, where a
run of wildcards is written as its ONEs followed by at most one MANY. Prefix, suffix, contains
and LIKE are all globs. `glob_covers` is sound, reflexive and transitive but not complete: it
maps symbols to symbols, which keeps it quadratic and is what `covering` needs to be an order.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Final

from gravitate.errors import FilterError
from gravitate.model.filters import Op

Glob = tuple[str, ...]

ONE: Final = "one"
MANY: Final = "many"
ESCAPE: Final = "\\"
"""The escape in the operand of a LIKE predicate, whatever escape the condition was written with."""

_OVERLAP_CELLS_MAX: Final = 1 << 14
"""Past this size two globs are said to overlap rather than compared."""


def normalised(symbols: Iterable[str]) -> Glob:
    """The glob of these symbols; runs of wildcards take their normal form."""
    glob: list[str] = []
    many = False
    for symbol in symbols:
        if symbol == MANY:
            many = True
            continue
        if symbol != ONE and many:
            glob.append(MANY)
            many = False
        glob.append(symbol)
    if many:
        glob.append(MANY)
    return tuple(glob)


def like_glob(pattern: str, escape: str = ESCAPE) -> Glob:
    """The glob of a LIKE pattern; an empty `escape` means that there is none."""
    symbols: list[str] = []
    escaped = False
    for column, character in enumerate(pattern, 1):
        if escaped:
            if character not in ("%", "_", escape):
                raise FilterError(
                    f"expected %, _ or {escape} after the escape {escape}, found {character!r}",
                    pattern,
                    column,
                )
            symbols.append(character)
            escaped = False
        elif escape and character == escape:
            escaped = True
        else:
            symbols.append({"%": MANY, "_": ONE}.get(character, character))
    if escaped:
        raise FilterError(f"the pattern ends with its escape {escape}", pattern, len(pattern))
    return normalised(symbols)


def escaped_literal(literal: str) -> str:
    """The LIKE pattern that matches just this text."""
    return "".join(ESCAPE + c if c in ("%", "_", ESCAPE) else c for c in literal)


def glob_like(glob: Glob) -> str:
    """The LIKE pattern of a glob, with the backslash as escape."""
    return "".join({MANY: "%", ONE: "_"}.get(s) or escaped_literal(s) for s in glob)


def text_glob(op: Op, operand: str) -> Glob:
    """The glob of a PREFIX, SUFFIX, CONTAINS or LIKE predicate."""
    if op is Op.PREFIX:
        return (*operand, MANY)
    if op is Op.SUFFIX:
        return (MANY, *operand)
    if op is Op.CONTAINS:
        return normalised((MANY, *operand, MANY))
    return like_glob(operand)


def classified(glob: Glob) -> tuple[Op, str]:
    """The simplest operator that means this glob, and its operand."""
    wildcards = [i for i, symbol in enumerate(glob) if len(symbol) > 1]
    last = len(glob) - 1
    if not wildcards:
        return Op.EQ, "".join(glob)
    if ONE not in glob:
        if wildcards == [last]:
            return Op.PREFIX, "".join(glob[:-1])
        if wildcards == [0]:
            return Op.SUFFIX, "".join(glob[1:])
        if wildcards == [0, last]:
            return Op.CONTAINS, "".join(glob[1:-1])
    return Op.LIKE, glob_like(glob)


def literal_prefix(glob: Glob) -> str:
    """The text that everything matching the glob starts with."""
    for index, symbol in enumerate(glob):
        if len(symbol) > 1:
            return "".join(glob[:index])
    return "".join(glob)


def glob_matcher(glob: Glob) -> Callable[[str], bool]:
    """A test of texts, in time proportional to text times pattern whatever the pattern."""
    segments: list[list[str]] = [[]]
    for symbol in glob:
        if symbol == MANY:
            segments.append([])
        else:
            segments[-1].append("." if symbol == ONE else re.escape(symbol))
    first, *rest = ("".join(segment) for segment in segments)
    # The leftmost place of a middle segment is always the best one, so no backtracking into it.
    middle = "".join(f"(?>.*?{segment})" for segment in rest[:-1])
    last = f".*{rest[-1]}" if rest else ""
    fullmatch = re.compile(first + middle + last, re.DOTALL).fullmatch
    return lambda text: fullmatch(text) is not None


def glob_covers(wide: Glob, narrow: Glob) -> bool:
    """Whether `wide` matches the symbols of `narrow`, hence every text that `narrow` matches."""
    w = n = 0
    retry_w, retry_n = -1, 0
    while n < len(narrow):
        if w < len(wide) and wide[w] == MANY:
            retry_w, retry_n = w, n
            w += 1
        elif w < len(wide) and (wide[w] == narrow[n] or (wide[w] == ONE and narrow[n] != MANY)):
            w += 1
            n += 1
        elif retry_w >= 0:
            retry_n += 1
            w, n = retry_w + 1, retry_n
        else:
            return False
    return all(symbol == MANY for symbol in wide[w:])


def globs_overlap(p: Glob, q: Glob) -> bool:
    """Whether some text matches both; exact, except that very long pairs are said to overlap."""
    if len(p) * len(q) > _OVERLAP_CELLS_MAX:
        return True
    row = [True]
    for symbol in q:
        row.append(row[-1] and symbol == MANY)
    for p_symbol in p:
        above = row
        row = [above[0] and p_symbol == MANY]
        for j, q_symbol in enumerate(q):
            if p_symbol == MANY or q_symbol == MANY:
                row.append(above[j + 1] or row[j])
            else:
                row.append(above[j] and (p_symbol == q_symbol or ONE in (p_symbol, q_symbol)))
    return row[-1]
