"""Links to neighbours: connections come and go, messages arrive once and in order.

A link holds what has been sent and not acknowledged (`tail`), what has been received (a number)
and the connection of the moment. Every connection begins with `Hello` in both directions:

    DOWN --opened--> GREETING --hello--> UP
      ^------------------closed------------'

When both sides remember each other's incarnation they *resume*: the tail is sent again from
where the other side is. Otherwise the link is *reset*: numbers start at 1, control messages are
dropped because everything is said anew, publications stay, behind what is said anew.

What was received is acknowledged, and the peer need not keep it; but for what was *retained*: it is
for somebody else to have, and until that one does, the peer is asked to keep it too. Whoever waits
for others to have something waits for its receipt alone, so nobody waits for himself.

A link that is being emptied for a stop (`draining`) takes no data, except from a neighbour that
is draining too and has the smaller id: one of two has to.

Owns sequencing, acknowledgement, resumption, heartbeat. Does not know what messages mean.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final

from gravitate.broker.interface.effects import CloseLink, Effect, OpenLink, Send, Warn
from gravitate.broker.interface.timers import (
    AcknowledgeLink,
    GraceOver,
    Heartbeat,
    LinkAbsent,
    LinkTimer,
    RetryLink,
)
from gravitate.broker.links.link import Link, LinkState, Mark, Role
from gravitate.broker.links.tail import Tail
from gravitate.broker.measure import COMPACT_BYTES_MIN, Measure
from gravitate.broker.messages.frames import (
    PROTOCOL_VERSION,
    UNKNOWN_BROKER,
    WRONG_BROKER,
    WRONG_NETWORK,
    WRONG_VERSION,
    Acknowledge,
    Data,
    Draining,
    Frame,
    Hello,
    Message,
    Ping,
    Pong,
    Publications,
    Refusal,
)
from gravitate.broker.messages.guests import Deliveries
from gravitate.broker.messages.parcels import framed, publications, weight_bytes
from gravitate.broker.options import BrokerOptions
from gravitate.errors import PeerError
from gravitate.model.events import Batch

SILENT_BEATS: Final = 2.5
"""A peer that nothing comes from for so many heartbeats is cut."""
LOOK_AGAIN_S: Final = 0.2
"""But not before it has been looked at once more: who was paused itself has not read yet."""
ABSENT_AFTER_S: Final = 0.5
"""A link that is down for longer is not waited for by those who need not."""
COMPLAIN_EVERY_S: Final = 60.0


class LinkTable:
    """All links of a broker. `emit` takes effects, `deliver` each message received, in order."""

    def __init__(
        self,
        broker_id: str,
        incarnation: int,
        links: Iterable[tuple[str, bool]],
        options: BrokerOptions,
        emit: Callable[[Effect], None],
        set_timer: Callable[[LinkTimer, float], None],
        deliver: Callable[[str, Message], None],
        changed: Callable[[str, str], None],
        collect: Callable[[], None],
        keep: Callable[[str, Publications], Publications],
        received: Callable[[str, Message], None],
        taken: Callable[[str, Message], None],
    ) -> None:
        self._broker_id = broker_id
        self._incarnation = incarnation
        self._options = options
        self._emit = emit
        self._set_timer = set_timer
        self._deliver = deliver
        self._changed = changed
        """Told of `resumed`, `down`, `absent`, `given up`, and of `reset` before anything is sent
        anew."""
        self._collect = collect
        """Brings in what is under way to links in this call, before a reset divides old and new."""
        self._keep = keep
        """Makes publications fit for a neighbour that has forgotten everything."""
        self._received = received
        """Told of every message that a broker at the other end of a tether has received."""
        self._taken = taken
        """Told of every message that it need not have again: it has passed on what was in it."""
        self._links = {peer: Link(peer, dials) for peer, dials in sorted(links)}
        self.touched: dict[str, Link] = {}
        """Links with something to send or acknowledge. Emptied by `flush`."""
        self.draining = False
        self._resets = 0
        """Of all links so far."""
        self._current: Link | None = None
        """Whose message is being handled."""
        self.brought: Mark | None = None
        """By what something was brought that is handled instead, having waited."""
        self.queued = Measure()
        """Unacknowledged events on all links."""
        self.refused_again = 0
        """How often a peer has refused what it had refused before."""

    def __getitem__(self, peer: str) -> Link:
        return self._links[peer]

    def __contains__(self, peer: str) -> bool:
        return peer in self._links

    def __iter__(self) -> Iterator[Link]:
        return iter(self._links.values())

    def neighbours(self) -> list[str]:
        """Brokers with a primary link to this one, sorted."""
        return [link.peer for link in self._links.values() if Role.PRIMARY in link.roles]

    def is_neighbour(self, peer: str) -> bool:
        link = self._links.get(peer)
        return link is not None and Role.PRIMARY in link.roles

    def is_up(self, peer: str) -> bool:
        link = self._links.get(peer)
        return link is not None and link.state is LinkState.UP

    def add(self, peer: str, role: Role, now: float) -> None:
        """Use the link to `peer` for `role` too; one that does not exist is made, and the broker
        with the smaller id dials, so that two that make it at once make one."""
        link = self._links.get(peer)
        if link is not None:
            link.roles.add(role)
            return
        link = self._links[peer] = Link(peer, self._broker_id < peer, role)
        self._expect(link, now)
        if link.dials:
            self._emit(OpenLink(peer))

    def release(self, peer: str, role: Role) -> None:
        """The link is no longer used for `role`; one without a role ends, and what is under way
        on it is forgotten."""
        link = self._links[peer]
        link.roles.discard(role)
        if link.roles:
            return
        self._collect()
        if link.state is not LinkState.DOWN:
            self._emit(CloseLink(peer, link.connection, "no longer needed"))
            self._down(link, None)
        self._empty(link)
        del self._links[peer]
        self.touched.pop(peer, None)

    def start(self, now: float) -> None:
        for link in self._links.values():
            if link.dials:
                self._emit(OpenLink(link.peer))
            self._expect(link, now)

    def send(self, peer: str, message: Message) -> None:
        """Queue a message; it goes out with the next flush, or when the link is back."""
        link = self._links[peer]
        if link.given_up:
            return
        if type(message) is Publications:
            keeps_up = link.state is LinkState.UP and link.queued.size_bytes <= COMPACT_BYTES_MIN
            if (
                keeps_up
                and len(message.batches) == 1
                and len(message.batches[0].counters) <= self._options.frame_events_max
            ):
                link.tail.push(message)
                self._count(link, message, 1)
            else:
                self._send_parts(link, message.batches, keeps_up)
        elif link.starts_anew:
            return
        else:
            link.tail.push(message)
            self._count(link, message, 1)
            self._forget_overflow(link)
        self.touched[peer] = link

    def _send_parts(self, link: Link, batches: list[Batch], keeps_up: bool) -> None:
        """Queue batches in messages that fit into frames. What is queued on a link that does not
        keep up is kept for long, so what else its buffers hold is left behind; what was handed over
        to be published is known elsewhere as it is."""
        if not keeps_up:
            batches = [b if b.tether is not None else b.compacted() for b in batches]
        options = self._options
        for part in publications(batches, options.frame_events_max, options.frame_bytes_max):
            link.tail.push(part)
            self._count(link, part, 1)

    def _forget_overflow(self, link: Link) -> None:
        """When too much is to be said on a link that is down, it is forgotten, publications apart:
        the reset that follows says everything anew."""
        too_much = link.control_bytes > self._options.link_control_bytes_max
        if too_much and link.state is LinkState.DOWN:
            for message in link.tail:
                if type(message) is not Publications:
                    self._count(link, message, -1)
            link.tail.retain(lambda message: type(message) is Publications)
            link.starts_anew = True

    def flush(self, now: float) -> None:
        """Everything queued goes out, in one frame a link unless it is long; acknowledgements
        ride along."""
        for link in self.touched.values():
            if link.state is not LinkState.UP:
                continue
            tail, sent = link.tail, link.sent
            if sent < tail.last:
                messages = tail.after(sent)
                for part in (messages,) if len(messages) == 1 else self._framed(messages):
                    data = Data(sent + 1, link.received, part, link.retains())
                    self._emit(Send(link.peer, link.connection, data))
                    sent += len(part)
                link.sent = tail.last
                link.unacknowledged = 0
            elif link.unacknowledged >= self._options.acknowledge_every or self.draining:
                self._acknowledge(link)
            elif link.unacknowledged and not link.is_timed:
                link.is_timed = True
                at = now + self._options.acknowledge_after_s
                self._set_timer(link.acknowledge_timer, at)
        self.touched.clear()

    def _framed(self, messages: list[Message]) -> Iterator[list[Message]]:
        return framed(messages, self._options.frame_events_max, self._options.frame_bytes_max)

    def emptied(self) -> bool:
        """No publication that was sent is unacknowledged; whoever comes back is told the rest
        anew."""
        return not any(link.queued.events for link in self._links.values())

    def drain(self) -> None:
        """From here on take no more data; acknowledge what was taken."""
        self.draining = True
        for link in self._links.values():
            if link.state is LinkState.UP:
                self._emit(Send(link.peer, link.connection, Draining()))
                self.touched[link.peer] = link

    # Inputs --------------------------------------------------------------------------------

    def opened(self, peer: str, connection: int, now: float) -> None:
        link = self._links.get(peer)
        if link is None:
            reason = (
                f"{peer} is no neighbour of {self._broker_id}, and no tether with it is expected"
            )
            self._emit(Send(peer, connection, Refusal(UNKNOWN_BROKER, reason)))
            self._emit(CloseLink(peer, connection, reason))
            return
        if link.state is not LinkState.DOWN:
            self._emit(CloseLink(peer, link.connection, "replaced by a newer connection"))
            self._down(link, now)
        link.state = LinkState.GREETING
        link.connection = connection
        link.heard_at = link.pinged_at = now
        link.is_doubted = False
        self._emit(Send(peer, connection, self._hello(link)))
        self._beat(link, now)

    def closed(self, peer: str, connection: int, now: float) -> None:
        link = self._links.get(peer)
        if link is None or (connection and connection != link.connection):
            return
        if link.state is not LinkState.DOWN:
            self._down(link, now)
        self._retry(link, now)

    def heard(self, peer: str, connection: int, now: float) -> None:
        """The peer is there, though it takes long over what it says."""
        link = self._links.get(peer)
        if link is not None and connection == link.connection:
            link.heard_at = now

    def received(self, peer: str, connection: int, frame: Frame, now: float) -> None:
        link = self._links.get(peer)
        if link is None or connection != link.connection or link.state is LinkState.DOWN:
            return
        link.heard_at = now
        match frame:
            case Data() if link.state is LinkState.UP:
                self._data(link, frame, now)
            case Acknowledge() if link.state is LinkState.UP:
                self._acknowledged(link, frame.acknowledged, frame.retained, now)
            case Hello() if link.state is LinkState.GREETING:
                self._greeted(link, frame, now)
            case Ping():
                self._emit(Send(peer, connection, Pong(frame.sent_at)))
            case Pong():
                sample = now - frame.sent_at
                link.rtt_s = 0.875 * link.rtt_s + 0.125 * sample if link.rtt_s else sample
            case Draining():
                link.peer_draining = True
                if link.untaken and self._takes_from(link):
                    # What was not taken before that was known is sent again on a new connection.
                    self._close(link, "both sides stop", now)
            case Refusal():
                self._refused(link, frame, now)
                self._close(link, f"refused by {peer}: {frame.name}: {frame.reason}", now)
            case _:
                self._refuse(link, "unexpected-frame", type(frame).__name__, now)

    def on_timer(self, timer: LinkTimer, now: float) -> None:
        peer = timer.peer
        link = self._links.get(peer)
        if link is None:
            return
        match timer:
            case AcknowledgeLink():
                link.is_timed = False
                if link.unacknowledged and link.state is LinkState.UP:
                    self._acknowledge(link)
            case RetryLink():
                if link.state is LinkState.DOWN and link.dials:
                    self._emit(OpenLink(peer))
            case Heartbeat():
                self._heartbeat(link, now)
            # These timers were set anew at every loss, so the link has not been up since.
            case LinkAbsent():
                if link.state is not LinkState.UP:
                    link.is_absent = True
                    self._changed(peer, "absent")
            case GraceOver():
                if link.state is LinkState.GREETING:
                    # It has said what it counts by, so that does not change now.
                    self._set_timer(timer, now + LOOK_AGAIN_S)
                elif link.state is LinkState.DOWN:
                    self._give_up(link)

    # Connection ----------------------------------------------------------------------------

    def _hello(self, link: Link) -> Hello:
        received, series = link.has_received()
        return Hello(
            self._options.network,
            self._broker_id,
            self._incarnation,
            link.peer_incarnation,
            received,
            retained=link.retains(),
            series=link.series,
            received_series=series,
            anew=link.starts_anew,
        )

    def _greeted(self, link: Link, hello: Hello, now: float) -> None:
        network = self._options.network
        if hello.version != PROTOCOL_VERSION:
            reason = f"version {hello.version}; {PROTOCOL_VERSION} is spoken here"
            self._refuse(link, WRONG_VERSION, reason, now)
        elif hello.network != network:
            reason = f"network {hello.network!r}; this is {network!r}"
            self._refuse(link, WRONG_NETWORK, reason, now)
        elif hello.broker != link.peer:
            reason = f"broker {hello.broker!r} on the link of {link.peer!r}"
            self._refuse(link, WRONG_BROKER, reason, now)
        else:
            self._meet(link, hello, now)

    def _meet(self, link: Link, hello: Hello, now: float) -> None:
        """Two brokers that may be linked begin to talk."""
        link.state = LinkState.UP
        link.has_been_up = True
        knows = hello.remembers == self._incarnation and hello.received_series == link.series
        _, series = link.has_received()
        is_known = (hello.incarnation, hello.series) == (link.peer_incarnation, series)
        resumes = knows and is_known and not (hello.anew or link.starts_anew)
        if knows:
            # One that starts anew has what it has received: it is not sent again.
            self._acknowledged(link, hello.received, hello.retained if resumes else 0, now)
            if link.state is not LinkState.UP:
                return
        link.attempts = 0
        link.given_up = link.starts_anew = link.is_absent = False
        link.peer_draining = link.untaken = False
        if resumes:
            link.sent = hello.received
            self._changed(link.peer, "resumed")
        else:
            self._reset(link, hello)
        if self.draining:
            self._emit(Send(link.peer, link.connection, Draining()))
        self.touched[link.peer] = link

    def _reset(self, link: Link, hello: Hello) -> None:
        self._collect()
        kept = [message for message in link.tail if type(message) is Publications]
        is_same = hello.incarnation == link.peer_incarnation
        link.received_before = link.has_received() if is_same else None
        link.has_forgotten = bool(link.peer_incarnation) and not is_same
        link.peer_incarnation = hello.incarnation
        link.received, link.received_series = 0, hello.series + 1
        link.series += 1
        link.sent = link.unacknowledged = 0
        self._resets += 1
        link.reset_number = self._resets
        link.retain_nothing()
        self._empty(link)
        self._changed(link.peer, "reset")
        for message in kept:
            fit = self._keep(link.peer, message)
            if fit.batches and link.peer in self._links:
                self.send(link.peer, fit)

    def _down(self, link: Link, now: float | None) -> None:
        """The connection is gone; one that comes back is expected from `now` on."""
        if link.state is LinkState.UP and now is not None:
            self._expect(link, now)
        link.state = LinkState.DOWN
        link.connection = 0
        self._forget_overflow(link)
        self._changed(link.peer, "down")

    def _expect(self, link: Link, now: float) -> None:
        """A link that is not up for a while is absent, after long it is given up."""
        self._set_timer(LinkAbsent(link.peer), now + ABSENT_AFTER_S)
        if self._options.link_grace_s:
            at = now + self._options.link_grace_s
            self._set_timer(GraceOver(link.peer), at)

    def _retry(self, link: Link, now: float) -> None:
        if not link.dials:
            return
        options = self._options
        delay = min(options.retry_s_max, options.retry_s_min * 2 ** min(link.attempts, 16))
        link.attempts += 1
        self._set_timer(RetryLink(link.peer), now + delay)

    def _give_up(self, link: Link) -> None:
        link.given_up = link.starts_anew = True
        # What the peer has had in the numbering so far is known here no longer.
        link.series += 1
        link.retain_nothing()
        self._empty(link)
        self._changed(link.peer, "given up")

    def _empty(self, link: Link) -> None:
        self.queued.events -= link.queued.events
        self.queued.size_bytes -= link.queued.size_bytes
        link.queued = Measure()
        link.control_bytes = link.taken = 0
        link.tail = Tail()

    def _refuse(self, link: Link, name: str, reason: str, now: float) -> None:
        self._emit(Send(link.peer, link.connection, Refusal(name, reason)))
        self._close(link, f"{name}: {reason}", now)

    def _refused(self, link: Link, refusal: Refusal, now: float) -> None:
        """The peer does not take something. If it is the same as before, it never will."""
        if link.state is not LinkState.UP or not len(link.tail):
            return
        first = (link.series, link.tail.acknowledged + 1)
        if link.refused_first != first:
            link.refused_first = first
            return
        self.refused_again += 1
        if link.complained_at is None or now >= link.complained_at + COMPLAIN_EVERY_S:
            link.complained_at = now
            text = (
                f"{link.peer} refuses message {first[1]} again ({refusal.name}: {refusal.reason}); "
                f"{link.queued.events} events wait behind it"
            )
            self._emit(Warn(link.peer, text, is_error=True))

    def _close(self, link: Link, reason: str, now: float) -> None:
        self._emit(CloseLink(link.peer, link.connection, reason))
        self.closed(link.peer, link.connection, now)

    # Data ----------------------------------------------------------------------------------

    def _data(self, link: Link, data: Data, now: float) -> None:
        self._acknowledged(link, data.acknowledged, data.retained, now)
        if link.state is not LinkState.UP:
            return
        if not self._takes_from(link):
            link.untaken = True
            return
        link.received_before = None
        if data.sequence > link.received + 1:
            self._refuse(link, "sequence", f"{data.sequence} follows {link.received}", now)
            return
        known = link.received + 1 - data.sequence
        self._current = link
        for message in data.messages[known:] if known else data.messages:
            link.received += 1
            link.unacknowledged += 1
            try:
                self._deliver(link.peer, message)
            except PeerError as error:
                self._current = None
                self._refuse(link, error.name, str(error), now)
                return
        self._current = None
        self.touched[link.peer] = link

    def mark(self) -> Mark | None:
        """The message that has brought what is being handled, if one has."""
        if self.brought is not None:
            return self.brought
        link = self._current
        return None if link is None else Mark(link.peer, link.reset_number, link.received)

    def retain(self, mark: Mark | None) -> None:
        """Let the peer keep a message, and what came behind it, until it is let go of as often."""
        link = self._marked(mark)
        if mark is not None and link is not None:
            link.retain(mark.number)

    def let_go(self, mark: Mark | None) -> None:
        link = self._marked(mark)
        if mark is not None and link is not None and link.let_go(mark.number):
            link.unacknowledged = max(1, link.unacknowledged)
            self.touched[link.peer] = link

    def _marked(self, mark: Mark | None) -> Link | None:
        if mark is None:
            return None
        link = self._links.get(mark.peer)
        return link if link is not None and link.reset_number == mark.reset_number else None

    def _takes_from(self, link: Link) -> bool:
        return not self.draining or (link.peer_draining and link.peer < self._broker_id)

    def _acknowledged(self, link: Link, number: int, retained: int, now: float) -> None:
        if number > link.tail.last or not 0 <= retained <= number:
            self._refuse(link, "sequence", f"{number} was never sent", now)
            return
        tethers = Role.TETHER in link.roles
        if number > link.taken:
            if tethers:
                for message in link.tail.between(link.taken, number):
                    self._received(link.peer, message)
            link.taken = number
        for message in link.tail.acknowledge(number - retained):
            self._count(link, message, -1)
            if tethers:
                self._taken(link.peer, message)

    def _count(self, link: Link, message: Message, sign: int) -> None:
        """A message comes into the tail (1), or leaves it (-1)."""
        if not isinstance(message, Publications | Deliveries):
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

    def _acknowledge(self, link: Link) -> None:
        if link.unacknowledged:
            link.unacknowledged = 0
            acknowledge = Acknowledge(link.received, link.retains())
            self._emit(Send(link.peer, link.connection, acknowledge))

    # Heartbeat -----------------------------------------------------------------------------

    def _beat(self, link: Link, now: float) -> None:
        """Look at the link again when a ping is due, or when it has been silent for too long."""
        every_s = self._options.heartbeat_s
        if every_s:
            at = min(link.pinged_at + every_s, link.heard_at + SILENT_BEATS * every_s)
            self._set_timer(Heartbeat(link.peer), max(at, now))

    def _heartbeat(self, link: Link, now: float) -> None:
        if link.state is LinkState.DOWN:
            return
        every_s = self._options.heartbeat_s
        if now >= link.heard_at + SILENT_BEATS * every_s:
            if link.is_doubted:
                self._close(link, f"silent for {now - link.heard_at:.1f} s", now)
                return
            link.is_doubted = True
            self._set_timer(Heartbeat(link.peer), now + LOOK_AGAIN_S)
            return
        link.is_doubted = False
        if now >= link.pinged_at + every_s:
            link.pinged_at = now
            if link.state is LinkState.UP:
                self._emit(Send(link.peer, link.connection, Ping(now)))
        self._beat(link, now)
