"""Content routing with advertisements on an acyclic overlay: the `content` strategy.

Advertisements flood. A subscription travels to the neighbours behind which an advertisement
intersects it, less what covering saves. Unsubscribing and unadvertising undo exactly that,
uncovering included (`propagation`). Every request is answered hop by hop after everything
downstream (`settlement`).

Until an advertisement has settled on a link, its publisher's events follow the link whatever
the tables say: nobody behind it can be missed because its subscription is still on the way. And
no subscription settles before it is known what the neighbours' sides advertise.

After a neighbour lost its state, both sides say all they know again. What the neighbour had
said before stays in use, marked stale, until it has said everything (`sync`); what is stale
then goes.

The router speaks through `send`; it knows neither connections nor clients.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from gravitate.broker.lives import Life
from gravitate.broker.messages.frames import (
    Advertise,
    RoutingMessage,
    Settled,
    Subscribe,
    SyncEnd,
    Unadvertise,
    Unsubscribe,
)
from gravitate.broker.routing.content.propagation import Propagation
from gravitate.broker.routing.content.serving import Serving
from gravitate.broker.routing.content.sync import Synchronisation
from gravitate.broker.routing.content.table import (
    LOCAL,
    AdvertisementEntry,
    Neighbour,
    RoutingTable,
    SubscriptionEntry,
)
from gravitate.broker.routing.router import RouterPorts
from gravitate.broker.routing.settlement import Answer, Asker, Open, Partly, Request, Settlement
from gravitate.model.events import Batch
from gravitate.model.filters import Filter
from gravitate.model.semantics import matches

Entry = AdvertisementEntry | SubscriptionEntry
_NOBODY: tuple[str, ...] = ()
_NOTHING: dict[str, AdvertisementEntry] = {}


class ContentRouter:
    """Destinations are numbers that the broker hands out."""

    def __init__(self, broker_id: str, neighbours: Collection[str], ports: RouterPorts) -> None:
        peers = sorted(neighbours)
        self._broker_id = broker_id
        self._ports = ports
        self._settlement = Settlement()
        self._serving = Serving()
        self.table = RoutingTable(ports.ended)
        self._propagation = Propagation(broker_id, self.table, self._settlement, ports)
        self._sync = Synchronisation(peers, self._settlement, ports.send)
        for peer in peers:
            self.table.neighbours[peer] = Neighbour()
        self._ending: dict[str, Asker] = {}
        """Advertisements, by id, that end once nothing trails their publisher's move:
        who wants what is still under way from where it was would be forgotten."""

    # What events ask -----------------------------------------------------------------------

    def route(self, batch: Batch, came_from: str | None) -> list[tuple[int, ...]]:
        """Per event, the sorted destinations of the matching entries, without local subscriptions
        that wait to be served, with the neighbours that must get all of it."""
        answers = self._serving.served(batch, came_from, self.table.destinations(batch))
        unsettled = self._unsettled(batch)
        if unsettled:
            also = {self._ports.destination_of(peer) for peer in unsettled}
            with_all = {answer: tuple(sorted(also.union(answer))) for answer in set(answers)}
            answers = [with_all[answer] for answer in answers]
        return answers

    def _unsettled(self, batch: Batch) -> Collection[str]:
        """Neighbours that must get the batch because its advertisement has not settled there."""
        if batch.flood:
            return self.table.neighbours
        unsettled = self.table.unsettled
        if not unsettled:
            return _NOBODY
        return unsettled.get(batch.stream, _NOBODY)

    def announced(self, batch: Batch, peer: str) -> bool:
        """Whether every event lies within an advertisement that `peer` is told when it has
        forgotten everything."""
        known = self.advertised_by(batch.publisher, batch.incarnation)
        filters = [entry.filter for entry in known if entry.last_hop != peer]
        wanted = frozenset(
            predicate.attribute
            for filter in filters
            for conjunction in filter.conjunctions
            for predicate in conjunction
        )
        return all(
            any(matches(filter, attributes) for filter in filters)
            for attributes in batch.bodies.attributes(wanted)
        )

    def advertised_by(self, publisher: str, incarnation: int) -> list[AdvertisementEntry]:
        """The advertisements of one life of a publisher, wherever it is attached."""
        return list(self.table.by_publisher.get((publisher, incarnation), _NOTHING).values())

    def is_advertised(self, publisher: str, incarnation: int) -> bool:
        """Whether a life of a publisher has any advertisement."""
        return (publisher, incarnation) in self.table.by_publisher

    def sides_of(self, life: Life) -> Iterable[str]:
        """The neighbours that events of a life of a publisher come from."""
        known = self.table.by_publisher.get(life, _NOTHING).values()
        return dict.fromkeys(entry.last_hop for entry in known if entry.last_hop is not LOCAL)

    def entries(self) -> dict[str, SubscriptionEntry]:
        """The subscriptions by id."""
        return self.table.subscriptions

    def advertisements(self) -> dict[str, AdvertisementEntry]:
        """The advertisements by id."""
        return self.table.advertisements

    def unsettled(self) -> dict[str, int]:
        """How many local subscriptions a neighbour has not settled, by neighbour."""
        return dict(self._serving.unsettled())

    def is_awaited(self, peer: str) -> bool:
        """Whether a neighbour has yet to say what it knows, or to answer a local subscription."""
        return not self._sync.is_known(peer) or self._serving.is_awaited(peer)

    # What local clients ask ----------------------------------------------------------------

    def subscribe(
        self,
        id: str,
        filter: Filter,
        destination: int,
        settled: Answer,
        partly: Partly,
        is_renewed: bool = False,
    ) -> None:
        asker = Asker(LOCAL, settled, partly)
        self._subscribe(id, filter, self._broker_id, (), destination, asker, is_renewed)

    def serve(self, id: str) -> None:
        """A local subscription is served from every side from now on, settled or not."""
        self._serving.end(self.table.subscriptions[id])

    def unsubscribe(self, id: str) -> None:
        self._unsubscribe(id, Asker(LOCAL, _nothing))

    def advertise(
        self,
        id: str,
        publisher: str,
        incarnation: int,
        filter: Filter,
        settled: Answer,
        partly: Partly,
        attachment: int = 0,
    ) -> None:
        entry = AdvertisementEntry(id, publisher, incarnation, filter, LOCAL, attachment)
        self._advertise(entry, Asker(LOCAL, settled, partly))

    def unadvertise(self, id: str, settled: Answer) -> None:
        self._unadvertise(id, Asker(LOCAL, settled))

    # What neighbours say -------------------------------------------------------------------

    def handle(self, peer: str, message: RoutingMessage) -> None:
        if isinstance(message, Settled):
            if message.open:
                self._settlement.answered_partly(peer, message.token, frozenset(message.open))
            else:
                self._propagation.settled(peer, message.token)
                self._end_advertisements()
            return
        if isinstance(message, SyncEnd):
            if message.open:
                self._sync.ended_partly(peer, frozenset(message.open))
            else:
                self._sync_end(peer, message.what)
            return
        token = message.token

        def settled() -> None:
            self._ports.send(peer, Settled(token))

        def partly(open: Open) -> None:
            self._ports.send(peer, Settled(token, tuple(sorted(open))))

        asker = Asker(peer, settled, partly)
        match message:
            case Subscribe():
                self._subscribe(
                    message.subscription,
                    message.filter,
                    message.anchor,
                    message.path,
                    self._ports.destination_of(message.anchor),
                    asker,
                )
            case Unsubscribe():
                self._unsubscribe(message.subscription, asker)
            case Advertise():
                entry = AdvertisementEntry(
                    message.advertisement,
                    message.publisher,
                    message.incarnation,
                    message.filter,
                    peer,
                    message.attachment,
                )
                self._advertise(entry, asker)
            case Unadvertise():
                self._unadvertise(message.advertisement, asker)

    def reset(self, peer: str) -> None:
        """The link to `peer` starts anew: say everything, doubt everything heard from it.

        That it was everything is said by `synchronise`, behind what the link had queued: who is
        told so then takes what comes for complete."""
        self._settlement.drop_answers(peer)
        self._settlement.present(peer)
        current = {self._sync.reset(peer)}
        neighbour = self.table.neighbours.setdefault(peer, Neighbour())
        for entry in self.table.advertisements.values():
            if entry.last_hop == peer:
                entry.stale = True
            else:
                current.add(self._propagation.tell_advertisement(entry, peer))
        for subscription in self.table.subscriptions.values():
            if subscription.last_hop == peer:
                subscription.stale = True
        for id in list(neighbour.told):
            told = self.table.subscriptions[id]
            current.add(self._propagation.tell_subscription(peer, neighbour, told))
        self._settlement.renew(peer, current)

    def absent(self, peer: str) -> None:
        """The link to `peer` has been down for a while: who is there does not wait for it."""
        self._settlement.absent(peer)
        self._sync.absent(peer)

    def present(self, peer: str) -> None:
        """The link to `peer` goes on where it was."""
        self._settlement.present(peer)
        self._sync.present(peer)

    def synchronise(self) -> None:
        """Tell the neighbours that have been told everything so."""
        self._sync.advance()

    def forget(self, peer: str) -> None:
        """The neighbour is given up: all that came from it goes, nothing is expected of it."""
        self._sync.forget(peer)
        if self.table.neighbours.pop(peer, None) is not None:
            for entry in self.table.advertisements.values():
                self._propagation.note_settled(entry, peer)
                entry.trailing.discard(peer)
            self._remove_from(peer, self.table.advertisements.values())
            self._remove_from(peer, self.table.subscriptions.values())
        self._settlement.drop_answers(peer)
        self._settlement.forget(peer)
        self._end_advertisements()
        self._sync.advance()

    def _sync_end(self, peer: str, what: str) -> None:
        entries = (
            self.table.advertisements if what == "advertisements" else self.table.subscriptions
        ).values()
        self._remove_from(peer, [entry for entry in entries if entry.stale])
        self._sync.ended(peer, what)

    def _remove_from(self, peer: str, entries: Iterable[Entry]) -> None:
        """Remove those of `entries` that came from `peer`."""
        for entry in [entry for entry in entries if entry.last_hop == peer]:
            if isinstance(entry, AdvertisementEntry):
                self._unadvertise(entry.id, Asker(peer, _nothing))
            else:
                self._unsubscribe(entry.id, Asker(peer, _nothing))

    # What both ask -------------------------------------------------------------------------

    def _subscribe(
        self,
        id: str,
        filter: Filter,
        anchor: str,
        path: tuple[str, ...],
        destination: int,
        asker: Asker,
        is_renewed: bool = False,
    ) -> None:
        last_hop = asker.peer
        entry = self.table.subscriptions.get(id)
        if entry is not None and (entry.last_hop, entry.filter, entry.destination) == (
            last_hop,
            filter,
            destination,
        ):
            entry.stale = False
        else:
            if entry is not None:
                self._propagation.remove_subscription(entry)
                self._serving.end(entry)
            entry = self._propagation.add_subscription(
                id, filter, last_hop, anchor, path, destination
            )
            for peer in self.table.neighbours:
                if peer != last_hop:
                    self._settlement.wait(entry.request, peer, self._sync.token(peer))
            if last_hop is LOCAL and not is_renewed:
                request, behind = entry.request, self._settlement.open_behind
                open = {peer: behind(request, peer) for peer in request.outstanding}
                self._serving.begin(entry, open)
        if last_hop is LOCAL:
            made, settled = entry, asker.settled

            def settled_here() -> None:
                self._serving.end(made)
                settled()

            asker = asker._replace(settled=settled_here)
        self._settlement.seal(entry.request, asker)

    def _unsubscribe(self, id: str, asker: Asker) -> None:
        entry = self.table.subscriptions.get(id)
        request = Request()
        if entry is not None and entry.last_hop == asker.peer:
            request = self._propagation.remove_subscription(entry)
            self._serving.end(entry)
        self._settlement.seal(request, asker)

    def _advertise(self, entry: AdvertisementEntry, asker: Asker) -> None:
        former = self.table.advertisements.get(entry.id)
        is_outdated = (
            former is not None
            and former.last_hop != entry.last_hop
            and former.attachment >= entry.attachment
        )
        if not is_outdated and (ended := self._ending.pop(entry.id, None)):
            ended.settled()
        if former is None:
            self._propagation.add_advertisement(entry)
        elif is_outdated:
            # The publisher has moved on since; who does not know yet is told. Two that say they are
            # the same are left as they are: neither side would ever convince the other.
            if entry.last_hop is not LOCAL and former.attachment > entry.attachment:
                self._propagation.tell_advertisement(former, entry.last_hop)
            asker.settled()
            return
        elif former.filter != entry.filter:
            if former.last_hop != entry.last_hop:
                self._ports.moved(entry.life, former.last_hop)
            self._propagation.remove_advertisement(former)
            self._propagation.add_advertisement(entry)
        elif former.last_hop == entry.last_hop:
            former.stale = False
            former.attachment = max(former.attachment, entry.attachment)
            entry = former
        else:
            if former.last_hop is LOCAL:
                self._ports.departed(former.id)
            self._propagation.move_advertisement(former, entry.last_hop, entry.attachment)
            entry = former
        self._settlement.seal(entry.request, asker)

    def _unadvertise(self, id: str, asker: Asker) -> None:
        entry = self.table.advertisements.get(id)
        request = Request()
        if entry is not None and entry.last_hop == asker.peer:
            if entry.trailing:
                self._ending[id] = asker
                return
            request = self._propagation.remove_advertisement(entry)
        elif entry is not None and asker.peer is not LOCAL:
            # The neighbour forgets where the publisher was; it is told where it is.
            self._propagation.tell_advertisement(entry, asker.peer)
        self._settlement.seal(request, asker)

    def _end_advertisements(self) -> None:
        for id, asker in list(self._ending.items()):
            if id not in self.table.advertisements or not self.table.advertisements[id].trailing:
                del self._ending[id]
                self._unadvertise(id, asker)


def _nothing() -> None:
    """The answer to what nobody asked."""
