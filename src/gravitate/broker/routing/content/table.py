"""A routing table: who wants what, who will publish what, and what neighbours know.

Plain state with the invariants between its parts; `router` and `propagation` change it.

Invariants, for every neighbour N and with `last_hop(s) != N`:
- `neighbour.eligible` are the filters that intersect some advertisement whose last hop is N, or
  which N trails, each with one such advertisement as its *witness*;
- the frontier of N holds exactly the subscriptions with an eligible filter;
- `neighbour.told` are exactly the ids that its frontier tells.

A witness is enough: while it is advertised nothing else need be looked at, and when it ends another
is sought. Which filters may be concerned is asked of an index (`candidates`), never scanned.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from gravitate.broker.lives import Life
from gravitate.broker.routing.content.frontier import Frontier
from gravitate.broker.routing.settlement import Request
from gravitate.matching.candidates import Candidates
from gravitate.matching.matcher import Matcher
from gravitate.model.covering import intersects
from gravitate.model.events import TOPIC, Batch
from gravitate.model.filters import Filter

TOPICS_BYTES_MAX = 16 * 1024 * 1024
TOPIC_BYTES = 150
DESTINATION_BYTES = 36
"""What the answers by topic may take, and what one takes beside the topic itself, about: by
itself, and for each destination."""
_TOPIC_ALONE = frozenset((TOPIC,))
_Answers = dict[str | bytes, tuple[int, ...]]
LOCAL = None
"""Last hop of what came from a client of this broker."""


def drop(nested: dict[Any, Any], key: object, inner: object) -> bool:
    """Take something out of what is under a key, which goes with the last; whether it was that."""
    under = nested[key]
    del under[inner]
    if not under:
        del nested[key]
    return not under


def advertisement_id(life: Life, key: str) -> str:
    """The same at every broker: the publisher may take it along."""
    return f"{life[0]}#{life[1]}/{key}"


@dataclass(slots=True, eq=False)
class AdvertisementEntry:
    """An advertisement and the way back to its publisher."""

    id: str
    life: Life
    filter: Filter
    last_hop: str | None
    attachment: int = 0
    """How often the publisher has attached itself to a broker, as far as is known here."""
    request: Request = field(default_factory=Request)
    crossed: set[str] = field(default_factory=set)
    """Neighbours that said it newer than they had been told it, before they can have heard: one
    that had ended it by then takes what it hears for news."""
    trailing: set[str] = field(default_factory=set)
    """Neighbours behind which the publisher was: events from there may still be under way."""
    unsettled: dict[str, int] = field(default_factory=dict)
    """Neighbours that have not settled it yet, with the token they were sent."""
    stale: bool = False
    """Not said again yet by a neighbour that was reset."""

    @property
    def key(self) -> str:
        """Its name among those of its publisher."""
        return self.id.removeprefix(advertisement_id(self.life, ""))


@dataclass(slots=True, eq=False)
class SubscriptionEntry:
    """A routing entry: events that match go to the destination (an anchor or a local session)."""

    id: str
    filter: Filter
    last_hop: str | None
    destination: int
    request: Request = field(default_factory=Request)
    stale: bool = False


class Neighbour:
    """What one neighbour has said and has been told."""

    def __init__(self) -> None:
        self.advertised: dict[Filter, int] = {}
        """Filters of the advertisements that came from here, with how many have each. Changed by
        `advertise` and `unadvertise` alone."""
        self._candidates = Candidates()
        """The same filters."""
        self.eligible: dict[Filter, Filter] = {}
        """Subscribed filters with their witnesses."""
        self._witnesses: dict[Filter, dict[Filter, None]] = {}
        """Witnesses with the filters they stand for."""
        self.frontier = Frontier()
        self.told: dict[str, int] = {}
        """Subscription ids it was told, with the token they were sent under."""

    def advertise(self, filter: Filter) -> bool:
        """Something is advertised from here; whether it is new."""
        known = self.advertised.get(filter, 0)
        self.advertised[filter] = known + 1
        if not known:
            self._candidates.add(filter)
        return not known

    def unadvertise(self, filter: Filter) -> list[Filter]:
        """An advertisement from here has ended; the filters that are eligible no more."""
        self.advertised[filter] -= 1
        if self.advertised[filter]:
            return []
        del self.advertised[filter]
        self._candidates.discard(filter)
        return [one for one in self._witnesses.pop(filter, ()) if not self.admit(one)]

    def admit(self, filter: Filter) -> bool:
        """A filter is subscribed to; whether it is eligible: intersects what is advertised."""
        witness = self._candidates.first_that(filter, lambda one: intersects(one, filter))
        if witness is None:
            self.eligible.pop(filter, None)
        else:
            self.admit_for(filter, witness)
        return witness is not None

    def admit_for(self, filter: Filter, witness: Filter) -> None:
        """A subscribed filter intersects something that is advertised now."""
        self.eligible[filter] = witness
        self._witnesses.setdefault(witness, {})[filter] = None

    def dismiss(self, filter: Filter) -> None:
        """A filter is no longer subscribed to."""
        witness = self.eligible.pop(filter, None)
        if witness is not None:
            drop(self._witnesses, witness, filter)


class RoutingTable:
    """The entries, and the matcher over them; `ended` is told of lives whose last advertisement has
    ended."""

    def __init__(self, ended: Callable[[Life], None]) -> None:
        self._ended = ended
        self.advertisements: dict[str, AdvertisementEntry] = {}
        """By id; changed by `enter` and `leave` alone."""
        self.by_publisher: dict[Life, dict[str, AdvertisementEntry]] = {}
        """The same by publisher and incarnation."""
        self.subscriptions: dict[str, SubscriptionEntry] = {}
        """By id; changed by `add` and `remove` alone."""
        self.by_filter: dict[Filter, dict[str, SubscriptionEntry]] = {}
        """The same by filter."""
        self.subscribed = Candidates()
        """The filters subscribed to."""
        self.settling: dict[Filter, dict[str, SubscriptionEntry]] = {}
        """Those of them that have not settled."""
        self.neighbours: dict[str, Neighbour] = {}
        self.unsettled: dict[Life, Counter[str]] = {}
        """Per publisher: neighbours on which an advertisement of its has not settled; its events
        follow the links there whatever else is known. Changed by `note_unsettled` and
        `note_settled` alone."""
        self.told_under: dict[tuple[str, int], AdvertisementEntry] = {}
        """The same by neighbour and token."""
        self.matcher = Matcher()
        self._by_topic: _Answers | None = None
        """Answers by topic; None while a filter asks for more than the topic. Invalidated by: any
        change of the matcher (its version)."""
        self._by_topic_version = -1
        self._by_topic_bytes = 0

    def destinations(self, batch: Batch) -> list[tuple[int, ...]]:
        """Per event of the batch, the sorted destinations of the matching entries."""
        matcher = self.matcher
        if self._by_topic_version != matcher.version:
            self._by_topic_version = matcher.version
            self._by_topic_bytes = 0
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

    def _learn(self, topics: Sequence[str | bytes], known: _Answers) -> None:
        if self._by_topic_bytes > TOPICS_BYTES_MAX:
            known.clear()
            self._by_topic_bytes = 0
        new = list(dict.fromkeys(topic for topic in topics if topic not in known))
        events = [{TOPIC: topic if isinstance(topic, str) else topic.decode()} for topic in new]
        answers = self.matcher.match(events)
        known.update(zip(new, answers, strict=True))
        self._by_topic_bytes += sum(TOPIC_BYTES + len(topic) for topic in new)
        self._by_topic_bytes += sum(DESTINATION_BYTES * len(answer) for answer in answers)

    def add(self, entry: SubscriptionEntry) -> None:
        filter = entry.filter
        self.subscriptions[entry.id] = entry
        self.matcher.add(entry.id, filter, entry.destination)
        same = self.by_filter.get(filter)
        if same is None:
            same = self.by_filter[filter] = {}
            self.subscribed.add(filter)
            for neighbour in self.neighbours.values():
                neighbour.admit(filter)
        same[entry.id] = entry
        self.settling.setdefault(filter, {})[entry.id] = entry

    def remove(self, entry: SubscriptionEntry) -> None:
        filter = entry.filter
        self.note_subscription_settled(entry)
        if drop(self.by_filter, filter, entry.id):
            self.subscribed.discard(filter)
            for neighbour in self.neighbours.values():
                neighbour.dismiss(filter)
        del self.subscriptions[entry.id]
        self.matcher.remove(entry.id)

    def note_subscription_settled(self, entry: SubscriptionEntry) -> None:
        """Nothing is waited for any longer on behalf of a subscription."""
        entry.request.tell_settled(None)
        if entry.id in self.settling.get(entry.filter, ()):
            drop(self.settling, entry.filter, entry.id)

    def enter(self, entry: AdvertisementEntry) -> None:
        self.advertisements[entry.id] = entry
        self.by_publisher.setdefault(entry.life, {})[entry.id] = entry

    def leave(self, entry: AdvertisementEntry) -> None:
        del self.advertisements[entry.id]
        if drop(self.by_publisher, entry.life, entry.id):
            self._ended(entry.life)

    def note_unsettled(self, entry: AdvertisementEntry, peer: str, token: int) -> None:
        """`peer` was sent the advertisement under `token` (again)."""
        self.note_settled(entry, peer)
        self.unsettled.setdefault(entry.life, Counter())[peer] += 1
        entry.unsettled[peer] = token
        self.told_under[peer, token] = entry

    def note_settled(self, entry: AdvertisementEntry, peer: str) -> None:
        token = entry.unsettled.pop(peer, None)
        if token is None:
            return
        del self.told_under[peer, token]
        counts = self.unsettled[entry.life]
        counts[peer] -= 1
        if not counts[peer]:
            drop(self.unsettled, entry.life, peer)
