"""Entries come and go: what a local client or a neighbour asks for, carried out.

Whoever asks is answered when everything downstream has answered. What is said again changes
nothing; what the publisher's later attachment has overtaken is not taken back.

Does not know messages, nor what a reset is.
"""

from __future__ import annotations

from collections.abc import Iterable

from gravitate.broker.routing.content.propagation import Propagation
from gravitate.broker.routing.content.serving import Serving
from gravitate.broker.routing.content.sync import Synchronisation
from gravitate.broker.routing.content.table import (
    LOCAL,
    AdvertisementEntry,
    RoutingTable,
    SubscriptionEntry,
)
from gravitate.broker.routing.router import RouterPorts
from gravitate.broker.routing.settlement import Asker, Request, Settlement
from gravitate.model.filters import Filter

Entry = AdvertisementEntry | SubscriptionEntry


class Requests:
    def __init__(
        self,
        table: RoutingTable,
        propagation: Propagation,
        settlement: Settlement,
        serving: Serving,
        sync: Synchronisation,
        ports: RouterPorts,
    ) -> None:
        self._table = table
        self._propagation = propagation
        self._settlement = settlement
        self._serving = serving
        self._sync = sync
        self._ports = ports
        self._ending: dict[str, Asker] = {}
        """Advertisements, by id, that end once nothing trails their publisher's move:
        who wants what is still under way from where it was would be forgotten."""

    def subscribe(
        self,
        id: str,
        filter: Filter,
        destination: int,
        asker: Asker,
        is_renewed: bool = False,
    ) -> None:
        last_hop = asker.peer
        entry = self._table.subscriptions.get(id)
        said = (last_hop, filter, destination)
        if entry is not None and (entry.last_hop, entry.filter, entry.destination) == said:
            entry.stale = False
        else:
            if entry is not None:
                self._propagation.remove_subscription(entry)
                self._serving.end(entry)
            entry = self._propagation.add_subscription(id, filter, last_hop, destination)
            for peer in self._table.neighbours:
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

    def unsubscribe(self, id: str, asker: Asker) -> None:
        entry = self._table.subscriptions.get(id)
        request = Request()
        if entry is not None and entry.last_hop == asker.peer:
            request = self._propagation.remove_subscription(entry)
            self._serving.end(entry)
        self._settlement.seal(request, asker)

    def advertise(self, entry: AdvertisementEntry, asker: Asker) -> None:
        former = self._table.advertisements.get(entry.id)
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
                self._ports.departed(former.life, former.key)
            self._propagation.move_advertisement(former, entry.last_hop, entry.attachment)
            entry = former
        self._settlement.seal(entry.request, asker)

    def unadvertise(self, id: str, asker: Asker) -> None:
        entry = self._table.advertisements.get(id)
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

    def end_advertisements(self) -> None:
        for id, asker in list(self._ending.items()):
            if id not in self._table.advertisements or not self._table.advertisements[id].trailing:
                del self._ending[id]
                self.unadvertise(id, asker)

    def remove_from(self, peer: str, entries: Iterable[Entry]) -> None:
        """Remove those of `entries` that came from `peer`."""
        for entry in [entry for entry in entries if entry.last_hop == peer]:
            if isinstance(entry, AdvertisementEntry):
                self.unadvertise(entry.id, Asker(peer, nothing))
            else:
                self.unsubscribe(entry.id, Asker(peer, nothing))


def nothing() -> None:
    """The answer to what nobody asked."""
