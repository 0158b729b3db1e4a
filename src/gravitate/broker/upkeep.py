"""What becomes of links and timers, told to all parts that it concerns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gravitate.broker.assembly import Parts
from gravitate.broker.interface.effects import Warn
from gravitate.broker.interface.inputs import TimerFired
from gravitate.broker.interface.timers import (
    ChoresLeft,
    HoldOver,
    LinkDown,
    LinkIdle,
    LinkTimer,
    LocksOver,
    MechanismTimer,
    MoveLate,
    RecallAgain,
    RecentOver,
    StopLate,
    TetheredHoldOver,
    TetherLate,
    VisitOver,
)
from gravitate.broker.messages.frames import Message, Publications
from gravitate.broker.messages.tether import Deliveries
from gravitate.broker.observers import LinkChange


class Upkeep:
    """`forget_recent` is called when nobody will remind this broker of anything any more, `late`
    when an orderly stop has taken too long."""

    def __init__(
        self, parts: Parts, forget_recent: Callable[[], None], late: Callable[[], None]
    ) -> None:
        self._parts = parts
        self._forget_recent = forget_recent
        self._late = late
        self._on_timer = self._timers()
        self.has_reset = False
        """Since the last step some link has started anew."""

    # Links ---------------------------------------------------------------------------------

    def on_link(self, peer: str, change: LinkChange) -> None:
        parts = self._parts
        if parts.links.is_neighbour(peer):
            self._on_neighbour(peer, change)
        match change:
            case LinkChange.RESET:
                parts.remote.lost(peer)
                parts.tethers.link_reset(peer)
            case LinkChange.GIVEN_UP:
                self._tethers_lost(peer)
                text = "link given up: what was queued for it is dropped"
                parts.context.emit(Warn(peer, text))
            case LinkChange.DOWN:
                parts.tether_links.down(peer)
            case LinkChange.ABSENT:
                return
        if change in (LinkChange.RESET, LinkChange.RESUMED):
            parts.tether_links.up(peer)
            parts.tethers.link_up(peer)
            parts.guests.questions.link_up(peer)
        if change is not LinkChange.DOWN:
            parts.tether_links.review(peer)
        for observer in parts.context.observers:
            observer.on_link(parts.broker_id, peer, change, parts.context.now)

    def _on_neighbour(self, peer: str, change: LinkChange) -> None:
        """What goes along the tree."""
        parts = self._parts
        match change:
            case LinkChange.RESET:
                parts.router.reset(peer)
                self.has_reset = True
                parts.deposits.reset(peer)
            case LinkChange.GIVEN_UP:
                parts.router.forget(peer)
                parts.deposits.forget(peer)
            case LinkChange.ABSENT:
                parts.router.absent(peer)
            case LinkChange.RESUMED:
                parts.router.present(peer)
        if change in (LinkChange.RESET, LinkChange.GIVEN_UP, LinkChange.ABSENT):
            parts.congestion.forget(peer)
        if change in (LinkChange.RESET, LinkChange.GIVEN_UP):
            parts.engine.on_link_lost(peer)

    def keep(self, peer: str, message: Publications) -> Publications:
        """Publications that outlive the reset of the link to `peer`."""
        return Publications(
            [self._parts.router.outlives_reset(batch, peer) for batch in message.batches]
        )

    def on_received(self, peer: str, message: Message) -> None:
        """The other end of a link has a message of this one's."""
        if isinstance(message, Deliveries):
            self._parts.tethered_subscribers.taken(peer, message)

    def on_taken(self, peer: str, message: Message) -> None:
        """The other end of a link has passed on what was in a message of this one's."""
        if not isinstance(message, Deliveries):
            self._parts.publisher_tethers.taken(peer, message)

    # Timers --------------------------------------------------------------------------------

    def on_timer(self, input: TimerFired) -> None:
        if self._parts.context.fires(input):
            self._on_timer[type(input.timer)](input.timer)

    def _timers(self) -> dict[type, Callable[[Any], None]]:
        """What takes each kind of timer."""
        parts = self._parts
        of_link = dict.fromkeys(LinkTimer.__args__, parts.peering.on_timer)
        return {
            **of_link,
            LinkIdle: lambda timer: parts.tether_links.idle(timer.peer),
            LinkDown: lambda timer: self._tethers_down(timer.peer),
            HoldOver: lambda timer: parts.clients.hold_expired(timer.client),
            TetheredHoldOver: lambda timer: parts.tethered.hold_expired(timer.number),
            MoveLate: lambda timer: parts.engine.on_timer(timer.move),
            LocksOver: lambda timer: parts.paths.watch_leases(),
            TetherLate: lambda timer: parts.tethers.late(timer.number),
            VisitOver: lambda timer: parts.tethered_subscribers.expired(timer.number),
            RecallAgain: lambda timer: parts.subscriber_tethers.ask_again(timer.number),
            MechanismTimer: parts.posts.on_timer,
            ChoresLeft: lambda timer: None,  # every step goes on with them
            RecentOver: lambda timer: self._forget_recent(),
            StopLate: lambda timer: self._late(),
        }

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
        self._parts.guests.questions.link_given_up(peer)
        self._parts.remote.lost(peer)
        self._parts.tethers.link_lost(peer)
