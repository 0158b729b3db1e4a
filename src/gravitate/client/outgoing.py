"""Publications that a client may have to send again, and their numbers.

Every publication has a counter, consecutive over the life of the client. From the first
publication of QoS 1 that is not acknowledged on, all of them are kept, those of QoS 0 too: after a
reconnect they are sent again under the same counters, and the network recognises what it has seen
already. A client on its way to another broker *holds*: everything is kept, whatever its quality,
until it is known to have arrived. Knows neither sockets nor time, nor what is published.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Generic, TypeVar

from gravitate.errors import LocalProtocolError
from gravitate.wire.mqtt.emit import PACKET_IDS, packet_id

B = TypeVar("B")


class Publication(Generic[B]):
    """One publication under way; `body` is whatever a driver writes."""

    __slots__ = ("body", "counter", "is_done", "packet_id", "size")

    def __init__(self, body: B, counter: int, packet_id: int, size: int) -> None:
        self.body = body
        self.counter = counter
        self.packet_id = packet_id
        """0 at QoS 0."""
        self.size = size
        self.is_done = packet_id == 0
        """Whether it need not be sent again for its own sake."""


class Outgoing(Generic[B]):
    """The tail of publications, oldest first; it starts with one that is not done."""

    def __init__(self) -> None:
        self.next_counter = 1
        self.unacknowledged = 0
        self.holding = False
        self.bytes = 0
        """Of all that is kept."""
        self._next_sequence = 1
        self._tail: deque[Publication[B]] = deque()
        self._unwritten: list[Publication[B]] = []
        self._by_packet_id: dict[int, Publication[B]] = {}
        self.asked: dict[int, tuple[str, str]] = {}
        """Requests that are not answered, by packet id: they share them (MQTT 5, 2.2.1)."""

    def __len__(self) -> int:
        return len(self._tail)

    def __iter__(self) -> Iterator[Publication[B]]:
        return iter(self._tail)

    @property
    def first_counter(self) -> int:
        """The counter of what is sent first on a new connection."""
        return self._tail[0].counter if self._tail else self.next_counter

    def next_packet_id(self) -> int:
        """One that no publication under way and no request has."""
        if len(self._by_packet_id) + len(self.asked) >= PACKET_IDS:
            raise LocalProtocolError(f"the broker has not answered {PACKET_IDS} packets")
        number = packet_id(self._next_sequence)
        while number in self._by_packet_id or number in self.asked:
            self._next_sequence += 1
            number = packet_id(self._next_sequence)
        return number

    def add(self, body: B, qos: int, size: int) -> Publication[B]:
        """Something is to be published; at QoS 1 under `next_packet_id`."""
        one = Publication(body, self.next_counter, self.next_packet_id() if qos else 0, size)
        self.next_counter += 1
        if qos:
            self._next_sequence += 1
            self._by_packet_id[one.packet_id] = one
            self.unacknowledged += 1
        one.is_done = not qos and not self.holding
        if self._tail or not one.is_done:
            self._tail.append(one)
            self.bytes += size
        self._unwritten.append(one)
        return one

    def due(self) -> list[Publication[B]]:
        """What is to be written now, in order."""
        due, self._unwritten = self._unwritten, []
        return due

    def renew(self) -> None:
        """There is a new connection: all that is kept is to be written on it."""
        self._unwritten = list(self._tail)

    def hold(self) -> None:
        """From now on publications of QoS 0 are not forgotten once they are written."""
        self.holding = True

    def release(self) -> None:
        """What was written is where it belongs."""
        self.holding = False
        for one in self._tail:
            if not one.packet_id:
                one.is_done = True
        self._forget()

    def acknowledge(self, number: int) -> Publication[B] | None:
        """The broker has a publication of QoS 1; None when it was not under way."""
        one = self._by_packet_id.pop(number, None)
        if one is None:
            return None
        one.is_done = True
        self.unacknowledged -= 1
        self._forget()
        return one

    def _forget(self) -> None:
        tail = self._tail
        while tail and tail[0].is_done:
            self.bytes -= tail.popleft().size
