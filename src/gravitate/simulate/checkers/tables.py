"""Routing tables against the definition, when the world is quiet.

By the definition every broker knows every live advertisement with the way back to its publisher,
and a neighbour is told exactly the maximal ones (under covering, ties by the smaller id) of the
subscriptions from elsewhere that intersect an advertisement behind it. Tables are a function of
the live clients, so they are computed here from those alone, the slow and obvious way, and
compared entry by entry.

What a client's broker advertises for it, because it published what it had not advertised, is
taken from that broker; everything that follows from it is judged.
"""

from __future__ import annotations

from collections.abc import Mapping

from gravitate.broker.core import Broker
from gravitate.broker.routing.content.router import ContentRouter
from gravitate.model.covering import covers, intersects
from gravitate.model.filters import Filter
from gravitate.overlay.topology import Topology
from gravitate.simulate.world import World

Subscriptions = dict[str, Filter]
"""By subscription id."""


def check_tables(world: World) -> list[str]:
    """What differs from the definition in the tables of all brokers, as sentences."""
    brokers: dict[str, Broker] = {}
    for host in world.hosts.values():
        if not isinstance(host.broker, Broker):
            return [f"{host.id} is not up"]
        brokers[host.id] = host.broker
    topology = Topology.of({id: broker.neighbours() for id, broker in brokers.items()})
    if topology.differences or not topology.is_tree:
        return [f"no tree; links that only the first names: {topology.differences}"]
    near = topology.near()
    found: list[str] = []
    advertised = _advertised(brokers)
    expected = _Expected(brokers, near, advertised)
    for broker_id, broker in brokers.items():
        advertisements = _content(broker).table.advertisements
        for id, (filter, home) in advertised.items():
            entry = advertisements.get(id)
            toward = _toward(near, broker_id, home)
            if entry is None:
                found.append(f"{broker_id} does not know advertisement {id} of {home}")
            elif (entry.filter, entry.last_hop) != (filter, toward):
                found.append(
                    f"{broker_id} has advertisement {id} from {entry.last_hop}, not {toward}"
                )
            elif entry.unsettled:
                found.append(f"{broker_id}: advertisement {id} has not settled: {entry.unsettled}")
        for id in advertisements.keys() - advertised.keys():
            found.append(f"{broker_id} knows advertisement {id}, which has ended")
        told = {peer: expected.told(peer, broker_id) for peer in near[broker_id]}
        wanted = {(id, peer): filter for peer, ids in told.items() for id, filter in ids.items()}
        actual = {
            (id, entry.last_hop): entry.filter
            for id, entry in _content(broker).table.subscriptions.items()
            if entry.last_hop is not None
        }
        for key in sorted(wanted.keys() | actual.keys()):
            if wanted.get(key) != actual.get(key):
                state = "lacks" if key not in actual else "has" if key not in wanted else "differs"
                found.append(f"{broker_id} {state} subscription {key[0]} from {key[1]}")
    return found


def _content(broker: Broker) -> ContentRouter:
    assert isinstance(broker.router, ContentRouter)
    return broker.router


def _advertised(brokers: Mapping[str, Broker]) -> dict[str, tuple[Filter, str]]:
    return {
        id: (entry.filter, broker_id)
        for broker_id, broker in brokers.items()
        for id, entry in _content(broker).table.advertisements.items()
        if entry.last_hop is None
    }


def _toward(near: Mapping[str, tuple[str, ...]], start: str, end: str) -> str | None:
    """The neighbour of `start` on the way to `end`; None when they are one."""
    if start == end:
        return None
    for first in near[start]:
        seen, reached = {start}, [first]
        while reached:
            broker = reached.pop()
            if broker == end:
                return first
            seen.add(broker)
            reached.extend(other for other in near[broker] if other not in seen)
    raise AssertionError(f"{start} and {end} are not connected")


class _Expected:
    """What each broker should have been told by each neighbour."""

    def __init__(
        self,
        brokers: Mapping[str, Broker],
        near: Mapping[str, tuple[str, ...]],
        advertised: Mapping[str, tuple[Filter, str]],
    ) -> None:
        self._near = near
        self._local: dict[str, Subscriptions] = {
            broker_id: {
                id: entry.filter
                for id, entry in _content(broker).table.subscriptions.items()
                if entry.last_hop is None
            }
            for broker_id, broker in brokers.items()
        }
        self._advertised_at: dict[str, list[Filter]] = {broker_id: [] for broker_id in brokers}
        for filter, home in advertised.values():
            self._advertised_at[home].append(filter)
        self._told: dict[tuple[str, str], Subscriptions] = {}
        self._behind: dict[tuple[str, str], set[Filter]] = {}

    def told(self, sender: str, receiver: str) -> Subscriptions:
        """What `sender` tells `receiver`: maximal ones of what it has from elsewhere."""
        key = (sender, receiver)
        if key not in self._told:
            known: Subscriptions = dict(self._local[sender])
            for other in self._near[sender]:
                if other != receiver:
                    known.update(self.told(other, sender))
            behind = self.behind(receiver, sender)
            eligible = {
                id: filter
                for id, filter in known.items()
                if any(intersects(advertisement, filter) for advertisement in behind)
            }
            self._told[key] = {
                id: filter
                for id, filter in eligible.items()
                if not any(
                    _stands_for(other_id, other, id, filter)
                    for other_id, other in eligible.items()
                    if other_id != id
                )
            }
        return self._told[key]

    def behind(self, broker: str, seen_from: str) -> set[Filter]:
        """Filters advertised at `broker` or beyond it, as seen from its neighbour."""
        key = (broker, seen_from)
        if key not in self._behind:
            filters = set(self._advertised_at[broker])
            for other in self._near[broker]:
                if other != seen_from:
                    filters |= self.behind(other, broker)
            self._behind[key] = filters
        return self._behind[key]


def _stands_for(other_id: str, other: Filter, id: str, filter: Filter) -> bool:
    return covers(other, filter) and (other_id < id or not covers(filter, other))
