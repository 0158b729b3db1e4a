"""What a client of this broker's is owed, and given as fast as it acknowledges.

Numbers deliveries at QoS 1 and keeps them until the client acknowledges; no more than the client's
window is under way, the rest waits, and a client too far behind is closed. At QoS 0 nothing is
kept: what a congested client cannot take is dropped and counted.

It need not have a connection: that of a subscriber that is to come, or was sent elsewhere, holds
what is for it (`Outbound`).
"""

from __future__ import annotations

from typing import Final

from gravitate.broker.interface.effects import ToClient
from gravitate.broker.links.tail import Tail
from gravitate.broker.lives import Lives
from gravitate.broker.measure import COMPACT_BYTES_MIN
from gravitate.broker.options import BrokerOptions
from gravitate.broker.sessions.backlog import Kept
from gravitate.broker.sessions.elsewhere import Outlet, ServedAt
from gravitate.broker.sessions.outbound import Outbound
from gravitate.broker.sessions.states import Owed
from gravitate.model.events import Batch


class _Nobody:
    """Where there is no connection."""

    connection = 0

    def say(self, word: ToClient, /) -> None: ...

    def hand_over(self, to: LocalOutbound, batch: Batch, qos: int, sequence: int, /) -> None:
        raise AssertionError(f"{to.id} has no connection")


NOBODY: Final = _Nobody()


class LocalOutbound(Outbound):
    """`window` is how much the client takes unacknowledged."""

    def __init__(
        self,
        id: str,
        incarnation: int,
        window: int,
        options: BrokerOptions,
        lives: Lives,
        outlet: Outlet,
        at: ServedAt,
        state: Owed = Owed.CONNECTED,
    ) -> None:
        super().__init__(id, incarnation, options, lives, state)
        self.connect(outlet)
        self.at = at
        """Takes what the client asks for."""
        self.congested = False
        self.indirect = self.holding
        self._window = window
        self._window_bytes = options.session_window_bytes_max
        self._tail: Tail[tuple[Batch, int]] = Tail()
        """What has been given at QoS 1, each with the bytes given until then."""
        self._given_bytes = 0
        self._acknowledged_bytes = 0
        self.waiting = self._queue()
        """Batches that go out once the client has acknowledged others, with their QoS."""
        self.kept = self._queue()

    @property
    def place(self) -> str | None:
        """The broker that serves the client; None: this one, and nobody stands for it."""
        return self.at.place(self)

    def enter(self, state: Owed) -> None:
        super().enter(state)
        self.indirect = self.holding or bool(self.waiting)

    def say(self, word: ToClient) -> None:
        self._outlet.say(word)

    def connect(self, outlet: Outlet) -> None:
        self._outlet, self.connection = outlet, outlet.connection

    def detach(self) -> None:
        """Its client is sent elsewhere, and told nothing any more."""
        self.enter(Owed.DETACHED)
        self.connect(NOBODY)

    def renew(self, window: int, outlet: Outlet) -> None:
        """A client connects that this goes on for; it holds until the client says that it has
        arrived."""
        assert self.drained()
        self.enter(Owed.CLAIMED if self.state is Owed.STAGED else Owed.RESUMING)
        self.connect(outlet)
        self._window = window
        self._tail = Tail()
        self._given_bytes = self._acknowledged_bytes = 0
        self.congested = False
        self.unconfirmed = set(self.subscriptions)

    # Giving --------------------------------------------------------------------------------

    def offer(self, batch: Batch, qos: int) -> bool:
        if not self.indirect:
            if qos == 0:
                self._outlet.hand_over(self, batch, 0, 0)
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
        sequence = self._tail.push((batch, given), len(batch.counters))
        self._outlet.hand_over(self, batch, 1, sequence)

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
            batch, rest = batch.select(range(room)), batch.select(range(room, len(batch)))
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
                self._outlet.hand_over(self, batch, 0, 0)
                continue
            rest = self._give_some(batch)
            if rest is not None:
                waiting.put_back(rest, qos)
                return
        self.indirect = self.holding

    # Holding -------------------------------------------------------------------------------

    def released(self) -> list[tuple[Batch, int]]:
        self.enter(Owed.CONNECTED)
        return self.kept.take_all()

    def drained(self) -> bool:
        return not len(self._tail) and not self.waiting

    def owed_events(self) -> int:
        return self.waiting.measure.events + self.kept.measure.events

    def _queue(self) -> Kept:
        options = self._options
        return Kept(options.session_queue_events_max, options.session_queue_bytes_max)
