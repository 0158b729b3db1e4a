"""Simulated clients: publishers and subscribers that behave as applications do.

A client wants things (subscriptions, advertisements, events published) whether or not it is
connected, and asks for them again whenever it comes back. Publications at QoS 1 belong to it
until they are accepted; a client that counts its own sends them again under the same numbers, so
that nobody can tell; one that does not publishes them anew. It also checks what only a client
can see: consecutive sequence numbers and its own window.

One that follows goes where its broker sends it: it keeps what it publishes to itself, and whatever
else it would ask for, says that it has paused, connects there when its session is closed, and goes
back when it does not get through. As a subscriber it says that it has arrived, at either end.

It has a place, that of the broker where it first connected, and measures from there how far others
are when it is asked. What it publishes takes no longer for that: clients are next to their broker.

It does not know what it is owed: that is the business of the checkers.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from functools import partial

from gravitate.broker.interface import effects as e
from gravitate.broker.interface import inputs as i
from gravitate.model.events import Batch, Event
from gravitate.model.filters import Filter
from gravitate.simulate.world import World

OnReceived = Callable[["Client", Batch], None]
OnAccepted = Callable[["Client", int], None]
"""Told the number, as the client counts, of a publication that was accepted."""


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
        self.broker = broker
        self.place = ""
        """The broker where it first connected: it is nearest to that one for ever."""
        self.counts = counts
        self.latency_s = latency_s
        self.window = window
        self.acknowledge_after_s = acknowledge_after_s
        self.reconnect_s = reconnect_s
        self.follows = follows and counts
        self.arrive_s_max = arrive_s_max
        self.on_received = on_received
        self.on_accepted = on_accepted
        self.incarnation = 1 if counts else 0
        self.subscriptions: dict[str, i.ClientSubscribed] = {}
        self.advertisements: dict[str, i.ClientAdvertised] = {}
        self.unaccepted: deque[tuple[int, Event]] = deque()
        """Own publications at QoS 1, with their counters, that nobody has accepted yet."""
        self._anew: deque[Event] = deque()
        """The same of earlier sessions, of a client that does not count."""
        self._goes_easy = False
        """It was closed because too much came at once, so it asks for less at once."""
        self._unsent = 0
        """How many of the last publications have not been sent in this session yet."""
        self.attachments = 0
        """Connections of this incarnation so far."""
        self.paused: list[tuple[int, Event]] | None = None
        """What it publishes at QoS 0 while it moves; None: it is not moving."""
        self.silent = False
        """It has said that it publishes nothing more on this connection."""
        self._said = 0
        """The last it published before it said so."""
        self.came_from = ""
        """Where it goes back to when it does not arrive; empty: it has arrived."""
        self.continues = i.Continues.NOTHING
        """What it comes for with its next connection, or has come for and not been given yet."""
        self._later: list[Callable[[], None]] = []
        """What it was asked for while it may ask for nothing."""
        self.published = 0
        self.received = 0
        """Events received over all sessions."""
        self.violations: list[str] = []
        self.wants_connection = False
        self.connection: Connection | None = None

    # What a client can be asked for

    def connect(self) -> None:
        """Open a session, or one that takes over from the one that is open."""
        self.wants_connection = True
        self.silent = False
        self.place = self.place or self.broker
        self.attachments += 1
        if not self.counts:
            self.incarnation += 1
        resent = list(self.unaccepted)
        if not self.counts:
            self._anew.extendleft(event for _, event in reversed(resent))
            self.unaccepted.clear()
        self.connection = connection = Connection(self)
        for subscription in self.subscriptions.values():
            connection.submit(subscription)
        for advertisement in self.advertisements.values():
            connection.submit(advertisement)
        self._unsent = 0
        if self.counts and self._goes_easy:
            self._unsent = len(resent)
            self._send_next()
        elif self.counts:
            again = [(counter, event, 1) for counter, event in resent]
            again += [(counter, event, 0) for counter, event in self.paused or ()]
            for counter, event, qos in sorted(again, key=lambda item: item[0]):
                connection.submit(
                    i.ClientPublished(
                        self.id, self.world.bodies((event,), qos), qos, first_counter=counter
                    )
                )
        else:
            self._send_next()

    def _send_next(self) -> None:
        """What was not accepted in an earlier session goes out one after the other: a client that
        sent all of it at once might be closed for what it gets itself, again and again."""
        if self._unsent and not self.silent:
            counter, event = self.unaccepted[-self._unsent]
            self._unsent -= 1
            bodies = self.world.bodies((event,), 1)
            self._submit(i.ClientPublished(self.id, bodies, 1, counter))
        elif self._anew and not self.unaccepted:
            self.publish((self._anew.popleft(),), qos=1)

    def disconnect(self) -> None:
        """End the session and stay away."""
        self.wants_connection = False
        self.continues = i.Continues.NOTHING
        self._say_later()
        if self.connection is not None:
            self.connection.submit(i.ClientDisconnected(self.id))
            self.connection = None

    def owes(self) -> int:
        """How many of its publications nobody has accepted."""
        return len(self.unaccepted) + len(self._anew)

    @property
    def is_moving(self) -> bool:
        """Whether it was told to go elsewhere and has not arrived: it asks for nothing then."""
        return self.silent or self.continues is not i.Continues.NOTHING

    def subscribe(self, name: str, filter: Filter, qos: int = 0, no_local: bool = False) -> None:
        if self.is_moving:
            self._later.append(partial(self.subscribe, name, filter, qos, no_local))
            return
        item = i.ClientSubscribed(self.id, name, filter, qos, no_local)
        self.subscriptions[name] = item
        self._submit(item)

    def unsubscribe(self, name: str) -> None:
        if self.is_moving:
            self._later.append(partial(self.unsubscribe, name))
            return
        if self.subscriptions.pop(name, None) is None:
            return
        self._submit(i.ClientUnsubscribed(self.id, name))

    def _say_later(self) -> None:
        """It may ask for things again."""
        later, self._later = self._later, []
        for ask in later:
            ask()

    def advertise(self, name: str, filter: Filter) -> None:
        item = i.ClientAdvertised(self.id, name, filter)
        self.advertisements[name] = item
        self._submit(item)

    def unadvertise(self, name: str) -> None:
        del self.advertisements[name]
        self._submit(i.ClientUnadvertised(self.id, name))

    def publish(self, events: Sequence[Event], qos: int = 0) -> None:
        """Publish now. While disconnected, QoS 0 is lost and QoS 1 waits for the next session."""
        if self.connection is None and qos == 0 and self.paused is None:
            return
        if self._unsent and qos == 0:
            return
        first_counter = self.published + 1
        self.published += len(events)
        if qos == 1:
            self.unaccepted.extend(enumerate(events, first_counter))
            if self._unsent:
                self._unsent += len(events)
                return
        item = i.ClientPublished(
            self.id,
            self.world.bodies(events, qos),
            qos,
            first_counter if self.counts else None,
        )
        if self.paused is not None:
            if qos == 0:
                self.paused.extend(enumerate(events, first_counter))
            if self.silent:
                return
        self._submit(item)

    def _submit(self, item: i.Input) -> None:
        if self.connection is not None:
            self.connection.submit(item)

    # What its connections tell it

    def received_batch(self, batch: Batch) -> None:
        self.received += len(batch)
        if self.on_received is not None:
            self.on_received(self, batch)

    def redirected(self, target: str) -> None:
        """Its broker wants it to publish elsewhere, or (being the target itself) here."""
        assert self.connection is not None
        if target != self.broker:
            if self.paused is None:
                self.paused = []
            self.silent = True
            self._said = self.published
            self.connection.submit(i.ClientPaused(self.id))
        elif self.silent and self.paused is not None:
            self.silent = False
            self._say_later()
            waiting, self.paused = self.paused, None
            if self._unsent:
                self._send_next()
                return
            again = [(counter, event, 0) for counter, event in waiting]
            again += [(counter, event, 1) for counter, event in self.unaccepted]
            for counter, event, qos in sorted(again, key=lambda item: item[0]):
                if counter > self._said:
                    self.connection.submit(
                        i.ClientPublished(
                            self.id, self.world.bodies((event,), qos), qos, first_counter=counter
                        )
                    )

    def moved(self, target: str) -> None:
        """Its session is over, and it is expected at `target`."""
        self.came_from, self.broker = self.broker, target
        self.continues = i.Continues.MOVED if self.subscriptions else i.Continues.NOTHING
        if self.paused is None:
            self.paused = []
        self.connect()
        self.world.scheduler.after(self.arrive_s_max, self._give_up, self.connection)

    def attached(self) -> None:
        """It has arrived: what it has sent will be looked at, what was kept for it will come."""
        self.paused = None
        self.came_from = ""
        if self.continues is not i.Continues.NOTHING:
            self.continues = i.Continues.NOTHING
            self._submit(i.ClientArrived(self.id))
        self._say_later()

    def _give_up(self, connection: Connection) -> None:
        """It has not arrived in time: go back."""
        if self.connection is connection and self.came_from:
            connection.submit(i.ClientDisconnected(self.id))
            self._go_back()
            self.connect()

    def _go_back(self) -> None:
        if self.came_from:
            self.broker, self.came_from = self.came_from, ""
            if self.continues is i.Continues.MOVED:
                self.continues = i.Continues.BACK

    def accepted(self) -> None:
        """Some of what it has sent was accepted."""
        if not self.unaccepted:
            self._goes_easy = False
        self._send_next()

    def lost_connection(self, reason: str) -> None:
        """Called when the broker closed the session; try again later."""
        self.connection = None
        self._goes_easy = self._goes_easy or reason == e.OVERLOADED
        self._go_back()
        self.world.scheduler.after(self.reconnect_s, self._reconnect, None)

    def _reconnect(self, _: None) -> None:
        if self.wants_connection and self.connection is None:
            self.connect()


class Connection:
    """One session of a client, from the client's side. One that is left says nothing more."""

    __slots__ = (
        "_acknowledging", "attachment", "broker", "client", "last_sequence", "settled", "unread",
    )  # fmt: skip

    def __init__(self, client: Client) -> None:
        self.client = client
        self.last_sequence = 0
        self.unread = 0
        """Deliveries at QoS 1 not acknowledged yet."""
        self._acknowledging = False
        self.settled: set[str] = set()
        """Names of the subscriptions that must be served."""
        connected = i.ClientConnected(
            client.id,
            client.incarnation,
            client.window,
            client.counts,
            client.attachments if client.counts else 0,
            client.follows,
            client.continues,
        )
        self.broker = client.broker
        self.attachment = client.world.attach(self, connected, client.broker, client.latency_s)

    def submit(self, item: i.Input) -> None:
        self.client.world.submit(self.attachment, self.broker, item)

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
        client.received_batch(batch)

    def _acknowledge(self, _: None) -> None:
        if self.client.connection is self:
            self._acknowledging = False
            self.unread = 0
            self.submit(i.ClientAcknowledged(self.client.id, self.last_sequence))

    def on_accepted(self, count: int) -> None:
        client = self.client
        if client.connection is not self:
            return
        if count > len(client.unaccepted):
            client.violations.append(
                f"{client.id} had {count} publications accepted, "
                f"only {len(client.unaccepted)} are outstanding"
            )
            count = len(client.unaccepted)
        for _ in range(count):
            counter, _event = client.unaccepted.popleft()
            if client.on_accepted is not None:
                client.on_accepted(client, counter)
        client.accepted()

    def on_settled(self, effect: e.SubscriptionSettled | e.AdvertisementSettled) -> None:
        if isinstance(effect, e.SubscriptionSettled):
            self.settled.add(effect.name)

    def on_redirected(self, target: str) -> None:
        if self.client.connection is self:
            self.client.redirected(target)

    def on_moved(self, target: str) -> None:
        if self.client.connection is self:
            self.client.moved(target)

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
        if self.client.connection is self and not self.client.silent:
            self.submit(answer)

    def on_attached(self, _: None) -> None:
        if self.client.connection is self:
            self.client.attached()

    def on_closed(self, reason: str) -> None:
        if self.client.connection is self:
            self.client.lost_connection(reason)
