"""The way of an event through one broker: matched, planned, sent on, delivered.

Works on batches. Events of a batch that have the same destinations travel together; a neighbour
or session that gets several such groups gets them merged back into counter order.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Final

from gravitate.broker.context import Context
from gravitate.broker.forwarding.destinations import Destinations, Plan
from gravitate.broker.forwarding.receiver import Receiver
from gravitate.broker.interface.effects import Deliver
from gravitate.broker.links.table import LinkTable
from gravitate.broker.measure import Measure
from gravitate.broker.messages.frames import Carrying, Control, Publications
from gravitate.broker.observers import Matched
from gravitate.broker.routing.router import Router
from gravitate.model.events import Batch

RECENT_EVENTS_MAX: Final = 10_000
RECENT_BYTES_MAX: Final = 8 * 1024 * 1024
RECENT_S_MAX: Final = 40.0
"""How long neighbours are waited for that may remind this broker of something."""


class Dispatch:
    def __init__(
        self, context: Context, router: Router, destinations: Destinations, links: LinkTable
    ) -> None:
        self._context = context
        self._router = router
        self._destinations = destinations
        self._links = links
        self.outgoing: dict[str, list[Batch]] = {}
        """Batches for neighbours, of this call. A control message does not overtake them."""
        self.overloaded: dict[Receiver, None] = {}
        """Sessions that have fallen too far behind in this call."""
        self.recent: Recent | None = Recent()
        """What has come so far; None: that is not needed any more."""
        self.passed_on: set[str] | None = None
        """Notes whom something is passed on to, while somebody wants to know."""
        self.events_in = self.events_forwarded = self.events_delivered = 0
        self.events_dropped = 0
        """At QoS 0, because a client was too slow."""
        self.events_overflowed = 0
        """That waited for clients which were closed because it was too much."""

    # To neighbours -------------------------------------------------------------------------

    def send_control(self, peer: str, message: Control | Carrying) -> None:
        """Queue a message behind the publications that precede it."""
        if peer in self.outgoing:
            self._links.send(peer, Publications(self.outgoing.pop(peer)))
        self._links.send(peer, message)

    def flush(self) -> None:
        """Queue the publications of this call on their links."""
        for peer, batches in self.outgoing.items():
            self._links.send(peer, Publications(batches))
        self.outgoing.clear()

    # Routing -------------------------------------------------------------------------------

    def route(self, batch: Batch, came_from: str | None) -> None:
        """Match a batch and pass it on; `came_from` is the neighbour that sent it, if any."""
        self.events_in += len(batch.counters)
        answers = self._router.route(batch, came_from)
        first = answers[0]
        plan = None
        if len(answers) == 1 or answers.count(first) == len(answers):
            plan = self._destinations.plan(first, came_from)
        if self._context.observers:
            plans = [plan or self._destinations.plan(one, came_from) for one in answers]
            self._observe_hop(batch, came_from, plans)
        onward = batch.stepped(self._context.broker_id)
        if self.recent is not None:
            self.recent.note(onward)
        if plan is not None:
            for peer in plan.hops:
                self._forward(peer, onward)
            self._deliver_to_all(plan.sessions, onward)
        else:
            self._route_groups(onward, came_from, answers)

    def _route_groups(
        self, batch: Batch, came_from: str | None, answers: Sequence[tuple[int, ...]]
    ) -> None:
        """`route` for events that go different ways."""
        indices: dict[tuple[int, ...], list[int]] = {}
        for index, answer in enumerate(answers):
            indices.setdefault(answer, []).append(index)
        by_hop: dict[str, list[tuple[int, ...]]] = {}
        by_session: dict[Receiver, list[tuple[tuple[int, ...], int]]] = {}
        for answer in indices:
            plan = self._destinations.plan(answer, came_from)
            for peer in plan.hops:
                by_hop.setdefault(peer, []).append(answer)
            for session, qos, no_local in plan.sessions:
                if not (no_local and session.id == batch.publisher):
                    by_session.setdefault(session, []).append((answer, qos))
        parts = _Parts(batch, indices)
        for peer, groups in by_hop.items():
            self._forward(peer, parts.merged(tuple(groups)))
        for session, wanted in by_session.items():
            for part, qos in parts.by_qos(wanted):
                self.deliver(session, part, qos)

    def _forward(self, peer: str, batch: Batch) -> None:
        self.events_forwarded += len(batch.counters)
        if self.passed_on is not None:
            self.passed_on.add(peer)
        waiting = self.outgoing.get(peer)
        if waiting is None:
            self.outgoing[peer] = [batch]
        else:
            waiting.append(batch)

    def _deliver_to_all(self, sessions: Iterable[tuple[Receiver, int, bool]], batch: Batch) -> None:
        """Deliver to many sessions; what they have in common is found out once."""
        publisher = batch.stream
        first, last = batch.counters[0], batch.counters[-1]
        batch_qos = batch.qos
        for session, qos, no_local in sessions:
            if no_local and session.id == batch.publisher:
                continue
            if not session.saw(publisher, first, last):
                self.deliver(session, batch, qos)
            elif (qos and batch_qos) or session.congested or session.indirect:
                self._offer(session, batch, qos)
            else:
                self.hand_over(session, batch, 0, 0)

    def deliver(self, session: Receiver, batch: Batch, qos_asked: int) -> None:
        """What a client has not been given before of a batch goes to its session."""
        fresh = session.fresh(batch)
        if fresh is not batch:
            self._dropped(session, len(batch) - (len(fresh) if fresh else 0), "duplicate")
            if fresh is None:
                return
        self._offer(session, fresh, qos_asked)

    def _offer(self, session: Receiver, fresh: Batch, qos_asked: int) -> None:
        qos = qos_asked if qos_asked < fresh.qos else fresh.qos
        if qos == 0 and session.congested and not session.holding:
            self.events_dropped += len(fresh)
            self._dropped(session, len(fresh), "congested")
        elif not session.offer(fresh, qos):
            self.overloaded[session] = None
            self.events_overflowed += len(fresh)

    def release(self, session: Receiver) -> None:
        """A session that held goes on with what it has kept."""
        for batch, qos in session.released():
            self._offer(session, batch, qos)

    def hand_over(self, session: Receiver, batch: Batch, qos: int, sequence: int) -> None:
        """What a session lets through goes to its client. It counts as delivered by the broker that
        has matched it, the last on its path, though that may have handed it over to this one."""
        self.events_delivered += len(batch.counters)
        context = self._context
        context.effects.append(Deliver(session.connection, batch, qos, sequence))
        if context.observers:
            for observer in context.observers:
                observer.on_delivered(batch.covered[-1], session.id, batch, qos, context.now)

    # Observation ---------------------------------------------------------------------------

    def _observe_hop(self, batch: Batch, came_from: str | None, plans: Sequence[Plan]) -> None:
        context = self._context
        local, links = [one.session_ids for one in plans], [one.hops for one in plans]
        hop = Matched(context.broker_id, came_from, batch, local, links)
        for observer in context.observers:
            observer.on_hop(hop, context.now)

    def _dropped(self, session: Receiver, count: int, reason: str) -> None:
        context = self._context
        for observer in context.observers:
            observer.on_dropped(context.broker_id, session.id, count, reason, context.now)


class Recent:
    """What has come since a broker started, until its neighbours have said what it has forgotten.

    A broker that was killed is reminded by its neighbours of whom it served for others
    (`deposits`). One that was away at the same time cannot, and may be heard before those who can:
    so what comes meanwhile is remembered, and given to whom it was for when they are known. Beyond
    the bounds the oldest is forgotten; and all of it when every neighbour has been heard, or some
    have not for long."""

    def __init__(self) -> None:
        self._batches: deque[Batch] = deque()
        self._measure = Measure()

    def __iter__(self) -> Iterator[Batch]:
        return iter(self._batches)

    def note(self, batch: Batch) -> None:
        batch = batch.compacted()
        self._batches.append(batch)
        self._measure.add(batch.bodies)
        while self._measure.exceeds(RECENT_EVENTS_MAX, RECENT_BYTES_MAX):
            self._measure.take(self._batches.popleft().bodies)


class _Parts:
    """Parts of a batch by groups of events, each made once."""

    def __init__(self, batch: Batch, indices: dict[tuple[int, ...], list[int]]) -> None:
        self._batch = batch
        self._indices = indices
        self._made: dict[tuple[tuple[int, ...], ...], Batch] = {}

    def merged(self, groups: tuple[tuple[int, ...], ...]) -> Batch:
        """The events of several groups in their order."""
        part = self._made.get(groups)
        if part is None:
            if len(groups) == 1:
                indices = self._indices[groups[0]]
            else:
                indices = sorted(i for group in groups for i in self._indices[group])
            part = self._made[groups] = self._batch.select(indices)
        return part

    def by_qos(self, wanted: list[tuple[tuple[int, ...], int]]) -> list[tuple[Batch, int]]:
        """The events of several groups in their order, cut where the quality asked changes."""
        if len({qos for _, qos in wanted}) == 1:
            return [(self.merged(tuple(group for group, _ in wanted)), wanted[0][1])]
        asked = sorted((i, qos) for group, qos in wanted for i in self._indices[group])
        runs = groupby(asked, itemgetter(1))
        return [(self._batch.select([i for i, _ in run]), qos) for qos, run in runs]
