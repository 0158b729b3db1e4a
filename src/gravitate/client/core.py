"""The client's half of a session, wherever it is to be: a state machine without I/O.

Owns where the client connects and when, what it says again on every connection (subscriptions,
advertisements, publications that may be missing), what it keeps meanwhile, and its half of a move
(`states`).

A driver carries effects out in order, at once, and tells what happens on a connection under its
number; what is told of another than the last is ignored. It knows how things are said and where
places are; this module knows neither, nor what is published, nor what time it is.

Invariants: at most one connection is in use; the number grows with every connection; nothing is
said between `paused` and the answer to it, but acknowledgements of what was delivered.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from typing import Any, Final, Generic, NamedTuple, TypeVar

from gravitate.client.outgoing import Outgoing, Publication
from gravitate.client.states import MACHINE, State
from gravitate.wire.mqtt.codes import ReasonCode
from gravitate.wire.mqtt.control import BACK, MOVED

P = TypeVar("P")
"""A place: where a broker takes clients."""
B = TypeVar("B")
"""What a driver writes to publish something."""
S = TypeVar("S")
A = TypeVar("A")
W = TypeVar("W")
"""How a driver asks for a subscription, for an advertisement."""

FINAL_REFUSALS: Final = frozenset(
    {
        ReasonCode.SESSION_TAKEN_OVER,
        ReasonCode.UNSUPPORTED_PROTOCOL_VERSION,
        ReasonCode.CLIENT_IDENTIFIER_NOT_VALID,
        ReasonCode.BAD_USER_NAME_OR_PASSWORD,
        ReasonCode.NOT_AUTHORIZED,
        ReasonCode.BANNED,
        ReasonCode.BAD_AUTHENTICATION_METHOD,
        ReasonCode.IMPLEMENTATION_SPECIFIC_ERROR,
    }
)
"""Refusals after which connecting again would not help, or would harm."""

LOYALTY: Final = 3
"""How often the last place is tried before others that were good before."""
PLACES_MAX: Final = 3

ROWS: Final = {(row.state, row.event): row for row in MACHINE.rows}

ASKING: Final = frozenset({State.JOINING, State.AT_HOME, State.ARRIVING})
"""Where anything may be asked for, and publications are written."""
CONNECTED: Final = ASKING | {State.PAUSED}


class Note(enum.Enum):
    PAUSED = "paused"
    """Nothing more will be asked for here."""
    ARRIVED = "arrived"
    """All that is subscribed to has been said; what was kept may be delivered."""


class Say(NamedTuple):
    """Write all this on the connection: requests as they were made, notes, publications."""

    words: Sequence[Any]


class Dial(NamedTuple):
    """Connect after a while, and introduce the client; then tell `opened` or `lost`."""

    connection: int
    """It is also the number of the attachment."""
    place: Any
    after_s: float
    continues: str
    """`MOVED`, `BACK` or nothing: the session that the client has come for."""


class HangUp(NamedTuple):
    """Give the last connection up, open or not: say goodbye where that can be said."""


class Alarm(NamedTuple):
    """Tell `late` of this connection after a while."""

    connection: int
    after_s: float


class Changed(NamedTuple):
    """Those who wait for something may look again."""

    before: State
    to: State


class Failed(NamedTuple):
    """There will be no further connection."""


Effect = Say | Dial | HangUp | Alarm | Changed | Failed


class Policy(NamedTuple):
    """How a client goes about it."""

    follow: bool = True
    """Whether it connects elsewhere when it is told to."""
    retry_s: tuple[float, float] = (0.05, 5.0)
    """Pauses between attempts grow from the first to the second."""
    move_s_max: float = 5.0
    """It goes back when it has not arrived by then."""
    loyalty: int = LOYALTY


class Core(Generic[P, B, S, A]):
    """One client. `jitter` draws what part of a pause is waited: clients that lost one broker
    together do not come back all at once."""

    def __init__(self, place: P, policy: Policy, jitter: Callable[[], float]) -> None:
        self.state = State.OFFLINE
        self.asks = False
        """Whether anything may be asked for now."""
        self.is_connected = False
        self.policy = policy
        self._jitter = jitter
        self._configured = place
        self._places = [place]
        """Where the client was welcome, the last first, and where it was told to connect."""
        self._home = self._places
        """The same as it was before the client was sent elsewhere, and where it was sent."""
        self._dialled = place
        self.connection = 0
        """The number of the last."""
        self._attempt = 0
        self._pause_s = 0.0
        self._continues = ""
        """What a subscriber that was sent elsewhere comes for: nothing has been delivered to it
        since."""
        self.outgoing: Outgoing[B] = Outgoing()
        self.subscriptions: dict[str, S] = {}
        self.advertisements: dict[str, A] = {}
        self.connects = 0
        """How often it has connected because it wanted to, or had to."""
        self.moves = 0
        """How often it has gone to another broker because its own asked for that."""

    @property
    def place(self) -> P:
        """Where the client is, or was last."""
        return self._places[0]

    @property
    def takes(self) -> bool:
        """Whether publications are not in vain: said now, or kept until the client has moved."""
        return self.is_connected or self.outgoing.holding

    # --- what the application wants ---------------------------------------------------------------

    def start(self, place: P | None = None) -> list[Effect]:
        """Connect, and from then on renew the connection when it is lost."""
        if place is not None and self.state is State.OFFLINE:
            self._configured = place
            self._places = [place]
        return self._step("start")

    def stop(self) -> list[Effect]:
        return self._step("stop")

    def want(self, wishes: dict[str, W], name: str, word: W) -> list[Effect]:
        """Ask for a subscription or an advertisement, now and on every connection."""
        assert self.asks
        wishes[name] = word
        return [Say((word,))]

    def drop(self, wishes: dict[str, W], name: str, word: object) -> list[Effect]:
        """It is not wanted any more; `word` says so."""
        assert self.asks
        del wishes[name]
        return [Say((word,))]

    def publish(self, body: B, qos: int, size: int = 0) -> Publication[B]:
        """Give a publication its numbers; it is said when it is `due`."""
        return self.outgoing.add(body, qos, size)

    def due(self) -> list[Publication[B]]:
        """The publications that are to be said now; ask whenever one was made."""
        return self.outgoing.due() if self.asks else []

    # --- what happens on a connection -------------------------------------------------------------

    def opened(self, connection: int) -> list[Effect]:
        """The broker has welcomed the client."""
        return self._step("opened", connection)

    def lost(self, connection: int, reason: ReasonCode | None) -> list[Effect]:
        """A connection is gone, or could not be had; the reason, where the broker gave one."""
        is_final = reason in FINAL_REFUSALS and self._dialled == self.place
        return self._step("refused" if is_final else "lost", connection)

    def late(self, connection: int) -> list[Effect]:
        return self._step("late", connection)

    def redirected(self, connection: int) -> list[Effect]:
        """The broker wants the client to go elsewhere: stop, and say so."""
        return self._step("redirected", connection) if self.policy.follow else []

    def stay(self, connection: int) -> list[Effect]:
        """The broker wants the client to go on where it is."""
        return self._step("stay", connection)

    def moved(self, connection: int, place: P | None) -> list[Effect]:
        """The connection is gone: the client is expected elsewhere; None: where, is not clear."""
        if not self.policy.follow:
            return self._step("lost", connection)
        return self._step("astray" if place is None else "moved", connection, place)

    def attached(self, connection: int) -> list[Effect]:
        """What is said on this connection is behind all that was said on others."""
        return self._step("attached", connection)

    def acknowledged(self, connection: int, packet_id: int) -> Publication[B] | None:
        """The broker has a publication; None: that says nothing new."""
        if connection != self.connection or not self.is_connected:
            return None
        return self.outgoing.acknowledge(packet_id)

    def may_answer(self, connection: int) -> bool:
        """Whether what was asked on a connection may be answered there now."""
        return connection == self.connection and self.asks

    # --- transitions ------------------------------------------------------------------------------

    def _step(self, event: str, connection: int | None = None, *about: Any) -> list[Effect]:
        row = ROWS.get((self.state, event))
        if row is None or (connection is not None and connection != self.connection):
            return []
        before, self.state = self.state, row.to
        self.asks = row.to in ASKING
        self.is_connected = row.to in CONNECTED
        effects: list[Effect] = getattr(self, f"_{row.do}")(*about)
        effects.append(Changed(before, row.to))
        return effects

    def _dial(self, place: P, after_s: float) -> Effect:
        self.connection += 1
        self._dialled = place
        return Dial(self.connection, place, after_s, self._continues)

    def _connect_at_once(self) -> list[Effect]:
        self._attempt = 1
        self._pause_s = self.policy.retry_s[0]
        return [self._dial(self.place, 0.0)]

    def _connect_again(self) -> list[Effect]:
        self._attempt = 0
        self._pause_s = self.policy.retry_s[0]
        return self._try_again()

    def _try_again(self) -> list[Effect]:
        after_s = self._pause_s * self._jitter()
        self._pause_s = min(2 * self._pause_s, self.policy.retry_s[1])
        index = max(0, self._attempt - self.policy.loyalty + 1)
        self._attempt += 1
        return [self._dial(self._places[index % len(self._places)], after_s)]

    def _join(self) -> list[Effect]:
        self.connects += 1
        return self._say_all()

    def _say_all(self) -> list[Effect]:
        """Say what is still meant, and what may be missing."""
        place = self._dialled
        self._places = [place, *(other for other in self._places if other != place)]
        self.outgoing.renew()
        wishes = (*self.advertisements.values(), *self.subscriptions.values())
        return [Say((*wishes, *self.outgoing.due()))]

    def _arrive(self) -> list[Effect]:
        effects: list[Effect] = [Say((Note.ARRIVED,))] if self._continues else []
        self._continues = ""
        self.outgoing.release()
        del self._places[PLACES_MAX:]
        if self._configured not in self._places:
            self._places[-1] = self._configured
        return effects

    def _arrive_elsewhere(self) -> list[Effect]:
        self.moves += 1
        return self._arrive()

    def _pause(self) -> list[Effect]:
        self.outgoing.hold()
        return [Say((Note.PAUSED,))]

    def _go_on(self) -> list[Effect]:
        words = self.outgoing.due()
        self.outgoing.release()
        return [Say(words)]

    def _set_out(self) -> None:
        self.outgoing.hold()
        self._home = list(self._places)
        self._continues = MOVED if self.subscriptions else ""

    def _turn_back(self, *_: None) -> list[Effect]:
        self._set_out()
        return self._go_back()

    def _leave(self, place: P) -> list[Effect]:
        self._set_out()
        if place not in self._home:
            self._home.append(place)
        dial = self._dial(place, 0.0)
        return [dial, Alarm(self.connection, self.policy.move_s_max)]

    def _go_back(self, *_: P | None) -> list[Effect]:
        self._places = self._home
        self._continues = BACK if self._continues else ""
        return [HangUp(), *self._connect_at_once()]

    def _leave_for_good(self) -> list[Effect]:
        self._continues = ""
        self.connection += 1
        return [HangUp()]

    def _fail(self) -> list[Effect]:
        return [Failed()]
