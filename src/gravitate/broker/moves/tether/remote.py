"""The other end of tethers: clients of other brokers that are attached, or served, here.

For each there is an *end*: a publisher (`attached`) or a subscriber (`served`) without a
connection, which follows moves because the broker of its client, the *origin*, does so in its
stead. What its client would be told, the origin is. A tether whose two ends are one broker is the
same without a link.

Owns who of them is here, by whatever names them, and how the two ends speak. Does not know the
origin's end, nor what a publisher or subscriber does.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from itertools import count
from typing import Any, NamedTuple, Protocol

from gravitate.broker.context import Context
from gravitate.broker.forwarding.pipeline import Dispatch
from gravitate.broker.interface import effects
from gravitate.broker.links.table import LinkTable
from gravitate.broker.messages import tether as t
from gravitate.broker.sessions.store import Store

Key = tuple[str, int]
"""The origin, and its number for the client."""


class End(ABC):
    """One client of broker `origin`, which calls it `number`."""

    id: str
    attachment: int
    wants = 0
    """As of when it is known what the client wants."""
    move: str | None = None
    """The one that leads it elsewhere, to be told to the origin."""

    def __init__(self, kind: EndKind, key: Key) -> None:
        self.kind = kind
        self.remote = kind.remote
        self.key = key
        self.origin: str
        self.origin, self.number = key
        self.serial = next(kind.remote.serials)
        """Names it here, among all that there have been."""

    def say(self, effect: effects.ToClient) -> None:
        """What the client would be told, its origin is."""
        self.remote.say(self, effect)

    @abstractmethod
    def listens(self) -> bool:
        """Whether what the origin says of it still counts."""


class EndKind(Protocol):
    """What an end does as a publisher, or as a subscriber."""

    remote: Remote

    def do(self, end: Any, message: t.FromOrigin | t.HandedOver) -> None:
        """What its client does."""

    def detach(self, end: Any) -> None:
        """Its client is gone, or attached elsewhere."""

    def close(self, end: Any) -> None:
        """It is here no more."""

    def on_origin_lost(self, end: Any) -> None:
        """The broker of its client has forgotten its tethers, or is gone."""


class RemotePorts(NamedTuple):
    """Who makes ends, and is told what becomes of them."""

    attach: Callable[[str, t.TetherAttach], None]
    on_detached: Callable[[str, int], None]
    """Told of a client that is gone, whether or not an end of it is here."""
    hear: Callable[[str, t.Said], None]
    """Takes what this broker says to itself, being both ends of a tether."""
    on_lost: Callable[[str], None]
    """Told of an origin that has forgotten its tethers, before its ends are."""
    on_paused: Callable[[Any], None]
    on_closed: Callable[[Any], None]
    """Told of ends that are here no more, or can be reached no more, but for departing ones."""
    on_left: Callable[[str], None]
    """Told of an origin that may need no link to this broker any more."""


class Remote(Store[Key, End]):
    """All ends that are here."""

    def __init__(
        self, context: Context, dispatch: Dispatch, links: LinkTable, ports: RemotePorts
    ) -> None:
        super().__init__(lambda end: end.key)
        self.context = context
        self.dispatch = dispatch
        self.links = links
        self.ports = ports
        self.serials = count(1)
        self.by_serial: dict[int, End] = {}

    # Who is here ---------------------------------------------------------------------------

    def add(self, end: End) -> None:
        """An end is found from now on; one that its origin called so before ends."""
        former = self.get(end.key)
        if former is not None:
            former.kind.close(former)
        self.put(end)
        self.by_serial[end.serial] = end

    def remove(self, end: End) -> bool:
        self.by_serial.pop(end.serial, None)
        was_here = super().remove(end)
        self.ports.on_left(end.origin)
        return was_here

    def has(self, end: End) -> bool:
        return self.get(end.key) is end

    # What the origin says ------------------------------------------------------------------

    def handle(self, origin: str, message: t.FromOrigin | t.HandedOver) -> None:
        if isinstance(message, t.TetherAttach):
            self.ports.attach(origin, message)
            return
        end = self.get((origin, message.number))
        if isinstance(message, t.TetherDetach):
            self.ports.on_detached(origin, message.number)
            if end is not None:
                end.kind.detach(end)
        elif end is None or end.attachment != message.attachment or not end.listens():
            return  # it has gone elsewhere meanwhile, where all of this is said again
        elif isinstance(message, t.TetherPaused):
            self.ports.on_paused(end)
        else:
            end.kind.do(end, message)

    def lost(self, origin: str) -> None:
        """The link to an origin has forgotten what was under way on it, or is given up."""
        self.ports.on_lost(origin)
        for end in self.of_origin(origin):
            end.kind.on_origin_lost(end)

    # What the origin is told ---------------------------------------------------------------

    def say(self, end: End, effect: effects.ToClient) -> None:
        about = (end.number, end.attachment)
        message: t.ToOrigin
        match effect:
            case effects.Attached():
                message = t.TetherAttached(*about)
            case effects.SubscriptionSettled() if not self.has(end):
                return  # nobody has come for it yet
            case effects.AdvertisementSettled() | effects.SubscriptionSettled():
                message = t.TetherSettled(*about, effect.name, end.wants)
            case effects.HoldReading():
                message = t.TetherHold(*about, effect.hold)
            case effects.Stay():
                message = t.TetherRedirect(*about, None)
            case effects.Redirect():
                message = t.TetherRedirect(*about, effect.target)
            case effects.CloseSession():
                message = t.TetherClosed(*about, effect.reason, effect.target, end.move)
            case _:
                return
        self.tell(end.origin, message)

    def tell(self, broker: str, message: t.Said) -> bool:
        """Say something to the other end of a tether; whether it has been taken already, for that
        is here too. Whoever is no longer there to be told has forgotten its tether."""
        context = self.context
        if broker == context.broker_id:
            self.ports.hear(broker, message)
            return True
        if broker in self.links:
            self.dispatch.send_control(broker, message)
            if isinstance(message, (t.HandedOver, t.Deliveries)):
                for observer in context.observers:
                    for batch in message.batches:
                        observer.on_handed_over(context.broker_id, broker, batch, context.now)
        return False
