"""What other brokers say: each message to the part that it concerns, if it may come on its link.

What goes along the tree comes from neighbours alone; what is said about clients that are connected
elsewhere may come on any link.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, get_args

from gravitate.broker.assembly import Parts
from gravitate.broker.messages.frames import (
    Congested,
    Drained,
    EndMove,
    MechanismMessage,
    Message,
    MoveAnswer,
    PrepareMove,
    Publications,
    RoutingMessage,
)
from gravitate.broker.messages.guests import (
    Entrusted,
    GuestCut,
    GuestMessage,
    Reminder,
)
from gravitate.broker.messages.tether import Deliveries, FromOrigin, HandedOver, ToOrigin
from gravitate.errors import PeerError

Handler = Callable[[str, Any], None]


class Incoming:
    """Takes the messages of all links, once and in order."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._unheard = set(parts.links.neighbours())
        """Neighbours that have not said what they know since the start."""
        self._on_any_link: dict[type, Handler] = {
            Deliveries: _matched(parts.subscriber_tethers.deliver),
            **_all((HandedOver, *get_args(FromOrigin)), parts.remote.handle),
            **_all(get_args(ToOrigin), parts.tethers.handle),
        }
        self._along_tree: dict[type, Handler] = {
            Publications: self._publications,
            **_all(get_args(RoutingMessage), parts.router.on_message),
            Congested: parts.congestion.on_congested,
            Drained: parts.congestion.on_drained,
            MechanismMessage: parts.posts.handle,
            **_all((PrepareMove, MoveAnswer, EndMove), parts.paths.handle),
            **_all(get_args(GuestMessage), parts.guests.handle),
            GuestCut: _matched(parts.guests.handle),
            Entrusted: parts.deposits.heard,
            Reminder: lambda peer, message: parts.reminders.remind(message),
        }

    def on_message(self, peer: str, message: Message) -> None:
        """`PeerError` when it cannot be meant."""
        handler = self._on_any_link.get(type(message))
        if handler is None:
            if not self._parts.links.is_neighbour(peer):
                raise PeerError("no-neighbour", f"{type(message).__name__} on a tether")
            handler = self._along_tree[type(message)]
        handler(peer, message)

    def _publications(self, peer: str, message: Publications) -> None:
        parts = self._parts
        for batch in message.batches:
            if batch.flood:
                parts.lives.heard(batch.stream, parts.context.now)
            parts.dispatch.route(batch, peer)

    def on_synchronised(self, peer: str) -> None:
        """A neighbour has said what it knows."""
        self._unheard.discard(peer)
        if not self._unheard:
            self.forget_recent()

    def has_heard_all(self) -> bool:
        """Whether every neighbour has said what it knows, since the start."""
        return not self._unheard

    def forget_recent(self) -> None:
        """Nobody will remind this broker of anything any more."""
        self._parts.reminders.look_back()
        self._parts.dispatch.recent = None


def _matched(handler: Handler) -> Handler:
    """For messages with events that some broker must have matched."""

    def check(peer: str, message: Deliveries | GuestCut) -> None:
        if not all(batch.covered for batch in message.batches):
            raise PeerError("unmatched", "events for a subscriber that no broker has matched")
        handler(peer, message)

    return check


def _all(types: Iterable[type], handler: Handler) -> dict[type, Handler]:
    return dict.fromkeys(types, handler)
