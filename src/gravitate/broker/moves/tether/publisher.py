"""One tether at its origin: where its publisher is, and what is on the way to it.

What the client does becomes commands, which are handed over in order and once. A command is *kept*
until it is handed over, then *sent* until the other broker has taken it. Owns these two queues and
what is advertised as of the last command that was taken; who is told what, and when, is the
business of `publisher_origin`.
"""

from __future__ import annotations

import enum
from collections import deque

import msgspec

from gravitate.broker.measure import Measure
from gravitate.broker.messages.frames import TetherAdvertise, TetherDetach, TetherUnadvertise
from gravitate.broker.sessions.inbound import Inbound
from gravitate.errors import PeerError
from gravitate.model.events import Batch
from gravitate.model.filters import Filter

Command = Batch | TetherAdvertise | TetherUnadvertise | TetherDetach
"""What is handed over in order, once."""


class State(enum.Enum):
    ATTACHED = "attached"
    PAUSED = "paused"
    ATTACHING = "attaching"
    WITHDRAWN = "withdrawn"


class Tether:
    """The origin's end: one client of this broker as a publisher."""

    __slots__ = (
        "advertised", "attachment", "broker", "destination", "former", "heard", "held",
        "incarnation", "kept", "next_path", "number", "path", "publisher", "sent", "session",
        "state", "unheard", "unsent",
    )  # fmt: skip

    def __init__(self, session: Inbound, broker: str, number: int) -> None:
        self.publisher = session.id
        self.incarnation = session.incarnation
        self.attachment = session.attachment
        self.number = number
        self.session: Inbound | None = session
        """None: the client is gone, and the tether ends when all has been taken."""
        self.state = State.ATTACHED
        self.broker = broker
        """Where the publisher is attached, or is being attached."""
        self.former = ""
        """Where it goes back to when that does not succeed."""
        self.destination = ""
        """Where it has been told to go."""
        self.path: tuple[str, ...] = (broker,)
        """Along the tree, from this broker to where it was last attached."""
        self.next_path: tuple[str, ...] = (broker,)
        """The same for where it is being attached."""
        self.advertised: dict[str, Filter] = dict(session.advertisements)
        """By key, as of the last command that was taken."""
        self.heard: set[str] = set()
        """Keys whose latest advertisement has come here over the tree."""
        self.unheard = False
        """WITHDRAWN, and waits to hear what is to end."""
        self.sent: deque[Command] = deque()
        """Handed over and not taken."""
        self.kept: deque[Command] = deque()
        """Not handed over yet."""
        self.unsent = Measure()
        """Of what is kept."""
        self.held = False
        """The other broker has too much of it waiting."""

    @property
    def key(self) -> tuple[str, int]:
        """One life of a publisher."""
        return self.publisher, self.incarnation

    def places(self) -> set[str]:
        """Brokers that it is at, goes to, or may go back to."""
        return {self.broker, self.former, self.destination}

    def is_finishing(self) -> bool:
        """Whether the end of the publisher has been handed over."""
        return bool(self.sent) and type(self.sent[-1]) is TetherDetach

    def keep(self, command: Command) -> None:
        self.kept.append(command)
        if isinstance(command, Batch):
            self.unsent.add(command.bodies)

    def next_kept(self) -> Command:
        """Take out the first command that is kept."""
        command = self.kept.popleft()
        if isinstance(command, Batch):
            self.unsent.take(command.bodies)
        return command

    def note_taken(self, command: Command) -> None:
        _apply(self.advertised, command)

    def take_back(self) -> None:
        """What was handed over and not taken will be handed over again; as copies, for the first
        may still be acknowledged by a broker that had no use for it any more."""
        self.kept.extendleft(msgspec.structs.replace(c) for c in reversed(self.sent))
        for command in self.sent:
            if isinstance(command, Batch):
                self.unsent.add(command.bodies)
        self.sent.clear()

    def come_back(self, session: Inbound) -> None:
        """The client is here again: its publisher does not end, but as if its former session had
        ended, all that it advertised does."""
        self.session = session
        session.attachment = self.attachment
        self.sent, self.kept = (
            deque(c for c in commands if type(c) is not TetherDetach)
            for commands in (self.sent, self.kept)
        )
        advertised = dict(self.advertised)
        for command in (*self.sent, *self.kept):
            _apply(advertised, command)
        self.kept.extend(TetherUnadvertise(*self.key, key) for key in advertised)

    def has_heard(self) -> bool:
        """Whether all that it advertised elsewhere has been heard of here, if need be."""
        return not self.unheard or self.heard.issuperset(self.advertised)

    def advertise_anew(self) -> None:
        """What was advertised has ended everywhere, and is to be advertised again first of all."""
        again = [TetherAdvertise(*self.key, key, what) for key, what in self.advertised.items()]
        self.kept.extendleft(reversed(again))
        self.advertised.clear()


def _apply(advertised: dict[str, Filter], command: Command) -> None:
    """What is advertised after a command has been taken."""
    if isinstance(command, TetherAdvertise):
        advertised[command.key] = command.filter
    elif isinstance(command, TetherUnadvertise):
        advertised.pop(command.key, None)


def onward(path: tuple[str, ...], move: tuple[str, ...], target: str) -> tuple[str, ...]:
    """The way along the tree from the first broker of `path` to `target`, where a move has led that
    begins where `path` ends.

    >>> onward(("a", "b", "c"), ("c", "b", "d"), "d")
    ('a', 'b', 'd')
    """
    if not move or (move[0], move[-1]) != (path[-1], target):
        raise PeerError("wrong-path", f"from {path[-1]} along {move}")
    way = list(path)
    for broker in move[1:]:
        if len(way) > 1 and way[-2] == broker:
            way.pop()
        else:
            way.append(broker)
    return tuple(way)
