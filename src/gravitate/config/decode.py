"""From a TOML document to a struct, with errors that a person can act on.

`msgspec` does the checking. What it refuses is told again as a `FileError`: with the line, the
value that was found, and what would have been accepted (the keys of a table with the nearest
spelling, the choices of a literal, the kind of a value).
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from typing import Annotated, Any, Literal, TypeVar, get_args, get_origin

import msgspec

from gravitate.config.toml import Document, Place
from gravitate.errors import FileError

S = TypeVar("S", bound=msgspec.Struct)

_AT = re.compile(r"^(?P<problem>.*?)(?: - at `\$(?P<path>[^`]*)`)?$", re.DOTALL)
_STEP = re.compile(r"\.([A-Za-z_]\w*)|\[(\d+)\]")
_UNKNOWN = re.compile(r"unknown field `(.*?)`")
_MISSING = re.compile(r"missing required field `(.*?)`")

_KINDS: dict[Any, str] = {
    str: "text in quotes",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
}


def decode(document: Document, kind: type[S], *root: str | int) -> S:
    """What stands at the place `root` of the document, or all of it, as a `kind`; a `FileError`
    names the line."""
    try:
        return msgspec.convert(_value_at(document.data, root), kind)
    except msgspec.ValidationError as problem:
        raise _explained(document, kind, str(problem), root) from None


def unknown_key(
    document: Document, key: str, accepted: Iterable[str], *place: str | int
) -> FileError:
    """The error for a key that nobody reads."""
    choices = sorted(accepted)
    near = difflib.get_close_matches(key, choices, n=1)
    hint = f"; did you mean '{near[0]}'?" if near else ""
    listed = f"accepted here: {', '.join(choices)}" if choices else "nothing is accepted here"
    return document.error(f"unknown key '{key}'{hint} ({listed})", *place, key)


def _explained(document: Document, kind: Any, problem: str, root: Place) -> FileError:
    found = _AT.match(problem)
    assert found is not None
    within = _place(found["path"] or "")
    place = (*root, *within)
    wanted = _type_at(kind, within)
    if unknown := _UNKNOWN.search(problem):
        return unknown_key(document, unknown[1], _keys(wanted), *place)
    if missing := _MISSING.search(problem):
        return document.error(f"'{missing[1]}' is missing{_described(place)}", *place)
    value = _value_at(document.data, place)
    return document.error(
        f"{_dotted(place)} is {_shown(value)}, which is not accepted: "
        f"write {accepted(wanted, found['problem'])}",
        *place,
    )


def _place(path: str) -> Place:
    return tuple(key or int(index) for key, index in _STEP.findall(path))


def _dotted(place: Place) -> str:
    """The place for a person: `brokers[2].address.mqtt` as `address.mqtt` of its table."""
    names = [step for step in place if isinstance(step, str)]
    if len(place) > 1 and isinstance(place[1], int) and len(names) > 1:
        names = names[1:]
    return f"'{'.'.join(names)}'" if names else "the file"


def _described(place: Place) -> str:
    match place:
        case (str() as table, int() as index):
            return f" in entry {index + 1} of '{table}'"
        case ():
            return ""
        case _:
            return f" in {_dotted(place)}"


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _value_at(data: Any, place: Place) -> Any:
    for step in place:
        try:
            data = data[step]
        except (KeyError, IndexError, TypeError):
            break
    return data


def _type_at(kind: Any, place: Place) -> Any:
    """The declared type at `place`, or None where the declaration leaves it open."""
    for step in place:
        if isinstance(step, int):
            arguments = get_args(kind)
            kind = arguments[min(step, len(arguments) - 1)] if arguments else None
            if kind is Ellipsis:
                kind = arguments[0]
        elif isinstance(kind, type) and issubclass(kind, msgspec.Struct):
            kind = {f.encode_name: f.type for f in msgspec.structs.fields(kind)}.get(step)
        else:
            return None
    return kind


def _keys(kind: Any) -> list[str]:
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return [field.encode_name for field in msgspec.structs.fields(kind)]
    return []


def accepted(kind: Any, problem: str) -> str:
    """What may be written where a `kind` is declared; `problem` where that is not known."""
    if kind in _KINDS:
        return _KINDS[kind]
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Annotated:
        bounds = arguments[1]
        below = "" if bounds.le is None else f" to {bounds.le}"
        return f"{accepted(arguments[0], problem)} from {bounds.ge}{below}"
    if origin is Literal:
        return " or ".join(f'"{choice}"' for choice in arguments)
    if origin is tuple:
        item = _KINDS.get(arguments[0], "a table")
        if Ellipsis in arguments:
            return f"a list, each element {item}"
        return f"a list of {len(arguments)}, each {item}"
    if keys := _keys(kind):
        return f"a table with {', '.join(keys)}"
    return f"something else ({problem})"
