"""What becomes of links and timers, told to all parts that it concerns."""

from __future__ import annotations

from collections.abc import Callable

from gravitate.broker.assembly import Parts
from gravitate.broker.interface.effects import Warn
from gravitate.broker.messages.frames import Message, Publications
from gravitate.broker.messages.guests import Deliveries
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
        self.has_reset = False
        """Since the last step some link has started anew."""

    # Links ---------------------------------------------------------------------------------

    def on_link(self, peer: str, change: LinkChange) -> None:
        parts = self._parts
        if parts.links.is_neighbour(peer):
            self._on_neighbour(peer, change)
        match change:
            case LinkChange.RESET:
                parts.tethered.lost(peer)
                parts.tethers.link_reset(peer)
                parts.subscribers.link_reset(peer)
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
            parts.subscribers.link_up(peer)
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
        """Publications that outlive the reset of the link to `peer`. What was handed over to be
        published there is published elsewhere."""
        return Publications(
            [
                self._parts.router.outlives_reset(batch, peer)
                for batch in message.batches
                if batch.tether is None
            ]
        )

    def on_received(self, peer: str, message: Message) -> None:
        """The other end of a link has a message of this one's."""
        if isinstance(message, Deliveries):
            self._parts.subscribers.taken(peer, message)

    def on_taken(self, peer: str, message: Message) -> None:
        """The other end of a link has passed on what was in a message of this one's."""
        if not isinstance(message, Deliveries):
            self._parts.tethers.taken(peer, message)

    # Timers --------------------------------------------------------------------------------

    def on_timer(self, key: str) -> None:
        match key.split(":", 2):
            case ["link", what, peer]:
                self._parts.peering.timer(what, peer, self._parts.context.now)
            case ["mechanism", name, own_key]:
                self._parts.posts.timer(name, own_key)
            case ["hold", *session]:
                self._parts.clients.hold_expired(":".join(session))
            case ["tether", what, which]:
                self._tether_timer(what, which)
            case ["guest", what, which]:
                self._parts.subscribers.timer(what, which)
            case ["move", *move]:
                self._parts.engine.on_timer(":".join(move))
            case ["chores"]:
                pass  # every step goes on with them
            case ["recent"]:
                self._forget_recent()
            case ["leases"]:
                self._parts.paths.watch_leases()
            case ["stop"]:
                self._late()

    def _tether_timer(self, what: str, which: str) -> None:
        match what:
            case "hold":
                self._parts.tethered.hold_expired(which)
            case "arrive":
                self._parts.tethers.late(which)
            case "idle":
                self._parts.tether_links.idle(which)
            case "down":
                if self._parts.tether_links.given_up(which):
                    self._tethers_down(which)

    def _tethers_down(self, peer: str) -> None:
        """A link that tethers go over has been down for a while. Where it is the tree's too, what
        is under way on it is not forgotten: those who are served here for others go on."""
        if self._parts.links.is_neighbour(peer):
            self._parts.tethers.link_lost(peer)
            self._parts.subscribers.link_down(peer)
            self._parts.tether_links.review(peer)
        else:
            self._tethers_lost(peer)

    def _tethers_lost(self, peer: str) -> None:
        self._parts.tethered.lost(peer)
        self._parts.tethers.link_lost(peer)
        self._parts.subscribers.link_lost(peer)
