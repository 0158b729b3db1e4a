"""Guests: subscribers that are to be served here and are not yet.

A guest is a session without a connection. It subscribes, in addition to where its subscriber is
served so far, and keeps what comes (READY once all has settled); it is told the *cut*, which is
what the subscriber has had elsewhere, and drops as much (TAKEN); then somebody comes for it: the
client itself, or the broker where the client stays connected (`subscriber_remote`). It is a
guest no longer once that one says that it has arrived (ARRIVED).

    subscribing --settled--> READY --cut--> TAKEN --claimed--> claimed --arrived--> ARRIVED
         '-- overloaded, lease over, stop: GONE --'                '-- left: GONE

One that comes home (`subscriber_origin`) does not wait for those who cannot be reached. It is
ready when its subscriptions have settled wherever somebody can be asked; and if the old place
itself cannot, the broker next to it answers in its stead (`salvage`), but for what comes from
behind it: that stays *missing*. The guest is served then, and keeps what has passed a broker that
is missing until the old place is there and has been asked too.

Why READY is enough. It goes to the old place along the tree, over the links that events take. Let X
be the broker where the ways from a publisher to the two places part; X is on the path between
them. An event that the guest does not get has passed X before X knew of the guest, or came here
before the neighbour on that side had settled: either way it has passed X before READY does, and is
ahead of it on the links to the old place. So what the old place has not seen when READY comes, the
guest has or will have; what it has seen is the cut. No second round is needed.

Owns the guests of this broker and what their old places are told. Does not know what old places do
about it (`reassignment`, `subscriber_remote`).

Invariants: a guest has a lease, so that one that nobody comes for ends; nothing that is at or below
the cut, and everything above it, is delivered, in each publisher's order.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Final, NamedTuple

import msgspec

from gravitate.broker.context import Context
from gravitate.broker.forwarding.pipeline import Dispatch
from gravitate.broker.interface.effects import SetTimer
from gravitate.broker.links.table import LinkTable
from gravitate.broker.lives import Life
from gravitate.broker.messages.guests import (
    GuestAnswer,
    GuestCut,
    GuestMessage,
    GuestStep,
    StagingPoll,
    TakeGuest,
)
from gravitate.broker.moves.path import MovePaths
from gravitate.broker.moves.salvage import Salvage
from gravitate.broker.routing.settlement import NOWHERE, Open
from gravitate.broker.sessions.local import NOBODY, LocalOutbound
from gravitate.broker.sessions.outbound import Outbound
from gravitate.broker.sessions.states import Owed
from gravitate.broker.sessions.subscriptions import Subscriptions
from gravitate.errors import PeerError
from gravitate.model.events import Batch

DEFERRED_MAX: Final = 1_000
"""Questions that wait for one link."""
RECALL: Final = "home:"
"""Begins the names of moves by which brokers take subscribers home."""


class Guest:
    """One subscriber that is to come along `path`, from its first broker to this one."""

    __slots__ = (
        "attachment", "backlog", "claimed", "complete", "has_served", "is_recall", "missing",
        "partly", "parts", "ready", "request", "served_version", "session", "since", "subscribed",
    )  # fmt: skip

    def __init__(
        self, request: TakeGuest, session: Outbound, is_recall: bool, since: float
    ) -> None:
        self.since = since
        self.is_recall = is_recall
        """Nobody leads it here: the old place is to be told whom it is about."""
        self.served_version = self.attachment = 0
        """What is certain to have been served there, and the attachment that it comes home by."""
        self.has_served = True
        """The old place is certain to have served it; nobody else can answer for it otherwise."""
        self.request = request
        self.session = session
        self.subscribed = False
        """Everything it subscribes to has been said."""
        self.partly: set[str] = set()
        """Names of subscriptions that have settled wherever somebody can be reached."""
        self.ready = False
        self.complete = False
        """What the subscriber has had elsewhere is known."""
        self.missing: Open = NOWHERE
        """But for what has passed these brokers."""
        self.claimed = False
        self.backlog: list[tuple[Batch, int]] = []
        """What the parts of the cut have brought that have come so far."""
        self.parts = 0

    def add_part(self, message: GuestCut) -> bool:
        """Whether the cut is whole now. Its parts come in order, and the same once more when it is
        asked for again; behind one that was lost, those that still come do not count."""
        if message.part == 0:
            self.backlog, self.parts = [], 0
        if message.part != self.parts:
            return False
        self.parts += 1
        self.backlog += zip(message.batches, message.qos, strict=True)
        return not message.more


class GuestPorts(NamedTuple):
    """Who is told how guests come along."""

    on_complete: Callable[[Guest], None]
    """Told of guests that can be claimed."""
    on_answer: Callable[[GuestAnswer], None]
    """Told what the new place of a subscriber of this broker's says."""
    on_finished: Callable[[Guest], None]
    """Told of guests that were served while something was missing, and lack nothing now."""
    on_lost: Callable[[Guest], None]
    """Told of guests of whom nothing is known where they were served."""


class Guests:
    """`make_tethered` makes the session of a subscriber whose client stays connected elsewhere."""

    def __init__(
        self,
        context: Context,
        dispatch: Dispatch,
        subscriptions: Subscriptions,
        paths: MovePaths,
        links: LinkTable,
        salvage: Salvage,
        make_tethered: Callable[[TakeGuest], Outbound],
        ports: GuestPorts,
    ) -> None:
        self._ports = ports
        self._context = context
        self._dispatch = dispatch
        self._subscriptions = subscriptions
        self._paths = paths
        self._links = links
        self._salvage = salvage
        self._make_tethered = make_tethered
        self._by_move: dict[str, Guest] = {}
        self._by_session: dict[Outbound, Guest] = {}
        self._arrived: set[str] = set()
        """Moves by which guests have come that are served by now, until their leases are over."""
        self._series = count(1)
        self._deferred: dict[str, dict[str, GuestAnswer]] = {}
        """What was to be asked over links that are down, by neighbour and move."""
        self._up: list[str] = []
        """Those of them that are back, in this step."""
        self.stopping = False

    def __len__(self) -> int:
        return len(self._by_move)

    def expected(self) -> list[str]:
        """The subscribers that are to come."""
        return [guest.request.subscriber for guest in self._by_move.values()]

    # Along the path ------------------------------------------------------------------------

    def handle(self, peer: str, message: GuestMessage | GuestCut) -> None:
        path = message.path
        place = self._paths.place(peer, path, isinstance(message, GuestAnswer))
        if isinstance(message, GuestAnswer):
            if place:
                self._pass_back(message, place)
            else:
                self._ports.on_answer(message)
        elif place + 1 < len(path):
            self._paths.pass_on(path[place + 1], message)
        elif isinstance(message, TakeGuest):
            self.take(message)
        elif isinstance(message, StagingPoll):
            self._polled(message)
        else:
            self._cut(message)

    def _pass_back(self, answer: GuestAnswer, place: int) -> None:
        """Towards the old place of a guest; if that cannot be asked, it is answered for."""
        path = answer.path
        asks = answer.step is GuestStep.READY and bool(answer.origin)
        cuts = self._salvage.answer_for(answer, place) if asks else []
        for cut in cuts:
            if place + 1 < len(path):
                self._paths.pass_on(path[place + 1], cut)
            else:
                self._cut(cut)
        peer = path[place - 1]
        if asks and not self._links.is_up(peer):
            self._defer(peer, answer)
        elif not cuts:
            self._paths.pass_on(peer, answer)

    def _defer(self, peer: str, answer: GuestAnswer) -> None:
        """Nothing need wait on a link that is down; but who asks is to know soon when it is back,
        and asks again by itself for as long as it does not."""
        deferred = self._deferred.setdefault(peer, {})
        if answer.move in deferred or len(deferred) < DEFERRED_MAX:
            deferred[answer.move] = answer

    def link_up(self, peer: str) -> None:
        if peer in self._deferred:
            self._up.append(peer)

    def link_given_up(self, peer: str) -> None:
        self._deferred.pop(peer, None)

    def flush(self) -> None:
        """Behind all that waited for links which are back: what was to be asked over them."""
        while self._up:
            peer = self._up.pop()
            for answer in self._deferred.pop(peer, {}).values():
                if self._links.is_up(peer):
                    self._paths.pass_on(peer, answer)

    def recall(
        self, request: TakeGuest, attachment: int, served_version: int, has_served: bool
    ) -> None:
        """Subscribe for somebody who is taken home without being asked for, from where it was
        served as of that version, if it has come to be."""
        guest = self._make(request, is_recall=True)
        guest.attachment, guest.served_version = attachment, served_version
        guest.has_served = has_served
        self._take(guest)

    def take(self, request: TakeGuest) -> None:
        """Subscribe for somebody who is to come."""
        if request.move.startswith(RECALL):
            raise PeerError("wrong-move", f"{request.move!r}: nobody is led home")
        if request.move not in self._by_move:
            self._take(self._make(request, is_recall=False))

    def _make(self, request: TakeGuest, is_recall: bool) -> Guest:
        if request.origin:
            session: Outbound = self._make_tethered(request)
        else:
            about = (request.subscriber, request.incarnation, 0)
            options, lives = self._context.options, self._context.lives
            served = (NOBODY, self._subscriptions, Owed.STAGED)
            session = LocalOutbound(*about, options, lives, *served)
        return Guest(request, session, is_recall, self._context.now)

    def _take(self, guest: Guest) -> None:
        request, session = guest.request, guest.session
        if self.stopping:
            self._answer(guest, GuestStep.GONE, f"{self._context.broker_id} is stopping")
            return
        session.series = f"g{next(self._series)}."
        self._by_move[request.move] = self._by_session[session] = guest
        if request.lease_s:
            self._set_lease(request)
        for wanted in request.subscriptions:
            self._subscriptions.subscribe(session, wanted)
        guest.subscribed = True
        self.on_settled(session)

    def on_partly_settled(self, session: Outbound, name: str) -> None:
        guest = self._by_session.get(session)
        if guest is not None:
            guest.partly.add(name)
            self.on_settled(session)

    def on_settled(self, session: Outbound) -> None:
        guest = self._by_session.get(session)
        if guest is None or not guest.subscribed:
            return
        unsettled = session.unsettled_subscriptions
        if unsettled and not (guest.is_recall and unsettled <= guest.partly):
            return
        is_incomplete = not guest.complete or bool(guest.missing)
        if not guest.ready or (is_incomplete and not unsettled):
            if unsettled:
                # Those who cannot be reached send what is wanted where it was served, and whoever
                # is next to them knows that it is wanted here.
                self._subscriptions.serve(session)
            guest.ready = True
            self._answer(guest, GuestStep.READY)

    def ask_elsewhere(self, guest: Guest, path: tuple[str, ...]) -> None:
        """It was served by the first of the path, and not by who was asked."""
        guest.request = msgspec.structs.replace(guest.request, path=path)
        guest.has_served = True
        guest.backlog, guest.parts = [], 0
        self._answer(guest, GuestStep.READY)

    def say_ready(self, move: str) -> bool:
        """Ask the old place once more, if there is something to ask; False: there is no such
        guest."""
        guest = self._by_move.get(move)
        if guest is not None and guest.ready and (guest.missing or not guest.complete):
            self._answer(guest, GuestStep.READY)
        return guest is not None

    def _polled(self, message: StagingPoll | GuestCut) -> None:
        """Who leads a guest here may not have heard how it went."""
        if message.move not in self._by_move:
            step = GuestStep.ARRIVED if message.move in self._arrived else GuestStep.GONE
            answer = GuestAnswer(message.move, message.path, step, "no guest of that move")
            self._paths.pass_on(message.path[-2], answer)

    def _cut(self, message: GuestCut) -> None:
        guest = self._by_move.get(message.move)
        if guest is None:
            if not message.more:
                self._polled(message)
            return
        if message.path != guest.request.path:
            return  # of who was asked before
        if not guest.ready or (message.open and not (guest.is_recall and guest.has_served)):
            return  # nothing was asked, or it is answered for one who may have nothing
        if guest.complete and (message.open or not guest.missing):
            if not message.more and not guest.missing:
                self._answer(guest, GuestStep.TAKEN)
                self._ports.on_complete(guest)
            return
        if not guest.add_part(message):
            return
        if not message.is_known:
            self._ports.on_lost(guest)
            return
        was_served = guest.complete and bool(guest.session.missing)
        if was_served:
            guest.session.matched_by(message.version)
        guest.session.cut(message.seen, guest.backlog, message.version)
        guest.backlog = []
        if guest.session.keeps_too_much():
            self._dispatch.overloaded[guest.session] = None
            return
        guest.complete, guest.missing = True, frozenset(message.open)
        if was_served:
            self._finish(guest)
            return
        if not guest.missing:
            self._answer(guest, GuestStep.TAKEN)
        self._ports.on_complete(guest)

    def _answer(self, guest: Guest, step: GuestStep, reason: str = "") -> None:
        request = guest.request
        answer = GuestAnswer(request.move, request.path, step, reason)
        if guest.is_recall:
            whose = (request.origin, request.number, request.subscriber)
            wanted = request.subscriptions if step is GuestStep.READY else ()
            about = (request.move, request.path, step, reason, *whose)
            answer = GuestAnswer(*about, wanted, guest.served_version, guest.attachment)
        if len(request.path) > 1:
            self._pass_back(answer, len(request.path) - 1)

    # Who comes -----------------------------------------------------------------------------

    def claim(self, subscriber: str, incarnation: int) -> Outbound | None:
        """The session that was handed over for a client, which connects here."""
        for guest in reversed(self._by_move.values()):
            request = guest.request
            if (
                not request.origin
                and (request.subscriber, request.incarnation) == (subscriber, incarnation)
                and self._claim(guest)
            ):
                return guest.session
        return None

    def claim_tethered(self, origin: str, number: int, move: str) -> Outbound | None:
        """The session that was handed over for a client of another broker's."""
        guest = self._by_move.get(move)
        if guest is None or (guest.request.origin, guest.request.number) != (origin, number):
            return None
        return guest.session if self._claim(guest) else None

    def _claim(self, guest: Guest) -> bool:
        if not guest.complete or guest.claimed:
            return False
        guest.claimed = True
        return True

    def arrived(self, session: Outbound) -> bool:
        """Whether a session was a guest's; it is served here from now on."""
        guest = self._by_session.get(session)
        if guest is None:
            return False
        if session.state is Owed.PARTLY:
            return True
        state = "served" if guest.request.origin else "opened"
        self._subscriptions.arrived(session, state, guest.request.path[0], guest.since)
        session.missing = guest.missing
        if guest.missing:
            self._dispatch.release(session)
        else:
            self._finish(guest)
        return True

    def _finish(self, guest: Guest) -> None:
        """It is served, and lacks nothing."""
        self._forget(guest)
        self._note_arrival(guest.request)
        guest.session.missing = NOWHERE
        self._dispatch.release(guest.session)
        self._answer(guest, GuestStep.ARRIVED)
        self._ports.on_finished(guest)

    def _note_arrival(self, request: TakeGuest) -> None:
        """Who has led it here may ask again, for as long as it waits."""
        if request.lease_s:
            self._arrived.add(request.move)
            self._set_lease(request)

    def _set_lease(self, request: TakeGuest) -> None:
        at = self._context.now + request.lease_s
        self._context.emit(SetTimer(f"guest:lease:{request.move}", at))

    # Who does not --------------------------------------------------------------------------

    def ended(self, move: str) -> None:
        """The move is over. One that has been come for is served all the same."""
        guest = self._by_move.get(move)
        if guest is not None and not guest.claimed and not guest.is_recall:
            self._drop(guest)

    def left(self, session: Outbound) -> bool:
        """Whether a session was a guest's; who had come for it is gone, or it is too far behind."""
        guest = self._by_session.get(session)
        if guest is not None:
            self._drop(guest)
            self._answer(guest, GuestStep.GONE, f"{session.id!r} did not arrive")
        return guest is not None

    def publisher_moved(self, life: Life, side: str | None) -> None:
        """What a publisher publishes does not come from one side any more, where it may have been
        behind a broker that somebody misses something of."""
        for session, guest in self._by_session.items():
            if guest.missing and guest.request.path[-2] == side:
                session.wait_for(life)

    def left_origin(self, origin: str, number: int) -> None:
        """A client of another broker's is gone."""
        for guest in list(self._by_move.values()):
            if (guest.request.origin, guest.request.number) == (origin, number):
                self._drop(guest)

    def drop(self, move: str) -> None:
        """Nobody will come."""
        guest = self._by_move.get(move)
        if guest is not None:
            self._drop(guest)
            self._answer(guest, GuestStep.GONE, "it is no longer expected")

    def expired(self, move: str) -> None:
        """The lease of a guest is over."""
        self._arrived.discard(move)
        guest = self._by_move.get(move)
        if guest is not None and not guest.claimed:
            self._drop(guest)
            self._answer(guest, GuestStep.GONE, "nobody came")

    def stop(self) -> None:
        """This broker is about to stop."""
        self.stopping = True
        for guest in list(self._by_move.values()):
            if not guest.claimed:
                self._drop(guest)
                self._answer(guest, GuestStep.GONE, f"{self._context.broker_id} is stopping")

    def _drop(self, guest: Guest) -> None:
        self._forget(guest)
        guest.session.end()
        guest.session.discard()
        self._subscriptions.close(guest.session)

    def _forget(self, guest: Guest) -> None:
        del self._by_move[guest.request.move]
        del self._by_session[guest.session]
