"""What brokers say to each other.

A link carries *frames*. `Hello` opens a connection and tells what can be resumed; `Data` carries
*messages* under consecutive sequence numbers with a cumulative acknowledgement; the rest keeps
the connection alive or ends it. Messages are delivered once and in order whatever happens to
connections; frames are not.

`wire.peers` turns frames into bytes. Simulated links pass these objects as they are, so nobody
may change one after sending it.
"""

from __future__ import annotations

from typing import Final, Literal

import msgspec

from gravitate.broker.messages.guests import Deposit, GuestCut, GuestMessage, Lease, Natural, OnPath
from gravitate.broker.messages.tether import Deliveries, FromOrigin, HandedOver, ToOrigin
from gravitate.model.events import Batch
from gravitate.model.filters import Filter


class Advertise(msgspec.Struct, frozen=True, tag="adv"):
    """A publisher will publish events that match `filter`. Floods.

    `attachment` grows whenever the publisher attaches to a broker. One that is known already and
    comes from another side with a greater number tells that the publisher has moved; it goes on
    towards where the publisher was, and nowhere else."""

    advertisement: str
    publisher: str
    incarnation: Natural
    filter: Filter
    token: Natural
    attachment: Natural = 0


class Unadvertise(msgspec.Struct, frozen=True, tag="unadv"):
    """The advertisement ends. Floods."""

    advertisement: str
    token: Natural


class Subscribe(msgspec.Struct, frozen=True, tag="sub"):
    """Events that match `filter` are wanted behind the sender."""

    subscription: str
    filter: Filter
    token: Natural


class Unsubscribe(msgspec.Struct, frozen=True, tag="unsub"):
    """The subscription is no longer wanted behind the sender."""

    subscription: str
    token: Natural


class Settled(msgspec.Struct, frozen=True, tag="settled"):
    """Everything that followed from the receiver's message `token` has happened; or, where brokers
    are named, everything but behind these, which cannot be reached for now."""

    token: Natural
    open: tuple[str, ...] = ()


class SyncEnd(msgspec.Struct, frozen=True, tag="syncend"):
    """After a reset link: all the sender knows of `what` has been said; what was not is gone. Or,
    where brokers are named, all but what is behind these."""

    what: Literal["advertisements", "subscriptions"]
    open: tuple[str, ...] = ()


class Congested(msgspec.Struct, frozen=True, tag="congested"):
    """A link cannot keep up that events of these publishers go over: they are to be held. Goes to
    where each of them is attached, the way its events came."""

    link: tuple[str, str]
    """The broker whose queue is too long, and the one that it is for."""
    publishers: tuple[tuple[str, int], ...]
    """With their incarnations."""


class Drained(msgspec.Struct, frozen=True, tag="drained"):
    """A link that the receiver was told of keeps up again. Goes the same ways."""

    link: tuple[str, str]


class PrepareMove(OnPath, frozen=True, tag="prepare"):
    """Move `move` asks every broker on `path` for shared use of its lock. Goes from the first
    to the last, each passing it on."""

    lease_s: Lease
    tether: str = ""
    """The broker where the client stays connected, if it does: it will attach it to the last."""


class MoveAnswer(OnPath, frozen=True, tag="prepared"):
    """Whether the path is prepared, and why not. Goes back to the first broker of `path`."""

    granted: bool
    reason: str = ""


class EndMove(OnPath, frozen=True, tag="endmove"):
    """The move is over; whoever holds a lock for it lets go. Goes along `path`."""


class MechanismMessage(msgspec.Struct, frozen=True, tag="mech"):
    """A message of a mechanism to its counterpart at a neighbour; the body is its own."""

    mechanism: str
    body: bytes


class Publications(msgspec.Struct, frozen=True, tag="pub"):
    """Events on their way; one batch is one publisher's."""

    batches: list[Batch]


RoutingMessage = Advertise | Unadvertise | Subscribe | Unsubscribe | Settled | SyncEnd
MoveMessage = PrepareMove | MoveAnswer | EndMove
Control = (
    RoutingMessage
    | Congested
    | Drained
    | MechanismMessage
    | MoveMessage
    | GuestMessage
    | Deposit
    | FromOrigin
    | ToOrigin
)
Carrying = Publications | HandedOver | Deliveries | GuestCut
"""Messages that carry batches."""
Message = Control | Carrying


PROTOCOL_VERSION: Final = 5

WRONG_VERSION: Final = "wrong-version"
WRONG_NETWORK: Final = "wrong-network"
WRONG_BROKER: Final = "wrong-broker"
UNKNOWN_BROKER: Final = "unknown-broker"
"""Names under which a `Hello` is refused."""


class Hello(msgspec.Struct, frozen=True, tag="hello"):
    """First frame in both directions on every connection.

    `remembers` is the incarnation of the receiver that the sender last talked to (0: none), and
    `received` the last number it has from it in numbering `received_series`, the last `retained` of
    which are still to be kept. Both sides resume when
    both remember and count alike, unless one has forgotten what it had to say: it starts `anew`."""

    network: str
    broker: str
    incarnation: Natural
    remembers: Natural
    received: Natural
    retained: Natural = 0
    version: int = PROTOCOL_VERSION
    series: Natural = 1
    """The numbering of what the sender has sent; a reset begins the next."""
    received_series: Natural = 0
    anew: bool = False


class Data(msgspec.Struct, frozen=True, tag="data"):
    """Messages numbered from `sequence`; everything up to `acknowledged` has been received, and
    need not be kept, but for the last `retained` of it."""

    sequence: Natural
    acknowledged: Natural
    messages: list[Message]
    retained: Natural = 0


class Acknowledge(msgspec.Struct, frozen=True, tag="ack"):
    """Everything up to `acknowledged` has been received, and need not be kept, but for the last
    `retained` of it."""

    acknowledged: Natural
    retained: Natural = 0


class Ping(msgspec.Struct, frozen=True, tag="ping"):
    """Heartbeat; `sent_at` is the sender's clock and comes back untouched."""

    sent_at: float


class Pong(msgspec.Struct, frozen=True, tag="pong"):
    """Answer to `Ping`."""

    sent_at: float


class Draining(msgspec.Struct, frozen=True, tag="drain"):
    """The sender is stopping: it takes no more data, but still waits for acknowledgements."""


class Refusal(msgspec.Struct, frozen=True, tag="refuse"):
    """Last frame before the sender closes: the name of the error, and a sentence."""

    name: str
    reason: str


PlainFrame = Hello | Acknowledge | Ping | Pong | Draining | Refusal
Frame = PlainFrame | Data
