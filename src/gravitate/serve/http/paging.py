"""Long lists over HTTP are told in pages: what a request may ask for, and how much is told.

A page has so many entries as asked for and no more than `PAGE_BYTES_MAX`, but one at least. It
names the page that follows it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final, TypeVar

from gravitate.errors import InputError

PAGE_BYTES_MAX: Final = 256 * 1024

Entry = TypeVar("Entry")


def parameters(query: Mapping[str, str], *known: str) -> Mapping[str, str]:
    """What a query says."""
    unknown = sorted(query.keys() - set(known))
    if unknown:
        raise InputError(f"parameter {unknown[0]!r} is not known: expected {' or '.join(known)}")
    return query


def page_size(asked: Mapping[str, str], default: int, most: int) -> int:
    """The `limit` that a query asks for."""
    text = asked.get("limit", str(default))
    digits = text.isascii() and text.isdigit() and len(text) <= len(str(most))
    if not digits or not 1 <= int(text) <= most:
        raise InputError(f"limit is {text!r}, expected a whole number from 1 to {most}")
    return int(text)


def page_of(
    entries: Iterable[Entry], size_of: Callable[[Entry], int], limit: int
) -> tuple[list[Entry], bool]:
    """The first entries that make a page, and whether there are more; no others are looked at but
    the next."""
    taken: list[Entry] = []
    size = 0
    for entry in entries:
        size += size_of(entry)
        if len(taken) == limit or (taken and size > PAGE_BYTES_MAX):
            return taken, True
        taken.append(entry)
    return taken, False
