"""The path of a move: its brokers are asked, each gives shared use of its lock, and all let go.

`PrepareMove` goes from the first broker to the last, each passing it on or refusing at once; the
answer comes back the same way; `EndMove` follows when the move is over, however it ended. What a
broker has granted and is never told about again has a lease.

Serves every kind of move that leads a client along a path. Does not know what is moved, nor what
the moves' own messages mean: it only finds their way.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from gravitate.broker.context import Context
from gravitate.broker.interface.timers import LocksOver
from gravitate.broker.links.demand import TetherLinks
from gravitate.broker.links.table import LinkTable
from gravitate.broker.messages import frames
from gravitate.broker.moves.table import On
from gravitate.errors import PeerError
from gravitate.model.moves import LOCKED, ClientMove


class MoveLock:
    """Every broker owns one, and nobody ever waits for it: a move asks for shared or exclusive use
    and is refused at once when it cannot have it. A lease that runs out frees the lock, so that a
    broker that vanished holds up nobody."""

    def __init__(self) -> None:
        self._holders: dict[str, tuple[bool, float]] = {}
        """Move -> (exclusive, when its lease ends)."""

    def is_free(self, exclusive: bool, now: float, move: str = "") -> bool:
        """Whether a move, if it has a name, could have the lock."""
        others = [held for holder, held in self.held(now).items() if holder != move]
        return not any(exclusive or other_is_exclusive for other_is_exclusive, _ in others)

    def request(self, move: str, exclusive: bool, lease_s: float, now: float) -> bool:
        """Whether `move` now has the lock; asking again renews or changes its use."""
        if not self.is_free(exclusive, now, move):
            return False
        self._holders[move] = (exclusive, now + lease_s)
        return True

    def release(self, move: str) -> None:
        self._holders.pop(move, None)

    def next_end(self, now: float) -> float | None:
        """When the next lease ends; None: nobody holds the lock."""
        return min((ends for _, ends in self.held(now).values()), default=None)

    def held(self, now: float) -> dict[str, tuple[bool, float]]:
        self._holders = {move: held for move, held in self._holders.items() if held[1] > now}
        return self._holders


@dataclass(eq=False)
class MovePaths:
    """`tell` takes what brokers on a path say of a move: whether it may begin, that it is over."""

    _context: Context
    _links: LinkTable
    _tether_links: TetherLinks
    _send: Callable[[str, frames.Control | frames.Carrying], None]
    _tell: Callable[[str, On, str], object]
    lock: MoveLock = field(default_factory=MoveLock)

    def objection(self, move: ClientMove) -> str:
        """Why a move cannot begin; empty when it can."""
        here, path = self._context.broker_id, move.path
        is_way = len(path) > 1 and len(set(path)) == len(path)
        if not is_way or (path[0], path[-1]) != (here, move.target):
            return f"the path {' - '.join(path)!r} does not lead from {here} to {move.target}"
        if not self._links.is_neighbour(path[1]):
            return f"{path[1]} is no neighbour of {here}"
        return "" if self.lock.is_free(False, self._context.now) else f"{here} {LOCKED}"

    def _request_lock(self, move: str, lease_s: float) -> bool:
        granted = self.lock.request(move, False, lease_s, self._context.now)
        self.watch_leases()
        return granted

    def watch_leases(self) -> None:
        """Leases that have ended are forgotten; who never said that a move is over is gone."""
        at = self.lock.next_end(self._context.now)
        if at is not None:
            self._context.set_timer(LocksOver(), at)

    def ask(self, move: ClientMove, lease_s: float, tether: str) -> None:
        """Ask the brokers on the path; `tether` is where the client stays connected, if it does."""
        self._request_lock(move.id, lease_s)
        self._send(move.path[1], frames.PrepareMove(move.id, move.path, lease_s, tether))

    def end(self, move: ClientMove) -> None:
        """The move is over: everybody who was asked is told."""
        self._let_go(frames.EndMove(move.id, move.path), 0)

    # What comes along a path ---------------------------------------------------------------

    def handle(self, peer: str, message: frames.MoveMessage) -> None:
        place = self.place(peer, message.path, isinstance(message, frames.MoveAnswer))
        match message:
            case frames.PrepareMove():
                self._prepare(peer, message, place)
            case frames.MoveAnswer():
                if not message.granted:
                    self.lock.release(message.move)
                if place:
                    self.pass_on(message.path[place - 1], message)
                else:
                    event = On.GRANTED if message.granted else On.REFUSED
                    self._tell(message.move, event, message.reason)
            case frames.EndMove():
                self._let_go(message, place)

    def place(self, peer: str, path: tuple[str, ...], is_back: bool) -> int:
        """This broker's place on the path of a message; the sender must be beside it."""
        here = self._context.broker_id
        if here in path:
            place = path.index(here)
            before = place + 1 if is_back else place - 1
            if 0 <= before < len(path) and path[before] == peer:
                return place
        raise PeerError("wrong-path", f"a message along {path} from {peer}")

    def pass_on(self, peer: str, message: frames.Control | frames.Carrying) -> None:
        if self._is_open(peer):
            self._send(peer, message)

    def _is_open(self, peer: str) -> bool:
        return self._links.is_neighbour(peer) and not self._links[peer].given_up

    def _prepare(self, peer: str, message: frames.PrepareMove, place: int) -> None:
        path, tether = message.path, message.tether
        here, following = path[place], next(iter(path[place + 1 :]), None)
        objection = ""
        if following is not None and not self._is_open(following):
            objection = f"no way from {here} to {following}"
        elif following is None and tether and not self._tether_links.is_possible(tether):
            objection = f"{here} can make no link to {tether}, where the client is"
        elif not self._request_lock(message.move, message.lease_s):
            objection = f"{here} {LOCKED}"
        elif following is not None:
            self._send(following, message)
            return
        elif tether:
            self._tether_links.expect(message.move, tether, message.lease_s)
        self._send(peer, frames.MoveAnswer(message.move, path, not objection, objection))

    def _let_go(self, message: frames.EndMove, place: int) -> None:
        self.lock.release(message.move)
        self._tether_links.expect_no_more(message.move)
        self._tell(message.move, On.ENDED, "")
        if place + 1 < len(message.path):
            self.pass_on(message.path[place + 1], message)
