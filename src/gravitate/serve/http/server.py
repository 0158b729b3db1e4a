"""What operators and tools ask a node over HTTP: /status, /topology, /metrics, /health, and the
pages that others bring (`move_pages`, `client_pages`).

Owns as much of HTTP/1.1 as that needs: one request a connection, with a bounded head and a bounded
body of a told length, so many connections at a time. Does not know the node beyond its status.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final

import msgspec
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from gravitate.broker.links.link import LinkState
from gravitate.errors import InputError
from gravitate.serve.descriptors import Doorkeeper, Kind
from gravitate.serve.node.status import NodeStatus, Readiness

REQUEST_BYTES_MAX: Final = 8192
BODY_BYTES_MAX: Final = 64 * 1024
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
    """A door that lets readers in, so many at a time.

    When there are more, the one that has been waited for longest gives way: whoever asks at once is
    answered, however many others keep their connections and do not ask."""

    def __init__(self, page: Pages, doorkeeper: Doorkeeper) -> None:
        self._page = page
        self._doorkeeper = doorkeeper
        self._server: asyncio.Server | None = None
        self._readers: dict[asyncio.Task[None], asyncio.StreamWriter] = {}
        self._waited_for: dict[asyncio.Task[None], None] = {}
        """Those that have not finished asking, or send on after they were refused."""

    async def listen(self, host: str, port: int) -> None:
        self._server = await asyncio.start_server(
            self._connected, host, port, limit=REQUEST_BYTES_MAX
        )

    async def close(self) -> None:
        assert self._server is not None, "the door is not open"
        self._server.close()
        for task in list(self._readers):
            task.cancel()
        await self._server.wait_closed()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        if not self._lets_in(writer):
            writer.transport.abort()
            return
        self._readers[task] = writer
        self._waited_for[task] = None
        # Drained is only what the system has taken: it keeps no descriptor for it.
        writer.transport.set_write_buffer_limits(high=0)
        try:
            async with asyncio.timeout(REQUEST_TIMEOUT_S):
                request = await _request(reader)
            self._waited_for.pop(task, None)
            refused = isinstance(request, Response)
            response = request if isinstance(request, Response) else await self._page(request)
            async with asyncio.timeout(REQUEST_TIMEOUT_S):
                head_only = isinstance(request, Request) and request.method == "HEAD"
                writer.write(response.encoded(with_body=not head_only))
                await writer.drain()
                if refused and not writer.is_closing():
                    # Whoever is still sending when the connection closes may not see the answer.
                    self._waited_for[task] = None
                    writer.write_eof()
                    await _discard(reader, DISCARD_BYTES_MAX)
        except (TimeoutError, asyncio.IncompleteReadError, OSError, asyncio.CancelledError):
            # A reader that does not finish asking, or listening, gets nothing more; nor does
            # anybody when the door closes.
            writer.transport.abort()
        finally:
            self._readers.pop(task, None)
            self._waited_for.pop(task, None)
            writer.close()

    def _lets_in(self, writer: asyncio.StreamWriter) -> bool:
        if not self._doorkeeper.admits(Kind.READER, writer.transport):
            return False
        if len(self._readers) < self._doorkeeper.readers_max:
            return True
        self._doorkeeper.refuse(Kind.READER, f"{self._doorkeeper.readers_max} are connected")
        longest = next(iter(self._waited_for), None)
        if longest is None:
            return False
        del self._waited_for[longest]
        self._readers.pop(longest).transport.abort()
        return True


def readiness_page(source: Callable[[], Readiness]) -> Pages:
    """GET /ready: 200 when a broker does all it should, else 503; either way with what is wrong."""

    async def answer(request: Request) -> Response:
        if request.method not in ("GET", "HEAD"):
            return refusal("405 Method Not Allowed", "GET or HEAD")
        told = source()
        return json_response(told, "200 OK" if told.ready else "503 Service Unavailable")

    return answer


async def serve_status(
    source: StatusSource,
    host: str,
    port: int,
    pages: Mapping[str, Pages] = MappingProxyType({}),
    doorkeeper: Doorkeeper | None = None,
) -> StatusServer:
    """Answer on `host:port` with what `source` says at the time of asking; `pages` are more, by
    their paths; one that ends in a slash has everything below it."""
    registry = CollectorRegistry()
    registry.register(_StatusCollector(source))

    async def page(request: Request) -> Response:
        above = "/".join(request.path.split("/")[:2]) + "/"
        more = pages.get(request.path) or pages.get(above)
        if more is not None:
            try:
                return await more(request)
            except InputError as error:
                return refusal("400 Bad Request", str(error))
        if request.method not in ("GET", "HEAD"):
            return Response("405 Method Not Allowed", TEXT, b"GET or HEAD\n")
        match request.path:
            case "/health":
                return Response("200 OK", TEXT, b"ok\n")
            case "/status":
                return json_response(source())
            case "/topology":
                return json_response(source().topology)
            case "/metrics":
                return Response("200 OK", METRICS, generate_latest(registry))
            case _:
                known = " ".join(["/status", "/topology", "/metrics", "/health", *pages])
                return Response("404 Not Found", TEXT, f"known: {known}\n".encode())

    server = StatusServer(page, doorkeeper or Doorkeeper("status"))
    await server.listen(host, port)
    return server


async def _request(reader: asyncio.StreamReader) -> Request | Response:
    """The request, or what is wrong with it."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.LimitOverrunError:
        return refusal(
            "431 Request Header Fields Too Large",
            f"more than {REQUEST_BYTES_MAX} bytes before the body",
        )
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
    size = int(length) if len(length) <= LENGTH_DIGITS_MAX else BODY_BYTES_MAX + 1
    if size > BODY_BYTES_MAX:
        told_size = length if len(length) <= LENGTH_DIGITS_MAX else f"{length[:6]}..."
        return refusal(
            "413 Content Too Large", f"a body of {told_size} bytes, {BODY_BYTES_MAX} are taken"
        )
    path, _, query = words[1].partition("?")
    kind = told.get("content-type", "").partition(";")[0].strip().lower()
    return Request(words[0], path, query, kind, await reader.readexactly(size))


async def _discard(reader: asyncio.StreamReader, size: int) -> None:
    """Read on to the end, or so much."""
    while size > 0 and (data := await reader.read(65536)):
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
        held = GaugeMetricFamily(
            "gravitate_publishers_held",
            "Not read from, because a link is congested that their events go over",
            labels=["broker", "congested_broker", "congested_peer"],
        )
        for one in status.held:
            held.add_metric([broker, one.broker, one.peer], one.count)
        yield held


def _link_metrics(status: NodeStatus) -> Iterator[Metric]:
    columns: list[tuple[str, str, Callable[..., float]]] = [
        ("up", "1 while the link is up", lambda link: float(link.state == LinkState.UP.value)),
        ("rtt_seconds", "Round trip by heartbeat", lambda link: link.rtt_ms / 1000),
        ("queue_events", "Sent and not acknowledged", lambda link: link.queue_events),
        ("queue_bytes", "Waiting to be written", lambda link: link.queue_bytes),
        ("unsettled", "Local subscriptions not settled behind it", lambda link: link.unsettled),
    ]
    for name, text, value in columns:
        family = GaugeMetricFamily(f"gravitate_link_{name}", text, labels=["broker", "peer"])
        for link in status.links:
            family.add_metric([status.broker, link.peer], value(link))
        yield family
