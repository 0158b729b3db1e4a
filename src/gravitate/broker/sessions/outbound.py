"""What a client is owed, whether it is connected here or elsewhere, or not at all.

One that *holds* keeps what is for its client, in order: for a subscriber that is to come, or that
was sent elsewhere. How a client is given what is for it differs: the far end of a tether hands it
over to the broker of the client, `LocalOutbound` gives it to a client of this broker's, as fast as
that acknowledges. It numbers deliveries at QoS 1 and keeps them until then; no more than the
client's window is under way, the rest waits, and a client too far behind is closed. At QoS 0
nothing is kept: what a congested client cannot take is dropped and counted.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from typing import Protocol

from gravitate.broker.context import Context
from gravitate.broker.forwarding.pipeline import Dispatch
from gravitate.broker.forwarding.receiver import Receiver, Subscription
from gravitate.broker.interface.effects import Tell, ToClient
from gravitate.broker.links.table import LinkTable
from gravitate.broker.links.tail import Tail
from gravitate.broker.lives import Life
from gravitate.broker.measure import COMPACT_BYTES_MIN
from gravitate.broker.messages.guests import Wanted
from gravitate.broker.routing.settlement import NOWHERE, Open
from gravitate.broker.sessions.backlog import Kept, Seen
from gravitate.broker.sessions.states import GIVING, OWED, UNOBSERVED, Owed
from gravitate.model.events import Batch


class Outbound(Receiver):
    """One subscriber that is served here. What `links` bring for it is retained while it is kept
    for a client of another broker's."""

    origin: str | None = None
    """The broker that its client is connected to; None: this one, without a tether."""

    def __init__(
        self, id: str, incarnation: int, context: Context, state: Owed, links: LinkTable | None
    ) -> None:
        super().__init__(id, context.options, context.lives)
        self.incarnation = incarnation
        self.state = OWED.enter(None, state)
        self.kept = Kept(context.options, links)
        """What is held."""
        self.waiting = Kept(context.options, links)
        """What goes out once the client has acknowledged others, or is with its broker soon."""
        self.subscriptions: dict[str, Subscription[Outbound]] = {}
        self.series = ""
        """Part of the names of its subscriptions, where other guests of the same client may be."""
        self.unsettled_subscriptions: set[str] = set()
        """Names of those that have not settled yet."""
        self.unconfirmed: set[str] = set()
        """Names of subscriptions brought from elsewhere, which the client has not said again."""
        self.missing: Open = NOWHERE
        """While it holds: only what has passed one of these brokers, if there are any."""

    def enter(self, state: Owed) -> None:
        self.state = OWED.enter(self.state, state)

    def end(self) -> None:
        """It is served here no more, or will not be."""
        if self.state not in OWED.ends:
            self.enter(Owed.ENDED if self.observed else Owed.DROPPED)

    @property
    def holding(self) -> bool:
        return self.state not in GIVING

    @property
    def observed(self) -> bool:
        """Whether observers know of it: not of a guest before its client has arrived."""
        return self.state not in UNOBSERVED

    def may_forget(self) -> bool:
        return self.state is Owed.CONNECTED

    def seen(self) -> Seen:
        """The last counter of each publisher that the client has been given, or is kept for it."""
        return tuple((*life, last) for life, last in self._seen.items())

    @abstractmethod
    def say(self, effect: ToClient) -> None:
        """Tell the client."""

    @abstractmethod
    def drained(self) -> bool:
        """Whether the client has all that was not kept."""

    # Holding -------------------------------------------------------------------------------

    def cut(self, seen: Seen, backlog: Iterable[tuple[Batch, int]], version: int) -> None:
        """The client has had everything up to `seen` elsewhere, but for the backlog, which was
        matched by what it wanted as of `version`."""
        assert self.holding
        self.kept.cut(seen, backlog)
        for id, incarnation, last in seen:
            self.note_seen((id, incarnation), last)

    def wait_for(self, life: Life) -> None:
        """A publisher is attached elsewhere now: something earlier of it may be missing."""

    def matched_by(self, version: int) -> None:
        """What is kept counts as matched by what the client wanted then."""

    def discard(self) -> None:
        """What is kept is for nobody any more."""
        for queue in (self.kept, self.waiting):
            queue.take()


class ServedAt(Protocol):
    """Takes what clients do as subscribers: this broker's own subscriptions, or whoever stands for
    them while a client stays connected here and is served elsewhere."""

    def place(self, outbound: LocalOutbound) -> str | None:
        """The broker that serves it, or is about to; None: this one, and nobody stands for it."""

    def subscribe(self, outbound: LocalOutbound, wanted: Wanted) -> None: ...

    def unsubscribe(self, outbound: LocalOutbound, name: str) -> None: ...

    def close(self, outbound: LocalOutbound) -> None:
        """The client is gone."""


class LocalOutbound(Outbound):
    """That of a client of this broker's, which takes `window` events unacknowledged. Without a
    `connection` it is that of one that is to come, or was sent elsewhere."""

    def __init__(
        self,
        id: str,
        incarnation: int,
        window: int,
        connection: int,
        context: Context,
        dispatch: Dispatch,
        at: ServedAt,
        state: Owed = Owed.CONNECTED,
    ) -> None:
        super().__init__(id, incarnation, context, state, None)
        self._emit, self._hand_over = context.emit, dispatch.hand_over
        self.at = at
        """Takes what the client asks for."""
        self.indirect = self.holding
        self._window_bytes = self._options.session_window_bytes_max
        self._begin(window, connection)

    def _begin(self, window: int, connection: int) -> None:
        self.connection = connection
        self._window = window
        self._tail: Tail[tuple[Batch, int]] = Tail()
        """What has been given at QoS 1, each with the bytes given until then."""
        self._given_bytes = self._acknowledged_bytes = 0

    @property
    def place(self) -> str | None:
        return self.at.place(self)

    def enter(self, state: Owed) -> None:
        super().enter(state)
        self.indirect = self.holding or bool(self.waiting)

    def say(self, word: ToClient) -> None:
        if self.connection:
            self._emit(Tell(self.connection, word))

    def renew(self, window: int, connection: int) -> None:
        """A client connects and goes on with this; it holds until the client says it is here."""
        assert self.drained()
        self.enter(Owed.CLAIMED if self.state is Owed.STAGED else Owed.RESUMING)
        self._begin(window, connection)
        self.congested = False
        self.unconfirmed = set(self.subscriptions)

    # Giving --------------------------------------------------------------------------------

    def offer(self, batch: Batch, qos: int) -> bool:
        if not self.indirect:
            if qos == 0:
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
        sequence = self._tail.push((batch, given), len(batch.counters))
        self._hand_over(self, batch, 1, sequence)

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
        """How many of the events the client may be given now, by its window and by their bytes."""
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
        self.indirect = self.holding

    def released(self) -> list[tuple[Batch, int]]:
        self.enter(Owed.CONNECTED)
        return [(batch, qos) for batch, qos, _ in self.kept.take()]

    def drained(self) -> bool:
        return not len(self._tail) and not self.waiting
