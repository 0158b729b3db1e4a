"""What brokers say to each other about subscribers that move.

`Entrusted` and `Reminder` are said between neighbours, of those they serve for others: what a
broker must not forget when it is killed is known to its neighbours (`deposits`).

`TakeGuest`, `GuestAnswer`, `GuestCut` and `StagingPoll` go along the path of a move, over primary
links: their place among the events on them is part of what they mean (`staging`).
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Annotated

import msgspec

from gravitate.model.events import Batch
from gravitate.model.filters import Filter

Natural = Annotated[int, msgspec.Meta(ge=0)]
"""What counts something: who says that it is negative is not understood."""
Quality = Annotated[int, msgspec.Meta(ge=0, le=2)]
Lease = Annotated[float, msgspec.Meta(ge=0, le=3600)]
"""For how many seconds; no broker binds another without end."""


class OnPath(msgspec.Struct, frozen=True):
    """Of a move, said along its path."""

    move: str
    path: tuple[str, ...]


class Wanted(msgspec.Struct, frozen=True):
    """A subscription as its client asked for it."""

    name: str
    filter: Filter
    qos: Quality = 0
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


class TakeGuest(OnPath, frozen=True, tag="guest"):
    """The last broker of `path` is to subscribe for `subscriber`, in addition to the first, and to
    keep what comes. Goes from the first to the last.

    `origin` is the broker where the client stays connected, under `number`; empty where the client
    itself will connect."""

    subscriber: str
    incarnation: Natural
    subscriptions: tuple[Wanted, ...]
    lease_s: Lease
    origin: str = ""
    number: Natural = 0
    version: Natural = 0
    """Of what is subscribed to, as the origin counts."""


class GuestAnswer(OnPath, frozen=True, tag="guestis"):
    """How far the guest is. Goes back to the first broker of `path`, behind everything that was
    sent along it before. Where no move is under way there, because the broker of the client takes
    it home, `origin` and `number` say who it is; and, where that broker asks what is left to
    deliver, `subscriber` and `subscriptions` what it is served with, for a broker on the way may
    have to answer."""

    step: GuestStep
    reason: str = ""
    origin: str = ""
    number: Natural = 0
    subscriber: str = ""
    subscriptions: tuple[Wanted, ...] = ()
    version: Natural = 0
    """As of when it is certain to have been served."""
    attachment: Natural = 0
    """By which it comes home; all earlier ones are over."""


class GuestCut(OnPath, frozen=True, tag="guestcut"):
    """What the subscriber has had: per publisher and incarnation the last counter, with `batches`
    still to be delivered at the quality beside each. Goes from the first to the last broker of
    `path`.

    Where there is much to deliver it comes in parts, numbered from 0; `more` follow but after the
    last, which alone tells what was `seen`. What has passed one of the brokers that are `open` is
    not in it: they could not be asked. Where nothing is known of the subscriber, it is lost."""

    seen: tuple[tuple[str, int, int], ...]
    qos: tuple[Quality, ...] = ()
    batches: Sequence[Batch] = ()
    part: Natural = 0
    more: bool = False
    open: tuple[str, ...] = ()
    is_known: bool = True
    version: Natural = 0
    """Of what the batches were matched by."""


class StagingPoll(OnPath, frozen=True, tag="guestpoll"):
    """The last broker of `path` is to say again that the guest has arrived, or is gone: its word
    may have been lost. Goes from the first to the last."""


class Entrusted(msgspec.Struct, frozen=True, tag="entrust"):
    """The sender serves a subscriber that is connected to broker `origin`, which calls it `number`;
    with no subscriptions: no longer. The receiver reminds it of that if it ever forgets."""

    number: Natural
    attachment: Natural
    origin: str
    subscriber: str = ""
    incarnation: Natural = 0
    subscriptions: tuple[Wanted, ...] = ()
    version: Natural = 0


class Reminder(msgspec.Struct, frozen=True, tag="remind"):
    """What the receiver has entrusted the sender with, before it lost its memory."""

    entrusted: Entrusted


GuestMessage = TakeGuest | GuestAnswer | StagingPoll
"""Said along the path of a subscriber's move; `GuestCut` too, which carries batches."""
Deposit = Entrusted | Reminder
"""Said between neighbours."""
