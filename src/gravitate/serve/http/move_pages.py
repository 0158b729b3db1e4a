"""The HTTP pages for moves: ask for one, see how it went, list them all.

    POST /moves          one move as JSON; 200 when it has ended, 202 while it is under way
    GET  /moves          what this broker knows of its moves, a page of them: `MoveList`
    GET  /moves/ID       one of them: `MoveRecord`

`?wait_s=SECONDS` says how long POST and GET /moves/ID may wait for the end of the move. The first
page has the latest moves, at most `?limit=`, and names the one with those before them. A move
that is asked for again is not carried out twice. What is wrong with a move that cannot be meant
(JSON, names) is told here; what the broker objects to is the move's outcome.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from gravitate.broker.interface.inputs import Input, MoveRequested
from gravitate.config.network import Network
from gravitate.errors import InputError
from gravitate.model.moves import ClientMove, Move, client_of
from gravitate.serve.http.pages import json_body, json_response
from gravitate.serve.http.paging import page_of, page_size, parameters
from gravitate.serve.node.moves import (
    UNDER_WAY_BYTES_MAX,
    MoveRegister,
    Position,
    encoded_size,
)

WAIT_S: Final = 40.0
"""How long the end of a move is waited for unless the asker says; longer than any may take."""
WAIT_S_MAX: Final = 120.0
MOVES_TOLD: Final = 100
MOVES_TOLD_MAX: Final = 1000


class _Page(msgspec.Struct, frozen=True):
    """A `MoveList` whose records are encoded."""

    broker: str
    under_way: list[msgspec.Raw]
    ended: list[msgspec.Raw]
    next: str | None


class MovePages:
    """Takes requests for moves of one broker; `submit` is its node's, `now` its clock. `reconnects`
    tells whether the client of a move would go itself, so that it needs a door where it goes."""

    def __init__(
        self,
        network: Network,
        broker_id: str,
        register: MoveRegister,
        submit: Callable[[Input], None],
        now: Callable[[], float],
        reconnects: Callable[[ClientMove], bool],
    ) -> None:
        self._broker_id = broker_id
        self._register = register
        self._submit = submit
        self._now = now
        self._reconnects = reconnects
        self._with_door = {spec.id for spec in network.brokers if spec.address.mqtt}
        self._brokers = [spec.id for spec in network.brokers]

    def routes(self) -> list[Route]:
        return [
            Route("/moves", self._answer, methods=["GET", "POST"]),
            Route("/moves/{id:path}", self._one),
        ]

    async def _answer(self, request: Request) -> Response:
        return await self._post(request) if request.method == "POST" else self._list(request)

    async def _one(self, request: Request) -> Response:
        id = request.path_params["id"]
        record = await self._register.ended(id, _wait_s(request, 0.0))
        if record is None:
            raise HTTPException(404, f"{self._broker_id} knows no move {id!r} (any more)")
        return json_response(record)

    def _list(self, request: Request) -> Response:
        asked = parameters(request.query_params, "limit", "before")
        limit = page_size(asked, MOVES_TOLD, MOVES_TOLD_MAX)
        known = self._register.backwards(_before(asked.get("before")))
        told, more = page_of(known, lambda entry: len(entry[1]), limit)
        following = f"/moves?limit={limit}&before={_spelled(told[-1][0])}" if more else None
        told.reverse()
        return json_response(
            _Page(
                self._broker_id,
                [encoded for position, encoded in told if position.under_way],
                [encoded for position, encoded in told if not position.under_way],
                following,
            )
        )

    async def _post(self, request: Request) -> Response:
        wait_s = _wait_s(request, WAIT_S)
        move: Move = await json_body(request, Move, "move")
        known = self._register.get(move.id)
        if known is None:
            self._check(move)
            if not self._register.requested(move, self._now()):
                raise HTTPException(
                    429,
                    f"a move of {encoded_size(move)} bytes beside "
                    f"{self._register.bytes_under_way} under way, {UNDER_WAY_BYTES_MAX} are taken: "
                    "ask again when some have ended",
                )
            self._submit(MoveRequested(move))
        elif not _is_same(move, known.move):
            raise HTTPException(409, f"another move has the id {move.id!r}: give it its own")
        record = await self._register.ended(move.id, wait_s)
        assert record is not None, f"move {move.id!r} was forgotten while it was waited for"
        return json_response(record, 202 if record.outcome is None else 200)

    def _check(self, move: Move) -> None:
        """Raises where the move cannot be meant for this broker."""
        if not move.id:
            raise InputError("a move needs an id: a text of its own")
        if not isinstance(move, ClientMove):
            return
        for place, broker in (("source", move.source), ("target", move.target)):
            if broker not in self._brokers:
                raise InputError(
                    f"{place} is {broker!r}, the brokers are {', '.join(self._brokers)}"
                )
        if move.source != self._broker_id:
            raise InputError(
                f"source is {move.source!r}: ask that broker, "
                f"this is {self._broker_id!r} and moves its own clients"
            )
        if move.target == move.source:
            raise InputError(f"source and target are both {move.source!r}: name another target")
        if move.target not in self._with_door and self._reconnects(move):
            raise InputError(
                f"target is {move.target!r}, which has no mqtt port in the network file: "
                f"{client_of(move)!r} cannot connect there"
            )


def _is_same(asked: Move, known: Move) -> bool:
    """Whether a move is asked for again; the way is the broker's to find."""
    if isinstance(asked, ClientMove) and isinstance(known, ClientMove) and not asked.path:
        known = msgspec.structs.replace(known, path=())
    return asked == known


def _wait_s(request: Request, default: float) -> float:
    """How long the asker waits for the end of a move."""
    text = parameters(request.query_params, "wait_s").get("wait_s")
    if text is None:
        return default
    try:
        wait_s = float(text)
    except ValueError:
        wait_s = -1.0
    if not 0.0 <= wait_s <= WAIT_S_MAX:
        raise InputError(f"wait_s is {text!r}, expected seconds from 0 to {WAIT_S_MAX:g}")
    return wait_s


def _spelled(position: Position) -> str:
    return f"{'u' if position.under_way else ''}{position.number}"


def _before(text: str | None) -> Position | None:
    if text is None:
        return None
    spelled = re.fullmatch(r"(u?)([0-9]{1,18})", text)
    if spelled is None:
        raise InputError(f"before is {text!r}, expected what `next` of a page has")
    return Position(bool(spelled[1]), int(spelled[2]))
