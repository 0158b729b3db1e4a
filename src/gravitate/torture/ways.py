"""Which brokers and links an event may have passed, and when they were left alone.

The way between two clients is that of the tree between their homes. A client that was moved is
attached to (a publisher) or served by (a subscriber) a *second* broker, and its events make a
*detour*: over the tether to that broker, and along the tree from there. Which brokers a client was
seen at around a time is taken from the ledger, generously: a few seconds earlier and later too.

Owns geometry and time intervals; what follows from them is `judging`'s.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Sequence
from itertools import chain, pairwise
from typing import Final

import msgspec

from gravitate.config.network import Network
from gravitate.torture.ledger import Disturbance, Ledger, Spot, link

Interval = tuple[float, float]
"""When something began and ended."""

SEEN_S: Final = 3.0
"""How far from a time a sighting still tells where a client was."""


class Way(msgspec.Struct, frozen=True):
    """From a publisher to a subscriber, in a stretch of time."""

    direct: frozenset[Spot]
    """Brokers and links between the two homes, these included."""
    served: frozenset[Spot]
    """What has to be there for an event to be on time: beside `direct` what lies between brokers
    where the two were. Those themselves need not, nor tethers to them: a client that cannot use its
    second broker is taken home."""
    whole: frozenset[Spot]
    """All of that: second brokers, and tethers to them, too."""


class Ways:
    """The ways of one run."""

    def __init__(self, network: Network, ledger: Ledger) -> None:
        self._topology = network.topology()
        self._homes = {name: spec.home for name, spec in ledger.clients.items()}
        self._between: dict[tuple[str, str], frozenset[Spot]] = {}
        self._seen: dict[str, list[tuple[float, str]]] = {}
        for sighting in sorted(ledger.sightings, key=lambda one: one.at):
            self._seen.setdefault(sighting.client, []).append((sighting.at, sighting.broker))

    def between(self, one: str, other: str) -> frozenset[Spot]:
        """Brokers and links from one broker to another, both included."""
        found = self._between.get((one, other))
        if found is None:
            brokers = self._topology.path(one, other)
            assert brokers is not None, f"{one} and {other} are not joined"
            found = frozenset([*brokers, *(link(*pair) for pair in pairwise(brokers))])
            self._between[one, other] = self._between[other, one] = found
        return found

    def places(self, client: str, since: float, until: float) -> set[str]:
        """Where a client was or may have been, its home included."""
        seen = self._seen.get(client, [])
        first = bisect_left(seen, (since - SEEN_S, ""))
        last = bisect_right(seen, (until + SEEN_S, "\U0010ffff"))
        return {self._homes[client], *(broker for _, broker in seen[first:last])}

    def way(self, publisher: str, subscriber: str, since: float, until: float) -> Way:
        home, end = self._homes[publisher], self._homes[subscriber]
        direct = self.between(home, end)
        served, whole = set(direct), set(direct)
        for one in self.places(publisher, since, until):
            for other in self.places(subscriber, since, until):
                along = self.between(one, other)
                apart = _second(home, one) | _second(end, other)
                served |= along - apart
                whole |= along | apart
        return Way(direct, frozenset(served), frozenset(whole))


def _second(home: str, place: str) -> set[Spot]:
    """A broker that a client was moved to, and the tether to it; nothing when it is its home."""
    return set() if place == home else {place, link(home, place)}


class Disturbances:
    """When spots were disturbed."""

    def __init__(self, disturbances: Collection[Disturbance]) -> None:
        self._by_spot: dict[Spot, list[Interval]] = {}
        for one in disturbances:
            self._by_spot.setdefault(one.spot, []).append((one.began_at, one.ended_at))

    def within(
        self, spots: Collection[Spot], since: float, until: float, also: Sequence[Interval] = ()
    ) -> list[Interval]:
        """When any of the spots was disturbed, and `also` these: intervals in order, within the
        bounds, joined."""
        known = chain(also, *(self._by_spot.get(spot, ()) for spot in spots))
        found = sorted(
            (max(began, since), min(ended, until))
            for began, ended in known
            if began < until and ended > since
        )
        joined: list[Interval] = []
        for began, ended in found:
            if joined and began <= joined[-1][1]:
                joined[-1] = (joined[-1][0], max(joined[-1][1], ended))
            else:
                joined.append((began, ended))
        return joined

    def begun(self, spots: Collection[Spot], since: float, until: float) -> list[Interval]:
        """The disturbances of the spots that began between two times."""
        return [
            one for spot in spots for one in self._by_spot.get(spot, ()) if since <= one[0] <= until
        ]

    def longest_free_s(
        self, spots: Collection[Spot], since: float, until: float, also: Sequence[Interval] = ()
    ) -> float:
        """The longest time in one piece without a disturbance."""
        longest, free_from = 0.0, since
        for began, ended in self.within(spots, since, until, also):
            longest = max(longest, began - free_from)
            free_from = ended
        return max(longest, until - free_from)

    def first_free(
        self, spots: Collection[Spot], since: float, until: float, for_s: float
    ) -> float | None:
        """When the spots have first been free for so long in one piece, all of it after `since`;
        None: not before `until`."""
        free_from = since
        for began, ended in self.within(spots, since, until):
            if began - free_from >= for_s:
                return free_from + for_s
            free_from = ended
        return free_from + for_s if until - free_from >= for_s else None
