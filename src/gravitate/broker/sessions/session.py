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

from gravitate.broker.interface.effects import PingBrokers, ToClient, ToPublisher
from gravitate.broker.interface.inputs import ClientConnected, ClientPublished
from gravitate.broker.interface.timers import HoldOver, TetheredHoldOver
from gravitate.broker.links.link import Mark
from gravitate.broker.links.tail import Tail
from gravitate.broker.lives import Life, Lives, size_bytes
from gravitate.broker.measure import COMPACT_BYTES_MIN, Measure
from gravitate.broker.options import BrokerOptions
from gravitate.broker.routing.settlement import NOWHERE, Open
from gravitate.broker.sessions.advertisements import Advertisements
from gravitate.broker.sessions.backlog import Kept, Seen
from gravitate.broker.sessions.elsewhere import PublisherElsewhere, SubscriberElsewhere
from gravitate.model.events import TOPIC, Batch
from gravitate.model.filters import EVERYTHING, Filter, Op, Predicate

FOR_CLIENT = "topic:"
"""Begins the keys of what is advertised for a client: a topic, or a prefix of several."""
TOPICS_BYTES_MAX = 4 * 1024 * 1024
TOPIC_BYTES = 100
"""What is remembered of a publisher's topics before it is forgotten, and what one takes beside its
name, about."""
SWEEP_BYTES_MIN = 64 * 1024
"""What is remembered of publishers is not looked through for less."""


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
        hold_timer: HoldOver | TetheredHoldOver,
    ) -> None:
        self.id = id
        self.incarnation = incarnation
        self.attachment = attachment
        self.say = say
        self.hold_timer = hold_timer
        """Ends the wait of `held`."""
        self.follows = False
        self.live = True
        """Not ended, and not on its way to another broker."""
        self._options = options

        self.advertisements = Advertisements()
        self.unsettled_advertisements: set[str] = set()
        self.unanswered_advertisements: set[str] = set()
        """Those of them that have not even settled wherever somebody can be reached."""
        self.open: dict[str, Open] = {}
        """Where others of them have not settled."""
        self.unsettled_ends = 0
        """Advertisements that have ended here and not yet everywhere."""
        self.held: deque[Batch] = deque()
        self.arriving: deque[ClientPublished] | None = None
        """What a publisher has sent that is still on its way here from another broker; it is
        looked at once the move has settled. None: it has arrived."""
        self.unpublished = Measure()
        """Of what is held, or arriving."""
        self.departed = False
        """The publisher has attached itself elsewhere; nothing more is taken from it."""
        self.way: Open = NOWHERE
        """While it arrives: brokers between here and where it was."""
        self.lost = ""
        """The one where it was, if that cannot be reached."""
        self.marks: deque[Mark] = deque()
        """What has brought the publications that were handed over and are not routed yet."""
        self.persisting = 0
        """Batches that are being brought to stable storage."""
        self.reading_held = False
        self._topics_advertised: set[str | bytes] = set()
        """Topic keys known to lie within an advertisement. Invalidated by: any advertisement
        that ends."""
        self._topics_bytes = 0

    @property
    def life(self) -> Life:
        return self.id, self.incarnation

    def must_wait(self, is_congested: bool) -> bool:
        """Whether the client is not to be read from for now; others know whether a link that its
        events go over is congested."""
        return is_congested or self.unpublished.exceeds(
            self._options.hold_events_max, self._options.hold_bytes_max
        )

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
        if len(some) <= self._options.advertise_topics_max and not any(map(_is_prefix, some)):
            return {f"{FOR_CLIENT}{topic}": topic_is(topic) for topic in topics}, []
        prefix = common_levels(some)
        filter = Filter(((Predicate(TOPIC, Op.TOPIC, f"{prefix}/#"),),)) if prefix else EVERYTHING
        wide = f"{FOR_CLIENT}{prefix}/#"
        return {wide: filter}, [name for name in known if name != wide]

    def may_arrive(self) -> bool:
        """Whether everything that it has published elsewhere and is not lost is ahead, though some
        brokers cannot be reached: none of them is on the way."""
        away = NOWHERE.union(*self.open.values())
        return bool(self.way) and (away & self.way) <= {self.lost}

    def is_withdrawn(self) -> bool:
        """Whether nothing that it has advertised is advertised any more, anywhere."""
        return not self.advertisements and not self.unsettled_ends

    def at_rest(self) -> bool:
        """Whether all that was published is accepted and on its way, and all that was advertised
        is known everywhere."""
        return not (self.persisting or self.unsettled_advertisements or self.held)

    def advertisement_ended(self) -> None:
        self._topics_advertised.clear()
        self._topics_bytes = 0


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
        lives: Lives,
        attachment: int = 0,
        follows: bool = False,
    ) -> None:
        super().__init__(id, incarnation, attachment, options, say, HoldOver(id))
        self.say: Callable[[ToClient], None] = say
        self.counts = counts
        self.follows = follows
        self._window = window
        self._hand_over = hand_over
        self.next_counter = 1
        self.tether: PublisherElsewhere | None = None
        """What stands for the client as a publisher, once it may be attached elsewhere."""
        self.pings: dict[str, PingBrokers] = {}
        """What the client was asked to measure and has not answered, by who wants to know."""

        self.subscriptions: dict[str, LocalSubscription] = {}
        self.series = ""
        """Part of the names of its subscriptions, where other guests of the same client may be."""
        self.congested = False
        self._tail: Tail[tuple[Batch, int]] = Tail()
        """What has been given at QoS 1, each with the bytes given until then."""
        self._given_bytes = 0
        self._acknowledged_bytes = 0
        self._window_bytes = options.session_window_bytes_max
        self.waiting = self._queue()
        """Batches that go out once the client has acknowledged others, with their QoS."""
        self._lives = lives
        self._seen: OrderedDict[Life, int] = OrderedDict()
        self.seen_bytes = 0
        self._sweep_at_bytes = SWEEP_BYTES_MIN

        self.subscriber_tether: SubscriberElsewhere | None = None
        """What stands for the client as a subscriber, once it may be served elsewhere."""
        self.unsettled_subscriptions: set[str] = set()
        """Names of those that have not settled yet."""
        self.unconfirmed: set[str] = set()
        """Names of subscriptions brought from elsewhere, which the client has not said again."""
        self.observed = True
        """Whether observers know of it: not of a guest before its client has arrived."""
        self.indirect = False
        """What is for the client does not go to it at once: something waits, or it holds."""
        self.remembers_all = False
        """Nothing of what was seen may be forgotten: somebody is told of it."""
        self.kept = self._queue()
        """What is held."""
        self.holding = False
        self.missing: Open = NOWHERE
        """While it holds: only what has passed one of these brokers, if there are any."""
        self.is_renewed = False
        """It holds for a client that has connected and has not said yet that it has arrived."""

    def wait_for(self, life: Life) -> None:
        """While something is missing: a publisher is attached elsewhere now, and something earlier
        of it may be missing."""

    def must_wait(self, is_congested: bool) -> bool:
        tether, options = self.tether, self._options
        return super().must_wait(is_congested) or (
            tether is not None
            and (
                tether.held
                or tether.unsent.exceeds(options.hold_events_max, options.hold_bytes_max)
            )
        )

    def fall_silent(self) -> None:
        """Its client is told nothing any more."""
        self.say = lambda effect: None

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
        assert self.drained()
        self.say = say
        self.attachment = attachment
        self.follows, self.counts, self._window = input.follows, input.counts, input.window
        self._tail = Tail()
        self._given_bytes = self._acknowledged_bytes = 0
        self.congested = self.reading_held = False
        self.live = self.is_renewed = True
        self.pings.clear()
        self.unconfirmed = set(self.subscriptions)

    # Outbound ------------------------------------------------------------------------------

    def saw(self, publisher: Life, first: int, last: int) -> bool:
        """Note that the client gets a publisher's events `first` to `last`.

        False, and nothing is noted, when it has been given some of them before."""
        seen = self._seen
        before = seen.get(publisher, 0)
        if first <= before:
            return False
        seen[publisher] = last
        if before:
            seen.move_to_end(publisher)
        else:
            self.seen_bytes += size_bytes(publisher)
            if self.seen_bytes > self._sweep_at_bytes and not self.remembers_all:
                self._forget_publishers()
        return True

    def _forget_publishers(self) -> None:
        """Those whose events cannot come again; if that is not enough, the longest silent."""
        seen, lives = self._seen, self._lives
        bytes_max = self._options.session_seen_bytes_max
        for publisher in [one for one in seen if not lives.may_come(one)]:
            del seen[publisher]
            self.seen_bytes -= size_bytes(publisher)
        while self.seen_bytes > bytes_max and len(seen) > 1:
            publisher, _ = seen.popitem(last=False)
            self.seen_bytes -= size_bytes(publisher)
            lives.forgotten += 1
        # Looking at all of them must not happen with every new one.
        self._sweep_at_bytes = max(SWEEP_BYTES_MIN, min(2 * self.seen_bytes, bytes_max))

    def keeps_too_much(self) -> bool:
        """Whether more is kept for it than two brokers may keep."""
        options = self._options
        bound = (2 * options.session_queue_events_max, 2 * options.session_queue_bytes_max)
        return self.kept.measure.exceeds(*bound)

    def fresh(self, batch: Batch) -> Batch | None:
        """The part of the batch the client has not been given before."""
        publisher = batch.stream
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
        if not self.indirect:
            if not qos:
                self._hand_over(self, batch, 0, 0)
                return True
            tail, size = self._tail, len(batch.counters)
            given = self._given_bytes + batch.bodies.size_bytes()
            if (
                tail.last - tail.acknowledged + size <= self._window
                and given - self._acknowledged_bytes <= self._window_bytes
            ):
                self._give(batch, given)
                return True
        return self._keep(batch, qos)

    def _give(self, batch: Batch, given: int) -> None:
        """Hand over at QoS 1, and keep it until the client acknowledges it."""
        if given - self._acknowledged_bytes > COMPACT_BYTES_MIN:
            batch = batch.compacted()
        self._given_bytes = given
        self._hand_over(self, batch, 1, self._tail.push((batch, given), len(batch.counters)))

    def _keep(self, batch: Batch, qos: int) -> bool:
        if self.holding:
            return self.kept.add(batch.compacted(), qos)
        if qos and not self.waiting:
            rest = self._give_some(batch)
            if rest is None:
                return True
            batch = rest
        self.indirect = True
        return self.waiting.add(batch.compacted(), qos)

    def _give_some(self, batch: Batch) -> Batch | None:
        """Give as much as the client may have now; what is left."""
        room = self._room(batch)
        if room <= 0:
            return batch
        rest = None
        if room < len(batch):
            batch, rest = split(batch, room)
        self._give(batch, self._given_bytes + batch.size_bytes())
        return rest

    def _room(self, batch: Batch) -> int:
        """How many of the events the client may be given now: within its window, and as many bytes
        as it may have unacknowledged."""
        size, weight = len(batch), batch.size_bytes()
        room = min(size, self._window - len(self._tail))
        left = max(self._window_bytes - self.unacknowledged_bytes, 0)
        if weight > left:
            least = 0 if self.unacknowledged_bytes else 1
            room = min(room, max(least, size * left // weight))
        return room

    @property
    def unacknowledged_bytes(self) -> int:
        """What has been given at QoS 1 and not been acknowledged."""
        return self._given_bytes - self._acknowledged_bytes

    def acknowledged(self, sequence: int) -> None:
        """The client has everything up to `sequence`; what waited may go out."""
        tail = self._tail
        released = tail.acknowledge(sequence if sequence < tail.last else tail.last)
        if released:
            self._acknowledged_bytes = released[-1][1]
        if self.indirect and self.waiting:
            self._give_waiting()

    def _give_waiting(self) -> None:
        waiting = self.waiting
        while waiting:
            batch, qos = waiting.take_first()
            if qos == 0:
                self._hand_over(self, batch, 0, 0)
                continue
            rest = self._give_some(batch)
            if rest is not None:
                waiting.put_back(rest, qos)
                return
        self.indirect = self.holding or self._is_indirect()

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
        return bool(self.waiting)

    def drained(self) -> bool:
        """Whether the client has all that was not kept."""
        return not len(self._tail) and not self.waiting

    def seen(self) -> Seen:
        """The last counter of each publisher that the client has been given, or is kept for it."""
        return tuple((id, incarnation, last) for (id, incarnation), last in self._seen.items())

    def continue_from(self, former: Session) -> None:
        """The client has been given all that another session of its gave it."""
        self._seen, self.seen_bytes = OrderedDict(former._seen), former.seen_bytes

    def matched_by(self, version: int) -> None:
        """What is kept counts as matched by what the client wanted then."""

    def discard(self) -> None:
        """What is kept is for nobody any more."""
        self.kept.take_all()

    def owed_events(self) -> int:
        """How many events wait for the client, or are kept for it."""
        return self.waiting.measure.events + self.kept.measure.events

    def cut(self, seen: Seen, backlog: Iterable[tuple[Batch, int]] = (), version: int = 0) -> None:
        """The client has had everything up to `seen` elsewhere, but for the backlog, which was
        matched by what it wanted as of `version`."""
        assert self.holding
        self.kept.cut(seen, backlog)
        for id, incarnation, last in seen:
            self.note_seen((id, incarnation), last)

    def note_seen(self, publisher: Life, last: int) -> None:
        """The client has been given, or will be, what a publisher published up to here."""
        if publisher not in self._seen:
            self.seen_bytes += size_bytes(publisher)
        self._seen[publisher] = max(last, self._seen.get(publisher, 0))

    def _queue(self) -> Kept:
        options = self._options
        return Kept(options.session_queue_events_max, options.session_queue_bytes_max)


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
