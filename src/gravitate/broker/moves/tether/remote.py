"""The other end of tethers: clients of other brokers that are attached, or served, here.

For each there is an *end*: a publisher (`attached`) or a subscriber (`served`) without a
connection, which follows moves because the broker of its client, the *origin*, does so in its
stead. What its client would be told, the origin is. A tether whose two ends are one broker is the
same without a link.

Owns who of them is here, by whatever names them, and what the origin is told. Does not know the
origin's end, nor what a publisher or subscriber does.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from itertools import count
from typing import Any, NamedTuple, Protocol, TypeVar

from gravitate.broker.context import Context
from gravitate.broker.forwarding.pipeline import Dispatch
from gravitate.broker.interface.effects import (
    MOVED,
    AdvertisementSettled,
    Attached,
    CloseSession,
    HoldReading,
    Redirect,
    Stay,
    SubscriptionSettled,
    ToClient,
)
from gravitate.broker.links.table import LinkTable
from gravitate.broker.messages.tether import (
    FromOrigin,
    HandedOver,
    TetherAttach,
    TetherAttached,
    TetherClosed,
    TetherDetach,
    TetherHold,
    TetherPaused,
    TetherRedirect,
    TetherSettled,
    TetherStay,
    ToOrigin,
)
from gravitate.broker.sessions.store import Store

Key = tuple[str, int]
"""The origin, and its number for the client."""


class End(Protocol):
    """One client of broker `origin`, which calls it `number`."""

    id: str
    origin: str
    number: int
    serial: int
    """Names it here, among all that there have been."""
    attachment: int
    kind: EndKind[Any]
    wants: int
    """As of when it is known what the client wants."""
    move: str | None
    """The one that leads it elsewhere, to be told to the origin."""

    @property
    def key(self) -> Key: ...

    def listens(self) -> bool:
        """Whether what the origin says of it still counts."""


E = TypeVar("E", contravariant=True)


class EndKind(Protocol[E]):
    """What an end does as a publisher, or as a subscriber."""

    def do(self, end: E, message: FromOrigin | HandedOver) -> None:
        """What its client does."""

    def on_paused(self, end: E) -> None: ...

    def detach(self, end: E) -> None:
        """Its client is gone, or attached elsewhere."""

    def close(self, end: E) -> None:
        """It is here no more."""

    def on_origin_lost(self, end: E) -> None:
        """The broker of its client has forgotten its tethers, or is gone."""


class RemotePorts(NamedTuple):
    """Who makes ends, and is told of what concerns others."""

    attach: Callable[[str, TetherAttach], None]
    on_detached: Callable[[str, int], None]
    """Told of a client that is gone, whether or not an end of it is here."""
    tell_here: Callable[[str, ToOrigin], None]
    """Takes what is told to this broker as an origin."""
    on_lost: Callable[[str], None]
    """Told of an origin that has forgotten its tethers, before its ends are."""


class Remote:
    """All ends that are here."""

    def __init__(
        self, context: Context, dispatch: Dispatch, links: LinkTable, ports: RemotePorts
    ) -> None:
        self._context = context
        self._dispatch = dispatch
        self._links = links
        self._ports = ports
        self.serials = count(1)
        self._here: Store[Key, End] = Store(lambda end: end.key)
        self._by_serial: dict[int, End] = {}

    def __iter__(self) -> Iterator[End]:
        return iter(self._here)

    # Who is here ---------------------------------------------------------------------------

    def add(self, end: End) -> None:
        """An end is found from now on; one that its origin called so before ends."""
        former = self._here.get(end.key)
        if former is not None:
            former.kind.close(former)
        self._here.put(end)
        self._by_serial[end.serial] = end

    def remove(self, end: End) -> bool:
        """Whether it was here."""
        self._by_serial.pop(end.serial, None)
        return self._here.remove(end)

    def get(self, key: Key) -> End | None:
        return self._here.get(key)

    def has(self, end: End) -> bool:
        return self._here.get(end.key) is end

    def by_serial(self, serial: int) -> End | None:
        return self._by_serial.get(serial)

    def of_client(self, id: str) -> Collection[End]:
        return self._here.of_client(id)

    def of_origin(self, origin: str) -> Collection[End]:
        return self._here.of_origin(origin)

    def needs(self, peer: str) -> bool:
        """Whether a link to a broker is needed, for its clients that are here."""
        return peer in self._here.origins()

    # What the origin says ------------------------------------------------------------------

    def handle(self, origin: str, message: FromOrigin | HandedOver) -> None:
        if isinstance(message, TetherAttach):
            self._ports.attach(origin, message)
            return
        end = self._here.get((origin, message.number))
        if isinstance(message, TetherDetach):
            self._ports.on_detached(origin, message.number)
            if end is not None:
                end.kind.detach(end)
        elif end is None or end.attachment != message.attachment or not end.listens():
            return  # it has gone elsewhere meanwhile, where all of this is said again
        elif isinstance(message, TetherPaused):
            end.kind.on_paused(end)
        else:
            end.kind.do(end, message)

    def lost(self, origin: str) -> None:
        """The link to an origin has forgotten what was under way on it, or is given up."""
        self._ports.on_lost(origin)
        for end in self._here.of_origin(origin):
            end.kind.on_origin_lost(end)

    # What the origin is told ---------------------------------------------------------------

    def say(self, end: End, effect: ToClient) -> None:
        """What its client would be told."""
        about = (end.number, end.attachment)
        message: ToOrigin
        match effect:
            case Attached():
                message = TetherAttached(*about)
            case AdvertisementSettled():
                message = TetherSettled(*about, effect.name)
            case SubscriptionSettled() if not self.has(end):
                return  # nobody has come for it yet
            case SubscriptionSettled():
                message = TetherSettled(*about, effect.name, end.wants)
            case HoldReading():
                message = TetherHold(*about, effect.hold)
            case Stay():
                message = TetherStay(*about)
            case Redirect():
                message = TetherRedirect(*about, effect.target)
            case CloseSession() if effect.reason == MOVED:
                message = TetherClosed(*about, MOVED, effect.target, end.move)
            case CloseSession():
                message = TetherClosed(*about, effect.reason)
            case _:
                return
        self.tell(end.origin, message)

    def tell(self, origin: str, message: ToOrigin) -> None:
        """Whoever is no longer there to be told has forgotten its tether."""
        if origin == self._context.broker_id:
            self._ports.tell_here(origin, message)
        elif origin in self._links:
            self._dispatch.send_control(origin, message)
