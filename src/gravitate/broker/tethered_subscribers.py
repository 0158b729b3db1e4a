"""Subscribers that are served here and connected elsewhere: the far end of their tethers.

For each there is a `TetheredSubscriber`, a session without a connection: what matches its
subscriptions is handed over to the broker of its client (the *origin*), which delivers it without
matching. It follows moves as a client would, because the origin does so in its stead. A subscriber
whose origin is this broker is the same without a link.

What is handed over is kept until the origin's end of the link has taken it. When the link is lost,
the subscriber holds what comes; the origin subscribes at home and *recalls* it along the tree: it
answers with what the client has had and what is left to deliver (the way of a guest, see there).
One that nobody recalls has a lease.

Owns these sessions. Does not know the origin's end, nor how a move is led.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import count
from typing import Final

from gravitate.broker.context import Context
from gravitate.broker.dispatch import Dispatch
from gravitate.broker.effects import (
    MOVED,
    NOT_HERE,
    OVERLOADED,
    STOPPING,
    Attached,
    CloseSession,
    Redirect,
    SetTimer,
    SubscriptionSettled,
    ToClient,
)
from gravitate.broker.guest_messages import (
    Deliveries,
    FromOrigin,
    GuestAnswer,
    GuestAttach,
    GuestAttached,
    GuestClosed,
    GuestCut,
    GuestDetach,
    GuestPaused,
    GuestRedirect,
    GuestSettled,
    GuestStep,
    TakeGuest,
    ToOrigin,
)
from gravitate.broker.guests import Guests
from gravitate.broker.kept import Backlog, Seen, parts_of
from gravitate.broker.links import LinkTable
from gravitate.broker.lives import Lives
from gravitate.broker.move_paths import MovePaths
from gravitate.broker.options import BrokerOptions
from gravitate.broker.parcels import divided
from gravitate.broker.sessions import Session
from gravitate.broker.subscriptions import Subscriptions
from gravitate.model.events import Batch

LOST_S_MAX: Final = 40.0
"""How long a subscriber is kept whose origin cannot be reached; longer than a recall may take."""

Key = tuple[str, int]
"""The origin, and its number for the subscriber."""


class TetheredSubscriber(Session):
    """One subscriber whose client is connected to broker `origin`, which calls it `number`."""

    def __init__(
        self,
        origin: str,
        number: int,
        id: str,
        incarnation: int,
        options: BrokerOptions,
        send: Callable[[TetheredSubscriber, Batch, int], bool],
        say: Callable[[TetheredSubscriber, ToClient], None],
        lives: Lives,
        serial: int,
    ) -> None:
        super().__init__(id, incarnation, 0, False, options, _never, partial(say, self), lives)
        self.origin = origin
        self.number = number
        self.serial = serial
        self.follows = True
        self.indirect = True
        self._send = send
        self.sent = self._queue()
        """Handed over and not taken."""
        self.move = ""
        self.path: tuple[str, ...] = ()
        """Of the move that leads it elsewhere, to be told to the origin."""
        self.leased = False
        """It ends unless somebody comes for it in time."""
        self.returning = False
        """It was sent elsewhere and taken back; it goes on when the origin says what it wants."""
        self.recalled: tuple[Seen, Backlog] | None = None
        """What the origin is told that has recalled it."""

    @property
    def key(self) -> Key:
        return self.origin, self.number

    def _is_indirect(self) -> bool:
        return True

    def offer(self, batch: Batch, qos: int) -> bool:
        batch = batch.compacted()
        if self.holding:
            return self.kept.add(batch, qos)
        for part in divided((batch,), self._options.frame_events_max):
            if not self.sent.add(part, qos):
                return False
            if self._send(self, part, qos):
                self.taken(part)
        return True

    def taken(self, batch: Batch) -> None:
        if self.sent.first() is batch:
            self.sent.take_first()

    def drained(self) -> bool:
        return not len(self.sent)

    def backlog(self) -> Backlog:
        return (*self.sent, *self.kept)


def _never(session: Session, batch: Batch, qos: int, sequence: int) -> None:
    raise AssertionError(f"{session.id} is not connected here")


class TetheredSubscribers:
    """All subscribers of this broker that are connected elsewhere, or were made to be moved."""

    def __init__(
        self,
        context: Context,
        dispatch: Dispatch,
        subscriptions: Subscriptions,
        paths: MovePaths,
        links: LinkTable,
    ) -> None:
        self._context = context
        self._dispatch = dispatch
        self._subscriptions = subscriptions
        self._links = links
        self._paths = paths
        self._serials = count(1)
        self._by_key: dict[Key, TetheredSubscriber] = {}
        self.guests = Guests(context, dispatch, subscriptions, paths, self._make_guest)
        self.deliver_here: Callable[[int, int, Batch, int], None]
        """Takes what is for a client of this broker: its number, the attachment, a batch, QoS."""
        self.tell_here: Callable[[str, ToOrigin], None]
        """Takes what is told to this broker as an origin."""
        self.on_paused: Callable[[Session], None] = lambda session: None
        self.on_back: Callable[[Session], None] = lambda session: None
        """Told of a subscriber that was sent elsewhere and is back."""
        self.on_closed: Callable[[Session], None] = lambda session: None
        """Told of subscribers that end here, or can be reached no more."""
        self.on_drained: Callable[[Session], None] = lambda session: None
        self.on_left: Callable[[str], None] = lambda origin: None
        """Told of an origin that may need no link to this broker any more."""

    def __iter__(self) -> Iterator[TetheredSubscriber]:
        return iter(self._by_key.values())

    def find(self, subscriber: str) -> TetheredSubscriber | None:
        """The latest of that name that is served here."""
        found = [one for one in self._by_key.values() if one.id == subscriber]
        return max(found, key=lambda one: (one.incarnation, one.number), default=None)

    def origins(self) -> set[str]:
        return {one.origin for one in self._by_key.values()}

    def has_visitors(self) -> bool:
        """Whether clients of other brokers are served here."""
        return any(one.origin != self._context.broker_id for one in self._by_key.values())

    # Their life ----------------------------------------------------------------------------

    def adopt(self, session: Session, number: int) -> TetheredSubscriber:
        """A subscriber in place of a client's session, as if tethered from here."""
        here = self._context.broker_id
        subscriber = self._make(here, number, session.id, session.incarnation)
        subscriber.continue_from(session)
        self._subscriptions.hand_over(session, subscriber)
        self._by_key[subscriber.key] = subscriber
        return subscriber

    def _make_guest(self, request: TakeGuest) -> Session:
        return self._make(request.origin, request.number, request.subscriber, request.incarnation)

    def _make(self, origin: str, number: int, id: str, incarnation: int) -> TetheredSubscriber:
        return TetheredSubscriber(
            origin, number, id, incarnation, self._context.options, self._send, self._say,
            self._context.lives, next(self._serials),
        )  # fmt: skip

    def end(self, subscriber: TetheredSubscriber) -> None:
        """It is served here no more."""
        if self._by_key.get(subscriber.key) is not subscriber:
            return
        del self._by_key[subscriber.key]
        subscriber.live = False
        self._subscriptions.end_all(subscriber)
        if subscriber.observed:
            context = self._context
            for observer in context.observers:
                observer.on_session(context.broker_id, subscriber.id, "left", context.now)
        self.on_left(subscriber.origin)

    def close(self, subscriber: TetheredSubscriber, reason: str) -> None:
        self.on_closed(subscriber)
        self.end(subscriber)
        subscriber.say(CloseSession(subscriber.id, reason))

    def overloaded(self, session: Session) -> None:
        """Too much waits for a subscriber."""
        if self.guests.left(session):
            if isinstance(session, TetheredSubscriber) and session.key in self._by_key:
                self.close(session, NOT_HERE)
        elif isinstance(session, TetheredSubscriber):
            self.close(session, OVERLOADED)

    # Handing over --------------------------------------------------------------------------

    def _send(self, subscriber: TetheredSubscriber, batch: Batch, qos: int) -> bool:
        """Hand a batch over; whether it has been taken already."""
        origin, context = subscriber.origin, self._context
        if origin == context.broker_id:
            self.deliver_here(subscriber.number, subscriber.attachment, batch, qos)
            return True
        if origin in self._links:
            message = Deliveries(subscriber.number, subscriber.attachment, qos, (batch,))
            self._dispatch.send_control(origin, message)
            for observer in context.observers:
                observer.on_handed_over(context.broker_id, origin, batch, context.now)
        return False

    def taken(self, origin: str, message: Deliveries) -> None:
        """The origin's end of the link has received what was handed over."""
        subscriber = self._by_key.get((origin, message.number))
        if subscriber is not None:
            for batch in message.batches:
                subscriber.taken(batch)
            if subscriber.drained():
                self.on_drained(subscriber)

    def _say(self, subscriber: TetheredSubscriber, effect: ToClient) -> None:
        about = (subscriber.number, subscriber.attachment)
        message: ToOrigin
        match effect:
            case Attached():
                message = GuestAttached(*about)
            case SubscriptionSettled() if self._by_key.get(subscriber.key) is not subscriber:
                return  # nobody has come for it yet
            case SubscriptionSettled():
                message = GuestSettled(*about, effect.name)
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
            self.tell_here(origin, message)
        elif origin in self._links:
            self._dispatch.send_control(origin, message)

    # What the origin says ------------------------------------------------------------------

    def handle(self, origin: str, message: FromOrigin) -> None:
        if isinstance(message, GuestAttach):
            self._attach(origin, message)
            return
        subscriber = self._by_key.get((origin, message.number))
        if isinstance(message, GuestDetach):
            self.guests.left_origin(origin, message.number)
            if subscriber is not None:
                self.on_closed(subscriber)
                self.end(subscriber)
            return
        if (
            subscriber is None
            or subscriber.attachment != message.attachment
            or subscriber.recalled is not None
        ):
            return
        if isinstance(message, GuestPaused):
            self.on_paused(subscriber)
            return
        self._subscriptions.set(subscriber, message.subscriptions)
        if not self.guests.arrived(subscriber) and subscriber.returning:
            subscriber.returning = False
            self._dispatch.release(subscriber)

    def _attach(self, origin: str, message: GuestAttach) -> None:
        key = (origin, message.number)
        if message.move:
            found = self.guests.claim_tethered(origin, message.number, message.move)
            former = self._by_key.get(key)
            if found is not None and former is not None:
                self.end(former)
        else:
            found = self._by_key.get(key)
            if found is not None:
                self.on_back(found)
        if found is None:
            self._tell(origin, GuestClosed(message.number, message.attachment, NOT_HERE))
            return
        assert isinstance(found, TetheredSubscriber)
        self._by_key[key] = found
        found.attachment = message.attachment
        found.returning = not message.move
        found.leased = self.guests.stopping
        found.say(Attached(found.id))

    # What becomes of links -----------------------------------------------------------------

    def lost(self, origin: str) -> None:
        """The link to an origin has forgotten what was under way on it."""
        for subscriber in [one for one in self._by_key.values() if one.origin == origin]:
            self.on_closed(subscriber)
            if self.guests.left(subscriber):
                self.end(subscriber)
                continue
            subscriber.hold()
            self.lease(subscriber)

    def lease(self, subscriber: TetheredSubscriber) -> None:
        """It ends unless somebody comes for it, or recalls it, in time."""
        subscriber.leased = True
        at = self._context.now + LOST_S_MAX
        self._context.emit(SetTimer(f"guest:lost:{subscriber.serial}", at))

    def expired(self, serial: str) -> None:
        """Nobody has recalled a subscriber that was lost."""
        for subscriber in list(self._by_key.values()):
            if str(subscriber.serial) == serial and subscriber.leased:
                self.on_closed(subscriber)
                self.guests.left(subscriber)
                self.end(subscriber)

    def recall(self, answer: GuestAnswer) -> None:
        """The origin is ready to serve the subscriber at home, or does so."""
        subscriber = self._by_key.get((answer.origin, answer.number))
        if answer.step is GuestStep.READY:
            seen, backlog = self._last_words(subscriber) if subscriber is not None else ((), ())
            self._tell_cut(answer, seen, backlog)
        elif (
            answer.step in (GuestStep.ARRIVED, GuestStep.GONE)
            and subscriber is not None
            and subscriber.recalled is not None
        ):
            self.end(subscriber)

    def _tell_cut(self, answer: GuestAnswer, seen: Seen, backlog: Backlog) -> None:
        options = self._context.options
        parts = parts_of(backlog, options.frame_events_max, options.frame_bytes_max)
        last = len(parts) - 1
        for number, part in enumerate(parts):
            qos, batches = tuple(q for _, q in part), tuple(b for b, _ in part)
            told = seen if number == last else ()
            cut = GuestCut(answer.move, answer.path, told, qos, batches, number, number < last)
            self._paths.pass_on(answer.path[1], cut)

    def _last_words(self, subscriber: TetheredSubscriber) -> tuple[Seen, Backlog]:
        if subscriber.recalled is None:
            self.on_closed(subscriber)
            subscriber.recalled = (subscriber.seen(), subscriber.backlog())
            subscriber.hold()
            self.lease(subscriber)
        return subscriber.recalled

    def stop(self) -> None:
        """This broker is about to stop: whoever is connected elsewhere is recalled first."""
        self.guests.stop()
        for subscriber in list(self._by_key.values()):
            if subscriber.origin != self._context.broker_id:
                self.on_closed(subscriber)
                self.lease(subscriber)
                subscriber.say(CloseSession(subscriber.id, STOPPING))
