"""Pages over HTTP: how they ask and tell in JSON, how they refuse, and those of every node.

    GET /health       ok
    GET /status       `NodeStatus`
    GET /metrics      the same for Prometheus
    GET /topology     its neighbours: `Neighbourhood`

A page raises `InputError` where what is asked cannot be meant, `HTTPException` with a status of its
own for other refusals; both are told in JSON, under `error`. Does not know connections (`door`
does), nor the node beyond its status.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from gravitate.errors import InputError
from gravitate.model.decoding import decode_json
from gravitate.serve.descriptors import Doorkeeper
from gravitate.serve.http.door import Door
from gravitate.serve.http.metrics import FORMAT, metrics
from gravitate.serve.node.status import NodeStatus, Readiness

JSON: Final = "application/json"

Page = Callable[[Request], Awaitable[Response]]


def json_response(value: Any, status: int = 200) -> Response:
    return Response(msgspec.json.encode(value), status, media_type=JSON)


async def json_body(request: Request, kind: Any, what: str) -> Any:
    """A value of `kind`, called `what` where it is refused."""
    told = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if told != JSON:
        # A page in somebody's browser can send any other type without being asked about it.
        raise HTTPException(415, f"Content-Type is {told!r}, expected {JSON}")
    try:
        return decode_json(await request.body(), kind)
    except msgspec.DecodeError as error:
        raise InputError(f"the {what} is not accepted: {error}") from None


def readiness_page(source: Callable[[], Readiness]) -> Page:
    """GET /ready: 200 when a broker does all it should, else 503; either way with what is wrong."""

    def answer() -> Response:
        told = source()
        return json_response(told, 200 if told.ready else 503)

    return _telling(answer)


def _telling(answer: Callable[[], Response]) -> Page:
    """A page that looks at nothing in the request."""

    async def page(request: Request) -> Response:
        return answer()

    return page


async def serve_pages(
    source: Callable[[], NodeStatus],
    host: str,
    port: int,
    more: Sequence[Route] = (),
    doorkeeper: Doorkeeper | None = None,
) -> Door:
    """Answer on `host:port` with what `source` says at the time of asking, and with `more`."""
    routes = [
        Route("/status", _telling(lambda: json_response(source()))),
        Route("/topology", _telling(lambda: json_response(source().topology))),
        Route("/metrics", _telling(lambda: Response(metrics(source()), media_type=FORMAT))),
        Route("/health", _telling(lambda: PlainTextResponse("ok\n"))),
        *more,
    ]
    refusing = dict.fromkeys((InputError, HTTPException), _refusal)
    app = Starlette(routes=routes, exception_handlers=refusing)
    known = " ".join(route.path for route in routes)
    app.router.default = json_response({"error": f"known: {known}"}, 404)
    app.router.redirect_slashes = False
    door = Door(app, doorkeeper or Doorkeeper("status"))
    await door.listen(host, port)
    return door


async def _refusal(request: Request, error: Exception) -> Response:
    if not isinstance(error, HTTPException):
        return json_response({"error": str(error)}, 400)
    allowed = (error.headers or {}).get("Allow")
    text = f"expected {allowed}" if allowed else error.detail
    return json_response({"error": text}, error.status_code)
