"""Sessions of clients: what they are owed, what they have published, what they still must see.

The outbound half numbers deliveries at QoS 1 and keeps them until the client acknowledges; no
more than the client's window is under way, the rest waits, and a client too far behind is
closed. At QoS 0 nothing is kept: what a congested client cannot take is dropped and counted.
Duplicates are recognised here, per publisher, by the last counter seen; links keep the order.

The inbound half counts the client's publications and advertises for a client that does not
advertise itself: its topics one by one, and their common prefix once there are too many.
Publications wait for the advertisement to settle, in order, and all of them wait.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from gravitate.broker.effects import PingBrokers, ToPublisher
from gravitate.broker.inputs import ClientPublished
from gravitate.broker.options import BrokerOptions
from gravitate.broker.tail import Tail
from gravitate.model.covering import intersects
from gravitate.model.events import TOPIC, Batch
from gravitate.model.filters import EVERYTHING, Filter, Op, Predicate

if TYPE_CHECKING:
    from gravitate.broker.tether import Tether

FOR_CLIENT = "topic:"
"""Begins the keys of what is advertised for a client: a topic, or a prefix of several."""
TOPICS_REMEMBERED_MAX = 100_000
"""Topics of one publisher known to be advertised, before the memory of them is emptied."""


class LocalSubscription:
    """A subscription of a client of this broker, and the destination that stands for it."""

    __slots__ = ("destination", "filter", "id", "name", "no_local", "qos", "session")

    def __init__(
        self,
        session: Session,
        name: str,
        id: str,
        filter: Filter,
        qos: int,
        no_local: bool,
        destination: int,
    ) -> None:
        self.session = session
        self.name = name
        self.id = id
        self.filter = filter
        self.qos = qos
        self.no_local = no_local
        self.destination = destination


class Publisher:
    """What a client publishes, at the broker where it is attached as a publisher: that of its
    session, or the one that its session's broker hands its publications to.

    `say` takes what the client is to be told."""

    def __init__(
        self,
        id: str,
        incarnation: int,
        attachment: int,
        options: BrokerOptions,
        say: Callable[[ToPublisher], None],
        hold_timer: str,
    ) -> None:
        self.id = id
        self.incarnation = incarnation
        self.attachment = attachment
        self.say = say
        self.hold_timer = hold_timer
        """Key of the timer that ends the wait of `held`."""
        self.follows = False
        self.live = True
        """Not ended, and not on its way to another broker."""
        self._options = options

        self.advertisements: dict[str, Filter] = {}
        self.unsettled_advertisements: set[str] = set()
        self.unsettled_ends = 0
        """Advertisements that have ended here and not yet everywhere."""
        self.held: deque[Batch] = deque()
        self.held_events = 0
        self.arriving: deque[ClientPublished] | None = None
        """What a publisher has sent that is still on its way here from another broker; it is
        looked at once the move has settled. None: it has arrived."""
        self.arriving_events = 0
        self.departed = False
        """The publisher has attached itself elsewhere; nothing more is taken from it."""
        self.persisting = 0
        """Batches that are being brought to stable storage."""
        self.reading_held = False
        self._topics_advertised: set[str | bytes] = set()
        """Topic keys known to lie within an advertisement. Invalidated by: any advertisement
        that ends."""

    def must_wait(self, network_congested: bool) -> bool:
        """Whether the client is not to be read from for now; the broker of its session knows
        whether the network is congested."""
        return self.held_events + self.arriving_events > self._options.hold_events_max

    def unadvertised(self, batch: Batch) -> list[str]:
        """Topics of the batch that lie within none of the client's advertisements."""
        known = self._topics_advertised
        topics = batch.bodies.topics()
        if known.issuperset(topics):
            return []
        if len(known) > TOPICS_REMEMBERED_MAX:
            known.clear()
        unknown: list[str] = []
        for key in topics:
            if key not in known:
                known.add(key)
                topic = key if isinstance(key, str) else key.decode()
                wanted = topic_is(topic)
                if not any(intersects(f, wanted) for f in self.advertisements.values()):
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
        if len(some) <= self._options.advertise_topics_max and not any(map(_is_prefix, some)):
            return {f"{FOR_CLIENT}{topic}": topic_is(topic) for topic in topics}, []
        prefix = common_levels(some)
        filter = Filter(((Predicate(TOPIC, Op.TOPIC, f"{prefix}/#"),),)) if prefix else EVERYTHING
        wide = f"{FOR_CLIENT}{prefix}/#"
        return {wide: filter}, [name for name in known if name != wide]

    def at_rest(self) -> bool:
        """Whether all that was published is accepted and on its way, and all that was advertised
        is known everywhere."""
        return not (self.persisting or self.unsettled_advertisements or self.held)

    def advertisement_ended(self) -> None:
        self._topics_advertised.clear()


def _is_prefix(topic: str) -> bool:
    """Whether a topic that is advertised stands for all that begin like it."""
    return topic.endswith("/#")


class Session(Publisher):
    """One client's session. `hand_over` takes the session, a batch, its quality of service and
    the number of its first event (0 at QoS 0)."""

    def __init__(
        self,
        id: str,
        incarnation: int,
        window: int,
        counts: bool,
        options: BrokerOptions,
        hand_over: Callable[[Session, Batch, int, int], None],
        say: Callable[[ToPublisher], None],
        attachment: int = 0,
        follows: bool = False,
    ) -> None:
        super().__init__(id, incarnation, attachment, options, say, f"hold:{id}")
        self.counts = counts
        self.follows = follows
        self._window = window
        self._hand_over = hand_over
        self.next_counter = 1
        self.tether: Tether | None = None
        """What stands for the client as a publisher, once it may be attached elsewhere."""
        self.pings: dict[str, PingBrokers] = {}
        """What the client was asked to measure and has not answered, by who wants to know."""

        self.subscriptions: dict[str, LocalSubscription] = {}
        self.revisions = 0
        """Subscriptions made so far; part of their ids."""
        self.congested = False
        self._tail: Tail[Batch] = Tail()
        self.waiting: deque[tuple[Batch, int]] = deque()
        """Batches that go out once the client has acknowledged others, with their QoS."""
        self._waiting_events = 0
        self._seen: OrderedDict[tuple[str, int], int] = OrderedDict()

    def must_wait(self, network_congested: bool) -> bool:
        tether = self.tether
        return (
            network_congested
            or super().must_wait(network_congested)
            or (
                tether is not None
                and (tether.held or tether.kept_events > self._options.hold_events_max)
            )
        )

    def stays(self) -> bool:
        """Whether the client cannot be sent elsewhere."""
        return not self.follows or bool(self.subscriptions)

    # Outbound ------------------------------------------------------------------------------

    def saw(self, publisher: tuple[str, int], first: int, last: int) -> bool:
        """Note that the client gets a publisher's events `first` to `last`.

        False, and nothing is noted, when it has been given some of them before."""
        seen = self._seen
        before = seen.get(publisher, 0)
        if first <= before:
            return False
        seen[publisher] = last
        if before:
            seen.move_to_end(publisher)
        elif len(seen) > self._options.session_publishers_max:
            seen.popitem(last=False)
        return True

    def fresh(self, batch: Batch) -> Batch | None:
        """The part of the batch the client has not been given before."""
        publisher = (batch.publisher, batch.incarnation)
        counters = batch.counters
        if self.saw(publisher, counters[0], counters[-1]):
            return batch
        before = self._seen[publisher]
        if counters[-1] <= before:
            return None
        batch = batch.select([i for i, counter in enumerate(counters) if counter > before])
        self.saw(publisher, batch.counters[0], batch.counters[-1])
        return batch

    def offer(self, batch: Batch, qos: int) -> bool:
        """Hand over a fresh batch, or keep it for later; False: the client is too far behind."""
        if self.waiting:
            return self._keep(batch, qos)
        if qos == 0:
            self._hand_over(self, batch, 0, 0)
            return True
        tail = self._tail
        size = len(batch.counters)
        room = self._window - (tail.last - tail.acknowledged)
        if room >= size:
            self._hand_over(self, batch, 1, tail.push(batch, size))
            return True
        if room > 0:
            now, batch = split(batch, room)
            self._hand_over(self, now, 1, self._tail.push(now, len(now)))
        return self._keep(batch, qos)

    def acknowledged(self, sequence: int) -> None:
        """The client has everything up to `sequence`; what waited may go out."""
        self._tail.acknowledge(min(sequence, self._tail.last))
        waiting = self.waiting
        while waiting:
            batch, qos = waiting[0]
            room = self._window - len(self._tail)
            if qos == 0:
                room = len(batch)
            if room <= 0:
                return
            waiting.popleft()
            if room < len(batch):
                batch, rest = split(batch, room)
                waiting.appendleft((rest, qos))
            self._waiting_events -= len(batch)
            first = self._tail.push(batch, len(batch)) if qos else 0
            self._hand_over(self, batch, qos, first)

    def _keep(self, batch: Batch, qos: int) -> bool:
        if self._waiting_events + len(batch) > self._options.session_queue_events_max:
            return False
        self.waiting.append((batch, qos))
        self._waiting_events += len(batch)
        return True


def topic_is(topic: str) -> Filter:
    return Filter(((Predicate(TOPIC, Op.EQ, topic),),))


def common_levels(topics: list[str]) -> str:
    """The topic levels that all topics begin with; empty when they share none."""
    levels = [topic.split("/") for topic in topics]
    # Whatever the first and the last of sorted lists begin with, all between them do.
    first, last = min(levels), max(levels)
    shared = 0
    while shared < min(len(first), len(last)) and first[shared] == last[shared]:
        shared += 1
    return "" if topics[0].startswith("$") else "/".join(first[:shared])


def split(batch: Batch, count: int) -> tuple[Batch, Batch]:
    """The first `count` events of a batch, and the rest."""
    return batch.select(range(count)), batch.select(range(count, len(batch)))
