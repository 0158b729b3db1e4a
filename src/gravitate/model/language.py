"""SQL-style conditions: text to filter and back.

    symbol = 'YHOO' AND (volume > 1000000 OR NOT "openClose%Diff" BETWEEN -1 AND 1)

Keywords are case-insensitive; names are case-sensitive, dotted (`payload.x.y`) or quoted. NOT
is pushed into the predicates while parsing: `NOT x > 5` is `x <= 5`, so it too is false when x
is missing or not comparable. AND over OR is multiplied out, within bounds. `topic MATCHES
'a/+/#'` is the MQTT wildcard match, so that every filter can be written.

`parse(render(f)) == f` for every canonical filter. Both raise nothing but `FilterError`.
"""

from __future__ import annotations

import math
import re
from typing import Final, cast
from urllib.parse import unquote

from gravitate.errors import FilterError
from gravitate.model.canonical import (
    any_of,
    canonical_predicate,
    conjoin,
    measured_any_of,
    measured_conjoin,
)
from gravitate.model.filters import EVERYTHING, Conjunction, Filter, Op, Operand, Predicate, Scalar
from gravitate.model.lexer import KEYWORDS, NAME, Token, tokens
from gravitate.model.limits import FILTER_BYTES_MAX, PREDICATES_MAX, Measure, refuse_many
from gravitate.model.patterns import ESCAPE, classified, glob_like, like_glob, text_glob
from gravitate.model.semantics import TRUTH_TEXTS, text_number
from gravitate.model.topics import topic_filter, topic_pattern

CONDITION_CHARACTERS_MAX: Final = 2 * FILTER_BYTES_MAX
"""The longest condition; every filter can be written within it."""
DEPTH_MAX: Final = 64
"""How deep parentheses and NOTs may nest."""

_NEGATIONS: Final = {
    Op.EQ: Op.NE,
    Op.LT: Op.GE,
    Op.LE: Op.GT,
    Op.IN: Op.NOT_IN,
    Op.LIKE: Op.NOT_LIKE,
    Op.TOPIC: Op.NOT_TOPIC,
    Op.EXISTS: Op.MISSING,
}
_NEGATIONS.update({negative: positive for positive, negative in _NEGATIONS.items()})
_MIRRORED: Final = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "=", "<>": "<>"}
_COMPARISONS: Final = frozenset(_MIRRORED)
_LITERALS: Final = frozenset(("number", "text", "TRUE", "FALSE"))

Disjunction = list[Conjunction]


def negated(predicate: Predicate) -> Predicate:
    """The predicate that holds where this one does not, among present comparable values."""
    op, operand = predicate.op, predicate.operand
    if op in (Op.PREFIX, Op.SUFFIX, Op.CONTAINS):
        pattern = glob_like(text_glob(op, cast(str, operand)))
        return Predicate(predicate.attribute, Op.NOT_LIKE, pattern)
    opposite = Predicate(predicate.attribute, _NEGATIONS[op], operand)
    return canonical_predicate(opposite) if op is Op.NOT_LIKE else opposite


class _Parser:
    """Recursive descent; `negate` tells whether an odd number of NOTs is above."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = tokens(text)
        self.index = 0
        self.depth = 0

    def condition(self) -> Disjunction:
        found = self.either(False)
        if self.tokens[self.index].kind != "end":
            raise self.unexpected("AND, OR or the end")
        return found

    def unexpected(self, expected: str) -> FilterError:
        token = self.tokens[self.index]
        found = token.spelling if len(token.spelling) <= 40 else token.spelling[:40] + "..."
        return FilterError(f"expected {expected}, found {found}", self.text, token.column)

    def inside(self, token: Token, error: FilterError) -> FilterError:
        """An error in a text literal as an error in the condition; quotes there are doubled."""
        quotes = cast(str, token.value)[: max(error.column - 1, 0)].count("'")
        return FilterError(_sentence(error), self.text, token.column + error.column + quotes)

    def take(self, kind: str, expected: str) -> Token:
        token = self.tokens[self.index]
        if token.kind != kind:
            raise self.unexpected(expected)
        self.index += 1
        return token

    def accept(self, kind: str) -> bool:
        if self.tokens[self.index].kind != kind:
            return False
        self.index += 1
        return True

    def either(self, negate: bool) -> Disjunction:
        found = self.both(negate)
        while self.tokens[self.index].kind == "OR":
            column = self.tokens[self.index].column
            self.index += 1
            found = self.combined(found, self.both(negate), multiply=negate, column=column)
        return found

    def both(self, negate: bool) -> Disjunction:
        found = self.inverted(negate)
        while self.tokens[self.index].kind == "AND":
            column = self.tokens[self.index].column
            self.index += 1
            found = self.combined(found, self.inverted(negate), multiply=not negate, column=column)
        return found

    def combined(
        self, left: Disjunction, right: Disjunction, *, multiply: bool, column: int
    ) -> Disjunction:
        mine, others = sum(map(len, left)), sum(map(len, right))
        try:
            if multiply:
                refuse_many(len(left) * len(right), mine * len(right) + others * len(left))
            else:
                refuse_many(len(left) + len(right), mine + others)
        except FilterError as error:
            raise FilterError(str(error), self.text, column) from None
        return [(*c, *d) for c in left for d in right] if multiply else left + right

    def inverted(self, negate: bool) -> Disjunction:
        nots = 0
        while self.accept("NOT"):
            nots += 1
        negate ^= nots % 2 == 1
        if self.tokens[self.index].kind != "(":
            return self.predicate(negate)
        self.depth += 1
        if self.depth > DEPTH_MAX:
            raise self.unexpected(f"at most {DEPTH_MAX} nested parentheses")
        self.index += 1
        found = self.either(negate)
        self.take(")", "AND, OR or )")
        self.depth -= 1
        return found

    def predicate(self, negate: bool) -> Disjunction:
        token = self.tokens[self.index]
        if token.kind in _LITERALS:
            following = self.tokens[self.index + 1].kind
            if token.kind in ("TRUE", "FALSE") and following not in _COMPARISONS:
                self.index += 1
                return [()] if (token.kind == "TRUE") != negate else []
            return self.mirrored(negate)
        attribute = self.name()
        token = self.tokens[self.index]
        if token.kind in _COMPARISONS:
            self.index += 1
            return self.compared(attribute, Op(token.kind), negate)
        if self.accept("IS"):
            missing = not self.accept("NOT")
            self.take("NULL", "NULL" if not missing else "NULL or NOT NULL")
            return [(Predicate(attribute, Op.MISSING if missing != negate else Op.EXISTS),)]
        negate ^= self.accept("NOT")
        if self.accept("BETWEEN"):
            return self.between(attribute, negate)
        if self.accept("IN"):
            return self.among(attribute, negate)
        if self.accept("LIKE"):
            return self.like(attribute, negate)
        if self.accept("MATCHES"):
            return self.topic(attribute, negate)
        raise self.unexpected("a comparison such as =, <, BETWEEN, IN, LIKE, MATCHES or IS NULL")

    def name(self) -> str:
        parts = [cast(str, self.take("name", "a name, NOT or (").value)]
        while self.accept("."):
            token = self.tokens[self.index]
            if token.kind in KEYWORDS:
                self.index += 1
                parts.append(token.spelling)
            else:
                parts.append(cast(str, self.take("name", "a name after the point").value))
        return ".".join(parts)

    def literal(self, expected: str = "a number, a text in '' or TRUE or FALSE") -> Scalar:
        token = self.tokens[self.index]
        if token.kind not in _LITERALS:
            raise self.unexpected(expected)
        self.index += 1
        return token.kind == "TRUE" if token.kind in ("TRUE", "FALSE") else token.value

    def mirrored(self, negate: bool) -> Disjunction:
        literal = self.index
        self.index += 1
        sign = self.tokens[self.index].kind
        if sign not in _COMPARISONS:
            raise self.unexpected("= <> < <= > or >=")
        self.index += 1
        attribute = self.name()
        after = self.index
        self.index = literal
        found = self.compared(attribute, Op(_MIRRORED[sign]), negate)
        self.index = after
        return found

    def compared(self, attribute: str, op: Op, negate: bool) -> Disjunction:
        ordered = op is not Op.EQ and op is not Op.NE
        if ordered and self.tokens[self.index].kind in ("TRUE", "FALSE"):
            raise self.unexpected(
                f"a number or a text (truth values have no order) with {op.value}"
            )
        return self.one(attribute, op, self.literal(), negate)

    def one(self, attribute: str, op: Op, operand: Operand, negate: bool) -> Disjunction:
        predicate = Predicate(attribute, op, operand)
        return [(negated(predicate) if negate else predicate,)]

    def between(self, attribute: str, negate: bool) -> Disjunction:
        low = self.compared(attribute, Op.GE, negate)
        self.take("AND", "AND and the upper end of BETWEEN")
        high = self.compared(attribute, Op.LE, negate)
        return low + high if negate else [(*low[0], *high[0])]

    def among(self, attribute: str, negate: bool) -> Disjunction:
        self.take("(", "( and a list of values")
        literals = [self.literal()]
        while self.accept(","):
            literals.append(self.literal())
        self.take(")", ", or )")
        return self.one(attribute, Op.IN, tuple(literals), negate)

    def like(self, attribute: str, negate: bool) -> Disjunction:
        pattern = self.take("text", "a pattern in ''")
        escape = ""
        if self.accept("ESCAPE"):
            escape = cast(str, self.take("text", "one character in ''").value)
            if len(escape) != 1 or escape in "%_":
                self.index -= 1
                raise self.unexpected("one character other than % and _ in ''")
        try:
            op, operand = classified(like_glob(cast(str, pattern.value), escape))
            predicate = canonical_predicate(Predicate(attribute, op, operand))
        except FilterError as error:
            raise self.inside(pattern, error) from None
        return [(negated(predicate) if negate else predicate,)]

    def topic(self, attribute: str, negate: bool) -> Disjunction:
        pattern = self.take("text", "a topic filter in ''")
        try:
            predicate = canonical_predicate(
                Predicate(attribute, Op.TOPIC, cast(str, pattern.value))
            )
        except FilterError as error:
            raise self.inside(pattern, error) from None
        return [(negated(predicate) if negate else predicate,)]


def _sentence(error: FilterError) -> str:
    """An error's message without its column, to be told again with another."""
    return str(error).removesuffix(f" at column {error.column}")


def parse(text: str) -> Filter:
    """The canonical filter of a condition; raises `FilterError` with the offending column."""
    return compiled(text)[0]


def compiled(text: str) -> tuple[Filter, Measure]:
    """The same, and what it measured as it was written."""
    if len(text) > CONDITION_CHARACTERS_MAX:
        raise FilterError(
            f"expected a condition of at most {CONDITION_CHARACTERS_MAX} characters, "
            f"found {len(text)}",
            text,
            CONDITION_CHARACTERS_MAX + 1,
        )
    conjunctions = _Parser(text).condition()
    try:
        return measured_any_of(conjunctions)
    except FilterError as error:
        raise FilterError(_sentence(error), text, 1) from None


_BARE_NAME: Final = re.compile(rf"{NAME}(?:\.{NAME})*")


def _render_name(name: str) -> str:
    bare = _BARE_NAME.fullmatch(name) and name.split(".")[0].upper() not in KEYWORDS
    return name if bare else '"' + name.replace('"', '""') + '"'


def _render_text(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _render_literal(literal: Scalar) -> str:
    if isinstance(literal, bool):
        return "TRUE" if literal else "FALSE"
    if isinstance(literal, str):
        return _render_text(literal)
    if math.isinf(literal):
        return "1e999" if literal > 0 else "-1e999"
    return str(int(literal)) if literal == int(literal) and abs(literal) < 1e15 else repr(literal)


def render_predicate(predicate: Predicate) -> str:
    """A predicate as the condition that parses to it."""
    name, op, operand = _render_name(predicate.attribute), predicate.op, predicate.operand
    if op is Op.EXISTS or op is Op.MISSING:
        return f"{name} IS {'NOT ' if op is Op.EXISTS else ''}NULL"
    if op is Op.IN or op is Op.NOT_IN:
        literals = cast(tuple[Scalar, ...], operand)
        return f"{name} {op.value.upper()} ({', '.join(map(_render_literal, literals))})"
    if op is Op.TOPIC or op is Op.NOT_TOPIC:
        negation = "NOT " if op is Op.NOT_TOPIC else ""
        return f"{name} {negation}MATCHES {_render_text(cast(str, operand))}"
    if op in (Op.PREFIX, Op.SUFFIX, Op.CONTAINS, Op.LIKE, Op.NOT_LIKE):
        negation = "NOT " if op is Op.NOT_LIKE else ""
        pattern = glob_like(text_glob(op, cast(str, operand)))
        escape = f" ESCAPE '{ESCAPE}'" if ESCAPE in pattern else ""
        return f"{name} {negation}LIKE {_render_text(pattern)}{escape}"
    return f"{name} {op.value} {_render_literal(cast(Scalar, operand))}"


def render(filter: Filter) -> str:
    """The filter as a condition; `TRUE` for everything and `FALSE` for nothing."""
    if not filter.conjunctions:
        return "FALSE"
    alternatives = [
        " AND ".join(map(render_predicate, conjunction)) or "TRUE"
        for conjunction in filter.conjunctions
    ]
    return " OR ".join(alternatives)


_QUERY_PART: Final = re.compile(r"([^=<>!]+)(<=|>=|<>|!=|=|<|>)(.*)", re.DOTALL)


def _query_literal(text: str) -> Scalar:
    if len(text) >= 2 and text[0] == text[-1] == "'":
        return unquote(text[1:-1]).replace("''", "'")
    value = unquote(text)
    number = text_number(value)
    return TRUTH_TEXTS.get(value, value) if number is None else number


def parse_query(text: str) -> tuple[str, Filter]:
    """A topic filter with conditions after a question mark: `stocks/+?symbol=YHOO&volume>5`.

    Gives the topic filter as written and the filter of the conditions alone. The conditions are
    comparisons (`= <> != < <= > >=`) that must all hold; names and values may be percent-encoded.
    A value that reads as a number is one, `true` and `false` are truth values, anything else is a
    text, quotes (`'10'`) force a text. Without a question mark the filter is everything."""
    topic, mark, query = text.partition("?")
    topic_pattern(topic)
    if not mark:
        return topic, EVERYTHING
    predicates: list[Predicate] = []
    column = len(topic) + 2
    if query.count("&") >= PREDICATES_MAX:
        found_count = query.count("&") + 1
        raise FilterError(
            f"expected at most {PREDICATES_MAX} comparisons, found {found_count}", text, column
        )
    for part in query.split("&"):
        found = _QUERY_PART.fullmatch(part)
        if found is None:
            raise FilterError(
                f"expected a comparison such as name=value or name>5, found {part!r}", text, column
            )
        name, sign, value = found.groups()
        op = Op("<>" if sign == "!=" else sign)
        try:
            predicate = Predicate(unquote(name), op, _query_literal(value))
            predicates.append(canonical_predicate(predicate))
        except FilterError as error:
            raise FilterError(_sentence(error), text, column) from None
        column += len(part) + 1
    return topic, any_of((predicates,))


def wanted_filter(topic: str, where: str | None) -> Filter:
    """What a topic filter, its query and a condition mean together; raises `FilterError`."""
    return narrowed(topic, EVERYTHING if where is None else parse(where))[0]


def narrowed(topic: str, condition: Filter) -> tuple[Filter, Measure]:
    """What a topic filter, its query and a condition that was parsed before mean together, and
    what that measured before it was made canonical."""
    pattern, query = parse_query(topic)
    wanted = topic_filter(pattern)
    return measured_conjoin(wanted if query is EVERYTHING else conjoin(wanted, query), condition)
