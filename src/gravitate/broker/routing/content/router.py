"""Content routing with advertisements on an acyclic overlay: the `content` strategy.

Advertisements flood. A subscription travels to the neighbours behind which an advertisement
intersects it, less what covering saves. Unsubscribing and unadvertising undo exactly that,
uncovering included (`propagation`). Every request is answered hop by hop after everything
downstream (`settlement`). What is said again changes nothing; what the publisher's later attachment
has overtaken is not taken back.

Until an advertisement has settled on a link, its publisher's events follow the link whatever
the tables say: nobody behind it can be missed because its subscription is still on the way. And
no subscription settles before it is known what the neighbours' sides advertise.

After a neighbour lost its state, both sides say all they know again. What the neighbour had
said before stays in use, marked stale, until it has said everything (`sync`); what is stale
then goes. So does what it takes back meanwhile: others that this covered may not have been said.

The router speaks through `send`; it knows neither connections nor clients.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from functools import partial
from itertools import chain

from gravitate.broker.lives import Life
from gravitate.broker.messages import frames
from gravitate.broker.routing.content.propagation import Propagation
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
from gravitate.broker.routing.settlement import NOWHERE, Answer, Asker, Open, Request, Settlement
from gravitate.model.events import Batch
from gravitate.model.filters import Filter
from gravitate.model.semantics import matches

_NOBODY = Asker(LOCAL)
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
        self.table.neighbours.update((peer, Neighbour()) for peer in peers)
        self._ending: dict[str, Asker] = {}
        """Advertisements, by id, that end once nothing trails their publisher's move:
        who wants what is still under way from where it was would be forgotten."""
        self._doubted: dict[str | None, set[str]] = {}
        """Subscriptions that a neighbour had said before it was reset, until it has said all again:
        what they covered there was never said here."""

    # What events ask -----------------------------------------------------------------------

    def route(self, batch: Batch, came_from: str | None) -> list[tuple[int, ...]]:
        """Without local subscriptions that wait to be served; with the neighbours that must get all
        of it because its advertisement has not settled there."""
        table = self.table
        answers = self._serving.served(batch, came_from, table.destinations(batch))
        unsettled: Collection[str] | None = None
        if batch.flood:
            unsettled = table.neighbours
        elif table.unsettled:
            unsettled = table.unsettled.get(batch.stream)
        if unsettled:
            also = {self._ports.destination_of(peer) for peer in unsettled}
            with_all = {answer: tuple(sorted(also.union(answer))) for answer in set(answers)}
            answers = [with_all[answer] for answer in answers]
        return answers

    def outlives_reset(self, batch: Batch, peer: str) -> Batch:
        """As it is if every event lies within an advertisement that `peer` is told anew."""
        known = self.table.by_publisher.get(batch.stream, _NOTHING).values()
        filters = [entry.filter for entry in known if entry.last_hop != peer]
        conjunctions = chain.from_iterable(filter.conjunctions for filter in filters)
        wanted = frozenset(one.attribute for one in chain.from_iterable(conjunctions))
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

    def sizes(self) -> dict[str, int]:
        subscriptions, advertisements = self.table.subscriptions, self.table.advertisements
        return {"subscriptions": len(subscriptions), "advertisements": len(advertisements)}

    def unsettled(self) -> dict[str, int]:
        return self._serving.unsettled()

    def is_awaited(self, peer: str) -> bool:
        return not self._sync.is_known(peer) or self._serving.is_awaited(peer)

    # What clients and neighbours ask ---------------------------------------------------------

    def subscribe(
        self, id: str, filter: Filter, destination: int, asker: Asker, is_renewed: bool = False
    ) -> None:
        last_hop = asker.peer
        entry = self.table.subscriptions.get(id)
        said = (last_hop, filter, destination)
        if entry is not None and (entry.last_hop, entry.filter, entry.destination) == said:
            entry.stale = False
        else:
            if entry is not None:
                self._end_subscription(entry)
            entry = SubscriptionEntry(id, filter, last_hop, destination)
            request = entry.request
            request.tell_settled(partial(self._subscription_settled, entry))
            self._propagation.add_subscription(entry)
            for peer in self.table.neighbours:
                if peer != last_hop:
                    self._settlement.wait(request, peer, self._sync.token(peer))
            if last_hop is LOCAL and not is_renewed:
                self._serving.begin(entry)
                for peer in request.outstanding:
                    self._settlement.tell_side(request, peer)
        self._settlement.seal(entry.request, asker)

    def _subscription_settled(self, entry: SubscriptionEntry) -> None:
        self.table.note_subscription_settled(entry)
        self._serving.end(entry)

    def serve(self, id: str) -> None:
        self._serving.end(self.table.subscriptions[id])

    def unsubscribe(self, id: str, asker: Asker = _NOBODY) -> None:
        entry = self.table.subscriptions.get(id)
        if entry is None or entry.last_hop != asker.peer:
            asker.settled()
        elif id in self._doubted.get(entry.last_hop, ()):
            entry.stale = True
            asker.settled()
        else:
            self._settlement.seal(self._end_subscription(entry), asker)

    def _end_subscription(self, entry: SubscriptionEntry) -> Request:
        self._serving.end(entry)
        return self._propagation.remove_subscription(entry)

    def advertise(
        self, life: Life, key: str, filter: Filter, asker: Asker, attachment: int = 0
    ) -> None:
        id = advertisement_id(life, key)
        self._advertise(AdvertisementEntry(id, life, filter, asker.peer, attachment), asker)

    def _advertise(self, entry: AdvertisementEntry, asker: Asker) -> None:
        former, last_hop = self.table.advertisements.get(entry.id), entry.last_hop
        if former and former.last_hop != last_hop and former.attachment >= entry.attachment:
            # The publisher has moved on since; who does not know yet is told. Two that say they are
            # the same are left as they are: neither side would ever convince the other.
            if last_hop is not LOCAL and former.attachment > entry.attachment:
                self._propagation.tell_advertisement(former, last_hop)
            asker.settled()
            return
        if ended := self._ending.pop(entry.id, None):
            ended.settled()
        if former is None:
            self._propagation.add_advertisement(entry)
        elif former.filter != entry.filter:
            if former.last_hop != last_hop:
                self._ports.moved(entry.life, former.last_hop)
            self._propagation.remove_advertisement(former)
            self._propagation.add_advertisement(entry)
        else:
            if former.last_hop == last_hop:
                former.stale = False
                former.attachment = max(former.attachment, entry.attachment)
            else:
                if former.last_hop is LOCAL:
                    self._ports.departed(former.life, former.key)
                self._propagation.move_advertisement(former, last_hop, entry.attachment)
            entry = former
        self._settlement.seal(entry.request, asker)

    def withdraw(self, life: Life, key: str, settled: Answer) -> None:
        self._unadvertise(advertisement_id(life, key), Asker(LOCAL, settled))

    def _unadvertise(self, id: str, asker: Asker) -> None:
        entry = self.table.advertisements.get(id)
        if entry is None or entry.last_hop != asker.peer:
            if entry is not None and asker.peer is not LOCAL:
                # The neighbour forgets where the publisher was; it is told where it is.
                self._propagation.tell_advertisement(entry, asker.peer)
            asker.settled()
        elif entry.trailing:
            self._ending[id] = asker
        else:
            self._settlement.seal(self._propagation.remove_advertisement(entry), asker)

    def _end_advertisements(self) -> None:
        for id, asker in list(self._ending.items()):
            entry = self.table.advertisements.get(id)
            if entry is None or not entry.trailing:
                del self._ending[id]
                self._unadvertise(id, asker)

    def _remove_from(
        self, peer: str, entries: Iterable[AdvertisementEntry | SubscriptionEntry]
    ) -> None:
        """Remove those of `entries` that came from `peer`."""
        for entry in [entry for entry in entries if entry.last_hop == peer]:
            is_advertised = isinstance(entry, AdvertisementEntry)
            end = self._unadvertise if is_advertised else self.unsubscribe
            end(entry.id, Asker(peer))

    # What neighbours say -------------------------------------------------------------------

    def on_message(self, peer: str, message: frames.RoutingMessage) -> None:
        match message:
            case frames.Settled(token, ()):
                self._propagation.settled(peer, token)
                self._end_advertisements()
            case frames.Settled(token, open):
                self._settlement.answered(peer, token, frozenset(open))
            case frames.SyncEnd():
                self._on_sync_end(peer, message)
            case frames.Subscribe(id, filter, token):
                destination = self._ports.destination_of(peer)
                self.subscribe(id, filter, destination, self._asker(peer, token))
            case frames.Unsubscribe(id, token):
                self.unsubscribe(id, self._asker(peer, token))
            case frames.Advertise(id, publisher, incarnation, filter, token, attachment):
                life = publisher, incarnation
                entry = AdvertisementEntry(id, life, filter, peer, attachment)
                self._advertise(entry, self._asker(peer, token))
                self._ports.advertised(life, entry.key)
            case frames.Unadvertise(id, token):
                self._unadvertise(id, self._asker(peer, token))
                self._ports.withdrawn()

    def _asker(self, peer: str, token: int) -> Asker:
        """A neighbour, that wants an answer under a token."""

        def answer(open: Open = NOWHERE) -> None:
            self._ports.send(peer, frames.Settled(token, tuple(sorted(open))))

        return Asker(peer, answer, answer)

    def _on_sync_end(self, peer: str, message: frames.SyncEnd) -> None:
        if not message.open:
            table = self.table
            is_first = message.what == "advertisements"
            entries = (table.advertisements if is_first else table.subscriptions).values()
            if not is_first:
                self._doubted.pop(peer, None)
            self._remove_from(peer, [entry for entry in entries if entry.stale])
        self._sync.ended(peer, message.what, frozenset(message.open))
        self._ports.withdrawn()
        self._ports.synchronised(peer)

    def reset(self, peer: str) -> None:
        """Say everything, doubt everything heard from it. That it was everything is said by
        `synchronise`, behind what the link had queued: who is told so then takes what comes for
        complete."""
        self._settlement.drop_answers(peer)
        self._settlement.away.discard(peer)
        current = {self._sync.reset(peer)}
        neighbour = self.table.neighbours.setdefault(peer, Neighbour())
        for entry in self.table.advertisements.values():
            if entry.last_hop == peer:
                entry.stale = True
            else:
                current.add(self._propagation.tell_advertisement(entry, peer))
        doubted = self._doubted[peer] = set()
        for subscription in self.table.subscriptions.values():
            if subscription.last_hop == peer:
                subscription.stale = True
                doubted.add(subscription.id)
        for id in list(neighbour.told):
            told = self.table.subscriptions[id]
            current.add(self._propagation.tell_subscription(peer, neighbour, told))
        self._settlement.renew(peer, current)

    def absent(self, peer: str) -> None:
        self._settlement.absent(peer)
        if peer in self.table.neighbours:
            self._sync.advance()

    def present(self, peer: str) -> None:
        self._settlement.away.discard(peer)

    def synchronise(self) -> None:
        self._sync.advance()

    def forget(self, peer: str) -> None:
        self._sync.forget(peer)
        self._doubted.pop(peer, None)
        if self.table.neighbours.pop(peer, None) is not None:
            for entry in self.table.advertisements.values():
                self.table.note_settled(entry, peer)
                entry.trailing.discard(peer)
            self._remove_from(peer, self.table.advertisements.values())
            self._remove_from(peer, self.table.subscriptions.values())
        self._settlement.drop_answers(peer)
        self._settlement.forget(peer)
        self._end_advertisements()
        self._sync.advance()
        self._ports.withdrawn()
