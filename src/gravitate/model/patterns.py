"""Text patterns as LIKE writes them: literals, `_` for one character, `%` for any run.

A *glob* is a text of symbols: literal characters, `ONE` and `MANY`, where a run of wildcards is
written as its ONEs followed by at most one MANY. The two are surrogates, which stand for no
character and are in no text that can be encoded. Prefix, suffix, contains and LIKE are all globs.
`glob_covers` is sound, reflexive and transitive but not complete: it maps symbols to symbols,
which keeps it quadratic and is what `covering` needs to be an order. Both it and `globs_overlap`
leave the steps to compiled regular expressions.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from typing import Final

from gravitate.errors import FilterError
from gravitate.model.filters import Op

Glob = str

ONE: Final = "\ud800"
MANY: Final = "\ud801"
ESCAPE: Final = "\\"
"""The escape in the operand of a LIKE predicate, whatever escape the condition was written with."""

_SHORT_TEXT: Final = 256
"""Up to this length a regular expression is the faster test, beyond it takes too many steps."""

_WILDCARD: Final = re.compile(f"[{ONE}{MANY}]")
_RUN: Final = re.compile(f"[{ONE}{MANY}]{{2,}}")
_WILDCARDS: Final = {ord("%"): MANY, ord("_"): ONE}
_SPELLINGS: Final = str.maketrans(
    {MANY: "%", ONE: "_"} | {special: ESCAPE + special for special in ("%", "_", ESCAPE)}
)


def normalised(symbols: str) -> Glob:
    """The glob of these symbols; runs of wildcards take their normal form."""
    return _RUN.sub(lambda run: ONE * run[0].count(ONE) + MANY * (MANY in run[0]), symbols)


def refuse_unwritable(pattern: str) -> None:
    """Raise `FilterError` for a text that cannot be encoded, hence met by no event."""
    if not pattern.isascii():
        try:
            pattern.encode()
        except UnicodeEncodeError as error:
            raise FilterError("a text must be valid Unicode", pattern, error.start + 1) from None


def like_glob(pattern: str, escape: str = ESCAPE) -> Glob:
    """The glob of a LIKE pattern; an empty `escape` means that there is none."""
    refuse_unwritable(pattern)
    if not escape or escape not in pattern:
        return normalised(pattern.translate(_WILDCARDS))

    def symbol(found: re.Match[str]) -> str:
        spelling = found[0]
        if spelling[0] != escape:
            return _WILDCARDS[ord(spelling)]
        if len(spelling) == 1:
            raise FilterError(f"the pattern ends with its escape {escape}", pattern, len(pattern))
        if spelling[1] not in ("%", "_", escape):
            raise FilterError(
                f"expected %, _ or {escape} after the escape {escape}, found {spelling[1]!r}",
                pattern,
                found.end(),
            )
        return spelling[1]

    return normalised(re.sub(f"{re.escape(escape)}.?|[%_]", symbol, pattern, flags=re.DOTALL))


def glob_like(glob: Glob) -> str:
    """The LIKE pattern of a glob, with the backslash as escape."""
    return glob.translate(_SPELLINGS)


def text_glob(op: Op, operand: str) -> Glob:
    """The glob of a PREFIX, SUFFIX, CONTAINS, LIKE or NOT_LIKE predicate."""
    refuse_unwritable(operand)
    if op is Op.PREFIX:
        return operand + MANY
    if op is Op.SUFFIX:
        return MANY + operand
    if op is Op.CONTAINS:
        return MANY + operand + MANY if operand else MANY
    return like_glob(operand)


def has_wildcard(glob: Glob) -> bool:
    """Whether the glob matches more than one text."""
    return _WILDCARD.search(glob) is not None


def classified(glob: Glob) -> tuple[Op, str]:
    """The simplest operator that means this glob, and its operand."""
    if not has_wildcard(glob):
        return Op.EQ, glob
    if ONE not in glob:
        match glob.split(MANY):
            case [prefix, ""]:
                return Op.PREFIX, prefix
            case ["", suffix]:
                return Op.SUFFIX, suffix
            case ["", inside, ""]:
                return Op.CONTAINS, inside
    return Op.LIKE, glob_like(glob)


def literal_prefix(glob: Glob) -> str:
    """The text that everything matching the glob starts with."""
    found = _WILDCARD.search(glob)
    return glob if found is None else glob[: found.start()]


def _expression(glob: Glob, literal: Callable[[str], str], one: str) -> re.Pattern[str]:
    """A regular expression for the glob, in time proportional to text times pattern."""
    segments = [
        "".join(one if symbol == ONE else literal(symbol) for symbol in segment)
        for segment in glob.split(MANY)
    ]
    first, *rest = segments
    # The leftmost place of a middle segment is always the best one, so no backtracking into it.
    middle = "".join(f"(?>.*?{segment})" for segment in rest[:-1])
    last = f".*{rest[-1]}" if rest else ""
    return re.compile(first + middle + last, re.DOTALL)


def _in_order(glob: Glob) -> Callable[[str], bool]:
    """A test of texts for a glob with a MANY and no ONE, in time proportional to the text."""
    first, *middle, last = glob.split(MANY)

    def pieces_follow(text: str) -> bool:
        at, end = len(first), len(text) - len(last)
        for piece, size in sized:
            at = text.find(piece, at, end)
            if at < 0:
                return False
            at += size
        return at <= end and text.startswith(first) and text.endswith(last)

    sized = [(piece, len(piece)) for piece in middle]
    return pieces_follow


@functools.lru_cache(maxsize=1024)
def glob_matcher(glob: Glob) -> Callable[[str], bool]:
    """A test of texts."""
    if not has_wildcard(glob):
        return glob.__eq__
    fullmatch = _expression(glob, re.escape, ".").fullmatch
    if ONE in glob:
        return lambda text: fullmatch(text) is not None
    in_order = _in_order(glob)
    return lambda text: fullmatch(text) is not None if len(text) <= _SHORT_TEXT else in_order(text)


@functools.lru_cache(maxsize=1024)
def _covers(wide: Glob) -> Callable[[Glob], bool]:
    if not has_wildcard(wide):
        return wide.__eq__
    if ONE not in wide:
        return _in_order(wide)
    fullmatch = _expression(wide, re.escape, f"[^{MANY}]").fullmatch
    return lambda narrow: fullmatch(narrow) is not None


def glob_covers(wide: Glob, narrow: Glob) -> bool:
    """Whether `wide` matches the symbols of `narrow`, hence every text that `narrow` matches."""
    return _covers(wide)(narrow)


@functools.lru_cache(maxsize=1024)
def _meets(glob: Glob) -> Callable[[Glob], re.Match[str] | None]:
    return _expression(glob, lambda symbol: f"[{re.escape(symbol)}{ONE}]", ".").fullmatch


def globs_overlap(p: Glob, q: Glob) -> bool:
    """Whether some text matches both; exact."""
    p_first, p_many, p_rest = p.partition(MANY)
    q_first, q_many, q_rest = q.partition(MANY)
    if p_many and q_many:
        # What stands between wildcards can follow one another: only the ends may contradict.
        p_last, q_last = p_rest.rpartition(MANY)[2], q_rest.rpartition(MANY)[2]
        return _compatible(p_first, q_first) and _compatible(p_last[::-1], q_last[::-1])
    if p_many:
        return _meets(p)(q) is not None
    if q_many:
        return _meets(q)(p) is not None
    return len(p) == len(q) and _compatible(p, q)


def _compatible(p: Glob, q: Glob) -> bool:
    """Whether texts may begin with both, neither of which has a MANY."""
    if ONE in p or ONE in q:
        return all(a == b or ONE in (a, b) for a, b in zip(p, q, strict=False))
    return p.startswith(q) or q.startswith(p)
