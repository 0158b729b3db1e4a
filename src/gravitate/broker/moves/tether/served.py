"""Subscribers that are served here and connected elsewhere: the far end of their tethers.

For each there is a `TetheredSubscriber`: what matches its subscriptions is handed over to the
broker of its client (the *origin*), which delivers it without matching.

What is handed over is kept until the origin's end of the link has taken it. When the link is lost,
the subscriber holds what comes; the origin subscribes at home and *recalls* it along the tree: it
answers with what the client has had and what is left to deliver (the way of a guest, see there).
One that nobody recalls has a lease. What is kept for it is retained with the neighbours that it
came from, and they are entrusted with what it wants (`deposits`): it is not lost with this broker.

Owns these subscribers. Does not know the origin's end, nor how a move is led.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import InitVar, dataclass
from typing import Final

from gravitate.broker.interface import effects
from gravitate.broker.interface.timers import VisitOver
from gravitate.broker.lives import Life
from gravitate.broker.messages import tether as t
from gravitate.broker.messages.guests import Entrusted, GuestAnswer, GuestStep, TakeGuest
from gravitate.broker.messages.parcels import divided
from gravitate.broker.moves.engine import Engine
from gravitate.broker.moves.path import MovePaths
from gravitate.broker.moves.salvage import Salvage
from gravitate.broker.moves.staging import GuestPorts, Guests
from gravitate.broker.moves.table import On
from gravitate.broker.moves.tether.remote import End, Key, Remote
from gravitate.broker.sessions.backlog import Backlog, Seen, Source
from gravitate.broker.sessions.outbound import Outbound
from gravitate.broker.sessions.states import BACK, LEASES, Owed
from gravitate.broker.sessions.subscriptions import Subscriptions
from gravitate.model.events import Batch

LOST_S_MAX: Final = 40.0
"""How long a subscriber is kept whose origin cannot be reached, or that this broker was reminded
of; longer than a recall may take."""


class TetheredSubscriber(End, Outbound):
    """One subscriber whose client is connected elsewhere."""

    origin: str

    def __init__(
        self, kind: TetheredSubscribers, key: Key, id: str, incarnation: int, state: Owed
    ) -> None:
        End.__init__(self, kind, key)
        Outbound.__init__(self, id, incarnation, self.remote.context, state, self.remote.links)
        self.attachment = 0
        self.retain()
        self._messages: deque[tuple[int, int]] = deque()
        """Attachment and sequence of what has brought what waits: handed over, and not taken."""
        self._sequence = 0
        self.version = 0
        """As of when it is known what is matched."""
        self._waiting_lives: set[Life] = set()
        """Publishers of whom something earlier may be missing."""
        self._direct_lives: set[Life] = set()
        """Those of whom something has come since that has not passed there: nothing is missing."""
        self.recalled: tuple[Seen, Backlog] | None = None
        """What the origin is told that has recalled it."""

    def listens(self) -> bool:
        return self.recalled is None

    def offer(self, batch: Batch, qos: int) -> bool:
        return self._take(batch.compacted(), qos, self._source(self.version))

    def _source(self, version: int) -> Source:
        """Of what comes now."""
        return Source(self._keepers.mark() if self._keepers is not None else None, version)

    def _take(self, batch: Batch, qos: int, source: Source) -> bool:
        if self.holding and self._is_kept(batch):
            return self.kept.add(batch, qos, source)
        for part in divided((batch,), self._options.frame_events_max):
            if not self.waiting.add(part, qos, source):
                return False
            self._sequence += 1
            about = (self.number, self.attachment, self._sequence)
            self._messages.append(about[1:])
            message = t.Deliveries(*about, qos, (part,), source.version)
            if self.remote.tell(self.origin, message):
                self.taken(message)
        return True

    def _is_kept(self, batch: Batch) -> bool:
        """Where something is missing: what has passed there, and what its publisher did since."""
        if not self.missing:
            return True
        life = batch.stream
        if life not in self._waiting_lives and self.missing.isdisjoint(batch.covered):
            self._direct_lives.add(life)
            return False
        self._waiting_lives.add(life)
        return True

    def wait_for(self, life: Life) -> None:
        if life not in self._direct_lives:
            self._waiting_lives.add(life)

    def released(self) -> list[tuple[Batch, int]]:
        """Hold no longer, or only what is missing; what does not fit is returned."""
        self.enter(Owed.PARTLY if self.missing else Owed.CONNECTED)
        if not self.missing:
            self._waiting_lives.clear()
            self._direct_lives.clear()
        left: list[tuple[Batch, int]] = []
        taken = self.kept.take(lambda batch: not (self.holding and self._is_kept(batch)))
        for batch, qos, source in taken:
            if left or not self._take(batch, qos, source):
                left.append((batch, qos))
        return left

    def cut(self, seen: Seen, backlog: Iterable[tuple[Batch, int]] = (), version: int = 0) -> None:
        """Without anything seen, it is told by one that does not know what the client has had."""
        source, backlog = self._source(version), list(backlog)
        if seen:
            self.kept.cut(seen, backlog, source)
            told = [((id, incarnation), last) for id, incarnation, last in seen]
        else:
            self.kept.precede(backlog, source)
            told = [(one.stream, one.counters[-1]) for one, _ in backlog]
        for publisher, last in told:
            self.note_seen(publisher, last)

    def retain(self) -> None:
        """Let neighbours keep what they bring for it: not for this broker's own, which are here."""
        is_visitor = self.origin != self.remote.context.broker_id
        self._keepers = self.remote.links if is_visitor else None

    def retain_no_more(self) -> None:
        """Its origin is not to be reached: it is not for others to keep what is for it."""
        self._keepers = None
        for queue in (self.kept, self.waiting):
            queue.change_sources(lambda source: source._replace(mark=None))

    def matched_by(self, version: int) -> None:
        self.kept.change_sources(lambda it: it._replace(version=min(version, it.version)))

    def discard(self) -> None:
        super().discard()
        self._messages.clear()

    def taken(self, message: t.Deliveries) -> None:
        """The origin has what was handed over, if that is the first of it."""
        if self._messages and self._messages[0] == (message.attachment, message.sequence):
            self._messages.popleft()
            self.waiting.take_first()

    def drained(self) -> bool:
        return not self.waiting

    def backlog(self) -> Backlog:
        return (*self.waiting, *self.kept)


@dataclass(eq=False)
class TetheredSubscribers:
    """All subscribers of this broker that are connected elsewhere, or were made to be moved.
    `look_back` lets those that this broker was reminded of know what came before."""

    _engine: Engine
    _subscriptions: Subscriptions
    _paths: MovePaths
    remote: Remote
    _on_drained: Callable[[Outbound], None]
    _look_back: Callable[[], None]
    heard_of: InitVar[Callable[[str, GuestAnswer], int]]
    guest_ports: InitVar[GuestPorts]

    def __post_init__(
        self, heard_of: Callable[[str, GuestAnswer], int], guest_ports: GuestPorts
    ) -> None:
        self._context, dispatch, paths = self.remote.context, self.remote.dispatch, self._paths
        salvage = Salvage(self._context.options, self.remote.links, dispatch, paths, heard_of)
        standing_on = (self._context, self._engine, dispatch, self._subscriptions, paths, salvage)
        self.guests = Guests(*standing_on, self._make_guest, guest_ports)

    def __iter__(self) -> Iterator[TetheredSubscriber]:
        return (end for end in self.remote if isinstance(end, TetheredSubscriber))

    def find(self, subscriber: str) -> TetheredSubscriber | None:
        """The latest of that name that is served here."""
        found = self.remote.of_client(subscriber)
        those = [one for one in found if isinstance(one, TetheredSubscriber)]
        return max(those, key=lambda one: (one.incarnation, one.number), default=None)

    def get(self, key: Key) -> TetheredSubscriber | None:
        end = self.remote.get(key)
        return end if isinstance(end, TetheredSubscriber) else None

    def visitors(self) -> Iterator[TetheredSubscriber]:
        """Those that are clients of other brokers."""
        return (one for one in self if one.origin != self._context.broker_id)

    # Their life ----------------------------------------------------------------------------

    def adopt(self, session: Outbound, number: int) -> TetheredSubscriber:
        """A subscriber in place of a client's session, as if tethered from here."""
        key, life = (self._context.broker_id, number), (session.id, session.incarnation)
        subscriber = TetheredSubscriber(self, key, *life, Owed.CONNECTED)
        subscriber.continue_from(session)
        self._subscriptions.hand_over(session, subscriber)
        self.remote.add(subscriber)
        return subscriber

    def _make_guest(self, request: TakeGuest) -> Outbound:
        key, life = (request.origin, request.number), (request.subscriber, request.incarnation)
        guest = TetheredSubscriber(self, key, *life, Owed.STAGED)
        guest.version = guest.wants = request.version
        return guest

    def served(self, subscriber: TetheredSubscriber) -> Entrusted:
        about = (subscriber.number, subscriber.attachment, subscriber.origin)
        wanted = self._subscriptions.wanted(subscriber)
        return Entrusted(*about, subscriber.id, subscriber.incarnation, wanted, subscriber.wants)

    def tell_served(self, subscriber: TetheredSubscriber) -> None:
        """Something has changed about a subscriber, and is entrusted to all neighbours."""
        if subscriber.origin != self._context.broker_id:
            self.entrust(self.served(subscriber))

    def entrust(self, entrusted: Entrusted) -> None:
        for peer in self.remote.links.neighbours():
            self.remote.dispatch.send_control(peer, entrusted)

    def close(self, end: TetheredSubscriber) -> None:
        self.remote.ports.on_closed(end)
        self.end(end)

    detach = close

    def end(self, subscriber: TetheredSubscriber) -> None:
        if not self.remote.remove(subscriber):
            return
        subscriber.end()
        subscriber.discard()
        self._subscriptions.close(subscriber)
        self.tell_served(subscriber)
        if subscriber.observed:
            context = self._context
            for observer in context.observers:
                observer.on_session(context.broker_id, subscriber.id, "left", context.now)

    def overloaded(self, session: Outbound) -> None:
        self.guests.left(session)
        if isinstance(session, TetheredSubscriber) and self.remote.has(session):
            self.close(session)
            session.say(effects.CloseSession(effects.OVERLOADED))

    def taken(self, origin: str, message: t.Deliveries) -> None:
        """The origin's end of the link has received what was handed over."""
        subscriber = self.get((origin, message.number))
        if subscriber is not None:
            subscriber.taken(message)
            if subscriber.drained():
                self._on_drained(subscriber)

    # What the origin says ------------------------------------------------------------------

    def attach(self, origin: str, message: t.TetherAttach, role: t.Serving) -> None:
        key = (origin, message.number)
        found: Outbound | None
        former = found = self.get(key)
        if role.move is not None:
            found = self.guests.claim_tethered(*key, role.move)
            if found is not None and former is not None:
                self.end(former)
        elif found is not None:
            self._engine.tell_subject(found, On.CAME_BACK, f"{found.id!r} came back")
        if found is None:
            closed = t.TetherClosed(message.number, message.attachment, effects.NOT_HERE)
            self.remote.tell(origin, closed)
            return
        assert isinstance(found, TetheredSubscriber)
        if not self.remote.has(found):
            self.remote.add(found)
        found.attachment = message.attachment
        found.retain()
        if role.move is not None:
            found.enter(Owed.CLAIMED)
        elif found.state in BACK:
            if not found.observed:
                self._subscriptions.arrived(found, "served", origin, self._context.now)
            found.enter(Owed.RESUMING)
        found.say(effects.Attached())

    def do(self, end: TetheredSubscriber, message: t.FromOrigin | t.HandedOver) -> None:
        if isinstance(message, t.TetherWants):
            end.wants = message.version
            self._subscriptions.set(end, message.subscriptions)
            if not self.guests.arrived(end) and end.state is Owed.RESUMING:
                self.remote.dispatch.release(end)
            end.version = message.version
            self.tell_served(end)

    # What becomes of links -----------------------------------------------------------------

    def down(self, origin: str) -> None:
        """An origin has not been reached for a while."""
        for end in self.remote.of_origin(origin):
            if isinstance(end, TetheredSubscriber):
                end.retain_no_more()

    def on_origin_lost(self, end: TetheredSubscriber) -> None:
        self.remote.ports.on_closed(end)
        if self.guests.left(end):
            self.end(end)
            return
        end.retain_no_more()
        self.lease(end, max(LOST_S_MAX, self._context.options.link_grace_s))

    def lease(self, subscriber: TetheredSubscriber, for_s: float = LOST_S_MAX) -> None:
        """It ends unless somebody comes for it, or recalls it, in time."""
        subscriber.enter(Owed.LEASED if subscriber.observed else Owed.REMINDED)
        self.set_lease(subscriber, for_s)

    def set_lease(self, subscriber: TetheredSubscriber, for_s: float = LOST_S_MAX) -> None:
        at = self._context.now + for_s
        self._context.set_timer(VisitOver(subscriber.serial), at)

    def expired(self, serial: int) -> None:
        """Nobody has recalled a subscriber that was lost."""
        subscriber = self.remote.by_serial.get(serial)
        if not isinstance(subscriber, TetheredSubscriber):
            return
        if self._engine.stopping or subscriber.state in LEASES:
            self.guests.left(subscriber)
            self.close(subscriber)

    def recall(self, answer: GuestAnswer) -> None:
        """The origin is ready to serve the subscriber at home, or does so."""
        self._look_back()
        subscriber = self.get((answer.origin, answer.number))
        if subscriber is not None and subscriber.attachment >= answer.attachment:
            return  # it has come here again since
        if answer.step is GuestStep.READY:
            is_known = subscriber is not None
            words = self._last_words(subscriber) if subscriber is not None else ((), (), 0)
            for cut in self.guests.salvage.cuts(answer, *words, is_known=is_known):
                self._paths.pass_on(answer.path[1], cut)
        elif answer.step in (GuestStep.ARRIVED, GuestStep.GONE) and subscriber is not None:
            self.close(subscriber)

    def _last_words(self, subscriber: TetheredSubscriber) -> tuple[Seen, Backlog, int]:
        if subscriber.recalled is None:
            self.remote.ports.on_closed(subscriber)
            subscriber.recalled = (subscriber.seen(), subscriber.backlog())
            self.lease(subscriber)
        return *subscriber.recalled, subscriber.version

    def stop(self) -> None:
        """This broker is about to stop: whoever is connected elsewhere is recalled first. A move
        that has sent one away goes on, to hear of its arrival: who is elsewhere by now does not
        recall it."""
        for subscriber in list(self.visitors()):
            self.set_lease(subscriber)
            subscriber.say(effects.CloseSession(effects.STOPPING))
