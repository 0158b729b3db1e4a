"""What a broker is told. A driver collects inputs and hands them over as a batch.

A connection, of a client or to a peer, is a number that the driver chose and never uses again. A
link outlives its connections; what comes of a client's connection that is over is ignored.
"""

from __future__ import annotations

import enum

import msgspec

from gravitate.broker.interface.timers import Timer
from gravitate.broker.messages.frames import Frame
from gravitate.model.events import Bodies
from gravitate.model.filters import Filter
from gravitate.model.moves import Move


class Input(msgspec.Struct, frozen=True):
    """All that a broker is told; `core` has what takes each kind."""


class _OfClient(Input, frozen=True):
    connection: int


class _OfPeer(Input, frozen=True):
    peer: str
    connection: int


class Continues(str, enum.Enum):
    """Which session a client goes on with that was told to move."""

    NOTHING = ""
    """A new one."""
    MOVED = "moved"
    """The one that was handed over to this broker."""
    BACK = "back"
    """The one it had here, if it is still known."""


class ClientConnected(_OfClient, frozen=True):
    """A client opened a session; one of the same id that is still open is taken over.

    `incarnation` must grow with every connect of the client. A client that counts its own
    publications (`counts=True`) keeps its incarnation over reconnects, so that what it sends
    again is recognised. `window` is how many unacknowledged deliveries it takes."""

    session: str
    """The client's id."""
    incarnation: int
    window: int = 65535
    counts: bool = False
    attachment: int = 0
    """Of a client that counts: its how many-th connection within this incarnation. A greater one
    takes the publisher along from wherever it was."""
    follows: bool = False
    """Whether the client connects elsewhere when it is told to."""
    continues: Continues = Continues.NOTHING
    """What it has come for, having received nothing since its session was closed for a move."""


class ClientDisconnected(_OfClient, frozen=True):
    """The session ended; its subscriptions and advertisements go with it."""


class ClientSubscribed(_OfClient, frozen=True):
    """The client wants events matching `filter`; a subscription of the same name is replaced."""

    name: str
    filter: Filter
    qos: int = 0
    no_local: bool = False


class ClientUnsubscribed(_OfClient, frozen=True):
    name: str


class ClientAdvertised(_OfClient, frozen=True):
    """The client says what it will publish; one of the same name is replaced."""

    name: str
    filter: Filter


class ClientPaused(_OfClient, frozen=True):
    """The client has been told to move and asks for nothing more here."""


class ClientArrived(_OfClient, frozen=True):
    """The client goes on with a session that it was handed over with, or came back to, and has
    said all that it subscribes to. What was kept for it may be delivered."""


class BrokersPinged(_OfClient, frozen=True):
    """What a client has measured for `PingBrokers(token)`; who did not answer is missing."""

    token: int
    round_trips_s: dict[str, float]


class ClientUnadvertised(_OfClient, frozen=True):
    name: str


class ClientPublished(_OfClient, frozen=True, gc=False):
    """Consecutive publications of one client, all of one quality of service; `first_counter` is
    given by clients that count their own."""

    bodies: Bodies
    qos: int = 0
    first_counter: int | None = None


class ClientAcknowledged(_OfClient, frozen=True, gc=False):
    """The client has every delivery up to and including `sequence`."""

    sequence: int


class ClientCongested(_OfClient, frozen=True):
    """The client's connection takes no more (or takes again) for now."""

    congested: bool


class MoveRequested(Input, frozen=True):
    """Somebody outside asks for a move; its end is observed as `on_move`."""

    move: Move


class LinkOpened(_OfPeer, frozen=True):
    """A connection to `peer` exists; nothing has been said on it yet."""


class LinkClosed(_OfPeer, frozen=True):
    """The connection is gone."""


class DialFailed(Input, frozen=True):
    """What `OpenLink` asked for could not be had."""

    peer: str


class LinkHeard(_OfPeer, frozen=True):
    """Something comes that is no whole frame yet: the peer is there. Not told of every read."""


class FrameReceived(_OfPeer, frozen=True):
    frame: Frame


class TimerFired(Input, frozen=True):
    """The time asked for with `SetTimer` has come: `due_at`. A driver's clock may be a little
    behind it; the broker's is not."""

    timer: Timer
    due_at: float


class Persisted(Input, frozen=True):
    """What `Persist` asked for is on stable storage."""

    token: int


class StopRequested(Input, frozen=True):
    """Stop in order: close sessions, take nothing new, empty the links, then say `Stopped`."""
