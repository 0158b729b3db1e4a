"""GRAPE in the brokers: trace sessions, their retrieval, and the choice at the first broker.

A publisher's first broker marks consecutive publications with the counter of the first of them.
Every broker that such a publication comes to keeps a *sighting*: which of them local subscribers
got, as bits counted from the mark, how many deliveries that made, and the links they went on to.
After the session a request (TIR) follows them down these links, behind the last of them because
links keep order; the answers (TIA) come back joined. `plan.placement.grape` then selects. Where it
is switched on, the publisher first measures its own way to the best candidates; meanwhile no new
session begins, and without an answer the selection is made without it.

Delays: a heartbeat waits in the same queues as publications, so half of its round trip is what one
hop takes, link and broker together. It stands for the link latencies; output queueing to clients
is what sessions make publications wait. Without heartbeats links count nothing.

Deviations from the paper: a session ends with the batch in which it is full; a broker whose
neighbour does not answer says so instead of answering without it, and the session is void. A
publisher too slow to fill a session in time is left where it is. Publishers measure their own
latency to candidates only if they are told to, and to some of them.

Reference: Cheung and Jacobsen, "Publisher Placement Algorithms in Content-based
Publish/Subscribe", ICDCS 2010, section IV.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from typing import ClassVar, Final, NamedTuple

import msgspec

from gravitate.adapt.damping import DampingParameters
from gravitate.adapt.movers import MoverSettings, PublisherMoved, PublisherMover
from gravitate.adapt.tracer import Gathering, Gatherings, Trace
from gravitate.broker.mechanisms.mechanism import Post
from gravitate.broker.observers import Matched
from gravitate.errors import InputError
from gravitate.model.events import Batch
from gravitate.model.moves import Rationale
from gravitate.overlay.tree import path
from gravitate.plan.placement import grape
from gravitate.plan.placement.grape import Answer, Choice, GrapeParameters, Measured

SPAN_MAX: Final = 1 << 16
"""How far the counters of a session may be apart: the longest bit vector anybody keeps."""
ASK: Final = "ask:"
"""Timers of sessions that are full, with the publisher behind."""
PINGED_MAX: Final = 16
"""Candidates that a publisher measures its way to: its broker, and the best by the answers."""
PING_S_MAX: Final = 5.0
"""How long a publisher is waited for that measures."""


class GrapeSettings(MoverSettings, GrapeParameters, frozen=True, forbid_unknown_fields=True):
    """What a network file may say below `[mechanisms.grape]`."""

    session_s_max: float = 600.0
    """A session not full after this long is void, and so is what other brokers hold of it."""
    answer_s_max: float = 10.0
    """How long a broker waits for the answers of its neighbours."""
    pings: bool = False
    """Whether publishers measure their own way to candidates, where the choice depends on delay
    (Algorithm 1). Off, because where clients are close to every broker, as in a data centre, it
    only costs time."""
    confirmations: int = DampingParameters().confirmations
    pause_s: float = DampingParameters().pause_s
    """See `damping`."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check("session_s_max", "answer_s_max")

    def asks_publishers(self) -> bool:
        """Whether a publisher's own way to its broker is wanted and counts."""
        return self.pings and (self.prioritised == "delay" or self.weight_percent < 100)


class TraceRequest(msgspec.Struct, frozen=True, tag="tir"):
    """What has been seen of a session is wanted. Goes down the links that its publications went."""

    trace: Trace


class TraceAnswer(msgspec.Struct, frozen=True, tag="tia"):
    """What the sender, and everybody behind it, has seen of a session."""

    trace: Trace
    answers: list[Answer]


class NoAnswer(msgspec.Struct, frozen=True, tag="void"):
    """The sender, or somebody behind it, cannot tell."""

    trace: Trace


class _Session:
    """A session at the first broker."""

    __slots__ = ("count", "incarnation", "is_full", "last", "mark", "until")

    def __init__(self, batch: Batch, until: float) -> None:
        self.incarnation = batch.incarnation
        self.mark = batch.counters[0]
        self.last = self.mark
        self.count = 0
        self.is_full = False
        self.until = until


class _Measuring(NamedTuple):
    """A selection that waits for its publisher to measure."""

    answers: list[Answer]
    choice: Choice
    """The one without what is measured."""
    until: float


class _Sighting:
    """What one broker has seen of a session."""

    __slots__ = (
        "arrived_s", "bits", "deliveries", "handed_over", "handed_over_s", "links", "trace",
        "until", "upstream",
    )  # fmt: skip

    def __init__(self, trace: Trace, upstream: str | None, until: float) -> None:
        self.trace = trace
        self.upstream = upstream
        self.until = until
        self.bits = 0
        self.deliveries = 0
        self.links: dict[str, None] = {}
        self.arrived_s = 0.0
        """Sum over deliveries: how old publications were when they were matched."""
        self.handed_over = 0
        self.handed_over_s = 0.0
        """Sum over those handed over: how old they were then."""

    def client_queue_s(self) -> float:
        if not (self.deliveries and self.handed_over):
            return 0.0
        matched_s = self.arrived_s / self.deliveries
        return max(0.0, self.handed_over_s / self.handed_over - matched_s)


class Grape(PublisherMover):
    name: ClassVar[str] = "grape"
    messages = TraceRequest | TraceAnswer | NoAnswer | PublisherMoved

    def __init__(self, settings: GrapeSettings | None = None) -> None:
        self._settings = settings = settings or GrapeSettings()
        super().__init__(settings.damping())
        self._sessions: dict[str, _Session] = {}
        """Of publishers of this broker."""
        self._sightings: dict[str, _Sighting] = {}
        """By publisher; oldest first."""
        self._measuring: dict[str, _Measuring] = {}
        """By publisher of this broker; oldest first."""
        self._gatherings: Gatherings[list[Answer]] = Gatherings(
            settings.answer_s_max, self._complete, self._void
        )

    def attach(self, post: Post, now: float) -> None:
        super().attach(post, now)
        grape.warm()

    # Tracing -------------------------------------------------------------------------------

    def may_trace(self, publisher: str, now: float) -> bool:
        return publisher not in self._measuring and super().may_trace(publisher, now)

    def mark(self, batch: Batch, now: float) -> int:
        publisher, last = batch.publisher, batch.counters[-1]
        session = self._sessions.get(publisher)
        if session is not None and session.is_full:
            return 0
        if (
            session is None
            or session.incarnation != batch.incarnation
            or now >= session.until
            or last - session.mark >= SPAN_MAX
        ):
            if last - batch.counters[0] >= SPAN_MAX or not self.may_trace(publisher, now):
                return 0
            self._sessions.pop(publisher, None)
            session = _Session(batch, now + self._settings.session_s_max)
            self._sessions[publisher] = session
        session.count += len(batch.counters)
        session.last = last
        session.is_full = session.count >= self._settings.session_publications
        return session.mark

    def on_hop(self, hop: Matched, now: float) -> None:
        _, came_from, batch, local, links = hop
        mark = batch.trace_mark
        if not mark or not mark <= batch.counters[0] <= batch.counters[-1] < mark + SPAN_MAX:
            return
        publisher = batch.publisher
        sighting = self._sightings.get(publisher)
        trace = Trace(publisher, batch.incarnation, mark)
        if sighting is None or sighting.trace != trace or sighting.upstream != came_from:
            self._sightings.pop(publisher, None)
            # Longer than the session itself: its end must find everything.
            until = now + self._settings.session_s_max + self._settings.answer_s_max
            sighting = self._sightings[publisher] = _Sighting(trace, came_from, until)
            self.watch_time()
        for counter, sessions, peers in zip(batch.counters, local, links, strict=True):
            if sessions:
                sighting.bits |= 1 << (counter - mark)
                sighting.deliveries += len(sessions)
                sighting.arrived_s += len(sessions) * (now - batch.published_at)
            for peer in peers:
                sighting.links[peer] = None
        if came_from is None:
            session = self._sessions.get(publisher)
            if session is not None and session.is_full and session.last <= batch.counters[-1]:
                # The batch itself goes out only after its observation; the request comes behind.
                self.post.set_timer(ASK + publisher, now)

    def on_delivered(self, broker: str, session: str, batch: Batch, qos: int, now: float) -> None:
        if broker == self.post.broker_id:
            self._note_handed_over(batch, now)

    def on_handed_over(self, broker: str, peer: str, batch: Batch, now: float) -> None:
        # What was matched here for a subscriber that is connected elsewhere leaves this broker now.
        if batch.covered:
            self._note_handed_over(batch, now)

    def _note_handed_over(self, batch: Batch, now: float) -> None:
        if batch.trace_mark:
            sighting = self._sightings.get(batch.publisher)
            if sighting is not None and sighting.trace.mark == batch.trace_mark:
                sighting.handed_over += len(batch.counters)
                sighting.handed_over_s += len(batch.counters) * (now - batch.published_at)

    # Retrieval -----------------------------------------------------------------------------

    def on_timer(self, key: str, now: float) -> None:
        if not key.startswith(ASK):
            super().on_timer(key, now)
            return
        publisher = key.removeprefix(ASK)
        session, sighting = self._sessions.get(publisher), self._sightings.get(publisher)
        if session is None or not session.is_full:
            return
        if sighting is None or sighting.trace.mark != session.mark:
            del self._sessions[publisher]
        else:
            self._gather(sighting, now)

    def heard(self, peer: str, message: TraceRequest | TraceAnswer | NoAnswer, now: float) -> None:
        match message:
            case TraceRequest(trace):
                sighting = self._sightings.get(trace.publisher)
                if sighting is None or (sighting.trace, sighting.upstream) != (trace, peer):
                    self.send(peer, NoAnswer(trace))
                else:
                    self._gather(sighting, now)
            case TraceAnswer(trace, answers):
                self._gatherings.answered(trace, peer, answers, now)
            case NoAnswer(trace):
                self._gatherings.refused(trace, peer, now)

    def _gather(self, sighting: _Sighting, now: float) -> None:
        del self._sightings[sighting.trace.publisher]
        neighbours = self.post.neighbours()
        awaited = [peer for peer in neighbours if peer in sighting.links]
        for peer in awaited:
            self.send(peer, TraceRequest(sighting.trace))
        own = [self._own_answer(sighting, neighbours)]
        self._gatherings.open(sighting.trace, sighting.upstream, own, awaited, now)
        self.watch_time()

    def _own_answer(self, sighting: _Sighting, neighbours: list[str]) -> Answer:
        words = -(-sighting.bits.bit_length() // 64)
        round_trips_s = {peer: self.post.rtt_s(peer) for peer in neighbours}
        return Answer.of(
            self.post.broker_id,
            sighting.bits.to_bytes(8 * words, "little"),
            Measured(
                deliveries=sighting.deliveries,
                queue_s=dict.fromkeys(neighbours, 0.0),
                client_queue_s=sighting.client_queue_s(),
                link_s={peer: rtt_s / 2 for peer, rtt_s in round_trips_s.items() if rtt_s},
            ),
        )

    def _complete(self, trace: Trace, gathering: Gathering[list[Answer]], now: float) -> None:
        answers = [
            *gathering.own,
            *(answer for part in gathering.parts.values() for answer in part),
        ]
        if gathering.upstream is not None:
            self.send(gathering.upstream, TraceAnswer(trace, answers))
        elif self._ended(trace):
            self._select(trace.publisher, answers, now)

    def _void(self, trace: Trace, gathering: Gathering[list[Answer]], now: float) -> None:
        if gathering.upstream is not None:
            self.send(gathering.upstream, NoAnswer(trace))
        else:
            self._ended(trace)

    def _ended(self, trace: Trace) -> bool:
        """Whether the session was still this publisher's; it is over."""
        session = self._sessions.get(trace.publisher)
        if session is None or (session.incarnation, session.mark) != (
            trace.incarnation,
            trace.mark,
        ):
            return False
        del self._sessions[trace.publisher]
        return True

    # Selection -----------------------------------------------------------------------------

    def _select(self, publisher: str, answers: list[Answer], now: float) -> None:
        try:
            choice = grape.select(answers, self.post.broker_id, self._settings)
        except InputError:
            return  # Brokers contradict each other while links change: the next session will tell.
        brokers = self._worth_measuring(choice)
        if len(brokers) < 2:
            self._chosen(publisher, answers, choice, now)
            return
        self._measuring[publisher] = _Measuring(answers, choice, now + PING_S_MAX)
        self.post.ping(publisher, brokers)
        self.watch_time()

    def _worth_measuring(self, choice: Choice) -> list[str]:
        """The current broker, and the candidates that are best without measuring."""
        if not self._settings.asks_publishers():
            return []
        by_delay = self._settings.prioritised == "delay"
        ranks = {
            broker: (at.delay_s, at.messages) if by_delay else (at.messages, at.delay_s)
            for broker, at in choice.candidates().items()
            if broker != choice.current
        }
        best = heapq.nsmallest(PINGED_MAX - 1, ranks, key=lambda broker: (ranks[broker], broker))
        return [choice.current, *best]

    def on_pinged(self, publisher: str, round_trips_s: dict[str, float], now: float) -> None:
        measuring = self._measuring.pop(publisher, None)
        if measuring is None:
            return
        answers, choice, _ = measuring
        if round_trips_s:
            one_way_s = {broker: rtt_s / 2 for broker, rtt_s in round_trips_s.items()}
            choice = grape.select(answers, choice.current, self._settings, one_way_s)
        self._chosen(publisher, answers, choice, now)

    def _chosen(self, publisher: str, answers: list[Answer], choice: Choice, now: float) -> None:
        here = choice.current
        known = {answer.broker: answer.neighbours for answer in answers}
        near = {
            broker: [other for other in others if other in known]
            for broker, others in known.items()
        }
        way = path(near, here, choice.target)
        if way is None:
            return  # An answer names other neighbours than it has measured: no broker to go by.
        self.selected(publisher, tuple(way), lambda target: self._why(choice, target), now)

    def _why(self, choice: Choice, target: str) -> Rationale | None:
        candidates = choice.candidates()
        if target not in candidates:
            return None
        before, after = candidates[choice.current], candidates[target]
        settings = self._settings
        by_delay = settings.prioritised == "delay"
        gain = before.delay_s - after.delay_s if by_delay else before.messages - after.messages
        return Rationale(
            f"GRAPE, {settings.prioritised} {settings.weight_percent:g} %: average delay "
            f"{1000 * before.delay_s:.1f} -> {1000 * after.delay_s:.1f} ms, "
            f"{before.messages:g} -> {after.messages:g} messages a session",
            gain=gain,
            figures={
                "delay_s_before": before.delay_s,
                "delay_s_after": after.delay_s,
                "messages_before": before.messages,
                "messages_after": after.messages,
                "candidates": float(len(candidates)),
            },
        )

    # What ends -----------------------------------------------------------------------------

    def forget(self, publisher: str) -> None:
        self._sessions.pop(publisher, None)
        self._sightings.pop(publisher, None)
        self._measuring.pop(publisher, None)
        self._gatherings.forget(publisher)

    def lost(self, peer: str, now: float) -> None:
        for publisher in [p for p, s in self._sightings.items() if s.upstream == peer]:
            del self._sightings[publisher]
        # What the peer and those behind it have answered may be no way to go any more.
        for publisher, measuring in list(self._measuring.items()):
            if any(answer.broker == peer for answer in measuring.answers):
                del self._measuring[publisher]
        self._gatherings.lost(peer, now)

    def expire(self, now: float) -> None:
        self._gatherings.expire(now)
        for publisher in [p for p, s in self._sightings.items() if s.until <= now]:
            del self._sightings[publisher]
        for publisher in [p for p, s in self._sessions.items() if s.until <= now]:
            del self._sessions[publisher]
        for publisher in [p for p, m in self._measuring.items() if m.until <= now]:
            self.on_pinged(publisher, {}, now)

    def deadlines(self) -> Iterable[float | None]:
        yield self._gatherings.next_at()
        yield next((sighting.until for sighting in self._sightings.values()), None)
        yield next((session.until for session in self._sessions.values()), None)
        yield next((measuring.until for measuring in self._measuring.values()), None)

    def is_idle(self) -> bool:
        return super().is_idle() and not (
            self._sessions or self._sightings or self._gatherings or self._measuring
        )
