"""POST /restart: a broker ends in order and is started again by what runs it.

    POST /restart        {}; 202 and a `Restarting`, or 409 where nobody would start it again

Owns the request and its refusals. How the broker ends and who starts it again is the business of
`processes`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from gravitate.model.decoding import decode_json
from gravitate.serve.http.server import JSON, Pages, Request, Response, json_response, refusal


class Restarting(msgspec.Struct, frozen=True):
    """What a broker that is about to end says of itself; who follows it has another incarnation."""

    broker: str
    incarnation: int


def restart_page(
    broker_id: str, incarnation: int, restart: Callable[[], None] | None = None
) -> Pages:
    """`restart` has the broker end and started again; None where it shares its process."""

    async def answer(request: Request) -> Response:
        if request.method != "POST":
            return refusal("405 Method Not Allowed", "POST")
        if request.content_type != JSON:
            # A page in somebody's browser can send any other type without being asked about it.
            return refusal(
                "415 Unsupported Media Type",
                f"Content-Type is {request.content_type!r}, expected {JSON}",
            )
        try:
            asked = decode_json(request.body, dict[str, Any])
        except msgspec.DecodeError as error:
            return refusal("400 Bad Request", f"the body is not accepted: {error}; expected {{}}")
        if asked:
            return refusal("400 Bad Request", f"the body has {min(asked)!r}, expected {{}}")
        if restart is None:
            return refusal(
                "409 Conflict",
                f"{broker_id} shares its process with the other brokers and cannot be restarted "
                "alone: run brokers with `gravitate up --processes` or `gravitate broker`",
            )
        restart()
        return json_response(Restarting(broker_id, incarnation), "202 Accepted")

    return answer
