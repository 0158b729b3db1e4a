"""TOML with lines: where in a file each value stands, and how a value is written.

The standard library's `tomllib` reads TOML but forgets where things stood. `read` has it do the
reading, and then walks the same text once more only to note the line of every key, table and
array element. The walk assumes text that `tomllib` has accepted, so it never judges syntax; it
knows only what separates one value from the next.

A place in a document is a path of keys and indices, such as `("brokers", 3, "id")`.
"""

from __future__ import annotations

import bisect
import json
import math
import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from gravitate.errors import FileError

Place = tuple[str | int, ...]

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_BLANK = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_SPACE = re.compile(r"[ \t]*")
_PLAIN_VALUE = re.compile(r"[^,\]}\n#]*")
_STRINGS = (
    re.compile(r'"""(?:\\.|[^\\])*?"{3,5}', re.DOTALL),
    re.compile(r"'''.*?'{3,5}", re.DOTALL),
    re.compile(r'"(?:\\.|[^"\\])*"'),
    re.compile(r"'[^']*'"),
)
_SYNTAX_LINE = re.compile(r"^(.*) \(at line (\d+), column (\d+)\)$", re.DOTALL)


class Document:
    """What a TOML file says (`data`), and on which line it says it (`line_of`)."""

    def __init__(self, path: str, data: dict[str, Any], lines: Mapping[Place, int]) -> None:
        self.path = path
        self.data = data
        self._lines = lines

    def line_of(self, place: Place) -> int:
        """The line of `place`, or of the nearest thing around it that has a line."""
        while place and place not in self._lines:
            place = place[:-1]
        return self._lines.get(place, 1)

    def error(self, message: str, *place: str | int) -> FileError:
        """An error about what stands at `place`."""
        return FileError(message, self.path, self.line_of(place))

    def at(self, *place: str | int) -> Callable[..., FileError]:
        """The same for places below one."""
        return lambda message, *below: self.error(message, *place, *below)


def read(path: str | Path) -> Document:
    """The TOML file at `path`; a `FileError` when it cannot be read or is not TOML."""
    name = str(path)
    try:
        text = Path(path).read_bytes().decode("utf-8")
    except OSError as problem:
        raise FileError(f"cannot be read: {problem.strerror}", name) from None
    except UnicodeDecodeError as problem:
        raise FileError(f"is not UTF-8 text (byte {problem.start})", name) from None
    return parse(text, name)


def parse(text: str, path: str = "") -> Document:
    """The same for text that is at hand; `path` is only used in errors."""
    text = text.replace("\r\n", "\n")
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as problem:
        raise _syntax_error(str(problem), text, path) from None
    except RecursionError:
        raise FileError("not TOML that can be meant: nested too deeply", path, 1) from None
    return Document(path, data, _Walk(text).lines)


def _syntax_error(problem: str, text: str, path: str) -> FileError:
    found = _SYNTAX_LINE.match(problem)
    if found is None:
        last_line = text.rstrip("\n").count("\n") + 1
        return FileError(f"not TOML: {problem}", path, last_line)
    message, line, column = found.groups()
    return FileError(f"not TOML: {message} (column {column})", path, int(line))


class _Walk:
    """One pass over accepted TOML text that fills `lines`."""

    def __init__(self, text: str) -> None:
        self.lines: dict[Place, int] = {}
        self._text = text
        self._at = 0
        self._newlines = [found.start() for found in re.finditer("\n", text)]
        self._array_lengths: dict[Place, int] = {}
        table: Place = ()
        while self._skip(_BLANK) < len(text):
            if text.startswith("[[", self._at):
                table = self._array_table_header()
            elif text[self._at] == "[":
                table = self._table_header()
            else:
                self._assignment(table)

    def _skip(self, pattern: re.Pattern[str]) -> int:
        found = pattern.match(self._text, self._at)
        if found:
            self._at = found.end()
        return self._at

    def _note(self, place: Place, at: int) -> None:
        self.lines.setdefault(place, bisect.bisect_left(self._newlines, at) + 1)

    def _array_table_header(self) -> Place:
        start = self._at
        self._at += 2
        array = self._resolve(self._key())
        self._at += 2
        index = self._array_lengths.get(array, 0)
        self._array_lengths[array] = index + 1
        self._note(array, start)
        self._note((*array, index), start)
        return (*array, index)

    def _table_header(self) -> Place:
        start = self._at
        self._at += 1
        keys = self._key()
        self._at += 1
        table = self._resolve(keys)
        if table in self._array_lengths:
            table = (*table, self._array_lengths[table] - 1)
        self._note(table, start)
        return table

    def _resolve(self, keys: Sequence[str]) -> Place:
        """Where a header leads: a name of an array of tables on the way means its last element."""
        place: Place = ()
        for key in keys[:-1]:
            place = (*place, key)
            if place in self._array_lengths:
                place = (*place, self._array_lengths[place] - 1)
        return (*place, keys[-1])

    def _assignment(self, table: Place) -> None:
        start = self._at
        place = table
        for key in self._key():
            place = (*place, key)
            self._note(place, start)
        self._at += 1  # the equals sign
        self._value(place)

    def _key(self) -> list[str]:
        """A key with its dots; stops at what follows it."""
        parts = []
        while True:
            self._skip(_SPACE)
            parts.append(self._key_part())
            self._skip(_SPACE)
            if not self._text.startswith(".", self._at):
                return parts
            self._at += 1

    def _key_part(self) -> str:
        start = self._at
        if self._text[start] in "\"'":
            self._string()
            (part,) = tomllib.loads(f"{self._text[start : self._at]} = 0")
            return str(part)
        return self._text[start : self._skip(_BARE_KEY)]

    def _value(self, place: Place) -> None:
        self._skip(_SPACE)
        match self._text[self._at]:
            case "[":
                self._array(place)
            case "{":
                self._inline_table(place)
            case '"' | "'":
                self._string()
            case _:
                self._skip(_PLAIN_VALUE)

    def _string(self) -> None:
        for pattern in _STRINGS:
            before = self._at
            if self._skip(pattern) > before:
                return

    def _array(self, place: Place) -> None:
        self._at += 1
        index = 0
        while True:
            self._skip(_BLANK)
            if self._text[self._at] == "]":
                break
            self._note((*place, index), self._at)
            self._value((*place, index))
            index += 1
            self._skip(_BLANK)
            if self._text[self._at] == ",":
                self._at += 1
        self._at += 1

    def _inline_table(self, place: Place) -> None:
        self._at += 1
        while True:
            self._skip(_BLANK)
            if self._text[self._at] == "}":
                break
            self._assignment(place)
            self._skip(_BLANK)
            if self._text[self._at] == ",":
                self._at += 1
        self._at += 1


def render_key(key: str) -> str:
    """A key as TOML: bare where it can be."""
    return key if _BARE_KEY.fullmatch(key) else render_value(key)


def render_value(value: object) -> str:
    """A plain value (text, number, truth value, list, table) as TOML on one line."""
    match value:
        case bool():
            return "true" if value else "false"
        case int():
            return str(value)
        case float():
            if math.isnan(value):
                return "nan"
            return repr(value).replace("e+", "e")
        case str():
            return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
        case Mapping():
            inside = ", ".join(f"{render_key(k)} = {render_value(v)}" for k, v in value.items())
            return f"{{ {inside} }}" if inside else "{}"
        case list() | tuple():
            return f"[{', '.join(render_value(item) for item in value)}]"
    raise TypeError(f"{type(value).__name__} has no place in a TOML file: {value!r}")
