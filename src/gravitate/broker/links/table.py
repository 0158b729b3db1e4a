"""Links to neighbours, and what goes over them: messages arrive once and in order.

A link holds what has been sent and not acknowledged (`tail`), what has been received (a number)
and the connection of the moment.

What was received is acknowledged, and the peer need not keep it; but for what was *retained*: it is
for somebody else to have, and until that one does, the peer is asked to keep it too. Whoever waits
for others to have something waits for its receipt alone, so nobody waits for himself.

A link that is being emptied for a stop (`draining`) takes no data, except from a neighbour that
is draining too and has the smaller id: one of two has to.

Owns sequencing and acknowledgement. Does not know what messages mean, nor how connections come and
go (`peering`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from gravitate.broker.context import Context
from gravitate.broker.interface.effects import Send
from gravitate.broker.links.link import Link, LinkEvents, LinkState, Mark
from gravitate.broker.links.tail import Tail
from gravitate.broker.measure import COMPACT_BYTES_MIN, Measure
from gravitate.broker.messages.frames import Acknowledge, Data, Draining, Message, Publications
from gravitate.broker.messages.parcels import framed, publications, weight_bytes
from gravitate.broker.messages.tether import Deliveries, HandedOver
from gravitate.errors import PeerError

QUEUED: Final = (Publications, HandedOver, Deliveries)
"""Messages that count by their events."""


class LinkTable:
    def __init__(
        self, context: Context, links: Iterable[tuple[str, bool]], told: LinkEvents
    ) -> None:
        self._context = context
        self._emit = context.emit
        self._options = context.options
        self._frame_max = (context.options.frame_events_max, context.options.frame_bytes_max)
        self._told = told
        self._deliver = told.message
        self._links = {peer: Link(peer, dials, is_primary=True) for peer, dials in sorted(links)}
        self.get = self._links.get
        self.touched: dict[str, Link] = {}
        """Links with something to send or acknowledge. Emptied by `flush`."""
        self.draining = False
        self._current: Link | None = None
        """Whose message is being handled."""
        self.brought: Mark | None = None
        """By what something was brought that is handled instead, having waited."""
        self.queued = Measure()
        """Unacknowledged events on all links."""

    def __getitem__(self, peer: str) -> Link:
        return self._links[peer]

    def __contains__(self, peer: str) -> bool:
        return peer in self._links

    def __iter__(self) -> Iterator[Link]:
        return iter(self._links.values())

    def neighbours(self) -> list[str]:
        """Brokers with a primary link to this one, sorted."""
        return [link.peer for link in self._links.values() if link.is_primary]

    def is_neighbour(self, peer: str) -> bool:
        link = self._links.get(peer)
        return link is not None and link.is_primary

    def is_up(self, peer: str) -> bool:
        return peer in self._links and self._links[peer].state is LinkState.UP

    def add(self, peer: str) -> Link:
        """A link for tethers. The smaller id dials, so that two that make it at once make one."""
        link = self._links[peer] = Link(peer, self._context.broker_id < peer, is_primary=False)
        return link

    def remove(self, link: Link) -> None:
        """End a link; what is under way on it is forgotten."""
        self.empty(link)
        del self._links[link.peer]
        self.touched.pop(link.peer, None)

    # What is sent --------------------------------------------------------------------------

    def send(self, peer: str, message: Message) -> None:
        """Queue a message; it goes out with the next flush, or when the link is back."""
        link = self._links[peer]
        if link.given_up:
            return
        parts: Iterable[Message] = (message,)
        if type(message) is not Publications:
            if link.starts_anew:
                return
        elif link.state is not LinkState.UP or link.queued.size_bytes > COMPACT_BYTES_MIN:
            # It is kept for long: what else its buffers hold is left behind.
            parts = publications([batch.compacted() for batch in message.batches], *self._frame_max)
        elif len(message.batches) != 1 or len(message.batches[0].counters) > self._frame_max[0]:
            parts = publications(message.batches, *self._frame_max)
        for part in parts:
            link.tail.push(part)
            self._count(link, part, 1)
        self.touched[peer] = link
        if link.state is LinkState.DOWN:
            self.forget_overflow(link)

    def forget_overflow(self, link: Link) -> None:
        """When too much is to be said on a link that is down, it is forgotten, publications apart:
        the reset that follows says everything anew."""
        if link.control_bytes > self._options.link_control_bytes_max:
            for message in link.tail:
                if type(message) is not Publications:
                    self._count(link, message, -1)
            link.tail.retain(lambda message: type(message) is Publications)
            link.starts_anew = True

    def flush(self) -> None:
        """All that is queued goes out, in as few frames as hold it; acknowledgements ride along."""
        for link in self.touched.values():
            if link.state is not LinkState.UP:
                continue
            tail, sent = link.tail, link.sent
            if sent < tail.last:
                messages = tail.after(sent)
                parts = (messages,) if len(messages) == 1 else framed(messages, *self._frame_max)
                for part in parts:
                    data = Data(sent + 1, link.received, part, link.retains())
                    self._emit(Send(link.connection, data))
                    sent += len(part)
                link.sent = tail.last
                link.unacknowledged = 0
            elif link.unacknowledged >= self._options.acknowledge_every or self.draining:
                self.say_received(link)
            elif link.unacknowledged and not link.is_timed:
                link.is_timed = True
                at = self._context.now + self._options.acknowledge_after_s
                self._context.set_timer(link.acknowledge_timer, at)
        self.touched.clear()

    def drain(self) -> None:
        """From here on take no more data; acknowledge what was taken."""
        self.draining = True
        for link in self._links.values():
            if link.state is LinkState.UP:
                self._emit(Send(link.connection, Draining()))
                self.touched[link.peer] = link

    def empty(self, link: Link) -> None:
        """Forget what is under way, and count anew: what the peer has had is known no longer."""
        self.queued.events -= link.queued.events
        self.queued.size_bytes -= link.queued.size_bytes
        link.queued = Measure()
        link.control_bytes = link.taken = 0
        link.tail = Tail()
        link.series += 1
        link.retained.clear()
        link.oldest.clear()

    # What is received ----------------------------------------------------------------------

    def take(self, link: Link, data: Data) -> None:
        """Deliver what is new of a frame; `PeerError` when it cannot be meant."""
        self.acknowledge(link, data.acknowledged, data.retained)
        if not self.takes_from(link):
            link.untaken = True
            return
        link.received_before = None
        if data.sequence > link.received + 1:
            raise PeerError("sequence", f"{data.sequence} follows {link.received}")
        known = link.received + 1 - data.sequence
        self._current = link
        try:
            for message in data.messages[known:] if known else data.messages:
                link.received += 1
                link.unacknowledged += 1
                self._deliver(link.peer, message)
        finally:
            self._current = None
        self.touched[link.peer] = link

    def mark(self) -> Mark | None:
        """The message that has brought what is being handled, if one has."""
        if self.brought is not None:
            return self.brought
        link = self._current
        return None if link is None else Mark(link, link.series, link.received)

    def retain(self, mark: Mark | None) -> None:
        """Let the peer keep a message, and what came behind it, until it is let go of as often."""
        if mark is not None and mark.series == mark.link.series:
            mark.link.retain(mark.number)

    def let_go(self, mark: Mark | None) -> None:
        if mark is None or mark.series != mark.link.series or not mark.link.let_go(mark.number):
            return
        mark.link.unacknowledged = max(1, mark.link.unacknowledged)
        self.touched[mark.link.peer] = mark.link

    def takes_from(self, link: Link) -> bool:
        return not self.draining or (link.peer_draining and link.peer < self._context.broker_id)

    def acknowledge(self, link: Link, number: int, retained: int) -> None:
        """The peer has what was sent up to `number`, and would have the last `retained` kept."""
        if number > link.tail.last or not 0 <= retained <= number:
            raise PeerError("sequence", f"{number} was never sent")
        tethers = link.tethers
        if number > link.taken:
            if tethers:
                for message in link.tail.after(link.taken, number):
                    self._told.received(link.peer, message)
            link.taken = number
        for message in link.tail.acknowledge(number - retained):
            self._count(link, message, -1)
            if tethers:
                self._told.done_with(link.peer, message)

    def _count(self, link: Link, message: Message, sign: int) -> None:
        """A message comes into the tail (1), or leaves it (-1)."""
        if not isinstance(message, QUEUED):
            link.control_bytes += sign * weight_bytes(message)
            return
        events = size_bytes = 0
        for batch in message.batches:
            events += len(batch.counters)
            size_bytes += batch.bodies.size_bytes()
        for measure in (link.queued, self.queued):
            measure.events += sign * events
            measure.size_bytes += sign * size_bytes
        if link.crossing is not None and sign > 0:
            link.crossing.update((b.stream, None) for b in message.batches)

    def say_received(self, link: Link) -> None:
        """Acknowledge what has not been."""
        if link.unacknowledged:
            link.unacknowledged = 0
            self._emit(Send(link.connection, Acknowledge(link.received, link.retains())))
