"""Sessions of clients: what they are owed, what they have published, what they still must see.

The outbound half numbers deliveries at QoS 1 and keeps them until the client acknowledges; no
more than the client's window is under way, the rest waits, and a client too far behind is
closed. At QoS 0 nothing is kept: what a congested client cannot take is dropped and counted.
Duplicates are recognised here, per publisher, by the last counter seen; links keep the order.

The inbound half counts the client's publications and advertises for a client that does not
advertise itself: its topics one by one, and their common prefix once there are too many.
Publications wait for the advertisement to settle, in order, and all of them wait.

A session need not have a connection. One that *holds* keeps what is for its client, in order: the
guest of a subscriber that is to come, or what a subscriber that was sent elsewhere left behind.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from gravitate.broker.effects import PingBrokers, ToClient, ToPublisher
from gravitate.broker.inputs import ClientConnected, ClientPublished
from gravitate.broker.kept import Kept, Seen
from gravitate.broker.options import BrokerOptions
from gravitate.broker.tail import Tail
from gravitate.model.covering import intersects
from gravitate.model.events import TOPIC, Batch
from gravitate.model.filters import EVERYTHING, Filter, Op, Predicate

if TYPE_CHECKING:
    from gravitate.broker.subscriber_tether import SubscriberTether
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
        say: Callable[[ToClient], None],
        attachment: int = 0,
        follows: bool = False,
    ) -> None:
        super().__init__(id, incarnation, attachment, options, say, f"hold:{id}")
        self.say: Callable[[ToClient], None] = say
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
        self.series = ""
        """Before that number: other guests of the same client may be here."""
        self.congested = False
        self._tail: Tail[Batch] = Tail()
        self.waiting: deque[tuple[Batch, int]] = deque()
        """Batches that go out once the client has acknowledged others, with their QoS."""
        self._waiting_events = 0
        self._seen: OrderedDict[tuple[str, int], int] = OrderedDict()

        self.subscriber_tether: SubscriberTether | None = None
        """What stands for the client as a subscriber, once it may be served elsewhere."""
        self.unsettled_subscriptions: set[str] = set()
        """Names of those that have not settled yet."""
        self.unconfirmed: set[str] = set()
        """Names of subscriptions brought from elsewhere, which the client has not said again."""
        self.observed = True
        """Whether observers know of it: not of a guest before its client has arrived."""
        self.indirect = False
        """What is for the client does not go to it at once."""
        self.remembers_all = False
        """Nothing of what was seen may be forgotten: somebody is told of it."""
        self.kept = Kept(options.session_queue_events_max)
        """What is held."""
        self.holding = False
        self.is_renewed = False
        """It holds for a client that has connected and has not said yet that it has arrived."""

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

    def subscribes(self) -> bool:
        """Whether the client is served, wherever its subscriptions are."""
        return bool(self.subscriptions) or self.subscriber_tether is not None

    def stays(self) -> bool:
        """Whether the client cannot be sent elsewhere as a publisher."""
        return not self.follows or self.subscribes()

    def stays_as_subscriber(self) -> bool:
        """Whether the client cannot be sent elsewhere as a subscriber."""
        return not self.follows or bool(self.advertisements) or self.tether is not None

    def renew(
        self, input: ClientConnected, attachment: int, say: Callable[[ToClient], None]
    ) -> None:
        """A client connects that this session goes on for; it holds until the client says that
        it has arrived."""
        assert self.holding
        assert not len(self._tail)
        self.say = say
        self.attachment = attachment
        self.follows, self.counts, self._window = input.follows, input.counts, input.window
        self._tail = Tail()
        self.congested = self.reading_held = False
        self.live = self.is_renewed = True
        self.pings.clear()
        self.unconfirmed = set(self.subscriptions)

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
        elif len(seen) > self._options.session_publishers_max and not self.remembers_all:
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
        if self.holding:
            return self.kept.add(batch, qos)
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

    # Holding -------------------------------------------------------------------------------

    def hold(self) -> None:
        """From now on keep what is for the client, until `released`."""
        self.holding = self.indirect = self.remembers_all = True

    def released(self) -> list[tuple[Batch, int]]:
        """Hold no longer; what was kept, in order, to be offered now."""
        self.holding = self.remembers_all = False
        self.indirect = self._is_indirect()
        return self.kept.take_all()

    def _is_indirect(self) -> bool:
        """While it does not hold."""
        return False

    def drained(self) -> bool:
        """Whether the client has all that was not kept."""
        return not len(self._tail) and not self.waiting

    def seen(self) -> Seen:
        """The last counter of each publisher that the client has been given, or is kept for it."""
        return tuple((id, incarnation, last) for (id, incarnation), last in self._seen.items())

    def continue_from(self, former: Session) -> None:
        """The client has been given all that another session of its gave it."""
        self._seen = OrderedDict(former._seen)

    def cut(self, seen: Seen, backlog: Iterable[tuple[Batch, int]] = ()) -> None:
        """The client has had everything up to `seen` elsewhere, but for the backlog."""
        assert self.holding
        self.kept.cut(seen, backlog)
        for id, incarnation, last in seen:
            publisher = (id, incarnation)
            self._seen[publisher] = max(last, self._seen.get(publisher, 0))

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
