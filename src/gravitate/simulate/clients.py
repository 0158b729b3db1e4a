"""Simulated clients: applications that publish and subscribe, with the client that ships.

An application wants things (subscriptions, advertisements, events published) whether or not it is
connected, one after the other: what may not be asked for now waits, and what comes behind it. Where
it is connected, what it says again and what it does when it is to move is the business of
`client.core`; here that becomes what brokers are told, and what they answer becomes what happens to
the core. An application also checks what only a client can see: consecutive sequence numbers and
its own window; that it says nothing while it has paused, and leaves out nothing it has published.
What it is owed is the business of the checkers.

A client that does not count its publications stands for a stock one: what it sends again is new
to its broker.

It has a place, that of the broker where it first connected, and measures from there how far others
are when it is asked. What it publishes takes no longer for that: clients are next to their broker.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from itertools import groupby
from typing import Any, NamedTuple

from gravitate.broker.interface import effects as e
from gravitate.broker.interface import inputs as i
from gravitate.client import core as c
from gravitate.client.outgoing import Publication
from gravitate.client.states import State
from gravitate.model.events import Batch, Event
from gravitate.model.filters import Filter
from gravitate.simulate.world import World

OnReceived = Callable[["Client", Batch], None]
OnAccepted = Callable[["Client", int], None]
"""Told the number, as the client counts, of a publication that was accepted."""

LOYALTY = 1_000_000
"""It changes its broker only when it is told to: nothing promises that to go well otherwise."""
NOTES: dict[object, Callable[[int], i.Input]] = {
    c.Note.PAUSED: i.ClientPaused,
    c.Note.ARRIVED: i.ClientArrived,
}


class Request(NamedTuple):
    """What a client asks for: an input, but for the connection that it comes on."""

    kind: Callable[..., i.Input]
    name: str
    filter: Filter | None = None
    more: tuple[int, ...] = ()

    def input(self, connection: int) -> i.Input:
        about = () if self.filter is None else (self.filter,)
        return self.kind(connection, self.name, *about, *self.more)


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
        policy = c.Policy(follows and counts, (reconnect_s, reconnect_s), arrive_s_max, LOYALTY)
        self.core: c.Core[str, Event, Request, Request] = c.Core(broker, policy, lambda: 1.0)
        self.subscriptions = self.core.subscriptions
        self.advertisements = self.core.advertisements
        self._later: deque[Callable[[], list[c.Effect]]] = deque()
        """What it will ask for as soon as it may."""
        self.said = 0
        """The number of the last publication that it said."""
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

    def unfinished(self) -> str:
        """What it is still about, if anything."""
        if self.core.outgoing.holding or self._later:
            return f"is still on its way to {self.broker}"
        owes = self.core.outgoing.unacknowledged
        return f"has {owes} publications not accepted" if owes else ""

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
        request = Request(i.ClientSubscribed, name, filter, (qos, no_local))
        self._ask(lambda: self.core.want(self.subscriptions, name, request))

    def unsubscribe(self, name: str) -> None:
        self._ask(lambda: self._drop(self.subscriptions, Request(i.ClientUnsubscribed, name)))

    def advertise(self, name: str, filter: Filter) -> None:
        request = Request(i.ClientAdvertised, name, filter)
        self._ask(lambda: self.core.want(self.advertisements, name, request))

    def unadvertise(self, name: str) -> None:
        self._ask(lambda: self._drop(self.advertisements, Request(i.ClientUnadvertised, name)))

    def _drop(self, wishes: dict[str, Request], request: Request) -> list[c.Effect]:
        return self.core.drop(wishes, request.name, request) if request.name in wishes else []

    def publish(self, events: Sequence[Event], qos: int = 0) -> None:
        """Publish now. While disconnected, QoS 0 is lost and QoS 1 waits for the next session."""
        if self._later:
            self._ask(lambda: self._publish(events, qos))
        elif qos or self.core.takes:
            self._carry_out(self._publish(events, qos))

    def _publish(self, events: Sequence[Event], qos: int) -> list[c.Effect]:
        for event in events:
            self.core.publish(event, qos)
        return [c.Say(self.core.due())]

    def _ask(self, ask: Callable[[], list[c.Effect]]) -> None:
        self._later.append(ask)
        self._go_on()

    def _go_on(self) -> None:
        while self._later and self.core.asks:
            self._carry_out(self._later.popleft()())

    # What its core wants, and what its connection tells

    def _carry_out(self, effects: Iterable[c.Effect]) -> None:
        scheduler = self.world.scheduler
        for effect in effects:
            match effect:
                case c.Say(words):
                    if self._connection is not None:
                        self._connection.say(words)
                case c.Dial(_, _, after_s):
                    if after_s:
                        scheduler.after(after_s, self._dial, effect)
                    else:
                        self._dial(effect)
                case c.HangUp():
                    if self._connection is not None:
                        self._connection.submit(
                            i.ClientDisconnected(self._connection.attachment.connection)
                        )
                        self._connection = None
                case c.Alarm(connection, after_s):
                    scheduler.after(after_s, self._tell(self.core.late), connection)
                case c.Changed():
                    self._go_on()

    def _dial(self, dial: c.Dial) -> None:
        if dial.connection == self.core.connection:
            self.incarnation += not self.counts
            self._connection = Connection(self, dial)
            answer_s = 2 * self.latency_s
            self.world.scheduler.after(answer_s, self._tell(self.core.opened), dial.connection)

    def _tell(self, told: Callable[[int], list[c.Effect]]) -> Callable[[int], None]:
        return lambda connection: self._carry_out(told(connection))

    def tell(self, effects: list[c.Effect], is_over: bool = False) -> None:
        """The core has been told something."""
        if is_over and effects:
            self._connection = None
        self._carry_out(effects)


class Connection:
    """One session of a client, from the client's side. One that is left says nothing more."""

    __slots__ = (
        "_acknowledging", "_paused", "attachment", "broker", "client", "last_sequence", "number",
        "settled", "unaccepted", "unread",
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
        """The packet ids of what was published at QoS 1, in order."""
        self._paused = False
        """It has said that it asks for nothing more."""
        self.settled: set[str] = set()
        """Names of the subscriptions that must be served, and of advertisements."""
        connected = i.ClientConnected(
            client.world.new_connection(),
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
        self.attachment.submit(item)

    def say(self, words: Sequence[Any]) -> None:
        """Publications of one quality that follow each other are told together."""
        id, connection = self.client.id, self.attachment.connection
        if self._paused and words:
            self.client.violations.append(f"{id} has paused at {self.broker} and says more")
        self._paused = c.Note.PAUSED in words
        for quality, some in groupby(words, _quality):
            if quality is None:
                for word in some:
                    note = NOTES.get(word, word.input if isinstance(word, Request) else None)
                    assert note is not None
                    self.submit(note(connection))
            else:
                self._publish(list(some), quality)

    def _publish(self, some: Sequence[Publication[Event]], qos: int) -> None:
        client = self.client
        if some[0].counter > client.said + 1:
            client.violations.append(f"{client.id} skips {client.said + 1} to {some[0].counter}")
        client.said = some[-1].counter
        if qos:
            self.unaccepted.extend(one.packet_id for one in some)
        bodies = client.world.bodies([one.body for one in some], qos)
        counter = some[0].counter if client.counts else None
        self.submit(i.ClientPublished(self.attachment.connection, bodies, qos, counter))

    def deliver(self, effect: e.Deliver) -> None:
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
        if self.client.connection is self:
            self._acknowledging = False
            self.unread = 0
            self.submit(i.ClientAcknowledged(self.attachment.connection, self.last_sequence))

    def accept(self, count: int) -> None:
        client = self.client
        if client.connection is not self:
            return
        if count > len(self.unaccepted):
            client.violations.append(
                f"{client.id} had {count} publications accepted, "
                f"only {len(self.unaccepted)} are outstanding"
            )
        for _ in range(min(count, len(self.unaccepted))):
            one = client.core.acknowledged(self.number, self.unaccepted.popleft())
            if one is not None and client.on_accepted is not None:
                client.on_accepted(client, one.counter)

    def tell(self, word: e.Word) -> None:
        tell, core, number = self.client.tell, self.client.core, self.number
        match word:
            case e.SubscriptionSettled(name) | e.AdvertisementSettled(name):
                self.settled.add(name)
            case e.PingBrokers():
                self._ping(word)
            case e.Redirect():
                tell(core.redirected(number))
            case e.Stay():
                self._paused = False
                tell(core.stay(number))
            case e.Attached():
                # It comes behind the broker's welcome, wherever the world has that.
                tell(core.opened(number))
                tell(core.attached(number))
            case e.CloseSession(e.MOVED, target):
                tell(core.moved(number, target), is_over=True)
            case e.CloseSession():
                tell(core.lost(number, None), is_over=True)

    def _ping(self, effect: e.PingBrokers) -> None:
        """Measure all at once; the furthest takes the longest."""
        client = self.client
        measured = {
            broker: client.world.round_trip_s(client.place, broker) for broker in effect.brokers
        }
        known = {broker: s for broker, s in measured.items() if s is not None}
        answer = i.BrokersPinged(self.attachment.connection, effect.token, known)
        client.world.scheduler.after(max(known.values(), default=0.0), self._pinged, answer)

    def _pinged(self, answer: i.BrokersPinged) -> None:
        if self.client.core.may_answer(self.number):
            self.submit(answer)


def _quality(word: object) -> int | None:
    """Of a publication; None: it is none."""
    return min(word.packet_id, 1) if isinstance(word, Publication) else None
