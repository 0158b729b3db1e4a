"""What operators and tools ask a node over HTTP: /status, /metrics, /health, /clients,
/subscribers, /moves.

Owns as much of HTTP/1.1 as that needs: one request a connection, with a bounded body of a told
length. Does not know the node beyond its status; what changes something lies behind `moves`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, Final

import msgspec
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from gravitate.broker.links import LinkState
from gravitate.serve.status import NodeStatus

REQUEST_BYTES_MAX: Final = 8192
BODY_BYTES_MAX: Final = 1024 * 1024
DISCARD_BYTES_MAX: Final = 16 * 1024 * 1024
LENGTH_DIGITS_MAX: Final = 18
REQUEST_TIMEOUT_S: Final = 5.0
JSON: Final = "application/json"
METRICS: Final = "text/plain; version=0.0.4; charset=utf-8"
TEXT: Final = "text/plain; charset=utf-8"

StatusSource = Callable[[], NodeStatus]


class Request(msgspec.Struct, frozen=True):
    method: str
    path: str
    query: str = ""
    content_type: str = ""
    """Without its parameters, in small letters."""
    body: bytes = b""


class Response(msgspec.Struct, frozen=True):
    status: str
    kind: str
    body: bytes

    def encoded(self, with_body: bool) -> bytes:
        head = (
            f"HTTP/1.1 {self.status}\r\nContent-Type: {self.kind}\r\n"
            f"Content-Length: {len(self.body)}\r\n"
            "Cache-Control: no-store\r\nConnection: close\r\n\r\n"
        ).encode("latin-1")
        return head + self.body if with_body else head


Pages = Callable[[Request], Awaitable[Response]]


def json_response(value: Any, status: str = "200 OK") -> Response:
    return Response(status, JSON, msgspec.json.encode(value))


def refusal(status: str, text: str) -> Response:
    """What is wrong with a request, for people and programs."""
    return json_response({"error": text}, status)


class StatusServer:
    """A door that lets readers in."""

    def __init__(self, server: asyncio.Server, answering: set[asyncio.Task[None]]) -> None:
        self._server = server
        self._answering = answering

    async def close(self) -> None:
        self._server.close()
        for task in list(self._answering):
            task.cancel()
        await self._server.wait_closed()


async def serve_status(
    source: StatusSource,
    host: str,
    port: int,
    moves: Pages | None = None,
    clients: Callable[[], list[str]] | None = None,
    subscribers: Callable[[], list[str]] | None = None,
) -> StatusServer:
    """Answer on `host:port` with what `source` says at the time of asking; `moves` has the pages
    below /moves, `clients` names who is attached as a publisher, `subscribers` who is served."""
    registry = CollectorRegistry()
    registry.register(_StatusCollector(source))
    answering: set[asyncio.Task[None]] = set()

    async def page(request: Request) -> Response:
        if moves is not None and request.path.split("/")[1:2] == ["moves"]:
            if request.method in ("GET", "HEAD", "POST"):
                return await moves(request)
            return refusal("405 Method Not Allowed", "GET, HEAD or POST")
        if request.method not in ("GET", "HEAD"):
            return Response("405 Method Not Allowed", TEXT, b"GET or HEAD\n")
        match request.path:
            case "/health":
                return Response("200 OK", TEXT, b"ok\n")
            case "/status":
                return json_response(source())
            case "/metrics":
                return Response("200 OK", METRICS, generate_latest(registry))
            case "/clients" if clients is not None:
                return json_response(clients())
            case "/subscribers" if subscribers is not None:
                return json_response(subscribers())
            case _:
                known = "/status /metrics /health"
                known += (" /clients" if clients else "") + (" /moves" if moves else "")
                known += " /subscribers" if subscribers else ""
                return Response("404 Not Found", TEXT, f"known: {known}\n".encode())

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        answering.add(task)
        task.add_done_callback(answering.discard)
        try:
            async with asyncio.timeout(REQUEST_TIMEOUT_S):
                request = await _request(reader)
            response = await page(request) if isinstance(request, Request) else request
            async with asyncio.timeout(REQUEST_TIMEOUT_S):
                head_only = isinstance(request, Request) and request.method == "HEAD"
                writer.write(response.encoded(with_body=not head_only))
                await writer.drain()
        except (TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, OSError):
            # A reader that does not finish asking, or listening, gets nothing.
            pass
        except asyncio.CancelledError:
            # The door closes; nobody waits for this task.
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(answer, host, port, limit=REQUEST_BYTES_MAX)
    return StatusServer(server, answering)


async def _request(reader: asyncio.StreamReader) -> Request | Response:
    """The request, or what is wrong with it."""
    head = await reader.readuntil(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    words = first.split(" ")
    if len(words) != 3 or not words[2].startswith("HTTP/1."):
        return Response("400 Bad Request", TEXT, b"not HTTP/1.1\n")
    told = {
        name.strip().lower(): value.strip()
        for name, _, value in (line.partition(":") for line in lines)
    }
    length = told.get("content-length", "0")
    if "transfer-encoding" in told or not (length.isascii() and length.isdigit()):
        return refusal("411 Length Required", "a body needs its length in Content-Length")
    # Python does not convert digits without end, nor does anybody read them in an answer.
    size = int(length) if len(length) <= LENGTH_DIGITS_MAX else DISCARD_BYTES_MAX
    if size > BODY_BYTES_MAX:
        # Whoever is still sending when the connection closes may not see the answer.
        await _discard(reader, min(size, DISCARD_BYTES_MAX))
        told_size = length if len(length) <= LENGTH_DIGITS_MAX else f"{length[:6]}..."
        return refusal(
            "413 Content Too Large", f"a body of {told_size} bytes, {BODY_BYTES_MAX} are taken"
        )
    path, _, query = words[1].partition("?")
    kind = told.get("content-type", "").partition(";")[0].strip().lower()
    return Request(words[0], path, query, kind, await reader.readexactly(size))


async def _discard(reader: asyncio.StreamReader, size: int) -> None:
    while size > 0 and (data := await reader.read(min(size, 65536))):
        size -= len(data)


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
