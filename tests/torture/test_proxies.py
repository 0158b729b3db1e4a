"""Links that can be cut, blackened and slowed down, and mended."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from typing import Any

import pytest
import uvloop

from gravitate.config.build import shaped
from gravitate.serve.control.network import neighbours_of, on_free_ports, others_of
from gravitate.serve.ports import free_ports
from gravitate.torture.proxies import Proxies, Proxy

BOUND_S = 20.0


def on_loop(
    body: Callable[[Proxy], Coroutine[Any, Any, None]],
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> None:
    """Run a test with a proxy before a server that answers with what it is sent."""

    async def bounded() -> None:
        async with asyncio.timeout(BOUND_S), before_an_echo(sleep) as proxy:
            await body(proxy)

    uvloop.run(bounded())


@contextlib.asynccontextmanager
async def before_an_echo(sleep: Callable[[float], Awaitable[None]]) -> AsyncIterator[Proxy]:
    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(65536):
                writer.write(data)
        writer.close()

    port, target = free_ports(2)
    server = await asyncio.start_server(echo, "127.0.0.1", target)
    proxy = Proxy(port, target, sleep)
    await proxy.open()
    try:
        yield proxy
    finally:
        await proxy.close()
        server.close()


async def dial(proxy: Proxy) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    return await asyncio.open_connection("127.0.0.1", proxy.port)


def test_a_proxy_passes_everything_on_both_ways() -> None:
    async def body(proxy: Proxy) -> None:
        reader, writer = await dial(proxy)
        sent = bytes(range(256)) * 4096
        writer.write(sent)
        assert await reader.readexactly(len(sent)) == sent

    on_loop(body)


def test_the_end_of_a_connection_is_passed_on() -> None:
    async def body(proxy: Proxy) -> None:
        reader, writer = await dial(proxy)
        writer.write(b"x")
        assert await reader.readexactly(1) == b"x"
        writer.write_eof()
        with contextlib.suppress(ConnectionResetError):
            assert await reader.read() == b""

    on_loop(body)


def test_a_cut_breaks_connections_and_refuses_new_ones_until_it_is_mended() -> None:
    async def body(proxy: Proxy) -> None:
        reader, writer = await dial(proxy)
        writer.write(b"x")
        assert await reader.readexactly(1) == b"x"
        await proxy.cut()
        with contextlib.suppress(ConnectionResetError):
            assert await reader.read() == b""
        with pytest.raises(ConnectionRefusedError):
            await dial(proxy)
        await proxy.mend()
        reader, writer = await dial(proxy)
        writer.write(b"y")
        assert await reader.readexactly(1) == b"y"

    on_loop(body)


def test_nothing_passes_a_hole_until_it_is_closed_and_nothing_is_lost_in_it() -> None:
    async def body(proxy: Proxy) -> None:
        former = await dial(proxy)
        former[1].write(b"x")
        assert await former[0].readexactly(1) == b"x"
        proxy.hole()
        later = await dial(proxy)
        for _, writer in (former, later):
            writer.write(b"abc")
        awaited = [asyncio.create_task(reader.readexactly(3)) for reader, _ in (former, later)]
        assert (await asyncio.wait(awaited, timeout=0.2))[0] == set()
        await proxy.mend()
        assert await asyncio.gather(*awaited) == [b"abc", b"abc"]

    on_loop(body)


def test_a_slow_link_waits_for_as_long_as_its_bytes_take() -> None:
    waits_s: list[float] = []

    async def sleep(for_s: float) -> None:
        waits_s.append(for_s)

    async def body(proxy: Proxy) -> None:
        proxy.slow(100_000)
        reader, writer = await dial(proxy)
        writer.write(bytes(40_000))
        await reader.readexactly(40_000)
        # The last piece on its way back is read before it is waited for.
        assert 0.4 + 0.3 <= sum(waits_s) <= 0.4 + 0.4 + 1e-9

    on_loop(body, sleep)


def test_a_link_that_was_mended_is_not_slow() -> None:
    async def sleep(for_s: float) -> None:
        pytest.fail(f"waits for {for_s} s")

    async def body(proxy: Proxy) -> None:
        proxy.slow(100_000)
        await proxy.mend()
        reader, writer = await dial(proxy)
        writer.write(bytes(40_000))
        await reader.readexactly(40_000)

    on_loop(body, sleep)


def test_who_dials_somebody_who_does_not_listen_is_closed() -> None:
    async def body(_: Proxy) -> None:
        port, nobody = free_ports(2)
        proxy = Proxy(port, nobody)
        await proxy.open()
        reader, _writer = await dial(proxy)
        with contextlib.suppress(ConnectionResetError):
            assert await reader.read() == b""
        await proxy.close()

    on_loop(body)


def test_every_broker_dials_every_other_at_a_proxy_of_the_two() -> None:
    async def body() -> None:
        network = on_free_ports(shaped("random-tree", 5, seed=3))
        proxies = Proxies(network)
        assert len(proxies.by_link) == 10
        real = {spec.id: spec.address for spec in network.brokers}
        for spec in network.brokers:
            view = proxies.view(spec.id)
            assert next(one for one in view.brokers if one.id == spec.id) == spec
            for peer, known in (neighbours_of(view, spec.id) | others_of(view, spec.id)).items():
                assert known.port != real[peer].peer
                if known.dials:
                    pair = (min(spec.id, peer), max(spec.id, peer))
                    assert proxies.by_link[pair].port == known.port
                    assert proxies.by_link[pair].target_port == real[peer].peer

    uvloop.run(body())
