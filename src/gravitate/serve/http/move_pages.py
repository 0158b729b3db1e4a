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
from urllib.parse import unquote

import msgspec

from gravitate.broker.interface.inputs import Input, MoveRequested
from gravitate.config.network import Network
from gravitate.errors import InputError
from gravitate.model.decoding import decode_json
from gravitate.model.moves import ClientMove, Move, client_of
from gravitate.serve.http.paging import page_of, page_size, parameters
from gravitate.serve.http.server import JSON, Request, Response, json_response, refusal
from gravitate.serve.node.moves import (
    UNDER_WAY_BYTES_MAX,
    MoveRecord,
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

    async def answer(self, request: Request) -> Response:
        """For a request whose path begins with /moves."""
        if request.method not in ("GET", "HEAD", "POST"):
            return refusal("405 Method Not Allowed", "GET, HEAD or POST")
        _, _, id = request.path.removeprefix("/").partition("/")
        if request.method == "POST":
            if id:
                return refusal("404 Not Found", "POST /moves")
            return await self._post(request, _wait_s(request, WAIT_S))
        if not id:
            return self._list(request)
        record = await self._register.ended(unquote(id), _wait_s(request, 0.0))
        if record is None:
            return refusal(
                "404 Not Found", f"{self._broker_id} knows no move {unquote(id)!r} (any more)"
            )
        return json_response(record)

    def _list(self, request: Request) -> Response:
        asked = parameters(request.query, "limit", "before")
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

    async def _post(self, request: Request, wait_s: float) -> Response:
        if request.content_type != JSON:
            # A page in somebody's browser can send any other type without being asked about it.
            return refusal(
                "415 Unsupported Media Type",
                f"Content-Type is {request.content_type!r}, expected {JSON}",
            )
        try:
            move: Move = decode_json(request.body, Move)
        except msgspec.DecodeError as error:
            return refusal("400 Bad Request", f"the move is not accepted: {error}")
        known = self._register.get(move.id)
        if known is None:
            objection = self._objection(move)
            if objection:
                return refusal("400 Bad Request", objection)
            if not self._register.requested(move, self._now()):
                return refusal(
                    "429 Too Many Requests",
                    f"a move of {encoded_size(move)} bytes beside "
                    f"{self._register.bytes_under_way} under way, {UNDER_WAY_BYTES_MAX} are taken: "
                    "ask again when some have ended",
                )
            self._submit(MoveRequested(move))
        elif not _is_same(move, known.move):
            return refusal("409 Conflict", f"another move has the id {move.id!r}: give it its own")
        record = await self._register.ended(move.id, wait_s)
        assert record is not None, f"move {move.id!r} was forgotten while it was waited for"
        return _told(record)

    def _objection(self, move: Move) -> str:
        """Why the move cannot be meant for this broker; empty when it can."""
        if not move.id:
            return "a move needs an id: a text of its own"
        if not isinstance(move, ClientMove):
            return ""
        for place, broker in (("source", move.source), ("target", move.target)):
            if broker not in self._brokers:
                return f"{place} is {broker!r}, the brokers are {', '.join(self._brokers)}"
        if move.source != self._broker_id:
            return (
                f"source is {move.source!r}: ask that broker, "
                f"this is {self._broker_id!r} and moves its own clients"
            )
        if move.target == move.source:
            return f"source and target are both {move.source!r}: name another target"
        if move.target not in self._with_door and self._reconnects(move):
            return (
                f"target is {move.target!r}, which has no mqtt port in the network file: "
                f"{client_of(move)!r} cannot connect there"
            )
        return ""


def _is_same(asked: Move, known: Move) -> bool:
    """Whether a move is asked for again; the way is the broker's to find."""
    if isinstance(asked, ClientMove) and isinstance(known, ClientMove) and not asked.path:
        known = msgspec.structs.replace(known, path=())
    return asked == known


def _told(record: MoveRecord) -> Response:
    return json_response(record, "202 Accepted" if record.outcome is None else "200 OK")


def _wait_s(request: Request, default: float) -> float:
    """How long the asker waits for the end of a move."""
    text = parameters(request.query, "wait_s").get("wait_s")
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
