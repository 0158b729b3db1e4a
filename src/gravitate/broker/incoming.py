"""What comes over links, what becomes of them, and timers: each to the parts that it concerns.

What goes along the tree comes from neighbours alone; what is said about clients that are connected
elsewhere may come on any link.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, get_args

from gravitate.broker.assembly import Parts, Told
from gravitate.broker.forwarding.pipeline import RECENT_S_MAX
from gravitate.broker.interface import timers
from gravitate.broker.interface.effects import Warn
from gravitate.broker.interface.inputs import TimerFired
from gravitate.broker.messages import frames, guests, tether
from gravitate.broker.messages.frames import Message, Publications
from gravitate.broker.observers import LinkChange
from gravitate.errors import PeerError

Handler = Callable[[str, Any], None]


class Incoming:
    """Messages come once and in order. `late` is called when an orderly stop takes too long."""

    def __init__(self, make: Callable[[Told], Parts], late: Callable[[], None]) -> None:
        told = Told(self._on_message, self._on_change, self._on_synchronised)
        self.parts = parts = make(told)
        self._unheard = set(parts.links.neighbours())
        """Neighbours that have not said what they know since the start."""
        self.has_reset = False
        """Since the last step some link has started anew."""
        self._on_any_link: dict[type, Handler] = {
            tether.Deliveries: _if_matched(parts.subscriber_tethers.deliver),
            **dict.fromkeys((tether.HandedOver, *get_args(tether.FromOrigin)), parts.remote.handle),
            **dict.fromkeys(get_args(tether.ToOrigin), parts.tethers.handle),
        }
        self._along_tree: dict[type, Handler] = {
            Publications: self._publications,
            **dict.fromkeys(get_args(frames.RoutingMessage), parts.router.on_message),
            frames.Congested: parts.congestion.on_congested,
            frames.Drained: parts.congestion.on_drained,
            frames.MechanismMessage: parts.posts.handle,
            **dict.fromkeys(get_args(frames.MoveMessage), parts.paths.handle),
            **dict.fromkeys(get_args(guests.GuestMessage), parts.guests.handle),
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
            timers.RecentOver: lambda timer: self._forget_recent(),
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

    def start(self) -> None:
        """What comes is remembered until every neighbour has said what it knows, but not long."""
        context = self.parts.context
        if self._unheard:
            context.set_timer(timers.RecentOver(), context.now + RECENT_S_MAX)
        else:
            self._forget_recent()

    def on_timer(self, input: TimerFired) -> None:
        if self.parts.context.fires(input):
            self._on_timer[type(input.timer)](input.timer)

    # Messages ------------------------------------------------------------------------------

    def _on_message(self, peer: str, message: Message) -> None:
        """`PeerError` when it cannot be meant."""
        handler = self._on_any_link.get(type(message))
        if handler is None:
            if not self.parts.links.is_neighbour(peer):
                raise PeerError("no-neighbour", f"{type(message).__name__} on a tether")
            handler = self._along_tree[type(message)]
        handler(peer, message)

    def _publications(self, peer: str, message: Publications) -> None:
        parts = self.parts
        for batch in message.batches:
            if batch.flood:
                parts.lives.heard(batch.stream, parts.context.now)
            parts.dispatch.route(batch, peer)

    def _on_synchronised(self, peer: str) -> None:
        """A neighbour has said what it knows."""
        self._unheard.discard(peer)
        if not self._unheard:
            self._forget_recent()

    def _forget_recent(self) -> None:
        """Nobody will remind this broker of anything any more."""
        self.parts.deposits.look_back()
        self.parts.dispatch.recent = None

    # Links ---------------------------------------------------------------------------------

    def _on_change(self, peer: str, change: LinkChange) -> None:
        context = self.parts.context
        if self.parts.links.is_neighbour(peer):
            self.has_reset |= change is LinkChange.RESET
            for tell in self._on_tree_link.get(change, ()):
                tell(peer)
        for tell in self._on_link.get(change, ()):
            tell(peer)
        if change is not LinkChange.ABSENT:
            for observer in context.observers:
                observer.on_link(context.broker_id, peer, change, context.now)

    def _warn(self, peer: str) -> None:
        self.parts.context.emit(Warn(peer, "link given up: what was queued for it is dropped"))

    def _tethers_down(self, peer: str) -> None:
        """A link that tethers go over has been down for a while. Where it is the tree's too, what
        is under way on it is not forgotten: those who are served here for others go on."""
        if not self.parts.tether_links.given_up(peer):
            return
        if self.parts.links.is_neighbour(peer):
            self.parts.tethered_subscribers.down(peer)
            self.parts.tethers.link_lost(peer)
            self.parts.tether_links.review(peer)
        else:
            self._tethers_lost(peer)

    def _tethers_lost(self, peer: str) -> None:
        self.parts.guests.salvage.link_given_up(peer)
        self.parts.remote.lost(peer)
        self.parts.tethers.link_lost(peer)


def _if_matched(handler: Handler) -> Handler:
    """Of events for a subscriber, which nobody matches here."""

    def handle(peer: str, message: tether.Deliveries | guests.GuestCut) -> None:
        if not all(batch.covered for batch in message.batches):
            raise PeerError("unmatched", "events for a subscriber that no broker has matched")
        handler(peer, message)

    return handle
