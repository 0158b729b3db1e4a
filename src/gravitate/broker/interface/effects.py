"""What a broker wants done. A driver carries effects out in the order given."""

from __future__ import annotations

import msgspec

from gravitate.broker.interface.timers import Timer
from gravitate.broker.messages.frames import Frame
from gravitate.model.events import Batch


class Send(msgspec.Struct, frozen=True):
    connection: int
    frame: Frame


class Deliver(msgspec.Struct, frozen=True, gc=False):
    """Hand `batch` to the client of a connection at `qos`.

    At QoS 1 the events are numbered from `sequence` (from 1 per connection, consecutive) and stay
    with the session until `ClientAcknowledged`; at QoS 0 `sequence` is 0."""

    connection: int
    batch: Batch
    qos: int
    sequence: int


class Accept(msgspec.Struct, frozen=True, gc=False):
    """The next `count` publications at QoS 1 of this connection, in order, are accepted."""

    connection: int
    count: int


class Tell(msgspec.Struct, frozen=True):
    connection: int
    word: Word


class SubscriptionSettled(msgspec.Struct, frozen=True):
    """From now on every matching publication reaches the client."""

    name: str


class AdvertisementSettled(msgspec.Struct, frozen=True):
    """Every subscription that the client's own advertisement `name` concerns is known here."""

    name: str


class HoldReading(msgspec.Struct, frozen=True):
    """Stop (or go on) reading from the client: the network cannot take more for now."""

    hold: bool


class Redirect(msgspec.Struct, frozen=True):
    """The client is expected at `target`, asks for nothing more here and answers `ClientPaused`."""

    target: str


class Stay(msgspec.Struct, frozen=True):
    """The client is to go on here after all."""


class PingBrokers(msgspec.Struct, frozen=True):
    """Let a client that follows measure its round trips, and answer `BrokersPinged(token)`."""

    brokers: tuple[str, ...]
    token: int


class Attached(msgspec.Struct, frozen=True):
    """A client that counts is attached here: what it has published elsewhere is ahead of what it
    publishes here, and looked at from now on; what it has received elsewhere is known."""


class CloseSession(msgspec.Struct, frozen=True):
    """`reason` is one of the names below, `target` where a client goes that was told to move."""

    reason: str
    target: str = ""


ToPublisher = Attached | AdvertisementSettled | HoldReading | Redirect | Stay | CloseSession
"""What a client is told as a publisher."""

ToClient = ToPublisher | SubscriptionSettled
"""What a client is told in either role."""

Word = ToClient | PingBrokers

TAKEN_OVER = "taken-over"
OVERLOADED = "overloaded"
STOPPING = "stopping"
UNHEARD = "unheard"
"""Its broker stops, and what it has advertised there may not have been heard of everywhere."""
MOVED = "moved"
NOT_HERE = "not-here"
"""Its session was not handed over to this broker: the client is expected where it was."""
ENDED = "ended"
"""As asked for, and known everywhere."""


class OpenLink(msgspec.Struct, frozen=True):
    """Try once to connect to `peer`; answer with `LinkOpened` or `DialFailed`."""

    peer: str


class CloseLink(msgspec.Struct, frozen=True):
    connection: int
    reason: str


class SetTimer(msgspec.Struct, frozen=True):
    """`TimerFired(timer, at)` at time `at` (seconds); an equal timer is replaced."""

    timer: Timer
    at: float


class Persist(msgspec.Struct, frozen=True):
    """Bring the batch to stable storage, then answer `Persisted(token)`."""

    token: int
    batch: Batch


class Warn(msgspec.Struct, frozen=True):
    """Something an operator should read once."""

    origin: str
    text: str
    is_error: bool = False
    """It will not get better by itself."""


class Stopped(msgspec.Struct, frozen=True):
    """The stop that was asked for is complete; the broker takes no more inputs."""


Effect = Send | Deliver | Accept | Tell | OpenLink | CloseLink | SetTimer | Persist | Warn | Stopped
