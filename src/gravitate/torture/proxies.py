"""Links that can be disturbed: a TCP proxy between every two brokers.

Brokers dial each other at the proxies' ports (`Proxies.view`), neighbours and others alike, so that
tethers pass through proxies too. A proxy passes everything on, or

- is *cut*: connections break and new ones are refused;
- is a *hole*: connections stay and new ones are accepted, but nothing passes. What was on its way
  passes when the hole is closed, as after packets were lost;
- is *slow*: so many bytes a second in each direction.

Knows bytes alone. Whatever is done can be undone with `mend`.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Awaitable, Callable
from itertools import combinations
from typing import Final

import msgspec

from gravitate.config.network import Network
from gravitate.serve.control.network import neighbours_of, others_of
from gravitate.serve.ports import free_ports
from gravitate.torture.ledger import Link, link

CHUNK_BYTES: Final = 64 * 1024
SLOW_CHUNK_BYTES: Final = 8 * 1024
BUFFER_BYTES: Final = 128 * 1024
"""What the system may hold of a connection: a slow link has not got megabytes under way."""
HOST: Final = "127.0.0.1"


class Proxy:
    """Takes connections at `port` and makes one to the target for each; a slow one waits by `sleep`
    between two pieces."""

    def __init__(
        self, port: int, target_port: int, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    ) -> None:
        self.port = port
        self.target_port = target_port
        self._sleep = sleep
        self._server: asyncio.Server | None = None
        self._connections: dict[asyncio.Task[None], list[asyncio.StreamWriter]] = {}
        self._passes = asyncio.Event()
        self._passes.set()
        self._bytes_per_s = 0.0

    async def open(self) -> None:
        if self._server is None:
            door = socket.create_server((HOST, self.port), backlog=128)
            door.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER_BYTES)
            self._server = await asyncio.start_server(self._connected, sock=door)

    async def close(self) -> None:
        """Break what is connected, refuse what comes."""
        server, self._server = self._server, None
        if server is not None:
            server.close()
        for task, writers in list(self._connections.items()):
            for writer in writers:
                writer.transport.abort()
            task.cancel()
        if server is not None:
            await server.wait_closed()

    # --- what can be done to it -----------------------------------------------------------------

    async def cut(self) -> None:
        await self.close()

    def hole(self) -> None:
        self._passes.clear()

    def slow(self, bytes_per_s: float) -> None:
        self._bytes_per_s = bytes_per_s

    async def mend(self) -> None:
        """Pass everything on, as fast as it comes."""
        self._bytes_per_s = 0.0
        self._passes.set()
        await self.open()

    # --- connections ----------------------------------------------------------------------------

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        writers = self._connections[task] = [writer]
        try:
            await self._passes.wait()
            there, onward = await asyncio.open_connection(HOST, self.target_port)
            writers.append(onward)
            _bound(writer, onward)
            async with asyncio.TaskGroup() as group:
                group.create_task(self._pump(reader, onward))
                group.create_task(self._pump(there, writer))
        except (OSError, asyncio.CancelledError, ExceptionGroup):
            # Either side has gone, the target does not listen, or the link was cut.
            pass
        finally:
            del self._connections[task]
            for one in writers:
                one.transport.abort()

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Pass on what comes until the end; the other direction ends with it."""
        while True:
            size = SLOW_CHUNK_BYTES if self._bytes_per_s else CHUNK_BYTES
            data = await reader.read(size)
            await self._passes.wait()
            if not data:
                raise ConnectionResetError("the end of one direction")
            writer.write(data)
            await writer.drain()
            if self._bytes_per_s:
                await self._sleep(len(data) / self._bytes_per_s)


def _bound(*writers: asyncio.StreamWriter) -> None:
    for writer in writers:
        sock = writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, BUFFER_BYTES)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER_BYTES)


class Proxies:
    """One for every two brokers of a network, by link."""

    def __init__(self, network: Network) -> None:
        self.network = network
        pairs = [link(*pair) for pair in combinations([spec.id for spec in network.brokers], 2)]
        peer_ports = {spec.id: spec.address.peer for spec in network.brokers}
        ports = free_ports(len(pairs), HOST)
        self.by_link: dict[Link, Proxy] = {
            pair: Proxy(port, peer_ports[_dialled(network, *pair)])
            for pair, port in zip(pairs, ports, strict=True)
        }

    async def open(self) -> None:
        for proxy in self.by_link.values():
            await proxy.open()

    async def close(self) -> None:
        for proxy in self.by_link.values():
            with contextlib.suppress(OSError):
                await proxy.close()

    def view(self, broker: str) -> Network:
        """The network as one broker is to see it: the others are behind their proxies."""
        brokers = tuple(
            spec
            if spec.id == broker
            else msgspec.structs.replace(
                spec,
                address=msgspec.structs.replace(
                    spec.address, peer=self.by_link[link(broker, spec.id)].port
                ),
            )
            for spec in self.network.brokers
        )
        return msgspec.structs.replace(self.network, brokers=brokers)


def _dialled(network: Network, one: str, other: str) -> str:
    """Which of two brokers the other one dials."""
    known = neighbours_of(network, one) | others_of(network, one)
    return other if known[other].dials else one
