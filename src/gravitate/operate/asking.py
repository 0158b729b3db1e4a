"""Asking the brokers of a running network over HTTP.

Owns requests and their failures as sentences. What the pages say is `serve`'s business.
"""

from __future__ import annotations

import http.client
import time
from collections.abc import Callable, Container, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, TypeVar
from urllib.parse import quote

import msgspec

from gravitate.config.network import BrokerSpec, Network
from gravitate.errors import EnvironmentLack, GravitateError, InputError
from gravitate.model.decoding import UNREADABLE
from gravitate.model.moves import ClientMove, Move, MoveOutcome, client_of
from gravitate.overlay.topology import Neighbourhood
from gravitate.serve.http.client_pages import ClientList
from gravitate.serve.node.moves import MoveList, MoveRecord
from gravitate.serve.node.status import NodeStatus

T = TypeVar("T")

ANSWER_S_MAX: Final = 5.0
"""How long a broker may take for what it knows at once."""
MOVE_S_MAX: Final = 120.0
"""How long a move may take before nobody waits for it any more."""
_WAIT_S: Final = 30.0

NOT_FOUND: Final = 404
SUBSCRIBERS: Final = "/subscribers"


class Refused(InputError):
    """A broker does not take a request; the message is its own."""


class OutcomeUnknown(EnvironmentLack):
    """A broker may have taken a request and does not tell what became of it."""


def check_port(spec: BrokerSpec) -> None:
    """Refuse a broker that cannot be asked."""
    if not spec.address.http:
        raise InputError(
            f"broker '{spec.id}' has no http port in the network file: give it one, "
            "it is asked over HTTP"
        )


def ask(
    spec: BrokerSpec,
    path: str,
    what: Any,
    body: Any = None,
    wait_s: float = 0.0,
    besides: int | None = None,
) -> Any:
    """The answer of a broker, decoded as `what`; None when it knows no such page.

    With a body it is a POST. A request that is refused raises `Refused`; a POST that went out and
    has no answer that can be read raises `OutcomeUnknown`. `besides` is a status of failure that
    comes with an answer all the same."""
    check_port(spec)
    address = spec.address
    connection = http.client.HTTPConnection(
        address.host, address.http, timeout=ANSWER_S_MAX + wait_s
    )
    lack: type[EnvironmentLack] = EnvironmentLack
    try:
        connection.connect()
        if body is None:
            connection.request("GET", path)
        else:
            content = msgspec.json.encode(body)
            lack = OutcomeUnknown
            connection.request("POST", path, content, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        status, content = answer.status, answer.read()
        if status == NOT_FOUND:
            return None
        if status >= 500 and status != besides:
            # What stands before a broker cannot know more, nor a page that failed.
            raise lack(f"broker '{spec.id}' has failed, or what stands before it: {status}")
        if 400 <= status < 500:
            raise Refused(f"broker '{spec.id}' refuses: {reason_in(content)}")
        return msgspec.json.decode(content, type=what)
    except (OSError, http.client.HTTPException) as problem:
        raise lack(
            f"broker '{spec.id}' does not answer at {address.host}:{address.http} "
            f"({problem or type(problem).__name__}): is the network up?"
        ) from None
    except UNREADABLE as problem:
        raise lack(
            f"broker '{spec.id}' at {address.host}:{address.http} answers what is not expected "
            f"({problem}): is it of this version?"
        ) from None
    finally:
        connection.close()


def reason_in(content: bytes) -> str:
    """Why a broker refuses a request, by its answer; what else it says where that is not told."""
    try:
        return str(msgspec.json.decode(content, type=dict[str, Any])["error"])
    except (*UNREADABLE, KeyError):
        return content.decode("utf-8", "replace").strip()[:200]


def carry_out(spec: BrokerSpec, move: Move) -> MoveRecord:
    """Ask the move's broker for it, and wait until it has ended.

    Once the broker has taken it, whatever keeps its end from being known is `OutcomeUnknown`."""
    until = time.monotonic() + MOVE_S_MAX
    record: MoveRecord | None = ask(
        spec, f"/moves?wait_s={_WAIT_S:g}", MoveRecord, move, wait_s=_WAIT_S
    )
    if record is None:
        raise EnvironmentLack(f"broker '{spec.id}' knows nothing of moves: is it of this version?")
    page = _page_of(move)
    while record.outcome is None:
        if time.monotonic() >= until:
            raise OutcomeUnknown(
                f"move '{move.id}' has not ended in {MOVE_S_MAX:g} s: broker '{spec.id}' has it "
                f"'{record.step}'"
            )
        try:
            known: MoveRecord | None = ask(spec, page, MoveRecord, wait_s=_WAIT_S)
        except GravitateError as problem:
            raise OutcomeUnknown(str(problem)) from None
        if known is None:
            raise OutcomeUnknown(
                f"broker '{spec.id}' took move '{move.id}' and has forgotten it: was it restarted?"
            )
        record = known
    return record


def _page_of(move: Move) -> str:
    """Where a broker tells how a move has ended, once it has."""
    return f"/moves/{quote(move.id, safe='')}?wait_s={_WAIT_S:g}"


def carry(network: Network) -> Callable[[Move], tuple[MoveOutcome | None, str]]:
    """Carries out moves of clients by asking their brokers; how each ended, None where that is not
    known, and why."""
    specs = {spec.id: spec for spec in network.brokers}

    def one(move: Move) -> tuple[MoveOutcome | None, str]:
        assert isinstance(move, ClientMove), f"move '{move.id}' is of no client"
        try:
            record = carry_out(specs[move.source], move)
        except Refused as refused:
            return MoveOutcome.REFUSED, str(refused)
        except OutcomeUnknown as unknown:
            return None, str(unknown)
        return record.outcome, record.reason

    return one


def wait_for_moves(network: Network, clients: Container[str]) -> None:
    """Until the moves of these clients that are under way have ended, as far as brokers tell: only
    then does it count where a client is. Moves that last longer than `MOVE_S_MAX` are left."""
    until = time.monotonic() + MOVE_S_MAX
    # Those under way stand before those that ended, from page to page.
    answers = _of_all(network, "/moves", MoveList, enough=lambda page: bool(page.ended))
    for spec in network.brokers:
        for record in (it for page in answers.get(spec.id) or () for it in page.under_way):
            if not isinstance(record.move, ClientMove) or client_of(record.move) not in clients:
                continue
            page = _page_of(record.move)
            known: MoveRecord | None = record
            while known is not None and known.outcome is None and time.monotonic() < until:
                try:
                    known = ask(spec, page, MoveRecord, wait_s=_WAIT_S)
                except GravitateError:
                    break


def all_moves(network: Network) -> tuple[list[MoveList], list[str]]:
    """What each broker with an http port knows of its moves, and those that do not answer."""
    answers = _of_all(network, "/moves", MoveList)
    silent = [broker for broker, pages in answers.items() if pages is None]
    return [_joined(pages) for pages in answers.values() if pages], silent


def _joined(pages: list[MoveList]) -> MoveList:
    """Pages as one list: the first has the latest moves."""
    ended = [record for page in reversed(pages) for record in page.ended]
    # What ended between two pages was under way on the one and is told again on the other.
    over = {(record.move.id, record.began_at_s) for record in ended}
    under_way = [
        record
        for page in reversed(pages)
        for record in page.under_way
        if (record.move.id, record.began_at_s) not in over
    ]
    return MoveList(pages[0].broker, under_way, ended)


def places(network: Network, page: str = "/clients") -> tuple[dict[str, str], list[str]]:
    """At which broker each client is as a publisher, or, with `SUBSCRIBERS`, as a subscriber; and
    the brokers that do not tell."""
    answers = _of_all(network, page, ClientList)
    found = {
        client: broker
        for broker, pages in answers.items()
        for told in pages or ()
        for client in told.clients
    }
    return found, [spec.id for spec in network.brokers if answers.get(spec.id) is None]


def statuses(network: Network) -> dict[str, NodeStatus | None]:
    """How every broker is; None for one that does not tell."""

    def one(spec: BrokerSpec) -> NodeStatus | None:
        try:
            told: NodeStatus | None = ask(spec, "/status", NodeStatus)
        except GravitateError:
            return None
        return told

    return _each(network.brokers, one)


def neighbourhoods(network: Network) -> tuple[dict[str, Neighbourhood], dict[str, str]]:
    """What each broker says of its neighbours, and why others say nothing."""

    def one(spec: BrokerSpec) -> Neighbourhood | str:
        try:
            told: Neighbourhood | None = ask(spec, "/topology", Neighbourhood)
        except GravitateError as problem:
            return str(problem)
        return told or f"broker '{spec.id}' knows no topology: is it of this version?"

    answers = _each(network.brokers, one)
    return (
        {id: told for id, told in answers.items() if isinstance(told, Neighbourhood)},
        {id: told for id, told in answers.items() if isinstance(told, str)},
    )


def _of_all(
    network: Network, path: str, what: Any, enough: Callable[[Any], bool] = lambda page: False
) -> dict[str, list[Any] | None]:
    """The pages of every broker with an http port, one after the other, to the last or to one that
    is enough; None where one is not to be had."""

    def one(spec: BrokerSpec) -> list[Any] | None:
        pages: dict[str, Any] = {}
        following: str | None = path
        try:
            while following is not None and following not in pages:
                page = ask(spec, following, what)
                if page is None:
                    return None
                pages[following] = page
                following = None if enough(page) else page.next
        except GravitateError:
            return None
        return list(pages.values())

    asked = [spec for spec in network.brokers if spec.address.http]
    if not asked:
        raise InputError(f"no broker of network '{network.name}' has an http port: nobody to ask")
    return _each(asked, one)


def _each(specs: Sequence[BrokerSpec], one: Callable[[BrokerSpec], T]) -> dict[str, T]:
    """What is to be had of each broker, all at once."""
    with ThreadPoolExecutor(max_workers=min(32, len(specs))) as pool:
        return {spec.id: it for spec, it in zip(specs, pool.map(one, specs), strict=True)}
