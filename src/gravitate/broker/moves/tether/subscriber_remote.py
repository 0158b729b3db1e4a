"""Subscribers that are served here and connected elsewhere: the far end of their tethers.

For each there is a `TetheredSubscriber`, a session without a connection: what matches its
subscriptions is handed over to the broker of its client (the *origin*), which delivers it without
matching. It follows moves as a client would, because the origin does so in its stead. A subscriber
whose origin is this broker is the same without a link.

What is handed over is kept until the origin's end of the link has taken it. When the link is lost,
the subscriber holds what comes; the origin subscribes at home and *recalls* it along the tree: it
answers with what the client has had and what is left to deliver (the way of a guest, see there).
One that nobody recalls has a lease. What is kept for it is retained with the neighbours that it
came from, and they are entrusted with what it wants (`deposits`): it is not lost with this broker.

Owns these sessions. Does not know the origin's end, nor how a move is led.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import count
from typing import Final, NamedTuple

from gravitate.broker.context import Context
from gravitate.broker.forwarding.pipeline import Dispatch
from gravitate.broker.interface.effects import (
    MOVED,
    NOT_HERE,
    OVERLOADED,
    STOPPING,
    Attached,
    CloseSession,
    Redirect,
    SubscriptionSettled,
    ToClient,
)
from gravitate.broker.interface.timers import VisitOver
from gravitate.broker.links.table import LinkTable
from gravitate.broker.lives import Life, Lives
from gravitate.broker.messages.guests import (
    Deliveries,
    Entrusted,
    FromOrigin,
    GuestAnswer,
    GuestAttach,
    GuestAttached,
    GuestClosed,
    GuestDetach,
    GuestPaused,
    GuestRedirect,
    GuestSettled,
    GuestStep,
    Reminder,
    TakeGuest,
    ToOrigin,
)
from gravitate.broker.messages.parcels import divided
from gravitate.broker.moves.engine import Engine
from gravitate.broker.moves.path import MovePaths
from gravitate.broker.moves.salvage import Salvage, wanted_by_each
from gravitate.broker.moves.staging import GuestPorts, Guests
from gravitate.broker.options import BrokerOptions
from gravitate.broker.sessions.backlog import Backlog, Retained, Seen, Source
from gravitate.broker.sessions.outbound import Outbound
from gravitate.broker.sessions.states import BACK, LEASES, Owed
from gravitate.broker.sessions.store import Store
from gravitate.broker.sessions.subscriptions import Subscriptions
from gravitate.model.events import Batch

LOST_S_MAX: Final = 40.0
"""How long a subscriber is kept whose origin cannot be reached; longer than a recall may take."""

REMINDED_S_MAX: Final = 40.0
"""How long one is kept that this broker was reminded of."""

Key = tuple[str, int]
"""The origin, and its number for the subscriber."""


class TetheredSubscriber(Outbound):
    """One subscriber whose client is connected to broker `origin`, which calls it `number`."""

    def __init__(
        self,
        origin: str,
        number: int,
        id: str,
        incarnation: int,
        options: BrokerOptions,
        send: Callable[[TetheredSubscriber, Batch, int, int], bool],
        say: Callable[[TetheredSubscriber, ToClient], None],
        lives: Lives,
        serial: int,
        links: LinkTable,
        is_visitor: bool,
        state: Owed,
    ) -> None:
        super().__init__(id, incarnation, options, lives, state)
        self.attachment = 0
        self._say = say
        self._links = links
        self._keepers = self._possible_keepers = links if is_visitor else None
        """The links whose other ends keep what comes for it; none do for this broker's own."""
        self.origin: str = origin
        self.number = number
        self.serial = serial
        self._send = send
        self.kept: Retained = self._retained()
        self.sent = self._retained()
        """Handed over and not taken."""
        self.wants = 0
        """As of when it is known what the client wants."""
        self.version = 0
        """The same of what is matched."""
        self.move = ""
        self.path: tuple[str, ...] = ()
        """Of the move that leads it elsewhere, to be told to the origin."""
        self._waiting_lives: set[Life] = set()
        """Publishers of whom something earlier may be missing."""
        self._direct_lives: set[Life] = set()
        """Those of whom something has come since that has not passed there: nothing is missing."""
        self.recalled: tuple[Seen, Backlog] | None = None
        """What the origin is told that has recalled it."""

    @property
    def key(self) -> Key:
        return self.origin, self.number

    def say(self, effect: ToClient) -> None:
        self._say(self, effect)

    def offer(self, batch: Batch, qos: int) -> bool:
        return self._take(batch.compacted(), qos, self._source(self.version))

    def _source(self, version: int) -> Source:
        """Of what comes now. What is with the client's own broker is for nobody else to keep."""
        return Source(self._keepers.mark() if self._keepers is not None else None, version)

    def _take(self, batch: Batch, qos: int, source: Source) -> bool:
        if self.holding and self._is_kept(batch):
            return self.kept.retain(batch, qos, source)
        for part in divided((batch,), self._options.frame_events_max):
            if not self.sent.retain(part, qos, source):
                return False
            if self._send(self, part, qos, source.version):
                self.taken(part)
        return True

    def _is_kept(self, batch: Batch) -> bool:
        """Where something is missing: what has passed there, and all that its publisher has
        published since, wherever."""
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
        for batch, qos, source in self.kept.take(
            lambda batch: not (self.holding and self._is_kept(batch))
        ):
            if left or not self._take(batch, qos, source):
                left.append((batch, qos))
        return left

    def cut(self, seen: Seen, backlog: Iterable[tuple[Batch, int]] = (), version: int = 0) -> None:
        """Without anything seen, it is told by one that does not know what the client has had."""
        source, backlog = self._source(version), list(backlog)
        if seen:
            self.kept.cut_from(seen, backlog, source)
            told = [((id, incarnation), last) for id, incarnation, last in seen]
        else:
            self.kept.precede(backlog, source)
            told = [(one.stream, one.counters[-1]) for one, _ in backlog]
        for publisher, last in told:
            self.note_seen(publisher, last)

    def retain_no_more(self) -> None:
        """Its origin is not to be reached: it is not for others to keep what is for it."""
        self._keepers = None
        for queue in (self.kept, self.sent):
            queue.change_sources(lambda source: source._replace(mark=None))

    def retain_again(self) -> None:
        """Its origin is there again."""
        self._keepers = self._possible_keepers

    def matched_by(self, version: int) -> None:
        self.kept.change_sources(
            lambda source: source._replace(version=min(version, source.version))
        )

    def discard(self) -> None:
        for queue in (self.kept, self.sent):
            queue.take()

    def owed_events(self) -> int:
        return self.kept.measure.events + self.sent.measure.events

    def _retained(self) -> Retained:
        options = self._options
        events_max, bytes_max = options.session_queue_events_max, options.session_queue_bytes_max
        return Retained(events_max, bytes_max, self._links)

    def taken(self, batch: Batch) -> None:
        if self.sent.first() is batch:
            self.sent.take_first()

    def drained(self) -> bool:
        return not len(self.sent)

    def backlog(self) -> Backlog:
        return (*self.sent, *self.kept)


class TetheredSubscriberPorts(NamedTuple):
    """Who is told of subscribers that are served here for others, and takes what is for them."""

    deliver_here: Callable[[str, Deliveries], None]
    """Takes what is for a client of this broker."""
    on_served: Callable[[Entrusted], None]
    """Told of what a subscriber of another broker's is served with, whenever that changes."""
    tell_here: Callable[[str, ToOrigin], None]
    """Takes what is told to this broker as an origin."""
    on_paused: Callable[[Outbound], None]
    on_back: Callable[[Outbound], None]
    """Told of a subscriber that was sent elsewhere and is back."""
    on_closed: Callable[[Outbound], None]
    """Told of subscribers that end here, or can be reached no more."""
    on_drained: Callable[[Outbound], None]
    on_left: Callable[[str], None]
    """Told of an origin that may need no link to this broker any more."""


class TetheredSubscribers:
    """All subscribers of this broker that are connected elsewhere, or were made to be moved."""

    def __init__(
        self,
        context: Context,
        engine: Engine,
        dispatch: Dispatch,
        subscriptions: Subscriptions,
        paths: MovePaths,
        links: LinkTable,
        ports: TetheredSubscriberPorts,
        guest_ports: GuestPorts,
    ) -> None:
        self._ports = ports
        self._context = context
        self._dispatch = dispatch
        self._subscriptions = subscriptions
        self._links = links
        self._paths = paths
        self._serials = count(1)
        self._here: Store[Key, TetheredSubscriber] = Store(lambda one: one.key)
        self._leased: dict[int, TetheredSubscriber] = {}
        """Those that end unless somebody comes for them in time, by their serials."""
        self._reminded: list[tuple[TetheredSubscriber, Reminder]] = []
        """Those of this step."""
        self._salvage = Salvage(context.options, links, dispatch)
        self.guests = Guests(
            context,
            engine,
            dispatch,
            subscriptions,
            paths,
            links,
            self._salvage,
            self._make_guest,
            guest_ports,
        )

    def __iter__(self) -> Iterator[TetheredSubscriber]:
        return iter(self._here)

    def find(self, subscriber: str) -> TetheredSubscriber | None:
        """The latest of that name that is served here."""
        found = self._here.of_client(subscriber)
        return max(found, key=lambda one: (one.incarnation, one.number), default=None)

    def is_origin(self, broker: str) -> bool:
        """Whether clients of a broker are served here."""
        return broker in self._here.origins()

    def has_visitors(self) -> bool:
        """Whether clients of other brokers are served here."""
        return any(one != self._context.broker_id for one in self._here.origins())

    # Their life ----------------------------------------------------------------------------

    def adopt(self, session: Outbound, number: int) -> TetheredSubscriber:
        """A subscriber in place of a client's session, as if tethered from here."""
        here = self._context.broker_id
        about = (number, session.id, session.incarnation)
        subscriber = self._make(here, *about, Owed.CONNECTED)
        subscriber.continue_from(session)
        self._subscriptions.hand_over(session, subscriber)
        self._here.put(subscriber)
        return subscriber

    def _make_guest(self, request: TakeGuest) -> Outbound:
        about = (request.origin, request.number, request.subscriber, request.incarnation)
        guest = self._make(*about, Owed.STAGED)
        guest.version = guest.wants = request.version
        return guest

    def _make(
        self, origin: str, number: int, id: str, incarnation: int, state: Owed
    ) -> TetheredSubscriber:
        return TetheredSubscriber(
            origin, number, id, incarnation, self._context.options, self._send, self._say,
            self._context.lives, next(self._serials), self._links,
            origin != self._context.broker_id, state,
        )  # fmt: skip

    def entrusted(self) -> Iterator[Entrusted]:
        """What is served here for clients of other brokers."""
        for subscriber in self._here:
            if subscriber.origin != self._context.broker_id:
                yield self._served(subscriber)

    def _served(self, subscriber: TetheredSubscriber) -> Entrusted:
        about = (subscriber.number, subscriber.attachment, subscriber.origin)
        wanted = self._subscriptions.wanted(subscriber)
        return Entrusted(*about, subscriber.id, subscriber.incarnation, wanted, subscriber.wants)

    def _tell_served(self, subscriber: TetheredSubscriber) -> None:
        if subscriber.origin != self._context.broker_id:
            self._ports.on_served(self._served(subscriber))

    def remind(self, reminder: Reminder) -> None:
        """This broker has served a subscriber before it lost its memory: it keeps what comes until
        somebody asks for it."""
        key = (reminder.origin, reminder.number)
        known = self._here.get(key)
        if known is not None or reminder.origin == self._context.broker_id:
            about = (reminder.number, reminder.attachment, reminder.origin)
            self._ports.on_served(Entrusted(*about) if known is None else self._served(known))
            return
        whose = (reminder.subscriber, reminder.incarnation)
        subscriber = self._make(*key, *whose, Owed.REMINDED)
        subscriber.attachment = reminder.attachment
        subscriber.version = subscriber.wants = reminder.version
        subscriber.series = f"r{subscriber.serial}."
        self._here.put(subscriber)
        self._set_lease(subscriber, REMINDED_S_MAX)
        for wanted in reminder.subscriptions:
            self._subscriptions.subscribe(subscriber, wanted, is_renewed=True)
        self._reminded.append((subscriber, reminder))
        self._tell_served(subscriber)

    def look_back(self) -> None:
        """What came before this broker was reminded, for all that it was reminded of lately."""
        if self._reminded:
            reminded, self._reminded = self._reminded, []
            wanted = [(one.id, reminder.subscriptions) for one, reminder in reminded]
            missed = wanted_by_each(self._dispatch.recent or (), wanted)
            for (subscriber, reminder), backlog in zip(reminded, missed, strict=True):
                if self._here.get(subscriber.key) is subscriber:
                    subscriber.cut((), backlog, reminder.version)
                    if subscriber.keeps_too_much():
                        self._dispatch.overloaded[subscriber] = None

    def end(self, subscriber: TetheredSubscriber) -> None:
        """It is served here no more."""
        if not self._here.remove(subscriber):
            return
        self._leased.pop(subscriber.serial, None)
        subscriber.end()
        subscriber.discard()
        self._subscriptions.close(subscriber)
        self._tell_served(subscriber)
        if subscriber.observed:
            context = self._context
            for observer in context.observers:
                observer.on_session(context.broker_id, subscriber.id, "left", context.now)
        self._ports.on_left(subscriber.origin)

    def close(self, subscriber: TetheredSubscriber, reason: str) -> None:
        self._ports.on_closed(subscriber)
        self.end(subscriber)
        subscriber.say(CloseSession(subscriber.id, reason))

    def overloaded(self, session: Outbound) -> None:
        """Too much waits for a subscriber."""
        self.guests.left(session)
        if isinstance(session, TetheredSubscriber) and self._here.get(session.key) is session:
            self.close(session, OVERLOADED)

    # Handing over --------------------------------------------------------------------------

    def _send(self, subscriber: TetheredSubscriber, batch: Batch, qos: int, version: int) -> bool:
        """Hand a batch over; whether it has been taken already."""
        origin, context = subscriber.origin, self._context
        about = (subscriber.number, subscriber.attachment)
        message = Deliveries(*about, qos, (batch,), version)
        if origin == context.broker_id:
            self._ports.deliver_here(origin, message)
            return True
        if origin in self._links:
            self._dispatch.send_control(origin, message)
            for observer in context.observers:
                observer.on_handed_over(context.broker_id, origin, batch, context.now)
        return False

    def taken(self, origin: str, message: Deliveries) -> None:
        """The origin's end of the link has received what was handed over."""
        subscriber = self._here.get((origin, message.number))
        if subscriber is not None:
            for batch in message.batches:
                subscriber.taken(batch)
            if subscriber.drained():
                self._ports.on_drained(subscriber)

    def _say(self, subscriber: TetheredSubscriber, effect: ToClient) -> None:
        about = (subscriber.number, subscriber.attachment)
        message: ToOrigin
        match effect:
            case Attached():
                message = GuestAttached(*about)
            case SubscriptionSettled() if self._here.get(subscriber.key) is not subscriber:
                return  # nobody has come for it yet
            case SubscriptionSettled():
                message = GuestSettled(*about, effect.name, subscriber.wants)
            case Redirect():
                message = GuestRedirect(*about, effect.target)
            case CloseSession():
                message = GuestClosed(*about, effect.reason, effect.target)
                if effect.reason == MOVED:
                    message = GuestClosed(
                        *about, MOVED, effect.target, subscriber.move, subscriber.path
                    )
            case _:
                return
        self._tell(subscriber.origin, message)

    def _tell(self, origin: str, message: ToOrigin) -> None:
        """Whoever is no longer there to be told has forgotten its tether."""
        if origin == self._context.broker_id:
            self._ports.tell_here(origin, message)
        elif origin in self._links:
            self._dispatch.send_control(origin, message)

    # What the origin says ------------------------------------------------------------------

    def handle(self, origin: str, message: FromOrigin) -> None:
        if isinstance(message, GuestAttach):
            self._attach(origin, message)
            return
        subscriber = self._here.get((origin, message.number))
        if isinstance(message, GuestDetach):
            self.guests.left_origin(origin, message.number)
            if subscriber is not None:
                self._ports.on_closed(subscriber)
                self.end(subscriber)
            return
        if (
            subscriber is None
            or subscriber.attachment != message.attachment
            or subscriber.recalled is not None
        ):
            return
        if isinstance(message, GuestPaused):
            self._ports.on_paused(subscriber)
            return
        subscriber.wants = message.version
        self._subscriptions.set(subscriber, message.subscriptions)
        if not self.guests.arrived(subscriber) and subscriber.state is Owed.RESUMING:
            self._dispatch.release(subscriber)
        subscriber.version = message.version
        self._tell_served(subscriber)

    def _attach(self, origin: str, message: GuestAttach) -> None:
        key = (origin, message.number)
        if message.move:
            found = self.guests.claim_tethered(origin, message.number, message.move)
            former = self._here.get(key)
            if found is not None and former is not None:
                self.end(former)
        else:
            found = self._here.get(key)
            if found is not None:
                self._ports.on_back(found)
        if found is None:
            self._tell(origin, GuestClosed(message.number, message.attachment, NOT_HERE))
            return
        assert isinstance(found, TetheredSubscriber)
        if message.move:
            self._here.put(found)
        found.attachment = message.attachment
        found.retain_again()
        if message.move:
            found.enter(Owed.CLAIMED)
        elif found.state in BACK:
            if not found.observed:
                self._subscriptions.arrived(found, "served", origin, self._context.now)
            found.enter(Owed.RESUMING)
        found.say(Attached(found.id))

    # What becomes of links -----------------------------------------------------------------

    def down(self, origin: str) -> None:
        """An origin has not been reached for a while."""
        for subscriber in self._here.of_origin(origin):
            subscriber.retain_no_more()

    def lost(self, origin: str) -> None:
        """The link to an origin has forgotten what was under way on it."""
        grace_s = self._context.options.link_grace_s
        for subscriber in self._here.of_origin(origin):
            self._ports.on_closed(subscriber)
            if self.guests.left(subscriber):
                self.end(subscriber)
                continue
            subscriber.retain_no_more()
            self.lease(subscriber, max(LOST_S_MAX, grace_s))

    def lease(self, subscriber: TetheredSubscriber, for_s: float = LOST_S_MAX) -> None:
        """It ends unless somebody comes for it, or recalls it, in time."""
        subscriber.enter(Owed.LEASED if subscriber.observed else Owed.REMINDED)
        self._set_lease(subscriber, for_s)

    def _set_lease(self, subscriber: TetheredSubscriber, for_s: float) -> None:
        self._leased[subscriber.serial] = subscriber
        at = self._context.now + for_s
        self._context.set_timer(VisitOver(subscriber.serial), at)

    def expired(self, serial: int) -> None:
        """Nobody has recalled a subscriber that was lost."""
        subscriber = self._leased.get(serial)
        if subscriber is not None and (self.guests.stopping or subscriber.state in LEASES):
            self._ports.on_closed(subscriber)
            self.guests.left(subscriber)
            self.end(subscriber)

    def recall(self, answer: GuestAnswer) -> None:
        """The origin is ready to serve the subscriber at home, or does so."""
        self.look_back()
        subscriber = self._here.get((answer.origin, answer.number))
        if subscriber is not None and subscriber.attachment >= answer.attachment:
            return  # it has come here again since
        if answer.step is GuestStep.READY:
            seen, backlog = self._last_words(subscriber) if subscriber is not None else ((), ())
            version = subscriber.version if subscriber is not None else 0
            is_known = subscriber is not None
            for cut in self._salvage.cuts(answer, seen, backlog, version, is_known=is_known):
                self._paths.pass_on(answer.path[1], cut)
        elif answer.step in (GuestStep.ARRIVED, GuestStep.GONE) and subscriber is not None:
            self._ports.on_closed(subscriber)
            self.end(subscriber)

    def _last_words(self, subscriber: TetheredSubscriber) -> tuple[Seen, Backlog]:
        if subscriber.recalled is None:
            self._ports.on_closed(subscriber)
            subscriber.recalled = (subscriber.seen(), subscriber.backlog())
            self.lease(subscriber)
        return subscriber.recalled

    def stop(self) -> None:
        """This broker is about to stop: whoever is connected elsewhere is recalled first."""
        for subscriber in self._here:
            if subscriber.origin != self._context.broker_id:
                self._ports.on_closed(subscriber)
                if subscriber.state is Owed.PREPARING:
                    subscriber.enter(Owed.CONNECTED)
                self._set_lease(subscriber, LOST_S_MAX)
                subscriber.say(CloseSession(subscriber.id, STOPPING))
