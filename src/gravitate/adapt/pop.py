"""POP in the brokers: publications traced at random, profile tables, requests that find their way.

A publisher's first broker tags publications with probability `1 - T / N`, where `T` of at most `N`
have been tagged in the current window; the mark of a batch is the counter of the tagged one. Every
broker answers a tagged publication to where it came from, once it has the answers of everybody it
sent it to, with the number of subscribers at and behind it (TRM). From these it keeps a *profile*
of the publisher: a running average for each neighbour and for its own subscribers. After enough
of them the first broker sends a relocation request (RRM) towards most subscribers
(`plan.placement.pop`); the broker where it ends sends its path back (RAM).

Deviations from the paper: at most one publication of a batch is tagged. A publication that was not
sent to a neighbour counts 0 there, so that a profile tells deliveries and not how many subscribers
there are beside the rare publication. A broker sees only the publications that come to it; a
request therefore tells how many subscribers its sender knows ahead, and the receiver brings its
own profile to that measure.

Reference: Cheung and Jacobsen, "Publisher Placement Algorithms in Content-based
Publish/Subscribe", ICDCS 2010, section III.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Mapping
from typing import ClassVar, Final

import msgspec

from gravitate.adapt.damping import DampingParameters
from gravitate.adapt.movers import MoverSettings, PublisherMoved, PublisherMover
from gravitate.adapt.tracer import Gathering, Gatherings, Trace
from gravitate.broker.mechanisms.mechanism import Post
from gravitate.broker.observers import Matched
from gravitate.errors import PeerError
from gravitate.model.events import Batch
from gravitate.model.moves import Rationale
from gravitate.plan.placement.pop import Hop, PopParameters, next_hop


class PopSettings(MoverSettings, PopParameters, frozen=True, forbid_unknown_fields=True):
    """What a network file may say below `[mechanisms.pop]`."""

    answer_s_max: float = 10.0
    """How long a broker waits for the trace results of its neighbours, and the first broker for
    the answer to a request."""
    profile_s_max: float = 600.0
    """How long a profile is kept that nothing is added to."""
    confirmations: int = DampingParameters().confirmations
    pause_s: float = DampingParameters().pause_s
    """See `damping`."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check("answer_s_max", "profile_s_max")


class TraceResult(msgspec.Struct, frozen=True, tag="trm"):
    """How many subscribers at and behind the sender a publication came to."""

    trace: Trace
    subscribers: int


class NoResult(msgspec.Struct, frozen=True, tag="void"):
    """The sender cannot tell what became of a publication."""

    trace: Trace


class RelocationRequest(msgspec.Struct, frozen=True, tag="rrm"):
    """A publisher looks for the broker closest to its subscribers."""

    publisher: str
    incarnation: int
    path: tuple[str, ...]
    """The brokers asked so far, the publisher's own first."""
    behind: float
    """Subscribers at and behind the sender, as the receiver sees it."""
    ahead: float
    """Subscribers at and behind the receiver, as the sender knows."""


class RelocationAnswer(msgspec.Struct, frozen=True, tag="ram"):
    """The way to the broker closest to a publisher's subscribers. Goes back along it, from the
    last broker of `path` to the first; `found` says whether the last one is that broker."""

    publisher: str
    incarnation: int
    path: tuple[str, ...]
    found: bool


UNROUTED_S_MAX: Final = 6.0
"""How long a publication that was tagged may wait to be routed."""


class _Publisher:
    """What the first broker keeps of a publisher."""

    __slots__ = (
        "first", "incarnation", "outstanding", "tagged", "traced", "window_ends",
    )  # fmt: skip

    def __init__(self, batch: Batch) -> None:
        self.incarnation = batch.incarnation
        self.first = batch.counters[0]
        """What was tagged before this belongs to a time that has been forgotten."""
        self.window_ends = -math.inf
        self.tagged = 0
        """In this window."""
        self.traced = 0
        """Since the last selection."""
        self.outstanding: set[int] = set()
        """Tagged publications without a result yet."""


class Profile:
    """Average numbers of subscribers that a publisher's publications come to."""

    __slots__ = ("downstream", "incarnation", "local", "until", "upstream")

    def __init__(self, incarnation: int, upstream: str | None) -> None:
        self.incarnation = incarnation
        self.upstream = upstream
        self.downstream: dict[str, float] = {}
        self.local: float | None = None
        self.until = 0.0

    def add(self, local: int, parts: Mapping[str, int], newest_weight: float) -> None:
        """One more publication; a neighbour it was not sent to counts 0."""
        weight = 1.0 if self.local is None else newest_weight
        self.local = (1 - weight) * (self.local or 0.0) + weight * local
        for peer in {**self.downstream, **parts}:
            before = self.downstream.get(peer, 0.0)
            self.downstream[peer] = (1 - weight) * before + weight * parts.get(peer, 0)

    def counts(self, request: RelocationRequest | None = None) -> tuple[dict[str, float], float]:
        """Subscribers behind each neighbour and at this broker, in the measure of a request."""
        local = self.local or 0.0
        if request is None:
            return self.downstream, local
        counted = {near: n for near, n in self.downstream.items() if near != request.path[-1]}
        total = local + math.fsum(counted.values())
        scale = request.ahead / total if total else 0.0
        return {near: scale * count for near, count in counted.items()}, scale * local


class Pop(PublisherMover):
    name: ClassVar[str] = "pop"
    messages = TraceResult | NoResult | RelocationRequest | RelocationAnswer | PublisherMoved

    def __init__(self, settings: PopSettings | None = None) -> None:
        self._settings = settings = settings or PopSettings()
        super().__init__(settings.damping())
        self._publishers: dict[str, _Publisher] = {}
        self._tagged_until: dict[str, float] = {}
        """Those of them that something was tagged of: how long it is waited for. It may never be
        routed here, where its publisher is attached elsewhere before it is."""
        """Of this broker."""
        self._asked_until: dict[str, float] = {}
        """Those of them for which a request is under way: when it is given up, soonest first."""
        self._profiles: dict[str, Profile] = {}
        """The one that was added to last stands last."""
        self._gatherings: Gatherings[int] = Gatherings(
            settings.answer_s_max, self._complete, self._void
        )

    def attach(self, post: Post, now: float) -> None:
        super().attach(post, now)
        self._chance = random.Random(f"pop/{post.broker_id}").random

    # Tracing -------------------------------------------------------------------------------

    def mark(self, batch: Batch, now: float) -> int:
        settings = self._settings
        publisher = self._publishers.get(batch.publisher)
        if publisher is None or publisher.incarnation != batch.incarnation:
            if not self.may_trace(batch.publisher, now):
                return 0
            self._asked_until.pop(batch.publisher, None)
            publisher = self._publishers[batch.publisher] = _Publisher(batch)
        if publisher.traced >= settings.traces_min:
            return 0  # A selection is due, or under way.
        if now >= publisher.window_ends:
            publisher.window_ends = now + settings.window_s
            publisher.tagged = 0
        for counter in batch.counters:
            if self._chance() < 1 - publisher.tagged / settings.traced_max:
                publisher.tagged += 1
                # A publication that enters again after a fault is traced once.
                publisher.traced += counter not in publisher.outstanding
                publisher.outstanding.add(counter)
                self._tagged_until.pop(batch.publisher, None)
                wait_s = UNROUTED_S_MAX + settings.answer_s_max
                self._tagged_until[batch.publisher] = now + wait_s
                self.watch_time()
                return counter
        return 0

    def on_hop(self, hop: Matched, now: float) -> None:
        _, came_from, batch, local, links = hop
        mark = batch.trace_mark
        if not mark or mark not in batch.counters:
            return
        at = batch.counters.index(mark)
        trace = Trace(batch.publisher, batch.incarnation, mark)
        self._gatherings.open(trace, came_from, len(local[at]), links[at], now)
        self.watch_time()

    def _complete(self, trace: Trace, gathering: Gathering[int], now: float) -> None:
        upstream = gathering.upstream
        self._add(trace, gathering, now)
        if upstream is not None:
            total = gathering.own + sum(gathering.parts.values())
            self.send(upstream, TraceResult(trace, total))
            return
        publisher = self._traced(trace)
        if publisher is not None:
            publisher.outstanding.discard(trace.mark)
            self._may_select(trace.publisher, publisher, now)

    def _void(self, trace: Trace, gathering: Gathering[int], now: float) -> None:
        if gathering.upstream is not None:
            self.send(gathering.upstream, NoResult(trace))
            return
        publisher = self._traced(trace)
        if publisher is not None:
            publisher.outstanding.discard(trace.mark)
            publisher.traced -= 1

    def _traced(self, trace: Trace) -> _Publisher | None:
        """The publisher of this broker for which a publication was tagged."""
        publisher = self._publishers.get(trace.publisher)
        if publisher is None or publisher.incarnation != trace.incarnation:
            return None
        return publisher if publisher.first <= trace.mark else None

    def _add(self, trace: Trace, gathering: Gathering[int], now: float) -> None:
        profile = self._profiles.pop(trace.publisher, None)
        if profile is None or (profile.incarnation, profile.upstream) != (
            trace.incarnation,
            gathering.upstream,
        ):
            profile = Profile(trace.incarnation, gathering.upstream)
        self._profiles[trace.publisher] = profile
        profile.add(gathering.own, gathering.parts, self._settings.newest_weight)
        profile.until = now + self._settings.profile_s_max
        self.watch_time()

    # Selection -----------------------------------------------------------------------------

    def _may_select(self, id: str, publisher: _Publisher, now: float) -> None:
        if publisher.traced < self._settings.traces_min or publisher.outstanding:
            return
        downstream, local = self._profiles[id].counts()
        hop = next_hop(downstream, local)
        if hop is None:
            publisher.traced = 0
            self._found_target(id, (self.post.broker_id,), now)
            return
        self._asked_until.pop(id, None)
        self._asked_until[id] = now + self._settings.answer_s_max
        self._ask(hop, id, publisher.incarnation, (), downstream[hop.neighbour])
        self.watch_time()

    def _ask(
        self, hop: Hop, publisher: str, incarnation: int, asked: tuple[str, ...], ahead: float
    ) -> None:
        path = (*asked, self.post.broker_id)
        self.send(hop.neighbour, RelocationRequest(publisher, incarnation, path, hop.behind, ahead))

    def heard(
        self,
        peer: str,
        message: TraceResult | NoResult | RelocationRequest | RelocationAnswer,
        now: float,
    ) -> None:
        match message:
            case TraceResult(trace, subscribers):
                self._gatherings.answered(trace, peer, subscribers, now)
            case NoResult(trace):
                self._gatherings.refused(trace, peer, now)
            case RelocationRequest():
                self._requested(peer, message)
            case RelocationAnswer():
                self._found(peer, message, now)

    def _requested(self, peer: str, request: RelocationRequest) -> None:
        here, path = self.post.broker_id, request.path
        if not path or path[-1] != peer or here in path:
            raise PeerError("wrong-path", f"a request along {path} from {peer}")
        profile = self._profiles.get(request.publisher)
        if profile is None or (profile.incarnation, profile.upstream) != (
            request.incarnation,
            peer,
        ):
            self._answer(request, found=False)
            return
        downstream, local = profile.counts(request)
        hop = next_hop(downstream, local, peer, request.behind)
        if hop is None:
            self._answer(request, found=True)
        else:
            ahead = downstream[hop.neighbour]
            self._ask(hop, request.publisher, request.incarnation, path, ahead)

    def _answer(self, request: RelocationRequest, found: bool) -> None:
        path = (*request.path, self.post.broker_id)
        answer = RelocationAnswer(request.publisher, request.incarnation, path, found)
        self.send(request.path[-1], answer)

    def _found(self, peer: str, answer: RelocationAnswer, now: float) -> None:
        here, path = self.post.broker_id, answer.path
        place = path.index(here) if here in path[:-1] else -1
        if place < 0 or path[place + 1] != peer:
            raise PeerError("wrong-path", f"an answer along {path} from {peer}")
        if place:
            if path[place - 1] in self.post.neighbours():
                self.send(path[place - 1], answer)
            return
        publisher = self._publishers.get(answer.publisher)
        if (
            publisher is None
            or publisher.incarnation != answer.incarnation
            or answer.publisher not in self._asked_until
        ):
            return
        del self._asked_until[answer.publisher]
        publisher.traced = 0
        if answer.found:
            self._found_target(answer.publisher, path, now)

    def _found_target(self, publisher: str, path: tuple[str, ...], now: float) -> None:
        profile = self._profiles.get(publisher)
        if profile is None:
            return
        downstream, local = profile.counts()

        def why(target: str) -> Rationale:
            ahead = downstream.get(path[1], 0.0)
            rest = local + math.fsum(downstream.values()) - ahead
            return Rationale(
                f"POP: {ahead:.1f} subscribers a publication towards {path[1]}, "
                f"{rest:.1f} everywhere else",
                gain=ahead - rest,
                figures={"subscribers_ahead": ahead, "subscribers_elsewhere": rest},
            )

        self.selected(publisher, path, why, now)

    # What ends -----------------------------------------------------------------------------

    def forget(self, publisher: str) -> None:
        self._publishers.pop(publisher, None)
        self._tagged_until.pop(publisher, None)
        self._asked_until.pop(publisher, None)
        self._profiles.pop(publisher, None)
        self._gatherings.forget(publisher)

    def lost(self, peer: str, now: float) -> None:
        for publisher, profile in list(self._profiles.items()):
            if profile.upstream == peer:
                del self._profiles[publisher]
            else:
                profile.downstream.pop(peer, None)
        self._gatherings.lost(peer, now)

    def expire(self, now: float) -> None:
        self._gatherings.expire(now)
        for id in [id for id, until in self._tagged_until.items() if until <= now]:
            del self._tagged_until[id]
            publisher = self._publishers[id]
            publisher.traced -= len(publisher.outstanding)
            publisher.outstanding.clear()
        for id in [id for id, profile in self._profiles.items() if profile.until <= now]:
            del self._profiles[id]
        for id in self._publishers.keys() - self._profiles.keys():
            if not self._publishers[id].outstanding:
                del self._publishers[id]
                self._tagged_until.pop(id, None)
                self._asked_until.pop(id, None)
        for id in [id for id, until in self._asked_until.items() if until <= now]:
            del self._asked_until[id]
            self._publishers[id].traced = 0

    def deadlines(self) -> Iterable[float | None]:
        yield self._gatherings.next_at()
        yield next(iter(self._tagged_until.values()), None)
        yield next((profile.until for profile in self._profiles.values()), None)
        yield next(iter(self._asked_until.values()), None)

    def is_idle(self) -> bool:
        return super().is_idle() and not (
            self._publishers or self._asked_until or self._profiles or self._gatherings
        )
