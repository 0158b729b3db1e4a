"""What operators and their tools read from a node over HTTP: /status, /metrics, /health.

Owns as much of HTTP/1.1 as three read-only pages need: one GET or HEAD a connection. Does not
know the node beyond its status; never changes anything.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Final

import msgspec
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from gravitate.broker.links import LinkState
from gravitate.serve.status import NodeStatus

REQUEST_BYTES_MAX: Final = 8192
REQUEST_TIMEOUT_S: Final = 5.0
JSON: Final = "application/json"
METRICS: Final = "text/plain; version=0.0.4; charset=utf-8"
TEXT: Final = "text/plain; charset=utf-8"

StatusSource = Callable[[], NodeStatus]


class StatusServer:
    """A door that lets readers in."""

    def __init__(self, server: asyncio.Server) -> None:
        self._server = server

    async def close(self) -> None:
        self._server.close()
        await self._server.wait_closed()


async def serve_status(source: StatusSource, host: str, port: int) -> StatusServer:
    """Answer on `host:port` with what `source` says at the time of asking."""
    registry = CollectorRegistry()
    registry.register(_StatusCollector(source))

    def page(path: str) -> tuple[str, str, bytes]:
        match path:
            case "/health":
                return "200 OK", TEXT, b"ok\n"
            case "/status":
                return "200 OK", JSON, msgspec.json.encode(source())
            case "/metrics":
                return "200 OK", METRICS, generate_latest(registry)
            case _:
                return "404 Not Found", TEXT, b"known: /status /metrics /health\n"

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(REQUEST_TIMEOUT_S):
                head = await reader.readuntil(b"\r\n\r\n")
                writer.write(_response(head, page))
                await writer.drain()
        except (TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, OSError):
            # A reader that does not finish asking, or listening, gets nothing.
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(answer, host, port, limit=REQUEST_BYTES_MAX)
    return StatusServer(server)


def _response(head: bytes, page: Callable[[str], tuple[str, str, bytes]]) -> bytes:
    words = head.split(b"\r\n", 1)[0].split(b" ")
    if len(words) != 3 or not words[2].startswith(b"HTTP/1."):
        method, (status, kind, body) = b"GET", ("400 Bad Request", TEXT, b"not HTTP/1.1\n")
    elif words[0] not in (b"GET", b"HEAD"):
        method, (status, kind, body) = b"GET", ("405 Method Not Allowed", TEXT, b"GET or HEAD\n")
    else:
        path = words[1].decode("latin-1").partition("?")[0]
        method, (status, kind, body) = words[0], page(path)
    lines = (
        f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n"
        "Cache-Control: no-store\r\nConnection: close\r\n\r\n"
    ).encode("latin-1")
    return lines if method == b"HEAD" else lines + body


class _StatusCollector(Collector):
    """The node's status as metrics, read when they are asked for."""

    def __init__(self, source: StatusSource) -> None:
        self._source = source

    def describe(self) -> list[Metric]:
        """Nothing up front: the source is read only when somebody asks."""
        return []

    def collect(self) -> Iterator[Metric]:
        status = self._source()
        broker = status.broker

        def gauge(name: str, text: str, value: float) -> GaugeMetricFamily:
            family = GaugeMetricFamily(f"gravitate_{name}", text, labels=["broker"])
            family.add_metric([broker], value)
            return family

        yield gauge("uptime_seconds", "Since the broker started", status.uptime_s)
        yield gauge("sessions", "Clients connected", status.sessions)
        for name, count in status.tables.items():
            yield gauge(f"table_{name}", f"Entries: {name}", count)
        for name, count in status.counters.items():
            counter = CounterMetricFamily(
                f"gravitate_{name}", f"Since the start: {name}", labels=["broker"]
            )
            counter.add_metric([broker], count)
            yield counter
        yield from _link_metrics(status)


def _link_metrics(status: NodeStatus) -> Iterator[Metric]:
    columns: list[tuple[str, str, Callable[..., float]]] = [
        ("up", "1 while the link is up", lambda link: float(link.state == LinkState.UP.value)),
        ("rtt_seconds", "Round trip by heartbeat", lambda link: link.rtt_ms / 1000),
        ("queue_events", "Sent and not acknowledged", lambda link: link.queue_events),
        ("queue_bytes", "Waiting to be written", lambda link: link.queue_bytes),
    ]
    for name, text, value in columns:
        family = GaugeMetricFamily(f"gravitate_link_{name}", text, labels=["broker", "peer"])
        for link in status.links:
            family.add_metric([status.broker, link.peer], value(link))
        yield family
