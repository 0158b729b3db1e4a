"""A routing table of one plane: who wants what, who will publish what, and what neighbours know.

Plain state with the invariants between its parts; `content` holds the protocol that changes it.

Invariants, for every neighbour N and with `last_hop(s) != N`:
- `neighbour.eligible` are the filters that intersect some advertisement whose last hop is N, or
  which N trails;
- the frontiers of N hold exactly the subscriptions with an eligible filter;
- `neighbour.told` are exactly the ids that its frontiers tell.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from gravitate.broker.routing.frontier import Frontier
from gravitate.broker.settlement import Request
from gravitate.matching.matcher import Matcher
from gravitate.model.events import TOPIC, Batch
from gravitate.model.filters import Filter

TOPICS_KNOWN_MAX = 100_000
_TOPIC_ALONE = frozenset((TOPIC,))
LOCAL = None
"""Last hop of what came from a client of this broker."""

EVERYWHERE = 2**31 - 1
"""The plane of events that follow every link, because nobody on their way may know any more who
wants them; the tables of the current plane say who does here."""


class AdvertisementEntry:
    """An advertisement and the way back to its publisher."""

    __slots__ = (
        "attachment", "crossed", "filter", "id", "incarnation", "last_hop", "publisher", "request",
        "stale", "trailing", "unsettled",
    )  # fmt: skip

    def __init__(
        self,
        id: str,
        publisher: str,
        incarnation: int,
        filter: Filter,
        last_hop: str | None,
        attachment: int = 0,
    ) -> None:
        self.id = id
        self.publisher = publisher
        self.incarnation = incarnation
        self.filter = filter
        self.last_hop = last_hop
        self.attachment = attachment
        """How often the publisher has attached itself to a broker, as far as is known here."""
        self.request = Request()
        self.crossed: set[str] = set()
        """Neighbours that said it newer than they had been told it, before they can have heard: one
        that had ended it by then takes what it hears for news."""
        self.trailing: set[str] = set()
        """Neighbours behind which the publisher was: events from there may still be under way."""
        self.unsettled: dict[str, int] = {}
        """Neighbours that have not settled it yet, with the token they were sent."""
        self.stale = False
        """Not said again yet by a neighbour that was reset."""


class SubscriptionEntry:
    """A routing entry: events that match go to the destination (an anchor or a local session)."""

    __slots__ = (
        "anchor", "destination", "filter", "id", "key", "last_hop", "path", "plane", "request",
        "stale",
    )  # fmt: skip

    def __init__(
        self,
        id: str,
        filter: Filter,
        last_hop: str | None,
        anchor: str,
        path: tuple[str, ...],
        plane: int,
        key: int,
        destination: int,
    ) -> None:
        self.id = id
        self.filter = filter
        self.last_hop = last_hop
        self.anchor = anchor
        self.path = path
        self.plane = plane
        self.key = key
        self.destination = destination
        self.request = Request()
        self.stale = False


class Neighbour:
    """What one neighbour has said and has been told."""

    __slots__ = (
        "advertised", "eligible", "frontiers", "told",
    )  # fmt: skip

    def __init__(self) -> None:
        self.advertised: Counter[Filter] = Counter()
        """Filters of the advertisements that came from here."""
        self.eligible: dict[Filter, None] = {}
        self.frontiers: dict[str, Frontier] = {}
        """By the anchor the neighbour is told."""
        self.told: dict[str, int] = {}
        """Subscription ids it was told, with the token they were sent under."""


class RoutingTable:
    """The entries of one plane, and the matcher over them."""

    def __init__(self, plane: int) -> None:
        self.plane = plane
        self.advertisements: dict[str, AdvertisementEntry] = {}
        """By id; changed by `enter` and `leave` alone."""
        self.by_publisher: dict[tuple[str, int], dict[str, AdvertisementEntry]] = {}
        """The same by publisher and incarnation."""
        self.subscriptions: dict[str, SubscriptionEntry] = {}
        self.by_filter: dict[Filter, dict[str, SubscriptionEntry]] = {}
        self.neighbours: dict[str, Neighbour] = {}
        self.unsettled: dict[tuple[str, int], Counter[str]] = {}
        """Per publisher: neighbours on which an advertisement of its has not settled."""
        self.matcher = Matcher()
        self._by_topic: dict[str | bytes, tuple[int, ...]] | None = None
        """Answers by topic; None while a filter asks for more than the topic. Invalidated by: any
        change of the matcher (its version)."""
        self._by_topic_version = -1

    def destinations(self, batch: Batch) -> list[tuple[int, ...]]:
        """Per event of the batch, the sorted destinations of the matching entries."""
        matcher = self.matcher
        if self._by_topic_version != matcher.version:
            self._by_topic_version = matcher.version
            self._by_topic = {} if matcher.attributes <= _TOPIC_ALONE else None
        known = self._by_topic
        if known is None:
            return matcher.match(batch.bodies.attributes(matcher.attributes))
        topics = batch.bodies.topics()
        try:
            if len(topics) == 1:
                return [known[topics[0]]]
            return [known[topic] for topic in topics]
        except KeyError:
            self._learn(topics, known)
        return [known[topic] for topic in topics]

    def _learn(
        self, topics: Sequence[str | bytes], known: dict[str | bytes, tuple[int, ...]]
    ) -> None:
        """Find the answers for the topics that are not known."""
        if len(known) > TOPICS_KNOWN_MAX:
            known.clear()
        new = list(dict.fromkeys(topic for topic in topics if topic not in known))
        events = [{TOPIC: topic if isinstance(topic, str) else topic.decode()} for topic in new]
        known.update(zip(new, self.matcher.match(events), strict=True))

    def enter(self, entry: AdvertisementEntry) -> None:
        """An advertisement is known from now on."""
        self.advertisements[entry.id] = entry
        self.by_publisher.setdefault((entry.publisher, entry.incarnation), {})[entry.id] = entry

    def leave(self, entry: AdvertisementEntry) -> None:
        """An advertisement has ended."""
        del self.advertisements[entry.id]
        publisher = (entry.publisher, entry.incarnation)
        del self.by_publisher[publisher][entry.id]
        if not self.by_publisher[publisher]:
            del self.by_publisher[publisher]

    def note_unsettled(self, entry: AdvertisementEntry, peer: str, token: int) -> None:
        """`peer` was sent the advertisement under `token` (again)."""
        if peer not in entry.unsettled:
            publisher = (entry.publisher, entry.incarnation)
            self.unsettled.setdefault(publisher, Counter())[peer] += 1
        entry.unsettled[peer] = token

    def note_settled(self, entry: AdvertisementEntry, peer: str) -> None:
        if entry.unsettled.pop(peer, None) is None:
            return
        publisher = (entry.publisher, entry.incarnation)
        counts = self.unsettled[publisher]
        counts[peer] -= 1
        if not counts[peer]:
            del counts[peer]
            if not counts:
                del self.unsettled[publisher]
