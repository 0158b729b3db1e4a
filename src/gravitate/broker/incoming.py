"""What comes over links, what becomes of them, and timers: each to the parts that it concerns.

What goes along the tree comes from neighbours alone; what is said about clients that are connected
elsewhere may come on any link.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, get_args

from gravitate.broker.assembly import Parts
from gravitate.broker.interface import timers
from gravitate.broker.interface.effects import Warn
from gravitate.broker.interface.inputs import TimerFired
from gravitate.broker.messages import frames, guests, tether
from gravitate.broker.messages.frames import Message, Publications
from gravitate.broker.observers import LinkChange
from gravitate.errors import PeerError

Handler = Callable[[str, Any], None]


class Incoming:
    """Messages of all links come once and in order. `late` is called when an orderly stop has taken
    too long."""

    def __init__(self, parts: Parts, late: Callable[[], None]) -> None:
        self._parts = parts
        self._unheard = set(parts.links.neighbours())
        """Neighbours that have not said what they know since the start."""
        self.has_reset = False
        """Since the last step some link has started anew."""
        self._on_any_link: dict[type, Handler] = {
            tether.Deliveries: _if_matched(parts.subscriber_tethers.deliver),
            **_all((tether.HandedOver, *get_args(tether.FromOrigin)), parts.remote.handle),
            **_all(get_args(tether.ToOrigin), parts.tethers.handle),
        }
        self._along_tree: dict[type, Handler] = {
            Publications: self._publications,
            **_all(get_args(frames.RoutingMessage), parts.router.on_message),
            frames.Congested: parts.congestion.on_congested,
            frames.Drained: parts.congestion.on_drained,
            frames.MechanismMessage: parts.posts.handle,
            **_all(get_args(frames.MoveMessage), parts.paths.handle),
            **_all(get_args(guests.GuestMessage), parts.guests.handle),
            guests.GuestCut: _if_matched(parts.guests.handle),
            guests.Entrusted: parts.deposits.heard,
            guests.Reminder: parts.deposits.reminded,
        }
        self._on_timer: dict[type, Callable[[Any], None]] = {
            **dict.fromkeys(get_args(timers.LinkTimer), parts.peering.on_timer),
            timers.LinkIdle: lambda timer: parts.tether_links.idle(timer.peer),
            timers.LinkDown: lambda timer: self._tethers_down(timer.peer),
            timers.HoldOver: lambda timer: parts.clients.hold_expired(timer.client),
            timers.TetheredHoldOver: lambda timer: parts.tethered.hold_expired(timer.number),
            timers.MoveLate: lambda timer: parts.engine.on_timer(timer.move),
            timers.LocksOver: lambda timer: parts.paths.watch_leases(),
            timers.TetherLate: lambda timer: parts.tethers.late(timer.number),
            timers.VisitOver: lambda timer: parts.tethered_subscribers.expired(timer.number),
            timers.RecallAgain: lambda timer: parts.subscriber_tethers.ask_again(timer.number),
            timers.MechanismTimer: parts.posts.on_timer,
            timers.ChoresLeft: lambda timer: None,  # every step goes on with them
            timers.RecentOver: lambda timer: self.forget_recent(),
            timers.StopLate: lambda timer: late(),
        }

        forget, is_over = parts.congestion.forget, parts.engine.on_link_lost
        self._on_tree_link: dict[LinkChange, Sequence[Callable[[str], None]]] = {
            LinkChange.RESET: (parts.router.reset, parts.deposits.reset, forget, is_over),
            LinkChange.GIVEN_UP: (parts.router.forget, parts.deposits.forget, forget, is_over),
            LinkChange.ABSENT: (parts.router.absent, forget),
            LinkChange.RESUMED: (parts.router.present,),
        }
        """What goes along the tree."""
        review = parts.tether_links.review
        up = (parts.tether_links.up, parts.tethers.link_up, review)
        self._on_link: dict[LinkChange, Sequence[Callable[[str], None]]] = {
            LinkChange.RESET: (parts.remote.lost, parts.tethers.link_reset, *up),
            LinkChange.GIVEN_UP: (self._tethers_lost, self._warn, review),
            LinkChange.DOWN: (parts.tether_links.down,),
            LinkChange.RESUMED: up,
        }

    def on_timer(self, input: TimerFired) -> None:
        if self._parts.context.fires(input):
            self._on_timer[type(input.timer)](input.timer)

    # Messages ------------------------------------------------------------------------------

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
        self._parts.deposits.look_back()
        self._parts.dispatch.recent = None

    def on_received(self, peer: str, message: Message) -> None:
        """The other end of a link has a message of this one's."""
        if isinstance(message, tether.Deliveries):
            self._parts.tethered_subscribers.taken(peer, message)

    def on_taken(self, peer: str, message: Message) -> None:
        """The other end of a link has passed on what was in a message of this one's."""
        if not isinstance(message, tether.Deliveries):
            self._parts.publisher_tethers.taken(peer, message)

    # Links ---------------------------------------------------------------------------------

    def on_link(self, peer: str, change: LinkChange) -> None:
        parts = self._parts
        if parts.links.is_neighbour(peer):
            self.has_reset |= change is LinkChange.RESET
            for tell in self._on_tree_link.get(change, ()):
                tell(peer)
        for tell in self._on_link.get(change, ()):
            tell(peer)
        if change is not LinkChange.ABSENT:
            for observer in parts.context.observers:
                observer.on_link(parts.broker_id, peer, change, parts.context.now)

    def keep(self, peer: str, message: Publications) -> Publications:
        """Publications that outlive the reset of the link to `peer`."""
        outlives = self._parts.router.outlives_reset
        return Publications([outlives(batch, peer) for batch in message.batches])

    def _warn(self, peer: str) -> None:
        text = "link given up: what was queued for it is dropped"
        self._parts.context.emit(Warn(peer, text))

    def _tethers_down(self, peer: str) -> None:
        """A link that tethers go over has been down for a while. Where it is the tree's too, what
        is under way on it is not forgotten: those who are served here for others go on."""
        if not self._parts.tether_links.given_up(peer):
            return
        if self._parts.links.is_neighbour(peer):
            self._parts.tethered_subscribers.down(peer)
            self._parts.tethers.link_lost(peer)
            self._parts.tether_links.review(peer)
        else:
            self._tethers_lost(peer)

    def _tethers_lost(self, peer: str) -> None:
        self._parts.guests.salvage.link_given_up(peer)
        self._parts.remote.lost(peer)
        self._parts.tethers.link_lost(peer)


def _all(types: Iterable[type], handler: Handler) -> dict[type, Handler]:
    return dict.fromkeys(types, handler)


def _if_matched(handler: Handler) -> Handler:
    """Of events for a subscriber, which nobody matches here."""

    def handle(peer: str, message: tether.Deliveries | guests.GuestCut) -> None:
        if not all(batch.covered for batch in message.batches):
            raise PeerError("unmatched", "events for a subscriber that no broker has matched")
        handler(peer, message)

    return handle
