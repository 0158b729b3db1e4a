"""What brokers say about a client that is connected to one and attached, or served, by another.

All of it goes over the direct link between the two. The broker of the client is the *origin*, which
calls what stands for it `number`, whether that is the client as a publisher or as a subscriber;
what was said of an earlier `attachment` does not count.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from gravitate.broker.messages.guests import Natural, Quality, Wanted
from gravitate.model.events import Batch
from gravitate.model.filters import Filter


class OfTether(msgspec.Struct, frozen=True):
    number: Natural
    attachment: Natural


# --- of both kinds --------------------------------------------------------------------------------


class Publishing(msgspec.Struct, frozen=True, tag="publishing"):
    """The client is to be attached as a publisher, with its `advertisements` (by key).

    `was` is where it was attached, or was about to be, `lost` one of these if that cannot be
    reached: it is not waited for then."""

    advertisements: dict[str, Filter]
    was: tuple[str, ...] = ()
    lost: str | None = None


class Serving(msgspec.Struct, frozen=True, tag="serving"):
    """The client is to be served as a subscriber: as the guest that `move` has brought, or (None)
    as the one that was there before."""

    move: str | None = None


class Counted(OfTether, frozen=True):
    """What is handed over in order and kept until it is taken: known by its attachment and this."""

    sequence: Natural


class TetherAttach(OfTether, frozen=True, tag="tether"):
    """A client of the sender's is to be attached to the receiver, in a role."""

    client: str
    incarnation: Natural
    role: Publishing | Serving


class TetherAttached(OfTether, frozen=True, tag="tethered"):
    """It is: what a publisher has published elsewhere is ahead, and it is known what a subscriber
    has had. Something may be handed over now."""


class TetherPaused(OfTether, frozen=True, tag="tetherpaused"):
    """Nothing more is handed over, and nothing changes about what is wanted, until the receiver has
    answered."""


class TetherSettled(OfTether, frozen=True, tag="tethersettled"):
    """The client's own advertisement or subscription `name` has settled, as it was wanted as of
    `version`."""

    name: str
    version: Natural = 0


class TetherRedirect(OfTether, frozen=True, tag="tetherto"):
    """The client is to be attached to broker `target`; the receiver pauses once it has a link
    there. Or (None) it is not, any more: it goes on where it is."""

    target: str | None


class TetherClosed(OfTether, frozen=True, tag="tetherclosed"):
    """The client is no longer attached to the sender; `reason` is one that sessions are closed
    with. If it was told to move, `target` is where it is expected, and where `move` has brought
    it."""

    reason: str
    target: str | None = None
    move: str | None = None


class TetherDetach(OfTether, frozen=True, tag="untether"):
    """The client is gone, behind all that it has published, or attached elsewhere."""


# --- of publishers --------------------------------------------------------------------------------


class TetherHold(OfTether, frozen=True, tag="tetherhold"):
    """Too much of the publisher waits at the sender (or no longer)."""

    hold: bool


class TetherAdvertise(Counted, frozen=True, tag="tetheradv"):
    """It advertises `filter` under `key`, or (None) what it advertised under it ends."""

    key: str
    filter: Filter | None


class HandedOver(Counted, frozen=True, tag="handover"):
    """It publishes: events that nobody has matched."""

    batches: Sequence[Batch]


# --- of subscribers -------------------------------------------------------------------------------


class TetherWants(OfTether, frozen=True, tag="tetherwants"):
    """All that the client subscribes to, by now so often changed. What is for it may be handed over
    from now on."""

    subscriptions: tuple[Wanted, ...]
    version: Natural = 0


class Deliveries(Counted, frozen=True, tag="deliver"):
    """Events matched for a subscriber of the receiver's, at the quality of service given, by what
    it wanted as of `version`."""

    qos: Quality
    batches: Sequence[Batch]
    version: Natural = 0


FromOrigin = TetherAttach | TetherPaused | TetherDetach | TetherAdvertise | TetherWants
"""Said by the broker of the client; `HandedOver` too, which carries batches."""
ToOrigin = TetherAttached | TetherSettled | TetherRedirect | TetherClosed | TetherHold
"""Said by the broker where it is attached; `Deliveries` too, which carry batches."""
Said = FromOrigin | ToOrigin | HandedOver | Deliveries
