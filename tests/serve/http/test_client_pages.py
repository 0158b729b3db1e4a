"""A broker names its clients in pages, however many they are and whatever they are called."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec
import pytest
from tests.client.moving import address_of, asked, client, live
from tests.serve.http.asking import request
from tests.serve.mqtt.talk import on_loop

from gravitate.errors import InputError
from gravitate.serve.http.client_pages import ClientList, client_pages
from gravitate.serve.http.pages import Page
from gravitate.serve.http.paging import PAGE_BYTES_MAX


async def _page(pages: Page, path: str) -> ClientList:
    response = await pages(request(path))
    return msgspec.json.decode(response.body, type=ClientList)


async def _all(pages: Page, path: str = "/clients") -> list[ClientList]:
    found = [await _page(pages, path)]
    while found[-1].next is not None:
        found.append(await _page(pages, found[-1].next))
    return found


def _everybody(ids: Iterable[str]) -> Iterator[str]:
    yield from [*ids]


@pytest.mark.parametrize("number", [0, 1, 999, 1000, 1001, 2000, 12_345])
def test_everybody_is_named_once(number: int) -> None:
    async def body() -> None:
        ids = [f"client-{n}" for n in range(number)]
        told = await _all(client_pages("b1", lambda: _everybody(ids + ids[:7])))
        assert sorted(id for page in told for id in page.clients) == sorted(ids)
        assert len(told) == max(1, -(-number // 1000))
        assert all(page.clients == sorted(page.clients) for page in told)

    on_loop(body)


def test_who_stays_is_named_while_others_come_and_go() -> None:
    async def body() -> None:
        ids = {f"stays-{n}" for n in range(3000)} | {f"goes-{n}" for n in range(3000)}
        pages = client_pages("b1", lambda: _everybody(ids))
        named: list[str] = []
        path: str | None = "/clients?limit=100"
        while path is not None:
            page = await _page(pages, path)
            named += page.clients
            path = page.next
            ids -= {f"goes-{n}" for n in range(len(named), len(named) + 50)}
            ids |= {f"comes-{n}" for n in range(len(named), len(named) + 50)}
        stay = [id for id in named if id.startswith("stays-")]
        assert sorted(stay) == sorted(f"stays-{n}" for n in range(3000))
        assert len(named) == len(set(named))

    on_loop(body)


def test_ids_of_any_length_fit_pages_and_requests() -> None:
    async def body() -> None:
        ids = [f"{'ü' * 60_000}{n}" for n in range(40)]
        told = await _all(client_pages("b1", lambda: _everybody(ids)))
        assert sorted(id for page in told for id in page.clients) == sorted(ids)
        taken = [len(msgspec.json.encode(page.clients)) for page in told]
        assert max(taken) <= PAGE_BYTES_MAX + 1
        assert max(len(page.next or "") for page in told) < 100

    on_loop(body)


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("limit=0", "limit is '0', expected a whole number from 1 to 1000"),
        ("limit=1e3", "limit is '1e3', expected a whole number from 1 to 1000"),
        ("after=p", "after is 'p', expected the number that `next` of a page has"),
        ("after=9223372036854775808", "after is '9223372036854775808', expected the number"),
        ("before=1", "parameter 'before' is not known: expected limit or after"),
    ],
)
def test_what_cannot_be_asked_for_is_named(query: str, said: str) -> None:
    async def body() -> None:
        with pytest.raises(InputError) as refused:
            await client_pages("b1", lambda: iter(()))(request(f"/clients?{query}"))
        assert said in str(refused.value)

    on_loop(body)


def test_a_broker_names_publishers_and_subscribers_over_http() -> None:
    async def body() -> None:
        async with live("b1") as running, client(running, "b1", "p"), client(running, "b1", "q"):
            port = address_of(running, "b1").http
            everybody = {"broker": "b1", "clients": ["p", "q"], "next": None}
            for path in ("/clients", "/subscribers"):
                assert await asked(port, "GET", path) == (200, everybody)
                status, first = await asked(port, "GET", f"{path}?limit=1")
                assert first["next"].startswith(f"{path}?limit=1&after=")
                status, second = await asked(port, "GET", first["next"])
                assert (status, second["next"]) == (200, None)
                assert sorted(first["clients"] + second["clients"]) == ["p", "q"]
                status, page = await asked(port, "GET", f"{path}?limit=none")
                assert (status, page["error"]) == (
                    400,
                    "limit is 'none', expected a whole number from 1 to 1000",
                )
                assert (await asked(port, "POST", path))[0] == 405

    on_loop(body)
