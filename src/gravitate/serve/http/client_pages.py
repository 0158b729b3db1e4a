"""The HTTP pages that name clients: who is attached as a publisher, who is served.

    GET /clients, /subscribers     `ClientList`; `?limit=` is how many are named at most

A client's id may be longer than a request, so pages are cut not by ids but by their hashes, the
same as long as the broker lives. Who is there from the first page to the last is named once.
A crowd is gone through bit by bit, so that others have their turn in between.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from gravitate.errors import InputError
from gravitate.serve.http.pages import Page, json_response
from gravitate.serve.http.paging import page_of, page_size, parameters

CLIENTS_NAMED_MAX: Final = 1_000
_AT_ONCE: Final = 2_000
_HASHES: Final = range(-(2**63), 2**63)


class ClientList(msgspec.Struct, frozen=True):
    """A page of the clients of a broker, in the order of their ids."""

    broker: str
    clients: list[str]
    next: str | None = None
    """The page with others; None when there are none."""


def client_pages(broker_id: str, ids: Callable[[], Iterator[str]]) -> Page:
    """Pages of the clients that `ids` goes through, in any order."""

    async def answer(request: Request) -> Response:
        asked = parameters(request.query_params, "limit", "after")
        limit = page_size(asked, CLIENTS_NAMED_MAX, CLIENTS_NAMED_MAX)
        found = await _first(ids(), _after(asked.get("after")), limit + 1)
        path = request.scope["path"]
        named, more = page_of(found, _size_bytes, limit)
        following = f"{path}?limit={limit}&after={hash(named[-1])}" if more else None
        return json_response(ClientList(broker_id, sorted(named), following))

    return answer


def _size_bytes(id: str) -> int:
    """What an id takes on a page."""
    return len(msgspec.json.encode(id)) + 1


def _after(text: str | None) -> int:
    if text is None:
        return _HASHES.start - 1
    if not re.fullmatch(r"-?[0-9]{1,19}", text) or int(text) not in _HASHES:
        raise InputError(f"after is {text!r}, expected the number that `next` of a page has")
    return int(text)


async def _first(ids: Iterator[str], after: int, count: int) -> list[str]:
    """The first `count` ids whose hashes are greater than `after`, by their hashes."""
    found: set[str] = set()
    last = _HASHES[-1]
    while some := list(islice(ids, _AT_ONCE)):
        found.update(id for id in some if after < hash(id) <= last)
        if len(found) > count + _AT_ONCE:
            first = sorted(found, key=hash)[:count]
            found, last = set(first), hash(first[-1])
        await asyncio.sleep(0)
    return sorted(found, key=hash)[:count]
