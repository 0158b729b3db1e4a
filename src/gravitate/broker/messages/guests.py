"""What brokers say to each other about subscribers that move.

`Entrusted` and `Reminder` are said between neighbours, of those they serve for others: what a
broker must not forget when it is killed is known to its neighbours (`deposits`).

`TakeGuest`, `GuestAnswer`, `GuestCut` and `StagingPoll` go along the path of a move, over primary
links: their place among the events on them is part of what they mean (`staging`). The rest goes
over the direct link between the broker that serves a subscriber and the one where its client is
connected, the *origin* (`subscriber_remote`, `subscriber_origin`).

Part of `messages`, which says what frames and messages are.
"""

from __future__ import annotations

import enum
from typing import Annotated

import msgspec

from gravitate.model.events import Batch
from gravitate.model.filters import Filter

Natural = Annotated[int, msgspec.Meta(ge=0)]
"""What counts something: who says that it is negative is not understood."""


class Wanted(msgspec.Struct, frozen=True):
    """A subscription as its client asked for it."""

    name: str
    filter: Filter
    qos: int = 0
    no_local: bool = False


class GuestStep(str, enum.Enum):
    """What the new place of a subscriber tells its old one."""

    READY = "ready"
    """Its subscriptions have settled; behind this, nothing comes that the new place lacks."""
    TAKEN = "taken"
    """It knows what the subscriber has had."""
    ARRIVED = "arrived"
    """The subscriber is served there."""
    GONE = "gone"
    """It is not, and will not be."""


class TakeGuest(msgspec.Struct, frozen=True, tag="guest"):
    """The last broker of `path` is to subscribe for `subscriber`, in addition to the first, and to
    keep what comes. Goes from the first to the last.

    `origin` is the broker where the client stays connected, under `number`; empty where the client
    itself will connect."""

    move: str
    path: tuple[str, ...]
    subscriber: str
    incarnation: Natural
    subscriptions: tuple[Wanted, ...]
    lease_s: float
    origin: str = ""
    number: Natural = 0
    version: Natural = 0
    """Of what is subscribed to, as the origin counts."""


class GuestAnswer(msgspec.Struct, frozen=True, tag="guestis"):
    """How far the guest is. Goes back to the first broker of `path`, behind everything that was
    sent along it before. Where no move is under way there, because the broker of the client takes
    it home, `origin` and `number` say who it is; and, where that broker asks what is left to
    deliver, `subscriber` and `wanted` what it is served with, for a broker on the way may have to
    answer."""

    move: str
    path: tuple[str, ...]
    step: GuestStep
    reason: str = ""
    origin: str = ""
    number: Natural = 0
    subscriber: str = ""
    wanted: tuple[Wanted, ...] = ()
    version: Natural = 0
    """As of when it is certain to have been served."""
    attachment: Natural = 0
    """By which it comes home; all earlier ones are over."""


class GuestCut(msgspec.Struct, frozen=True, tag="guestcut"):
    """What the subscriber has had: per publisher and incarnation the last counter, with `batches`
    still to be delivered at the quality beside each. Goes from the first to the last broker of
    `path`.

    Where there is much to deliver it comes in parts, numbered from 0; `more` follow but after the
    last, which alone tells what was `seen`. What has passed one of the brokers that are `open` is
    not in it: they could not be asked. Where nothing is known of the subscriber, it is lost."""

    move: str
    path: tuple[str, ...]
    seen: tuple[tuple[str, int, int], ...]
    qos: tuple[int, ...] = ()
    batches: tuple[Batch, ...] = ()
    part: Natural = 0
    more: bool = False
    open: tuple[str, ...] = ()
    is_known: bool = True
    version: Natural = 0
    """Of what the batches were matched by."""


class StagingPoll(msgspec.Struct, frozen=True, tag="guestpoll"):
    """The last broker of `path` is to say again that the guest has arrived, or is gone: its word
    may have been lost. Goes from the first to the last."""

    move: str
    path: tuple[str, ...]


class OfSubscriber(msgspec.Struct, frozen=True):
    """Said about a subscriber that is served by one broker and connected to another, which calls
    it `number`; what was said of an earlier `attachment` does not count."""

    number: Natural
    attachment: Natural


class GuestAttach(OfSubscriber, frozen=True, tag="gattach"):
    """The client is connected to the sender, which is there for it: for the guest that `move` has
    brought, or (empty) for the one that was there before."""

    subscriber: str
    move: str = ""


class GuestWants(OfSubscriber, frozen=True, tag="gwants"):
    """All that the client subscribes to, by now so often changed. What is for it may be handed over
    from now on."""

    subscriptions: tuple[Wanted, ...]
    version: Natural = 0


class GuestPaused(OfSubscriber, frozen=True, tag="gpaused"):
    """Nothing changes about its subscriptions until the receiver has answered."""


class GuestDetach(OfSubscriber, frozen=True, tag="gdetach"):
    """The client is gone, or served elsewhere."""


class GuestAttached(OfSubscriber, frozen=True, tag="gattached"):
    """The guest is here, and knows what the client has had."""


class GuestSettled(OfSubscriber, frozen=True, tag="gsettled"):
    """The client's subscription `name` has settled, as it was wanted as of `version`."""

    name: str
    version: Natural = 0


class GuestRedirect(OfSubscriber, frozen=True, tag="gto"):
    """The subscriber is to be served by broker `target`; the receiver pauses once it has a link
    there. When `target` is the sender, it is to stay and go on."""

    target: str


class GuestClosed(OfSubscriber, frozen=True, tag="gclosed"):
    """The subscriber is no longer served by the sender; if it was told to move, `target` is where
    `move` has brought it along `path`."""

    reason: str
    target: str = ""
    move: str = ""
    path: tuple[str, ...] = ()


class Deliveries(OfSubscriber, frozen=True, tag="deliver"):
    """Events matched for a subscriber of the receiver's, at the quality of service given, by what
    it wanted as of `version`."""

    qos: int
    batches: tuple[Batch, ...]
    version: Natural = 0


class Entrusted(OfSubscriber, frozen=True, tag="entrust"):
    """The sender serves a subscriber of `origin`; with no subscriptions: no longer. The receiver
    reminds it of that if it ever forgets."""

    origin: str
    subscriber: str = ""
    incarnation: Natural = 0
    subscriptions: tuple[Wanted, ...] = ()
    version: Natural = 0


class Reminder(OfSubscriber, frozen=True, tag="remind"):
    """The receiver served a subscriber of `origin` before it lost its memory."""

    origin: str
    subscriber: str
    incarnation: Natural
    subscriptions: tuple[Wanted, ...]
    version: Natural = 0


GuestMessage = TakeGuest | GuestAnswer | StagingPoll
"""Said along the path of a subscriber's move; `GuestCut` too, which carries batches."""
Deposit = Entrusted | Reminder
"""Said between neighbours."""
FromOrigin = GuestAttach | GuestWants | GuestPaused | GuestDetach
"""Said by the broker where a subscriber's client is connected."""
ToOrigin = GuestAttached | GuestSettled | GuestRedirect | GuestClosed
"""Said by the broker that serves it; `Deliveries` too, which carry batches."""
