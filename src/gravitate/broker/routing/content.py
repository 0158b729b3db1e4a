"""Content routing with advertisements on an acyclic overlay.

Advertisements flood. A subscription travels to the neighbours behind which an advertisement
intersects it, less what covering saves (`frontier`). Unsubscribing and unadvertising undo
exactly that, uncovering included: a neighbour is always told the replacement first, so that no
event falls between the two.

Every request is answered hop by hop after everything downstream (`settlement`). Until an
advertisement has settled on a link, its publisher's events follow the link whatever the tables
say: nobody behind it can be missed because its subscription is still on the way.

After a neighbour lost its state (`reset`), both sides say all they know again. What the
neighbour had said before stays in use, marked stale, until it has said everything it knows:
advertisements when all its other neighbours have, then subscriptions. What is stale then goes.

The router speaks through `send`; it knows neither connections nor clients.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import count

from gravitate.broker.messages import (
    Advertise,
    Control,
    Settled,
    Subscribe,
    SyncEnd,
    Unadvertise,
    Unsubscribe,
)
from gravitate.broker.routing.frontier import Frontier
from gravitate.broker.routing.table import (
    LOCAL,
    AdvertisementEntry,
    Neighbour,
    RoutingTable,
    SubscriptionEntry,
)
from gravitate.broker.settlement import Answer, Request, Settlement
from gravitate.model.covering import intersects
from gravitate.model.events import Batch
from gravitate.model.filters import Filter

RoutingMessage = Advertise | Unadvertise | Subscribe | Unsubscribe | Settled | SyncEnd

_NOBODY: tuple[str, ...] = ()


def _nothing() -> None:
    """The answer to what nobody asked."""


class Sync:
    """How far a neighbour and this broker have told each other everything since a reset."""

    __slots__ = (
        "advertisements_in", "advertisements_out", "greeted", "subscriptions_in",
        "subscriptions_out", "token",
    )  # fmt: skip

    def __init__(self, token: int) -> None:
        self.greeted = False
        self.advertisements_in = self.subscriptions_in = False
        self.advertisements_out = self.subscriptions_out = False
        self.token = token
        """Answered when the neighbour has said all its advertisements."""


class ContentRouter:
    """The `content` routing strategy. Destinations are numbers that the broker hands out."""

    def __init__(
        self,
        broker_id: str,
        neighbours: Iterable[str],
        send: Callable[[str, Control], None],
        destination_of: Callable[[str], int],
    ) -> None:
        self.broker_id = broker_id
        self._send = send
        self._destination_of = destination_of
        """The destination that stands for an anchor."""
        self._settlement = Settlement()
        self._advertisement_of: dict[tuple[str, int], tuple[RoutingTable, AdvertisementEntry]] = {}
        """What the unsettled tokens of advertisements stand for."""
        self.planes = {0: RoutingTable(0)}
        self.current_plane = 0
        self._sync: dict[str, Sync] = {}
        self._keys = count()
        self._free_keys: list[int] = []
        for peer in sorted(neighbours):
            self.planes[0].neighbours[peer] = Neighbour()
            self._sync[peer] = Sync(self._settlement.token(peer))

    # What the broker asks of any routing strategy ------------------------------------------

    def destinations(self, batch: Batch) -> list[tuple[int, ...]]:
        """Per event, the destinations of the matching entries in the batch's plane."""
        return self.planes[batch.plane].destinations(batch)

    def unsettled_links(self, batch: Batch) -> Iterable[str]:
        """Neighbours that must get the batch because its advertisement has not settled there."""
        unsettled = self.planes[batch.plane].unsettled
        if not unsettled:
            return _NOBODY
        return unsettled.get((batch.publisher, batch.incarnation), _NOBODY)

    @property
    def version(self) -> int:
        """Grows with every change of the current plane's entries."""
        return self.planes[self.current_plane].matcher.version

    def entries(self) -> dict[str, SubscriptionEntry]:
        """The subscriptions of the current plane by id."""
        return self.planes[self.current_plane].subscriptions

    def advertisements(self) -> dict[str, AdvertisementEntry]:
        return self.planes[self.current_plane].advertisements

    def subscribe(self, id: str, filter: Filter, destination: int, settled: Answer) -> None:
        """A local client subscribes."""
        table = self.planes[self.current_plane]
        self._subscribe(table, id, filter, LOCAL, self.broker_id, (), destination, settled)

    def unsubscribe(self, id: str) -> None:
        """A local client's subscription ends."""
        self._unsubscribe(self.planes[self.current_plane], id, LOCAL, _nothing)

    def advertise(
        self, id: str, publisher: str, incarnation: int, filter: Filter, settled: Answer
    ) -> None:
        """A local client advertises."""
        table = self.planes[self.current_plane]
        self._advertise(table, id, publisher, incarnation, filter, LOCAL, settled)

    def unadvertise(self, id: str) -> None:
        self._unadvertise(self.planes[self.current_plane], id, LOCAL, _nothing)

    def handle(self, peer: str, message: RoutingMessage) -> None:
        """A neighbour's message."""
        match message:
            case Settled():
                self._settled(peer, message.token)
            case SyncEnd():
                self._sync_end(peer, message.what)
            case Subscribe():
                self._subscribe(
                    self.planes[message.plane],
                    message.subscription,
                    message.filter,
                    peer,
                    message.anchor,
                    message.path,
                    self._destination_of(message.anchor),
                    self._reply(peer, message.token),
                )
            case Unsubscribe():
                self._unsubscribe(
                    self.planes[message.plane],
                    message.subscription,
                    peer,
                    self._reply(peer, message.token),
                )
            case Advertise():
                self._advertise(
                    self.planes[message.plane],
                    message.advertisement,
                    message.publisher,
                    message.incarnation,
                    message.filter,
                    peer,
                    self._reply(peer, message.token),
                )
            case Unadvertise():
                self._unadvertise(
                    self.planes[message.plane],
                    message.advertisement,
                    peer,
                    self._reply(peer, message.token),
                )

    def reset(self, peer: str) -> None:
        """The link to `peer` starts anew: say everything, doubt everything heard from it."""
        self._settlement.drop_answers(peer)
        sync = self._sync[peer] = Sync(self._settlement.token(peer))
        sync.greeted = True
        current = {sync.token}
        for table in self.planes.values():
            neighbour = table.neighbours.setdefault(peer, Neighbour())
            for entry in table.advertisements.values():
                if entry.last_hop == peer:
                    entry.stale = True
                else:
                    current.add(self._tell_advertisement(table, entry, peer))
            for subscription in table.subscriptions.values():
                if subscription.last_hop == peer:
                    subscription.stale = True
            for id in list(neighbour.told):
                current.add(
                    self._tell_subscription(table, peer, neighbour, table.subscriptions[id])
                )
        self._settlement.forget(peer, keep=current)
        self._advance_sync()

    def forget(self, peer: str) -> None:
        """The neighbour is given up: all that came from it goes, nothing is expected of it."""
        self._sync.pop(peer, None)
        for table in self.planes.values():
            if table.neighbours.pop(peer, None) is None:
                continue
            for entry in list(table.advertisements.values()):
                self._note_settled(table, entry, peer)
                if entry.last_hop == peer:
                    self._unadvertise(table, entry.id, peer, _nothing)
            for subscription in list(table.subscriptions.values()):
                if subscription.last_hop == peer:
                    self._unsubscribe(table, subscription.id, peer, _nothing)
        self._settlement.drop_answers(peer)
        self._settlement.forget(peer)
        self._advance_sync()

    def _sync_end(self, peer: str, what: str) -> None:
        """A neighbour has said all it knows: what it did not say again is gone."""
        sync = self._sync.get(peer)
        if sync is None:
            return
        for table in self.planes.values():
            if what == "advertisements":
                for entry in [e for e in table.advertisements.values() if e.last_hop == peer]:
                    if entry.stale:
                        self._unadvertise(table, entry.id, peer, _nothing)
            else:
                for subscription in [s for s in table.subscriptions.values() if s.stale]:
                    if subscription.last_hop == peer:
                        self._unsubscribe(table, subscription.id, peer, _nothing)
        if what == "advertisements":
            sync.advertisements_in = True
            self._settlement.answered(peer, sync.token)
        else:
            sync.subscriptions_in = True
        self._advance_sync()

    def _advance_sync(self) -> None:
        """Tell every neighbour that is waiting for it that it has been told everything."""
        for peer, sync in self._sync.items():
            if not sync.greeted:
                continue
            others = [other for name, other in self._sync.items() if name != peer]
            if not sync.advertisements_out and all(o.advertisements_in for o in others):
                sync.advertisements_out = True
                self._send(peer, SyncEnd("advertisements"))
            if (
                sync.advertisements_out
                and not sync.subscriptions_out
                and sync.advertisements_in
                and all(o.subscriptions_in for o in others)
            ):
                sync.subscriptions_out = True
                self._send(peer, SyncEnd("subscriptions"))

    def _settled(self, peer: str, token: int) -> None:
        told = self._advertisement_of.get((peer, token))
        if told is not None:
            self._note_settled(*told, peer)
        self._settlement.answered(peer, token)

    def _note_settled(self, table: RoutingTable, entry: AdvertisementEntry, peer: str) -> None:
        token = entry.unsettled.get(peer)
        if token is not None:
            del self._advertisement_of[peer, token]
            table.note_settled(entry, peer)

    def _reply(self, peer: str, token: int) -> Answer:
        return lambda: self._send(peer, Settled(token))

    # Subscriptions -------------------------------------------------------------------------

    def _subscribe(
        self,
        table: RoutingTable,
        id: str,
        filter: Filter,
        last_hop: str | None,
        anchor: str,
        path: tuple[str, ...],
        destination: int,
        settled: Answer,
    ) -> None:
        entry = table.subscriptions.get(id)
        if (
            entry is not None
            and entry.last_hop == last_hop
            and entry.filter == filter
            and entry.destination == destination
        ):
            entry.stale = False
            self._settlement.seal(entry.request, last_hop, settled)
            return
        if entry is not None:
            self._remove_subscription(table, entry)
        key = self._free_keys.pop() if self._free_keys else next(self._keys)
        entry = SubscriptionEntry(id, filter, last_hop, anchor, path, table.plane, key, destination)
        table.subscriptions[id] = entry
        table.matcher.add(key, filter, destination)
        first_of_filter = filter not in table.by_filter
        table.by_filter.setdefault(filter, {})[id] = entry
        for peer, neighbour in table.neighbours.items():
            if first_of_filter and self._wanted_by(neighbour, filter):
                neighbour.eligible[filter] = None
            if peer != last_hop and filter in neighbour.eligible:
                self._enter(table, peer, neighbour, entry)
                self._await_coverer(peer, neighbour, entry)
            if peer != last_hop:
                # What will be advertised from there is not known before it has synchronised.
                self._settlement.wait(entry.request, peer, self._sync[peer].token)
        self._settlement.seal(entry.request, last_hop, settled)

    def _unsubscribe(
        self, table: RoutingTable, id: str, last_hop: str | None, settled: Answer
    ) -> None:
        entry = table.subscriptions.get(id)
        request = Request()
        if entry is not None and entry.last_hop == last_hop:
            self._remove_subscription(table, entry, request)
        self._settlement.seal(request, last_hop, settled)

    def _remove_subscription(
        self, table: RoutingTable, entry: SubscriptionEntry, request: Request | None = None
    ) -> None:
        for peer, neighbour in table.neighbours.items():
            if peer != entry.last_hop and entry.filter in neighbour.eligible:
                self._leave(table, peer, neighbour, entry, request)
        same_filter = table.by_filter[entry.filter]
        del same_filter[entry.id]
        if not same_filter:
            del table.by_filter[entry.filter]
            for neighbour in table.neighbours.values():
                neighbour.eligible.pop(entry.filter, None)
        del table.subscriptions[entry.id]
        table.matcher.remove(entry.key)
        self._free_keys.append(entry.key)

    def _enter(
        self, table: RoutingTable, peer: str, neighbour: Neighbour, entry: SubscriptionEntry
    ) -> None:
        """The subscription becomes eligible for `peer`; tell what covering leaves to tell."""
        frontier = neighbour.frontiers.setdefault(self._anchor_told(entry), Frontier())
        told, untold = frontier.add(entry.id, entry.filter)
        self._apply(table, peer, neighbour, told, untold, None)

    def _leave(
        self,
        table: RoutingTable,
        peer: str,
        neighbour: Neighbour,
        entry: SubscriptionEntry,
        request: Request | None,
    ) -> None:
        frontier = neighbour.frontiers[self._anchor_told(entry)]
        told, untold = frontier.remove(entry.id, entry.filter)
        self._apply(table, peer, neighbour, told, untold, request)

    def _apply(
        self,
        table: RoutingTable,
        peer: str,
        neighbour: Neighbour,
        told: list[str],
        untold: list[str],
        request: Request | None,
    ) -> None:
        """Replacements first, then what they replace; `request` waits for the latter."""
        for id in told:
            self._tell_subscription(table, peer, neighbour, table.subscriptions[id])
        for id in untold:
            del neighbour.told[id]
            token = self._settlement.token(peer)
            self._send(peer, Unsubscribe(id, token, table.plane))
            if request is not None:
                self._settlement.wait(request, peer, token)

    def _tell_subscription(
        self,
        table: RoutingTable,
        peer: str,
        neighbour: Neighbour,
        entry: SubscriptionEntry,
    ) -> int:
        earlier = neighbour.told.get(entry.id, 0)
        token = neighbour.told[entry.id] = self._settlement.token(peer)
        self._send(
            peer,
            Subscribe(
                entry.id,
                entry.filter,
                self._anchor_told(entry),
                (*entry.path, self.broker_id),
                token,
                table.plane,
            ),
        )
        if earlier:
            self._settlement.replace(peer, earlier, token)
        elif not entry.request.settled:
            self._settlement.wait(entry.request, peer, token)
        return token

    def _await_coverer(self, peer: str, neighbour: Neighbour, entry: SubscriptionEntry) -> None:
        """A covered subscription settles with the one that covers it."""
        frontier = neighbour.frontiers[self._anchor_told(entry)]
        token = neighbour.told[frontier.representative(entry.filter)]
        self._settlement.wait(entry.request, peer, token)

    def _anchor_told(self, entry: SubscriptionEntry) -> str:
        """With `delta = 1` every neighbour addresses this broker itself."""
        return self.broker_id

    # Advertisements ------------------------------------------------------------------------

    def _advertise(
        self,
        table: RoutingTable,
        id: str,
        publisher: str,
        incarnation: int,
        filter: Filter,
        last_hop: str | None,
        settled: Answer,
    ) -> None:
        entry = table.advertisements.get(id)
        if entry is not None and entry.last_hop == last_hop and entry.filter == filter:
            entry.stale = False
            self._settlement.seal(entry.request, last_hop, settled)
            return
        if entry is not None:
            self._remove_advertisement(table, entry)
        entry = AdvertisementEntry(id, publisher, incarnation, filter, last_hop)
        table.advertisements[id] = entry
        for peer in table.neighbours:
            if peer != last_hop:
                self._tell_advertisement(table, entry, peer)
        neighbour = table.neighbours.get(last_hop) if last_hop is not None else None
        if last_hop is not None and neighbour is not None:
            neighbour.advertised[filter] += 1
            if neighbour.advertised[filter] == 1:
                for other in list(table.by_filter):
                    if other not in neighbour.eligible and intersects(filter, other):
                        self._make_eligible(table, last_hop, neighbour, other)
        self._settlement.seal(entry.request, last_hop, settled)

    def _unadvertise(
        self, table: RoutingTable, id: str, last_hop: str | None, settled: Answer
    ) -> None:
        entry = table.advertisements.get(id)
        request = Request()
        if entry is not None and entry.last_hop == last_hop:
            self._remove_advertisement(table, entry)
            for peer in table.neighbours:
                if peer != last_hop:
                    token = self._settlement.token(peer)
                    self._send(peer, Unadvertise(id, token, table.plane))
                    self._settlement.wait(request, peer, token)
        self._settlement.seal(request, last_hop, settled)

    def _remove_advertisement(self, table: RoutingTable, entry: AdvertisementEntry) -> None:
        for peer in list(entry.unsettled):
            self._note_settled(table, entry, peer)
        del table.advertisements[entry.id]
        if entry.last_hop is None:
            return
        neighbour = table.neighbours.get(entry.last_hop)
        if neighbour is None:
            return
        neighbour.advertised[entry.filter] -= 1
        if neighbour.advertised[entry.filter]:
            return
        del neighbour.advertised[entry.filter]
        for filter in [f for f in neighbour.eligible if not self._wanted_by(neighbour, f)]:
            for subscription in list(table.by_filter[filter].values()):
                if subscription.last_hop != entry.last_hop:
                    self._leave(table, entry.last_hop, neighbour, subscription, None)
            del neighbour.eligible[filter]

    def _make_eligible(
        self, table: RoutingTable, peer: str, neighbour: Neighbour, filter: Filter
    ) -> None:
        neighbour.eligible[filter] = None
        for subscription in list(table.by_filter[filter].values()):
            if subscription.last_hop != peer:
                self._enter(table, peer, neighbour, subscription)

    def _tell_advertisement(self, table: RoutingTable, entry: AdvertisementEntry, peer: str) -> int:
        token = self._settlement.token(peer)
        self._advertisement_of[peer, token] = (table, entry)
        self._send(
            peer,
            Advertise(
                entry.id, entry.publisher, entry.incarnation, entry.filter, token, table.plane
            ),
        )
        earlier = entry.unsettled.get(peer, 0)
        table.note_unsettled(entry, peer, token)
        if earlier:
            del self._advertisement_of[peer, earlier]
            self._settlement.replace(peer, earlier, token)
        else:
            self._settlement.wait(entry.request, peer, token)
        return token

    @staticmethod
    def _wanted_by(neighbour: Neighbour, filter: Filter) -> bool:
        return any(intersects(advertised, filter) for advertised in neighbour.advertised)
