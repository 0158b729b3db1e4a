"""The door for readers over HTTP: who is let in, how much each may ask, how long it is waited for.

Owns the bounds that `uvicorn` does not set: one request a connection, with a bounded head and a
bounded body of a told length; so many connections at a time; so long to ask and so long to take the
answer. What is refused is told in JSON. Does not know what is asked (`pages` answers).
"""

from __future__ import annotations

import asyncio
import contextlib
from http import HTTPStatus
from typing import Final

import h11
import msgspec
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.config import Config
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from gravitate.serve.descriptors import Doorkeeper, Kind

REQUEST_BYTES_MAX: Final = 8192
BODY_BYTES_MAX: Final = 64 * 1024
DISCARD_BYTES_MAX: Final = 16 * 1024 * 1024
REQUEST_TIMEOUT_S: Final = 5.0
TOO_LONG: Final = (
    HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE,
    f"more than {REQUEST_BYTES_MAX} bytes before the body",
)
HEADERS: Final = [(b"cache-control", b"no-store"), (b"connection", b"close")]


class Door:
    """Lets readers in, so many at a time.

    When there are more, the first that has not finished asking gives way: whoever asks at once is
    answered, however many others keep their connections and do not ask."""

    def __init__(self, app: ASGIApp, doorkeeper: Doorkeeper) -> None:
        self.readers: dict[_Reader, None] = {}
        self._doorkeeper = doorkeeper
        self._server: asyncio.Server | None = None

        async def answer(scope: Scope, receive: Receive, send: Send) -> None:
            with contextlib.suppress(asyncio.CancelledError):  # nobody listens any more
                await app(scope, receive, send)

        # What goes wrong in a page is logged with its traceback; what readers do wrong is not.
        self.config = Config(
            answer, http=H11Protocol, ws="none", lifespan="off", interface="asgi3",
            proxy_headers=False, log_config=None, log_level="error", access_log=False,
        )  # fmt: skip

    async def listen(self, host: str, port: int) -> None:
        make = self._doorkeeper.guard(Kind.READER, lambda: _Reader(self))
        self._server = await asyncio.get_running_loop().create_server(make, host, port)

    async def close(self) -> None:
        assert self._server is not None, "the door is not open"
        self._server.close()
        for reader in self.readers:
            reader.transport.abort()
        await self._server.wait_closed()

    def lets_in(self, reader: _Reader) -> bool:
        """Whether there is room; somebody may have to leave for it."""
        if len(self.readers) >= self._doorkeeper.readers_max:
            self._doorkeeper.refuse(Kind.READER, f"{self._doorkeeper.readers_max} are connected")
            longest = next((one for one in self.readers if not one.has_asked()), None)
            if longest is None:
                return False
            del self.readers[longest]
            longest.transport.abort()
        self.readers[reader] = None
        return True


class _Reader(H11Protocol):
    """One connection: it asks, is answered, is closed. One that is refused may send on for a while:
    whoever is still sending when its connection closes may not see the answer."""

    def __init__(self, door: Door) -> None:
        state = ServerState()
        state.default_headers = HEADERS
        super().__init__(door.config, state, {})
        self.conn: _Requests = _Requests(h11.SERVER, REQUEST_BYTES_MAX)
        self._door = door
        self._patience = self.loop.call_later(REQUEST_TIMEOUT_S, self._asks_too_long)
        self._discarded = 0

    def has_asked(self) -> bool:
        return self.cycle is not None and not self.cycle.more_body

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if not self._door.lets_in(self):
            transport.abort()

    def data_received(self, data: bytes) -> None:
        if self.conn.refused is None:
            super().data_received(data)
            return
        self._discarded += len(data)
        if self._discarded > DISCARD_BYTES_MAX:
            self.transport.abort()

    def eof_received(self) -> bool:  # type: ignore[override]
        return self.has_asked()

    def send_400_response(self, msg: str) -> None:
        status, text = self.conn.refused or (HTTPStatus.BAD_REQUEST, msg)
        body = msgspec.json.encode({"error": text})
        told = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
        head = h11.Response(status_code=status, headers=HEADERS + told, reason=status.phrase)
        self.transport.write((self.conn.send(head) or b"") + body)
        self.transport.write_eof()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._patience.cancel()
        self._patience = self.loop.call_later(REQUEST_TIMEOUT_S, self.transport.abort)

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._door.readers.pop(self, None)
        self._patience.cancel()
        for task in self.tasks:
            task.cancel()

    def _asks_too_long(self) -> None:
        if not self.has_asked():
            self.transport.abort()


class _Requests(h11.Connection):
    """What is asked on one connection; what is too large is refused as what is no HTTP."""

    refused: tuple[HTTPStatus, str] | None = None

    def next_event(self) -> h11.Event | type[h11.NEED_DATA] | type[h11.PAUSED]:
        try:
            event = super().next_event()
        except h11.RemoteProtocolError as error:
            status = HTTPStatus(error.error_status_hint)
            self.refused = TOO_LONG if status == TOO_LONG[0] else (status, f"not HTTP/1.1: {error}")
            raise
        if isinstance(event, h11.Request):
            self.refused = _objection(event)
            if self.refused is not None:
                raise h11.RemoteProtocolError(self.refused[1])
        return event


def _objection(request: h11.Request) -> tuple[HTTPStatus, str] | None:
    told = dict(request.headers)
    head = len(request.target) + sum(len(name) + len(it) + 4 for name, it in request.headers)
    if head > REQUEST_BYTES_MAX:
        return TOO_LONG
    if b"transfer-encoding" in told:
        return HTTPStatus.LENGTH_REQUIRED, "a body needs its length in Content-Length"
    if (size := int(told.get(b"content-length", 0))) > BODY_BYTES_MAX:
        text = f"a body of {size} bytes, {BODY_BYTES_MAX} are taken"
        return HTTPStatus.REQUEST_ENTITY_TOO_LARGE, text
    return None
