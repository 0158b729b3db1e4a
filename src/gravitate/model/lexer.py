"""Conditions cut into tokens; every token knows its 1-based column.

Words are names or keywords: which is decided by the parser's context, except that a bare word
that spells a keyword, in any case, is never a name. Numbers carry their sign, because the
language has no arithmetic.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from gravitate.errors import FilterError
from gravitate.model.filters import Scalar

KEYWORDS: Final = frozenset(
    (
        "AND",
        "OR",
        "NOT",
        "BETWEEN",
        "IN",
        "LIKE",
        "ESCAPE",
        "IS",
        "NULL",
        "TRUE",
        "FALSE",
        "MATCHES",
    )
)

TOKENS_MAX: Final = 20480
"""The most words, literals and signs in a condition."""

NAME: Final = r"[^\W\d]\w*"

_TOKEN: Final = re.compile(
    rf"""\s*(?:
    (?P<number>[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?(?![\w.]))
    |(?P<word>{NAME})
    |(?P<text>'(?:[^']|'')*'(?!'))
    |(?P<quoted>"(?:[^"]|"")*"(?!"))
    |(?P<sign><=|>=|<>|!=|[=<>(),.])
    |(?P<end>\Z)
    )""",
    re.VERBOSE,
)


class Token(NamedTuple):
    """`kind` is `name`, `number`, `text`, `end`, a keyword or a sign; `value` its meaning."""

    kind: str
    value: Scalar
    column: int
    spelling: str


def _no_token(text: str, position: int) -> FilterError:
    found = text[position]
    if found == "'":
        return FilterError("expected a closing ' for the text that starts", text, position + 1)
    if found == '"':
        return FilterError('expected a closing " for the name that starts', text, position + 1)
    if found in "+-.0123456789":
        return FilterError("expected a number such as 5, -0.5 or 1e6", text, position + 1)
    return FilterError(f"unexpected {found!r}", text, position + 1)


def tokens(text: str) -> list[Token]:
    """The tokens of a condition, the last of kind `end`; raises `FilterError`."""
    found: list[Token] = []
    position = 0
    while True:
        if len(found) == TOKENS_MAX:
            raise FilterError(
                f"expected at most {TOKENS_MAX} words, literals and signs", text, position + 1
            )
        match = _TOKEN.match(text, position)
        if match is None:
            raise _no_token(text, len(text) - len(text[position:].lstrip()))
        kind = match.lastgroup
        spelling = match[kind] if kind is not None else ""
        position = match.end()
        column = position - len(spelling) + 1
        if kind == "word":
            keyword = spelling.upper()
            found.append(
                Token(keyword if keyword in KEYWORDS else "name", spelling, column, spelling)
            )
        elif kind == "sign":
            found.append(Token("<>" if spelling == "!=" else spelling, spelling, column, spelling))
        elif kind == "number":
            found.append(Token("number", float(spelling), column, spelling))
        elif kind == "text":
            found.append(Token("text", spelling[1:-1].replace("''", "'"), column, spelling))
        elif kind == "quoted":
            name = spelling[1:-1].replace('""', '"')
            if not name:
                raise FilterError("expected a name between the quotes", text, column)
            found.append(Token("name", name, column, spelling))
        else:
            found.append(Token("end", "", len(text) + 1, "the end"))
            return found
