"""Asking the brokers of a running network over HTTP, from the command line.

Owns requests and their failures as sentences. What the pages say is `serve`'s business.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from gravitate.errors import EnvironmentLack, GravitateError, InputError

if TYPE_CHECKING:
    from gravitate.config.network import BrokerSpec, Network
    from gravitate.model.moves import Move
    from gravitate.overlay.topology import Neighbourhood
    from gravitate.serve.node.moves import MoveList, MoveRecord

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


def ask(spec: BrokerSpec, path: str, what: Any, body: Any = None, wait_s: float = 0.0) -> Any:
    """The answer of a broker, decoded as `what`; None when it knows no such page.

    With a body it is a POST. A request that is refused raises `Refused`; a POST that went out and
    has no answer that can be read raises `OutcomeUnknown`."""
    import http.client

    import msgspec

    from gravitate.model.decoding import UNREADABLE

    address = spec.address
    if not address.http:
        raise InputError(
            f"broker '{spec.id}' has no http port in the network file: give it one, "
            "it is asked over HTTP"
        )
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
        if status >= 500:
            # A broker answers so itself in no case; what stands before it cannot know more.
            raise lack(f"broker '{spec.id}' has failed, or what stands before it: {status}")
        if status >= 400:
            from gravitate.serve.control.rolling import reason_in

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


def carry_out(spec: BrokerSpec, move: Move) -> MoveRecord:
    """Ask the move's broker for it, and wait until it has ended.

    Once the broker has taken it, whatever keeps its end from being known is `OutcomeUnknown`."""
    import time

    from gravitate.serve.node.moves import MoveRecord

    until = time.monotonic() + MOVE_S_MAX
    record: MoveRecord | None = ask(
        spec, f"/moves?wait_s={_WAIT_S:g}", MoveRecord, move, wait_s=_WAIT_S
    )
    if record is None:
        raise EnvironmentLack(f"broker '{spec.id}' knows nothing of moves: is it of this version?")
    page = f"/moves/{quote(move.id, safe='')}?wait_s={_WAIT_S:g}"
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


def wait_for_moves(network: Network, clients: Container[str]) -> None:
    """Until the moves of these clients that are under way have ended, as far as brokers tell: only
    then does it count where a client is. Moves that last longer than `MOVE_S_MAX` are left."""
    import time

    from gravitate.model.moves import ClientMove, client_of
    from gravitate.serve.node.moves import MoveList, MoveRecord

    until = time.monotonic() + MOVE_S_MAX
    # Those under way stand before those that ended, from page to page.
    answers = _of_all(network, "/moves", MoveList, enough=lambda page: bool(page.ended))
    for spec in network.brokers:
        for record in (it for page in answers.get(spec.id) or () for it in page.under_way):
            if not isinstance(record.move, ClientMove) or client_of(record.move) not in clients:
                continue
            page = f"/moves/{quote(record.move.id, safe='')}?wait_s={_WAIT_S:g}"
            known: MoveRecord | None = record
            while known is not None and known.outcome is None and time.monotonic() < until:
                try:
                    known = ask(spec, page, MoveRecord, wait_s=_WAIT_S)
                except GravitateError:
                    break


def all_moves(network: Network) -> tuple[list[MoveList], list[str]]:
    """What each broker with an http port knows of its moves, and those that do not answer."""
    from gravitate.serve.node.moves import MoveList

    answers = _of_all(network, "/moves", MoveList)
    silent = [broker for broker, pages in answers.items() if pages is None]
    return [_joined(pages) for pages in answers.values() if pages], silent


def _joined(pages: list[MoveList]) -> MoveList:
    """Pages as one list: the first has the latest moves."""
    from gravitate.serve.node.moves import MoveList

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
    from gravitate.serve.http.client_pages import ClientList

    answers = _of_all(network, page, ClientList)
    found = {
        client: broker
        for broker, pages in answers.items()
        for told in pages or ()
        for client in told.clients
    }
    return found, [spec.id for spec in network.brokers if answers.get(spec.id) is None]


def neighbourhoods(network: Network) -> tuple[dict[str, Neighbourhood], dict[str, str]]:
    """What each broker says of its neighbours, and why others say nothing."""
    from gravitate.overlay.topology import Neighbourhood

    def one(spec: BrokerSpec) -> Neighbourhood | str:
        try:
            told: Neighbourhood | None = ask(spec, "/topology", Neighbourhood)
        except GravitateError as problem:
            return str(problem)
        return told or f"broker '{spec.id}' knows no topology: is it of this version?"

    with ThreadPoolExecutor(max_workers=min(32, len(network.brokers))) as pool:
        answers = list(zip(network.brokers, pool.map(one, network.brokers), strict=True))
    return (
        {spec.id: told for spec, told in answers if isinstance(told, Neighbourhood)},
        {spec.id: told for spec, told in answers if isinstance(told, str)},
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
    with ThreadPoolExecutor(max_workers=min(32, len(asked))) as pool:
        return {spec.id: it for spec, it in zip(asked, pool.map(one, asked), strict=True)}
