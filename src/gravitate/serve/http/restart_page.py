"""POST /restart: a broker ends in order and is started again by what runs it.

    POST /restart        {}; 202 and a `Restarting`, or 409 where nobody would start it again

Owns the request and its refusals. How the broker ends and who starts it again is the business of
`processes`.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from gravitate.serve.http.pages import Page, json_body, json_response


class Restart(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is asked: nothing can be said about it."""


class Restarting(msgspec.Struct, frozen=True):
    """What a broker that is about to end says of itself; who follows it has another incarnation."""

    broker: str
    incarnation: int


def restart_page(
    broker_id: str, incarnation: int, restart: Callable[[], None] | None = None
) -> Page:
    """`restart` has the broker end and started again; None where it shares its process."""

    async def answer(request: Request) -> Response:
        await json_body(request, Restart, "body (expected {})")
        if restart is None:
            raise HTTPException(
                409,
                f"{broker_id} shares its process with the other brokers and cannot be restarted "
                "alone: run brokers with `gravitate up --processes` or `gravitate broker`",
            )
        restart()
        return json_response(Restarting(broker_id, incarnation), 202)

    return answer
