"""How subscriptions and advertisements spread over neighbours, and how they are taken back.

Keeps the invariants of `table` while entries come and go. A neighbour is always told the
replacement before what it replaces, so that no event falls between the two. Every entry has a
request that settles when the neighbours have settled what they were told for it.

Does not know why an entry came or went, nor what a reset is.
"""

from __future__ import annotations

from gravitate.broker.messages.frames import Advertise, Subscribe, Unadvertise, Unsubscribe
from gravitate.broker.routing.content.frontier import Change
from gravitate.broker.routing.content.table import (
    AdvertisementEntry,
    Neighbour,
    RoutingTable,
    SubscriptionEntry,
)
from gravitate.broker.routing.router import RouterPorts
from gravitate.broker.routing.settlement import Request, Settlement
from gravitate.model.covering import intersects
from gravitate.model.filters import Filter


class Propagation:
    def __init__(self, table: RoutingTable, settlement: Settlement, ports: RouterPorts) -> None:
        self._moved = ports.moved
        self._table = table
        self._settlement = settlement
        self._send = ports.send

    # Subscriptions -------------------------------------------------------------------------

    def add_subscription(self, entry: SubscriptionEntry) -> None:
        self._table.add(entry)
        for peer, neighbour in self._table.neighbours.items():
            if peer != entry.last_hop and entry.filter in neighbour.eligible:
                self._enter(peer, neighbour, entry)

    def remove_subscription(self, entry: SubscriptionEntry) -> Request:
        """The answer settles when the neighbours have undone it too."""
        request = Request()
        for peer, neighbour in self._table.neighbours.items():
            if peer != entry.last_hop and entry.filter in neighbour.eligible:
                change = neighbour.frontier.remove(entry.id, entry.filter)
                self._apply(peer, neighbour, change, request)
        self._table.remove(entry)
        self._settlement.cancel(entry.request)
        return request

    def tell_subscription(self, peer: str, neighbour: Neighbour, entry: SubscriptionEntry) -> int:
        """Tell (again) a neighbour of a subscription; the token it will settle."""
        earlier = neighbour.told.get(entry.id, 0)
        token = neighbour.told[entry.id] = self._settlement.token(peer)
        self._send(peer, Subscribe(entry.id, entry.filter, token))
        if earlier:
            self._settlement.replace(peer, earlier, token)
        elif not entry.request.settled:
            self._settlement.wait(entry.request, peer, token)
        return token

    def _enter(self, peer: str, neighbour: Neighbour, entry: SubscriptionEntry) -> None:
        """The subscription becomes eligible for `peer`; tell what covering leaves to tell."""
        self._apply(peer, neighbour, neighbour.frontier.add(entry.id, entry.filter))
        if not entry.request.settled:
            self._await_coverer(peer, neighbour, entry)

    def _apply(
        self, peer: str, neighbour: Neighbour, change: Change, request: Request | None = None
    ) -> None:
        """Replacements first, then what they replace; `request` waits for the latter."""
        for id in change.told:
            self.tell_subscription(peer, neighbour, self._table.subscriptions[id])
        for id in change.untold:
            del neighbour.told[id]
            token = self._settlement.token(peer)
            self._send(peer, Unsubscribe(id, token))
            if request is not None:
                self._settlement.wait(request, peer, token)
        for filter in change.moved:
            # What stood for it before may be answered without it.
            for entry in self._table.settling.get(filter, {}).values():
                if entry.last_hop != peer and filter in neighbour.eligible:
                    self._await_coverer(peer, neighbour, entry)

    def _await_coverer(self, peer: str, neighbour: Neighbour, entry: SubscriptionEntry) -> None:
        """A covered subscription settles with the one that covers it."""
        token = neighbour.told[neighbour.frontier.representative(entry.filter)]
        self._settlement.wait(entry.request, peer, token)

    # Advertisements ------------------------------------------------------------------------

    def add_advertisement(self, entry: AdvertisementEntry) -> None:
        self._table.enter(entry)
        for peer in self._table.neighbours:
            if peer != entry.last_hop:
                self.tell_advertisement(entry, peer)
        if entry.last_hop in self._table.neighbours:
            self._ask_behind(entry.last_hop, entry.filter)

    def move_advertisement(
        self, entry: AdvertisementEntry, last_hop: str | None, attachment: int
    ) -> None:
        """The publisher has attached itself behind `last_hop`.

        Subscriptions are told there at once. They stay told where it was until that side has
        settled the move: whatever it published there has passed by then, for links keep order."""
        former = entry.last_hop
        assert former != last_hop
        entry.last_hop, entry.attachment, entry.stale = last_hop, attachment, False
        self._moved(entry.life, former)
        if last_hop is not None and last_hop in entry.unsettled:
            self._table.note_settled(entry, last_hop)
            entry.crossed.add(last_hop)
        entry.request = Request()
        for peer, token in entry.unsettled.items():
            self._settlement.wait(entry.request, peer, token)
        if last_hop in entry.trailing:
            entry.trailing.discard(last_hop)
        elif last_hop in self._table.neighbours:
            self._ask_behind(last_hop, entry.filter)
        if former in self._table.neighbours:
            entry.trailing.add(former)
            self.tell_advertisement(entry, former)

    def _ask_behind(self, peer: str, advertised: Filter) -> None:
        """Something is advertised behind `peer`: tell it of the subscriptions concerned."""
        neighbour = self._table.neighbours[peer]
        if not neighbour.advertise(advertised):
            return
        for filter in self._table.subscribed.may_intersect(advertised):
            if filter not in neighbour.eligible and intersects(advertised, filter):
                neighbour.admit_for(filter, advertised)
                for subscription in self._table.by_filter[filter].values():
                    if subscription.last_hop != peer:
                        self._enter(peer, neighbour, subscription)

    def remove_advertisement(self, entry: AdvertisementEntry) -> Request:
        """The answer settles when the neighbours have undone it too."""
        for peer in list(entry.unsettled):
            self._table.note_settled(entry, peer)
        self._table.leave(entry)
        request = Request()
        for peer in self._table.neighbours:
            if peer != entry.last_hop or peer in entry.crossed:
                token = self._settlement.token(peer)
                self._send(peer, Unadvertise(entry.id, token))
                self._settlement.wait(request, peer, token)
        for peer in self._table.neighbours:
            if peer == entry.last_hop or peer in entry.trailing:
                self._withdraw_ineligible(peer, entry.filter)
        return request

    def _withdraw_ineligible(self, peer: str, filter: Filter) -> None:
        """An advertisement from `peer` ended: take back what only it had asked for."""
        neighbour = self._table.neighbours[peer]
        for ineligible in neighbour.unadvertise(filter):
            for subscription in self._table.by_filter[ineligible].values():
                if subscription.last_hop != peer:
                    change = neighbour.frontier.remove(subscription.id, ineligible)
                    self._apply(peer, neighbour, change)

    def tell_advertisement(self, entry: AdvertisementEntry, peer: str) -> int:
        """Tell (again) a neighbour of an advertisement; the token it will settle."""
        token = self._settlement.token(peer)
        self._send(peer, Advertise(entry.id, *entry.life, entry.filter, token, entry.attachment))
        earlier = entry.unsettled.get(peer, 0)
        if earlier:
            self._settlement.replace(peer, earlier, token)
        else:
            self._settlement.wait(entry.request, peer, token)
        self._table.note_unsettled(entry, peer, token)
        return token

    def settled(self, peer: str, token: int) -> None:
        """A neighbour has settled what it was told under `token`."""
        entry = self._table.told_under.get((peer, token))
        if entry is not None:
            self._table.note_settled(entry, peer)
            if peer in entry.trailing:
                entry.trailing.discard(peer)
                self._moved(entry.life, peer)
                self._withdraw_ineligible(peer, entry.filter)
        self._settlement.answered(peer, token)
