"""Publications that a client may have to send again, and their numbers.

Every publication has a counter, consecutive over the life of the client. From the first
publication of QoS 1 that is not acknowledged on, all of them are kept, those of QoS 0 too: after a
reconnect they are sent again under the same counters, and the network recognises what it has seen
already. A client on its way to another broker *holds*: everything is kept, whatever its quality,
until it is known to have arrived. Pure: knows neither sockets nor time.
"""

from __future__ import annotations

import asyncio
from collections import deque

from gravitate.model.events import EventId
from gravitate.wire.mqtt.emit import packet_id

Outcome = asyncio.Future[EventId]


class Sent:
    """One publication under way."""

    __slots__ = ("acknowledged", "counter", "frame", "outcome", "packet_id")

    def __init__(self, counter: int, frame: bytes, packet_id: int, outcome: Outcome | None) -> None:
        self.counter = counter
        self.frame = frame
        self.packet_id = packet_id
        self.outcome = outcome
        self.acknowledged = packet_id == 0


class Outgoing:
    """The tail of publications, oldest first; it starts with one that is not acknowledged."""

    def __init__(self) -> None:
        self.next_counter = 1
        self.unacknowledged = 0
        self.holding = False
        self.bytes = 0
        """Of all that is kept."""
        self._next_sequence = 1
        self._tail: deque[Sent] = deque()
        self._by_packet_id: dict[int, Sent] = {}

    def __len__(self) -> int:
        return len(self._tail)

    @property
    def first_counter(self) -> int:
        """The counter of what is sent first on a new connection."""
        return self._tail[0].counter if self._tail else self.next_counter

    def next_packet_id(self) -> int:
        return packet_id(self._next_sequence)

    def sent(self, frame: bytes, qos: int, outcome: Outcome | None) -> int:
        """A publication goes out; its counter. At QoS 1 the frame has `next_packet_id`."""
        counter = self.next_counter
        self.next_counter += 1
        if qos:
            one = Sent(counter, frame, self.next_packet_id(), outcome)
            self._next_sequence += 1
            self._by_packet_id[one.packet_id] = one
            self._keep(one)
            self.unacknowledged += 1
        elif self._tail or self.holding:
            one = Sent(counter, frame, 0, None)
            one.acknowledged = not self.holding
            self._keep(one)
        return counter

    def _keep(self, one: Sent) -> None:
        self._tail.append(one)
        self.bytes += len(one.frame)

    def hold(self) -> None:
        """From now on publications of QoS 0 are not forgotten once they are written."""
        self.holding = True

    def release(self) -> None:
        """What was written is where it belongs."""
        self.holding = False
        for one in self._tail:
            if not one.packet_id:
                one.acknowledged = True
        self._forget()

    def acknowledge(self, number: int) -> Sent | None:
        """The broker has a publication of QoS 1; None when it was not under way."""
        one = self._by_packet_id.pop(number, None)
        if one is None:
            return None
        one.acknowledged = True
        self.unacknowledged -= 1
        self._forget()
        return one

    def _forget(self) -> None:
        tail = self._tail
        while tail and tail[0].acknowledged:
            self.bytes -= len(tail.popleft().frame)

    def frames(self, after: int = 0) -> list[bytes]:
        """What is to be sent (again), in order, behind the publication with counter `after`."""
        return [one.frame for one in self._tail if one.counter > after]

    def outcomes(self) -> list[Outcome]:
        """Those who wait for an acknowledgement."""
        return [one.outcome for one in self._tail if one.outcome and not one.outcome.done()]
