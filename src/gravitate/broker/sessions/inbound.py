"""What a client publishes, at the broker where it is attached as a publisher.

Counts the client's publications and advertises for a client that does not advertise itself: its
topics one by one, and their common prefix once there are too many. Publications wait for the
advertisement to settle, in order, and all of them wait.

Does not know where the client is connected: to this broker, or to the one (`origin`) that hands
its publications over to this one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Protocol

from gravitate.broker.interface.effects import ToPublisher
from gravitate.broker.interface.inputs import ClientPublished
from gravitate.broker.interface.timers import HoldOver, TetheredHoldOver
from gravitate.broker.links.link import Mark
from gravitate.broker.lives import Life
from gravitate.broker.measure import Measure
from gravitate.broker.options import BrokerOptions
from gravitate.broker.routing.settlement import NOWHERE, Open
from gravitate.broker.sessions.advertisements import Advertisements
from gravitate.broker.sessions.states import LIVE, PUBLISHING, Publishing
from gravitate.model.events import TOPIC, Batch
from gravitate.model.filters import EVERYTHING, Filter, Op, Predicate

FOR_CLIENT = "topic:"
"""Begins the keys of what is advertised for a client: a topic, or a prefix of several."""
TOPICS_BYTES_MAX = 4 * 1024 * 1024
TOPIC_BYTES = 100
"""What is remembered of a publisher's topics before it is forgotten, and what one takes beside its
name, about."""


class PublishesAt(Protocol):
    """Takes what clients do as publishers: this broker's own publishers, or whoever stands for them
    while a client stays connected here and is attached elsewhere."""

    def place(self, publisher: Inbound, /) -> str | None:
        """Where it is attached, or being attached; None: here, and nobody stands for it."""

    def advertise(self, publisher: Inbound, /, key: str, filter: Filter) -> None: ...

    def withdraw(self, publisher: Inbound, /, key: str) -> None: ...

    def publish(self, publisher: Inbound, /, batch: Batch) -> None: ...

    def must_wait(self, publisher: Inbound, /) -> bool:
        """Whether the client is not to be read from for now."""

    def close(self, publisher: Inbound, /) -> None:
        """The client is gone."""


@dataclass(eq=False)
class Inbound:
    """One publisher. `say` is its outlet: it takes what the client is to be told. `hold_timer` ends
    the wait of `held`; `at` takes what the client does."""

    id: str
    incarnation: int
    attachment: int
    _options: BrokerOptions
    say: Callable[[ToPublisher], None]
    hold_timer: HoldOver | TetheredHoldOver
    at: PublishesAt
    origin: str | None = field(default=None, init=False)
    """The broker that its client is connected to; None: this one, without a tether."""
    state: Publishing = Publishing.HERE
    next_counter: int = 1
    advertisements: Advertisements = field(default_factory=Advertisements)
    unsettled_advertisements: dict[str, Open] = field(default_factory=dict)
    """By key, with where that is, once somebody has answered."""
    unanswered_advertisements: set[str] = field(default_factory=set)
    """Those of them that have not even settled wherever somebody can be reached."""
    unsettled_ends: int = 0
    """Advertisements that have ended here and not yet everywhere."""
    held: deque[Batch] = field(default_factory=deque)
    arriving: deque[ClientPublished] = field(default_factory=deque)
    """While it arrives: what it has sent, which is looked at once the move has settled."""
    unpublished: Measure = field(default_factory=Measure)
    """Of what is held, or arriving."""
    way: Open = NOWHERE
    """While it arrives: brokers between here and where it was."""
    lost: str = ""
    """The one where it was, if that cannot be reached."""
    marks: deque[Mark] = field(default_factory=deque)
    """What has brought the publications that were handed over and are not routed yet."""
    persisting: int = 0
    """Batches that are being brought to stable storage."""
    reading_held: bool = False
    _topics_advertised: set[str | bytes] = field(default_factory=set)
    """Topics known to lie within an advertisement. Invalidated by: any of them that ends."""
    _topics_bytes: int = 0

    def __post_init__(self) -> None:
        self.life: Life = (self.id, self.incarnation)

    def enter(self, state: Publishing) -> None:
        self.state = PUBLISHING.enter(self.state, state)

    @property
    def live(self) -> bool:
        return self.state in LIVE

    @property
    def place(self) -> str | None:
        return self.at.place(self)

    def unadvertised(self, batch: Batch) -> list[str]:
        """Topics of the batch that lie within none of the client's advertisements."""
        known = self._topics_advertised
        topics = batch.bodies.topics()
        if known.issuperset(topics):
            return []
        if self._topics_bytes > TOPICS_BYTES_MAX:
            self.advertisement_ended()
        unknown: list[str] = []
        for key in topics:
            if key not in known:
                known.add(key)
                self._topics_bytes += TOPIC_BYTES + len(key)
                topic = key if isinstance(key, str) else key.decode()
                if not self.advertisements.meet(topic_is(topic)):
                    unknown.append(topic)
        return unknown

    def widened(self, batch: Batch) -> tuple[dict[str, Filter], list[str]]:
        """What is to be advertised for the client so that a batch is included, by key, and the
        keys of what is to end. What there is may have been brought along from another broker."""
        topics = self.unadvertised(batch)
        if not topics:
            return {}, []
        known = [name for name in self.advertisements if name.startswith(FOR_CLIENT)]
        some = [name.removeprefix(FOR_CLIENT) for name in known] + topics
        is_wide = any(topic.endswith("/#") for topic in some)
        if not is_wide and len(some) <= self._options.advertise_topics_max:
            return {f"{FOR_CLIENT}{topic}": topic_is(topic) for topic in topics}, []
        prefix = common_levels(some)
        filter = Filter(((Predicate(TOPIC, Op.TOPIC, f"{prefix}/#"),),)) if prefix else EVERYTHING
        wide = f"{FOR_CLIENT}{prefix}/#"
        return {wide: filter}, [name for name in known if name != wide]

    def expect_answers(self, keys: Collection[str]) -> None:
        """What is advertised under these keys is to settle."""
        self.unsettled_advertisements.update(dict.fromkeys(keys, NOWHERE))
        self.unanswered_advertisements.update(keys)

    def may_arrive(self) -> bool:
        """Whether everything that it has published elsewhere and is not lost is ahead, though some
        brokers cannot be reached: none of them is on the way."""
        away = NOWHERE.union(*self.unsettled_advertisements.values())
        is_ahead = bool(self.way) and (away & self.way) <= {self.lost}
        return is_ahead and not self.unanswered_advertisements

    def at_rest(self) -> bool:
        """Whether all that it published is accepted and on its way, what it advertised known."""
        return not (self.persisting or self.unsettled_advertisements or self.held)

    def advertisement_ended(self) -> None:
        self._topics_advertised.clear()
        self._topics_bytes = 0


def topic_is(topic: str) -> Filter:
    return Filter(((Predicate(TOPIC, Op.EQ, topic),),))


def common_levels(topics: list[str]) -> str:
    """The topic levels that all topics begin with; empty when they share none."""
    levels = [topic.split("/") for topic in topics]
    # Whatever the first and the last of sorted lists begin with, all between them do.
    pairs = zip(min(levels), max(levels), strict=False)
    shared = [level for level, _ in takewhile(lambda pair: pair[0] == pair[1], pairs)]
    return "" if topics[0].startswith("$") else "/".join(shared)
