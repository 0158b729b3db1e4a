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
from gravitate.broker.messages import frames
from gravitate.broker.routing.content.propagation import Propagation
from gravitate.broker.routing.content.requests import Requests, nothing
from gravitate.broker.routing.content.serving import Serving
from gravitate.broker.routing.content.sync import Synchronisation
from gravitate.broker.routing.content.table import (
    LOCAL,
    AdvertisementEntry,
    Neighbour,
    RoutingTable,
    SubscriptionEntry,
    advertisement_id,
)
from gravitate.broker.routing.router import Known, RouterPorts
from gravitate.broker.routing.settlement import Answer, Asker, Partly, Settlement
from gravitate.model.events import Batch
from gravitate.model.filters import Filter
from gravitate.model.semantics import matches

_NOBODY: tuple[str, ...] = ()
_NOTHING: dict[str, AdvertisementEntry] = {}


class ContentRouter:
    """Destinations are numbers that the broker hands out."""

    def __init__(self, neighbours: Collection[str], ports: RouterPorts) -> None:
        peers = sorted(neighbours)
        self._ports = ports
        self._settlement = Settlement()
        self._serving = Serving()
        self.table = RoutingTable(ports.ended)
        self._propagation = Propagation(self.table, self._settlement, ports)
        self._sync = Synchronisation(peers, self._settlement, ports.send)
        for peer in peers:
            self.table.neighbours[peer] = Neighbour()
        self._requests = Requests(
            self.table, self._propagation, self._settlement, self._serving, self._sync, ports
        )

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

    def outlives_reset(self, batch: Batch, peer: str) -> Batch:
        """As it is if every event lies within an advertisement that `peer` is told anew."""
        known = self.table.by_publisher.get(batch.stream, _NOTHING).values()
        filters = [entry.filter for entry in known if entry.last_hop != peer]
        wanted = frozenset(
            predicate.attribute
            for filter in filters
            for conjunction in filter.conjunctions
            for predicate in conjunction
        )
        is_told = all(
            any(matches(filter, attributes) for filter in filters)
            for attributes in batch.bodies.attributes(wanted)
        )
        return batch if is_told else batch.flooding()

    def known_of(self, life: Life) -> dict[str, Known]:
        return {
            entry.key: Known(entry.filter, entry.last_hop is LOCAL, bool(entry.trailing))
            for entry in self.table.by_publisher.get(life, _NOTHING).values()
        }

    def is_advertised(self, life: Life) -> bool:
        return life in self.table.by_publisher

    def sides_of(self, life: Life) -> Iterable[str]:
        known = self.table.by_publisher.get(life, _NOTHING).values()
        return dict.fromkeys(entry.last_hop for entry in known if entry.last_hop is not LOCAL)

    def entries(self) -> dict[str, SubscriptionEntry]:
        """The subscriptions by id, for who judges the tables."""
        return self.table.subscriptions

    def advertisements(self) -> dict[str, AdvertisementEntry]:
        """The same of advertisements."""
        return self.table.advertisements

    def sizes(self) -> dict[str, int]:
        table = self.table
        return {
            "subscriptions": len(table.subscriptions),
            "advertisements": len(table.advertisements),
        }

    def unsettled(self) -> dict[str, int]:
        return dict(self._serving.unsettled())

    def is_awaited(self, peer: str) -> bool:
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
        self._requests.subscribe(id, filter, destination, asker, is_renewed)

    def serve(self, id: str) -> None:
        self._serving.end(self.table.subscriptions[id])

    def unsubscribe(self, id: str) -> None:
        self._requests.unsubscribe(id, Asker(LOCAL, nothing))

    def advertise(
        self,
        life: Life,
        key: str,
        filter: Filter,
        settled: Answer,
        partly: Partly,
        attachment: int = 0,
    ) -> None:
        entry = AdvertisementEntry(advertisement_id(life, key), life, filter, LOCAL, attachment)
        self._requests.advertise(entry, Asker(LOCAL, settled, partly))

    def withdraw(self, life: Life, key: str, settled: Answer) -> None:
        self._requests.unadvertise(advertisement_id(life, key), Asker(LOCAL, settled))

    # What neighbours say -------------------------------------------------------------------

    def on_message(self, peer: str, message: frames.RoutingMessage) -> None:
        match message:
            case frames.Settled():
                self._on_settled(peer, message)
            case frames.SyncEnd():
                self._on_sync_end(peer, message)
            case frames.Subscribe(subscription, filter):
                destination = self._ports.destination_of(peer)
                asker = self._asker(peer, message.token)
                self._requests.subscribe(subscription, filter, destination, asker)
            case frames.Unsubscribe(subscription, token):
                self._requests.unsubscribe(subscription, self._asker(peer, token))
            case frames.Advertise(id, publisher, incarnation, filter):
                life = publisher, incarnation
                entry = AdvertisementEntry(id, life, filter, peer, message.attachment)
                self._requests.advertise(entry, self._asker(peer, message.token))
                self._ports.advertised(life, entry.key)
            case frames.Unadvertise(id, token):
                self._requests.unadvertise(id, self._asker(peer, token))
                self._ports.withdrawn()

    def _asker(self, peer: str, token: int) -> Asker:
        """A neighbour, that wants an answer under a token."""
        send = self._ports.send
        return Asker(
            peer,
            lambda: send(peer, frames.Settled(token)),
            lambda open: send(peer, frames.Settled(token, tuple(sorted(open)))),
        )

    def _on_settled(self, peer: str, message: frames.Settled) -> None:
        if message.open:
            self._settlement.answered_partly(peer, message.token, frozenset(message.open))
        else:
            self._propagation.settled(peer, message.token)
            self._requests.end_advertisements()

    def _on_sync_end(self, peer: str, message: frames.SyncEnd) -> None:
        if message.open:
            self._sync.ended_partly(peer, frozenset(message.open))
        else:
            table = self.table
            is_first = message.what == "advertisements"
            entries = (table.advertisements if is_first else table.subscriptions).values()
            self._requests.remove_from(peer, [entry for entry in entries if entry.stale])
            self._sync.ended(peer, message.what)
        self._ports.withdrawn()
        self._ports.synchronised(peer)

    def reset(self, peer: str) -> None:
        """Say everything, doubt everything heard from it. That it was everything is said by
        `synchronise`, behind what the link had queued: who is told so then takes what comes for
        complete."""
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
        self._settlement.absent(peer)
        self._sync.absent(peer)

    def present(self, peer: str) -> None:
        self._settlement.present(peer)
        self._sync.present(peer)

    def synchronise(self) -> None:
        self._sync.advance()

    def forget(self, peer: str) -> None:
        self._sync.forget(peer)
        if self.table.neighbours.pop(peer, None) is not None:
            for entry in self.table.advertisements.values():
                self.table.note_settled(entry, peer)
                entry.trailing.discard(peer)
            self._requests.remove_from(peer, self.table.advertisements.values())
            self._requests.remove_from(peer, self.table.subscriptions.values())
        self._settlement.drop_answers(peer)
        self._settlement.forget(peer)
        self._requests.end_advertisements()
        self._sync.advance()
        self._ports.withdrawn()
