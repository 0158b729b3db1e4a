"""MQTT topic filters: what is valid, what matches, covers and intersects.

A topic is a sequence of levels between slashes. In a filter `+` stands for one level and a
final `#` for any number of levels, the parent included; a filter that starts with a wildcard
matches no topic that starts with `$`. Covering and intersection are exact. Knows nothing of
sessions, shared subscriptions or content conditions.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Final

from gravitate.errors import FilterError
from gravitate.model.events import TOPIC
from gravitate.model.filters import Filter, Op, Predicate

TOPIC_BYTES_MAX: Final = 65535
WILDCARD_CHARACTERS_MAX: Final = 4096
"""The longest topic filter with wildcards; comparing one with a LIKE pattern is quadratic."""

Levels = tuple[str, ...]


def _refuse_unwritable(text: str) -> None:
    if not text:
        raise FilterError("a topic filter must not be empty", text, 1)
    if "\0" in text:
        raise FilterError("a topic filter must not contain NUL", text, text.index("\0") + 1)
    try:
        size_bytes = len(text.encode())
    except UnicodeEncodeError as error:
        raise FilterError("a topic filter must be valid Unicode", text, error.start + 1) from None
    if size_bytes > TOPIC_BYTES_MAX:
        raise FilterError(
            f"a topic filter has at most {TOPIC_BYTES_MAX} bytes, this has {size_bytes}"
        )


def topic_pattern(text: str) -> str:
    """The text itself when it is a valid topic filter."""
    _refuse_unwritable(text)
    if "+" not in text and "#" not in text:
        return text
    if len(text) > WILDCARD_CHARACTERS_MAX:
        raise FilterError(
            f"a topic filter with wildcards has at most {WILDCARD_CHARACTERS_MAX} characters, "
            f"this has {len(text)}"
        )
    column = 1
    levels = text.split("/")
    for index, level in enumerate(levels):
        if len(level) > 1:
            for offset, character in enumerate(level):
                if character in "+#":
                    raise FilterError(
                        f"{character} must stand alone between slashes, found {level!r}",
                        text,
                        column + offset,
                    )
        if level == "#" and index < len(levels) - 1:
            raise FilterError("# must be the last level", text, column)
        column += len(level) + 1
    return text


def has_wildcards(pattern: str) -> bool:
    """Whether a valid topic filter matches more than one topic."""
    return "+" in pattern or "#" in pattern


def topic_predicate(text: str) -> Predicate:
    """The predicate on `topic` that a topic filter means; raises `FilterError`."""
    pattern = topic_pattern(text)
    return Predicate(TOPIC, Op.TOPIC if has_wildcards(pattern) else Op.EQ, pattern)


def topic_filter(text: str) -> Filter:
    """The filter that an MQTT topic filter means; raises `FilterError`."""
    return Filter(((topic_predicate(text),),))


@functools.lru_cache(maxsize=16384)
def _levels(pattern: str) -> Levels:
    """Levels with a lone `#` spelt `+/#`: it needs one level, every other `#` none."""
    return ("+", "#") if pattern == "#" else tuple(pattern.split("/"))


def topic_matcher(pattern: str) -> Callable[[str], bool]:
    """A fast test of topics against a valid topic filter."""
    if not has_wildcards(pattern):
        return lambda topic: topic == pattern
    if pattern in ("#", "+/#"):
        return lambda topic: not topic.startswith("$")
    if pattern.endswith("/#") and "+" not in pattern:
        parent, inside = pattern[:-2], pattern[:-1]
        return lambda topic: topic.startswith(inside) or topic == parent
    levels = pattern.split("/")
    rest = levels[-1] == "#"
    fixed = levels[:-1] if rest else levels
    count = len(fixed)
    literals = tuple((i, level) for i, level in enumerate(fixed) if level != "+")
    hides_dollar = fixed[0] == "+"

    def levels_match(topic: str) -> bool:
        parts = topic.split("/")
        if len(parts) < count if rest else len(parts) != count:
            return False
        for index, level in literals:
            if parts[index] != level:
                return False
        return not (hides_dollar and topic.startswith("$"))

    return levels_match


def topic_covers(wide: str, narrow: str) -> bool:
    """Whether every topic that matches `narrow` matches `wide`; exact."""
    w, n = _levels(wide), _levels(narrow)
    if w[0] == "+" and n[0].startswith("$"):
        return False
    for index, level in enumerate(w):
        if level == "#":
            return True
        if index == len(n) or n[index] == "#" or level not in ("+", n[index]):
            return False
    return len(w) == len(n)


def topic_intersects(p: str, q: str) -> bool:
    """Whether some topic matches both; exact."""
    a, b = _levels(p), _levels(q)
    if (a[0] == "+" and b[0].startswith("$")) or (b[0] == "+" and a[0].startswith("$")):
        return False
    for x, y in zip(a, b, strict=False):
        if x == "#" or y == "#":
            return True
        if x != y and x != "+" and y != "+":
            return False
    shorter, longer = sorted((a, b), key=len)
    return longer[len(shorter) :] in ((), ("#",))


def prefix_within_topic(prefix: str, pattern: str) -> bool:
    """Whether every text that starts with `prefix` matches the topic filter; exact."""
    levels = _levels(pattern)
    *whole, _partial = prefix.split("/")
    if levels[0] == "+" and (not prefix or prefix.startswith("$")):
        return False
    for index, level in enumerate(levels):
        if level == "#":
            return True
        if index == len(whole):
            # What follows the prefix may end this level in any way and add any further ones.
            return level == "+" and levels[index + 1 :] == ("#",)
        if level not in ("+", whole[index]):
            return False
    return False


def prefix_intersects_topic(prefix: str, pattern: str) -> bool:
    """Whether some text that starts with `prefix` matches the topic filter; exact."""
    levels = _levels(pattern)
    *whole, partial = prefix.split("/")
    if levels[0] == "+" and prefix.startswith("$"):
        return False
    for index, level in enumerate(levels):
        if level == "#":
            return True
        if index == len(whole):
            return level == "+" or level.startswith(partial)
        if level not in ("+", whole[index]):
            return False
    return False
