"""Guests: subscribers that are to be served here and are not yet.

A guest is a session without a connection. It subscribes, in addition to where its subscriber is
served so far, and keeps what comes (READY once all has settled); it is told the *cut*, which is
what the subscriber has had elsewhere, and drops as much (TAKEN); then somebody comes for it: the
client itself, or the broker where the client stays connected (`tether.served`). It is a
guest no longer once that one says that it has arrived (ARRIVED).

One that comes home (`RECALL`) does not wait for those who cannot be reached. It is ready when its
subscriptions have settled wherever somebody can be asked; and if the old place itself cannot, the
broker next to it answers in its stead (`salvage`), but for what comes from behind it: that stays
*missing* (PARTLY). The guest is served then (SERVED), and keeps what has passed a broker that is
missing until the old place is there and has been asked too.

Why READY is enough. It goes to the old place along the tree, over the links that events take. Let X
be the broker where the ways from a publisher to the two places part; X is on the path between
them. An event that the guest does not get has passed X before X knew of the guest, or came here
before the neighbour on that side had settled: either way it has passed X before READY does, and is
ahead of it on the links to the old place. So what the old place has not seen when READY comes, the
guest has or will have; what it has seen is the cut. No second round is needed.

Owns the guests of this broker and what their old places are told. Does not know what old places do
about it (`reassignment`, `tether.served`).

Invariants: a guest has a lease, so that one that nobody comes for ends; nothing that is at or below
the cut, and everything above it, is delivered, in each publisher's order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Final, NamedTuple

import msgspec

from gravitate.broker.context import Context
from gravitate.broker.forwarding.pipeline import Dispatch
from gravitate.broker.lives import Life
from gravitate.broker.messages import guests as m
from gravitate.broker.moves.engine import Engine, Run
from gravitate.broker.moves.guest import HOME, NOTE, TARGET, Guest, Own, Recalled
from gravitate.broker.moves.path import MovePaths
from gravitate.broker.moves.salvage import Salvage
from gravitate.broker.moves.table import Part
from gravitate.broker.routing.settlement import NOWHERE
from gravitate.broker.sessions.outbound import LocalOutbound, Outbound
from gravitate.broker.sessions.states import Owed
from gravitate.broker.sessions.subscriptions import Subscriptions
from gravitate.errors import PeerError

RECALL: Final = "home:"
"""Begins the names of moves by which brokers take subscribers home."""


class GuestPorts(NamedTuple):
    """Who is told how guests come along."""

    on_complete: Callable[[Guest], None]
    """Told of guests that can be claimed."""
    on_answer: Callable[[m.GuestAnswer], None]
    """Told what the new place of a subscriber of this broker's says."""
    on_finished: Callable[[Guest], None]
    """Told of guests that were served while something was missing, and lack nothing now."""
    on_lost: Callable[[Guest], None]
    """Told of guests of whom nothing is known where they were served."""


@dataclass(eq=False)
class Guests:
    """`make_tethered` makes the session of a subscriber whose client stays connected elsewhere."""

    _context: Context
    _engine: Engine
    _dispatch: Dispatch
    _subscriptions: Subscriptions
    _paths: MovePaths
    salvage: Salvage
    _make_tethered: Callable[[m.TakeGuest], Outbound]
    _ports: GuestPorts
    _series: Iterator[int] = field(default_factory=lambda: count(1))

    def __len__(self) -> int:
        return sum(1 for _ in self._engine.under_way(TARGET, HOME))

    # Along the path ------------------------------------------------------------------------

    def handle(self, peer: str, message: m.GuestMessage | m.GuestCut) -> None:
        place = self._paths.place(peer, message.path, isinstance(message, m.GuestAnswer))
        if not isinstance(message, m.GuestAnswer):
            self._pass_on(message, place)
        elif place:
            self._pass_back(message, place)
        else:
            self._ports.on_answer(message)

    def _pass_on(self, message: m.TakeGuest | m.StagingPoll | m.GuestCut, place: int) -> None:
        """Towards the new place of a guest."""
        if place + 1 < len(message.path):
            self._paths.pass_on(message.path[place + 1], message)
        elif isinstance(message, m.TakeGuest):
            self.take(message)
        else:
            self._hear(message)

    def _pass_back(self, answer: m.GuestAnswer, place: int) -> None:
        """Towards the old place of a guest; if that cannot be asked, it is answered for."""
        for cut in self.salvage.pass_back(answer, place):
            self._pass_on(cut, place)

    def _hear(self, message: m.StagingPoll | m.GuestCut) -> None:
        """What the old place says."""
        run = self._engine.run(message.move)
        if run is not None:
            event = Own.CUT_CAME if isinstance(message, m.GuestCut) else Own.POLLED
            self._engine.take(run, event, about=message)
        elif isinstance(message, m.StagingPoll) or not message.more:
            self._say(message.move, message.path, m.GuestStep.GONE, "no guest of that move")

    def recall(
        self, request: m.TakeGuest, attachment: int, served_version: int, has_served: bool
    ) -> None:
        """Subscribe for somebody who is taken home without being asked for, from where it was
        served as of that version, if it has come to be."""
        about = (request, self._session(request), self._context.now)
        self._take(Guest(*about, attachment, served_version, has_served), HOME)

    def take(self, request: m.TakeGuest) -> None:
        """Subscribe for somebody who is to come."""
        if request.move.startswith(RECALL):
            raise PeerError("wrong-move", f"{request.move!r}: nobody is led home")
        if self._engine.run(request.move) is None:
            self._take(Guest(request, self._session(request), self._context.now), TARGET)

    def _session(self, request: m.TakeGuest) -> Outbound:
        if request.origin:
            return self._make_tethered(request)
        about = (request.subscriber, request.incarnation, 0, 0, self._context)
        return LocalOutbound(*about, self._dispatch, self._subscriptions, Owed.STAGED)

    def _take(self, guest: Guest, part: Part) -> None:
        request, session = guest.request, guest.session
        if self._engine.stopping:
            self._answer(guest, m.GuestStep.GONE, f"{self._context.broker_id} is stopping")
            return
        session.series = f"g{next(self._series)}."
        run = self._engine.join(part, self, request.move, session, guest, request.lease_s)
        for wanted in request.subscriptions:
            self._subscriptions.subscribe(session, wanted)
        self._engine.take(run, Own.SAID)

    def on_partly_settled(self, session: Outbound, name: str) -> None:
        run = self._engine.run_of(session)
        if run is not None and isinstance(run.data, Guest):
            run.data.partly.add(name)
            self._engine.take(run, Own.SETTLED)

    def on_settled(self, session: Outbound) -> None:
        self._engine.tell_subject(session, Own.SETTLED)

    def ask_elsewhere(self, guest: Guest) -> None:
        """It was not served by who was asked; who has served it will be."""
        guest.has_served = True
        guest.backlog, guest.parts = [], 0

    def say_ready(self, move: str, path: tuple[str, ...]) -> bool:
        """Ask the old place, the first of the path, if need be; False: there is no such guest."""
        run = self._engine.run(move)
        if run is None:
            return False
        if run.data.request.path != path:
            run.data.request = msgspec.structs.replace(run.data.request, path=path)
        self._engine.take(run, Own.AGAIN)
        return True

    def _answer(self, guest: Guest, step: m.GuestStep, reason: str = "") -> None:
        request = guest.request
        whose: tuple[Any, ...] = ()
        if request.move.startswith(RECALL):
            # Nobody leads it here: the old place is to be told whom it is about.
            wanted = request.subscriptions if step is m.GuestStep.READY else ()
            client = (request.origin, request.number, request.subscriber)
            whose = (*client, wanted, guest.served_version, guest.attachment)
        answer = m.GuestAnswer(request.move, request.path, step, reason, *whose)
        if len(request.path) > 1:
            self._pass_back(answer, len(request.path) - 1)

    def _say(self, move: str, path: tuple[str, ...], step: m.GuestStep, reason: str = "") -> None:
        self._paths.pass_on(path[-2], m.GuestAnswer(move, path, step, reason))

    # Who comes, and who does not -----------------------------------------------------------

    def claim(self, subscriber: str, incarnation: int) -> Outbound | None:
        """What was handed over for a client, which connects here."""
        for run in reversed([*self._engine.under_way(TARGET)]):
            guest: Guest = run.data
            one = guest.request
            is_its = (one.subscriber, one.incarnation, one.origin) == (subscriber, incarnation, "")
            if is_its and self._engine.take(run, Own.CLAIMED):
                return guest.session
        return None

    def claim_tethered(self, origin: str, number: int, move: str) -> Outbound | None:
        """What was handed over for a client of another broker's."""
        run = self._engine.run(move)
        if run is None or not isinstance(run.data, Guest):
            return None
        guest = run.data
        is_its = (guest.request.origin, guest.request.number) == (origin, number)
        return guest.session if is_its and self._engine.take(run, Own.CLAIMED) else None

    def arrived(self, session: Outbound) -> bool:
        """Whether a session was a guest's; it is served here from now on."""
        return self._engine.tell_subject(session, Own.ARRIVED)

    def left(self, session: Outbound) -> bool:
        """Whether a session was a guest's; who had come for it is gone, or it is too far behind."""
        return self._engine.tell_subject(session, Own.LEFT, f"{session.id!r} did not arrive")

    def left_origin(self, origin: str, number: int) -> None:
        """A client of another broker's is gone."""
        for run in [*self._engine.under_way(TARGET, HOME)]:
            if (run.data.request.origin, run.data.request.number) == (origin, number):
                self._engine.take(run, Own.ORIGIN_GONE)

    def drop(self, move: str) -> None:
        self._engine.tell(move, Own.LEFT, "it is no longer expected")

    def publisher_moved(self, life: Life, side: str | None) -> None:
        """What a publisher publishes does not come from one side any more, where it may have been
        behind a broker that somebody misses something of."""
        for run in self._engine.under_way(HOME):
            if run.data.missing and run.data.request.path[-2] == side:
                run.data.session.wait_for(life)

    # Guards --------------------------------------------------------------------------------

    def is_settled(self, run: Run, about: object) -> bool:
        return not run.data.session.unsettled_subscriptions

    def has_settled(self, run: Run, about: object) -> bool:
        return Own.SAID in run.heard and self.is_settled(run, about)

    def has_settled_within_reach(self, run: Run, about: object) -> bool:
        guest = run.data
        return Own.SAID in run.heard and guest.session.unsettled_subscriptions <= guest.partly

    def is_answer(self, run: Run, cut: m.GuestCut) -> bool:
        """Not of who was asked before, nor for one who may have nothing."""
        guest = run.data
        return cut.path == guest.request.path and (not cut.open or guest.has_served)

    def is_whole_answer(self, run: Run, cut: m.GuestCut) -> bool:
        return self.is_answer(run, cut) and not cut.open

    def is_missing(self, run: Run, about: object) -> bool:
        return bool(run.data.missing)

    # Actions -------------------------------------------------------------------------------

    def look(self, run: Run, about: object) -> None:
        self._engine.take(run, Own.SETTLED)

    def ask(self, run: Run, about: object) -> None:
        """The old place is told that the guest is ready, and to say what the client has had."""
        guest = run.data
        if run.state is Recalled.READY and guest.session.unsettled_subscriptions:
            # Those who cannot be reached send what is wanted where it was served, and whoever is
            # next to them knows that it is wanted here.
            self._subscriptions.serve(guest.session)
        self._answer(guest, m.GuestStep.READY)

    def add_part(self, run: Run, cut: m.GuestCut) -> None:
        guest = run.data
        session = guest.session
        if not guest.add_part(cut):
            return
        if not cut.is_known:
            self._ports.on_lost(guest)
            return
        if run.state is Recalled.SERVED:
            session.matched_by(cut.version)
        session.cut(cut.seen, guest.backlog, cut.version)
        guest.backlog = []
        if session.kept.exceeds(2):
            self._dispatch.overloaded[session] = None
        else:
            guest.missing = frozenset(cut.open)
            self._engine.take(run, Own.CUT_WHOLE)

    def complete(self, run: Run, about: object) -> None:
        """What the subscriber has had elsewhere is known."""
        if not run.data.missing:
            self._answer(run.data, m.GuestStep.TAKEN)
        self._ports.on_complete(run.data)

    def arrive(self, run: Run, about: object) -> None:
        self._tell_arrival(run.data)
        self.finish(run, about)

    def serve(self, run: Run, about: object) -> None:
        """It is served, but for what is missing."""
        guest = run.data
        self._tell_arrival(guest)
        guest.session.missing = guest.missing
        self._dispatch.release(guest.session)

    def _tell_arrival(self, guest: Guest) -> None:
        state = "served" if guest.request.origin else "opened"
        self._subscriptions.arrived(guest.session, state, guest.request.path[0], guest.since)

    def finish(self, run: Run, about: object) -> None:
        """It is served, and lacks nothing."""
        guest = run.data
        if run.part is TARGET:
            self._engine.join(NOTE, self, run.id, None, guest.request, guest.request.lease_s)
        guest.session.missing = NOWHERE
        self._dispatch.release(guest.session)
        self._answer(guest, m.GuestStep.ARRIVED)
        self._ports.on_finished(guest)

    def say_arrived(self, run: Run, about: object) -> None:
        self._say(run.id, run.data.path, m.GuestStep.ARRIVED)

    def drop_run(self, run: Run, about: object) -> None:
        guest = run.data
        guest.session.end()
        guest.session.discard()
        self._subscriptions.close(guest.session)

    def give_up(self, run: Run, about: object) -> None:
        self.drop_run(run, about)
        self._answer(run.data, m.GuestStep.GONE, run.why)
