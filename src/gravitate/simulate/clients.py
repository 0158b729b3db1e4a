"""Simulated clients: applications that publish and subscribe, with the client that ships.

An application wants things (subscriptions, advertisements, events published) whether or not it is
connected, one after the other: what may not be asked for now waits, and what comes behind it. Where
it is connected, what it says again and what it does when it is to move is the business of
`client.core`; here that is translated to what brokers are told, and back. An application also
checks what only a client can see: consecutive sequence numbers and its own window.

A client that does not count its publications stands for a stock one: what it sends again is new
to its broker.

It has a place, that of the broker where it first connected, and measures from there how far others
are when it is asked. What it publishes takes no longer for that: clients are next to their broker.

It does not know what it is owed: that is the business of the checkers.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from itertools import groupby
from typing import NamedTuple

from gravitate.broker.interface import effects as e
from gravitate.broker.interface import inputs as i
from gravitate.client import effects as c
from gravitate.client.core import Core, Policy
from gravitate.client.outgoing import Publication
from gravitate.client.states import State
from gravitate.model.events import Batch, Event
from gravitate.model.filters import Filter
from gravitate.simulate.world import World
from gravitate.wire.mqtt.codes import ReasonCode

OnReceived = Callable[["Client", Batch], None]
OnAccepted = Callable[["Client", int], None]
"""Told the number, as the client counts, of a publication that was accepted."""

LOYALTY = 1_000_000
"""It changes its broker only when it is told to: nothing promises that to go well otherwise."""
CLOSE_CODES = {e.OVERLOADED: ReasonCode.QUOTA_EXCEEDED}


class Wish(NamedTuple):
    """What is subscribed to or advertised."""

    filter: Filter
    qos: int = 0
    no_local: bool = False


class Client:
    """One simulated client; ask it for things at any time."""

    def __init__(
        self,
        world: World,
        client_id: str,
        broker: str,
        *,
        counts: bool = True,
        latency_s: float = 0.0,
        window: int = 65535,
        acknowledge_after_s: float = 0.01,
        reconnect_s: float = 0.1,
        follows: bool = False,
        arrive_s_max: float = 5.0,
        on_received: OnReceived | None = None,
        on_accepted: OnAccepted | None = None,
    ) -> None:
        self.world = world
        self.id = client_id
        self.place = ""
        """The broker where it first connected: it is nearest to that one for ever."""
        self.counts = counts
        self.latency_s = latency_s
        self.window = window
        self.acknowledge_after_s = acknowledge_after_s
        self.on_received = on_received
        self.on_accepted = on_accepted
        self.incarnation = 1 if counts else 0
        policy = Policy(follows and counts, (reconnect_s, reconnect_s), arrive_s_max, LOYALTY)
        self.core: Core[str, Event, Wish, Wish] = Core(broker, policy, lambda: 1.0)
        self.subscriptions = self.core.subscriptions
        self.advertisements = self.core.advertisements
        self._later: deque[Callable[[], list[c.Effect]]] = deque()
        """What it will ask for as soon as it may."""
        self.received = 0
        """Events received over all sessions."""
        self.violations: list[str] = []
        self._connection: Connection | None = None

    @property
    def broker(self) -> str:
        """Where it is, or was last."""
        return self.core.place

    @property
    def follows(self) -> bool:
        return self.core.policy.follow

    @property
    def connection(self) -> Connection | None:
        return self._connection if self.core.is_connected else None

    @property
    def wants_connection(self) -> bool:
        return self.core.state is not State.OFFLINE

    @property
    def is_moving(self) -> bool:
        """Whether it was told to go elsewhere and has not arrived, or waits to say something."""
        return self.core.outgoing.holding or bool(self._later)

    @property
    def owes(self) -> int:
        """How many of its publications nobody has accepted."""
        return self.core.outgoing.unacknowledged

    # What a client can be asked for

    def connect(self, broker: str | None = None) -> None:
        """Open a session. One that is open is left in silence, for another that takes it over."""
        if self.wants_connection:
            self._carry_out(self.core.lost(self.core.connection, None))
        else:
            self.place = self.place or broker or self.broker
            self._carry_out(self.core.start(broker))

    def disconnect(self) -> None:
        """End the session and stay away."""
        self._carry_out(self.core.stop())

    def subscribe(self, name: str, filter: Filter, qos: int = 0, no_local: bool = False) -> None:
        self._ask(lambda: self.core.subscribe(name, Wish(filter, qos, no_local)))

    def unsubscribe(self, name: str) -> None:
        core = self.core
        self._ask(lambda: core.unsubscribe(name) if name in core.subscriptions else [])

    def advertise(self, name: str, filter: Filter) -> None:
        self._ask(lambda: self.core.advertise(name, Wish(filter)))

    def unadvertise(self, name: str) -> None:
        core = self.core
        self._ask(lambda: core.unadvertise(name) if name in core.advertisements else [])

    def publish(self, events: Sequence[Event], qos: int = 0) -> None:
        """Publish now. While disconnected, QoS 0 is lost and QoS 1 waits for the next session."""
        if qos == 0 and not self.core.takes:
            return
        if self._later:
            self._ask(lambda: self._published(events, qos))
        else:
            self._carry_out(self._published(events, qos))

    def _published(self, events: Sequence[Event], qos: int) -> list[c.Effect]:
        for event in events:
            self.core.publish(event, qos)
        return [c.Say(self.core.due())]

    def _ask(self, ask: Callable[[], list[c.Effect]]) -> None:
        self._later.append(ask)
        self._go_on()

    def _go_on(self) -> None:
        while self._later and self.core.asks:
            self._carry_out(self._later.popleft()())

    # What its core wants

    def _carry_out(self, effects: Iterable[c.Effect]) -> None:
        scheduler = self.world.scheduler
        for effect in effects:
            match effect:
                case c.Say(words):
                    if words and self._connection is not None:
                        self._connection.say(words)
                case c.Dial(_, _, after_s):
                    if after_s:
                        scheduler.after(after_s, self._dial, effect)
                    else:
                        self._dial(effect)
                case c.HangUp():
                    if self._connection is not None:
                        self._connection.submit(i.ClientDisconnected(self.id))
                        self._connection = None
                case c.Alarm(connection, after_s):
                    scheduler.after(after_s, self._late, connection)
                case c.Changed():
                    self._go_on()

    def _dial(self, dial: c.Dial) -> None:
        if dial.connection == self.core.connection:
            self.incarnation += not self.counts
            self._connection = Connection(self, dial)
            self.world.scheduler.after(2 * self.latency_s, self._opened, dial.connection)

    def _opened(self, connection: int) -> None:
        self._carry_out(self.core.opened(connection))

    def _late(self, connection: int) -> None:
        self._carry_out(self.core.late(connection))

    # What its connections tell it

    def told(self, effects: list[c.Effect]) -> None:
        """Something was said on a connection that its core has looked at."""
        self._carry_out(effects)

    def closed(self, connection: Connection, effects: list[c.Effect]) -> None:
        if self._connection is connection:
            self._connection = None
        self._carry_out(effects)

    def accepted(self, connection: int, packet_id: int) -> None:
        one = self.core.acknowledged(connection, packet_id)
        if one is not None and self.on_accepted is not None:
            self.on_accepted(self, one.counter)
        self._carry_out([c.Say(self.core.due())])


class Connection:
    """One session of a client, from the client's side. One that is left says nothing more."""

    __slots__ = (
        "_acknowledging", "attachment", "broker", "client", "last_sequence", "number", "settled",
        "unaccepted", "unread",
    )  # fmt: skip

    def __init__(self, client: Client, dial: c.Dial) -> None:
        self.client = client
        self.number = dial.connection
        self.broker = dial.place
        self.last_sequence = 0
        self.unread = 0
        """Deliveries at QoS 1 not acknowledged yet."""
        self._acknowledging = False
        self.unaccepted: deque[int] = deque()
        """Of its publications at QoS 1, the packet ids in the order in which they were said."""
        self.settled: set[str] = set()
        """Names of the subscriptions that must be served."""
        connected = i.ClientConnected(
            client.id,
            client.incarnation,
            client.window,
            client.counts,
            self.number if client.counts else 0,
            client.follows,
            i.Continues(dial.continues),
        )
        self.attachment = client.world.attach(self, connected, self.broker, client.latency_s)

    def submit(self, item: i.Input) -> None:
        self.client.world.submit(self.attachment, self.broker, item)

    def say(self, words: Sequence[c.Word]) -> None:
        for is_published, some in groupby(words, _quality):
            if is_published is None:
                for word in some:
                    self.submit(self._input(word))
            else:
                self._publish([one for one in some if isinstance(one, Publication)])

    def _publish(self, publications: list[Publication[Event]]) -> None:
        client, first = self.client, publications[0]
        qos = 1 if first.packet_id else 0
        if qos:
            self.unaccepted.extend(one.packet_id for one in publications)
        bodies = client.world.bodies([one.body for one in publications], qos)
        counter = first.counter if client.counts else None
        self.submit(i.ClientPublished(client.id, bodies, qos, counter))

    def _input(self, word: c.Word) -> i.Input:
        session = self.client.id
        match word:
            case c.Wanted(c.Kind.SUBSCRIPTION, name, wish):
                return i.ClientSubscribed(session, name, *wish)
            case c.Wanted(c.Kind.ADVERTISEMENT, name, wish):
                return i.ClientAdvertised(session, name, wish.filter)
            case c.Dropped(c.Kind.SUBSCRIPTION, name, _):
                return i.ClientUnsubscribed(session, name)
            case c.Dropped(_, name, _):
                return i.ClientUnadvertised(session, name)
            case c.Note.PAUSED:
                return i.ClientPaused(session)
            case _:
                return i.ClientArrived(session)

    # What the world tells

    @property
    def is_used(self) -> bool:
        return self.client.connection is self

    def on_delivered(self, effect: e.Deliver) -> None:
        client = self.client
        if client.connection is not self:
            return
        batch = effect.batch
        if effect.qos:
            count = len(batch.counters)
            if effect.sequence != self.last_sequence + 1:
                client.violations.append(
                    f"{client.id} got sequence {effect.sequence} after {self.last_sequence}"
                )
            self.last_sequence = effect.sequence + count - 1
            self.unread += count
            if self.unread > client.window:
                client.violations.append(
                    f"{client.id} has {self.unread} deliveries unacknowledged, "
                    f"its window is {client.window}"
                )
            if not self._acknowledging:
                self._acknowledging = True
                client.world.scheduler.after(client.acknowledge_after_s, self._acknowledge, None)
        client.received += len(batch)
        if client.on_received is not None:
            client.on_received(client, batch)

    def _acknowledge(self, _: None) -> None:
        if self.is_used:
            self._acknowledging = False
            self.unread = 0
            self.submit(i.ClientAcknowledged(self.client.id, self.last_sequence))

    def on_accepted(self, count: int) -> None:
        client = self.client
        if not self.is_used:
            return
        if count > len(self.unaccepted):
            client.violations.append(
                f"{client.id} had {count} publications accepted, "
                f"only {len(self.unaccepted)} are outstanding"
            )
        for _ in range(min(count, len(self.unaccepted))):
            client.accepted(self.number, self.unaccepted.popleft())

    def on_settled(self, effect: e.SubscriptionSettled | e.AdvertisementSettled) -> None:
        if isinstance(effect, e.SubscriptionSettled):
            self.settled.add(effect.name)

    def on_ping(self, effect: e.PingBrokers) -> None:
        """Measure all at once; the furthest takes the longest."""
        client = self.client
        measured = {
            broker: client.world.round_trip_s(client.place, broker) for broker in effect.brokers
        }
        known = {broker: s for broker, s in measured.items() if s is not None}
        answer = i.BrokersPinged(client.id, effect.token, known)
        client.world.scheduler.after(max(known.values(), default=0.0), self._pinged, answer)

    def _pinged(self, answer: i.BrokersPinged) -> None:
        if self.client.core.may_answer(self.number):
            self.submit(answer)

    def on_redirected(self, target: str) -> None:
        core = self.client.core
        answer = core.stay if target == self.broker else core.redirected
        self.client.told(answer(self.number))

    def on_attached(self, _: None) -> None:
        core = self.client.core
        # It comes behind the broker's welcome, wherever the world has that.
        self.client.told(core.opened(self.number))
        self.client.told(core.attached(self.number))

    def on_moved(self, target: str) -> None:
        self.client.closed(self, self.client.core.moved(self.number, target))

    def on_closed(self, reason: str) -> None:
        self.client.closed(self, self.client.core.lost(self.number, CLOSE_CODES.get(reason)))


def _quality(word: c.Word) -> bool | None:
    """What is published together; None: it is no publication."""
    return bool(word.packet_id) if isinstance(word, Publication) else None
