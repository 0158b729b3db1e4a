"""Tethers: a client stays connected here and is attached as a publisher elsewhere.

A client that cannot be told to reconnect, or that also subscribes, is moved by its broker (the
*origin*) in its stead. Its publications are numbered and accepted here, and handed over unmatched
to the broker it is attached to (`publisher_remote`), over a direct link; so are its advertisements.
The origin follows a relocation as a client would:

    ATTACHED --redirected, link up--> PAUSED --sent away--> ATTACHING --attached--> ATTACHED
       |                                |                       |
       '-- lost: home, ATTACHING here   '-- stay: ATTACHED      '-- late, refused: back, or home

It can always take the publisher home: the advertisement goes round the tree with a greater
attachment, and is settled behind the last publication made where it was. A broker that stops in
order ends the advertisements itself, so the origin waits to see them end (WITHDRAWN) instead of
asking a broker that does not listen any more. Those that have not settled by then may still be on
their way here, ahead of what was published under them: the origin waits to hear of them first.

Invariants: what was handed over is kept until the other broker has acknowledged it, and is handed
over again, in order, wherever the publisher is attached next; subscribers recognise by its numbers
what they have had. A tether outlives its client's session until everything has been taken, and is
ahead of what the client may publish when it comes back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from typing import Final

from gravitate.broker.context import Context
from gravitate.broker.forwarding.pipeline import Dispatch
from gravitate.broker.interface.effects import (
    ENDED,
    MOVED,
    STOPPING,
    TAKEN_OVER,
    UNHEARD,
    AdvertisementSettled,
    Attached,
)
from gravitate.broker.interface.timers import PublisherLate
from gravitate.broker.links.demand import TetherLinks
from gravitate.broker.lives import Life
from gravitate.broker.messages.frames import (
    FromTether,
    Message,
    Publications,
    TetherAdvertise,
    TetherAttach,
    TetherAttached,
    TetherClosed,
    TetherDetach,
    TetherHold,
    TetherPaused,
    TetherRedirect,
    TetherSettled,
    TetherUnadvertise,
    ToTether,
)
from gravitate.broker.messages.parcels import divided
from gravitate.broker.moves.tether.publisher import Command, State, Tether, onward
from gravitate.broker.moves.tether.publisher_remote import Tethered, TetheredPublishers
from gravitate.broker.routing.router import Router
from gravitate.broker.sessions.inbound import Inbound
from gravitate.broker.sessions.publishers import Publishers
from gravitate.broker.sessions.states import Publishing
from gravitate.model.events import Batch
from gravitate.model.filters import Filter

ARRIVE_S_MAX: Final = 10.0
"""How long attaching a publisher elsewhere may take; less than its former broker waits. And how
long an advertisement is waited for that is to end."""


class Tethers:
    """The tethers of this broker's clients."""

    def __init__(
        self,
        context: Context,
        router: Router,
        dispatch: Dispatch,
        publishers: Publishers,
        tethered: TetheredPublishers,
        links: TetherLinks,
        close_session: Callable[[str, str], None],
    ) -> None:
        self._context = context
        self._router = router
        self._dispatch = dispatch
        self._publishers = publishers
        self._tethered = tethered
        self._links = links
        self._by_publisher: dict[tuple[str, int], Tether] = {}
        self._withdrawn: dict[tuple[str, int], Tether] = {}
        """Those of the same that are in this state."""
        self._numbers = count(1)
        self._close_session = close_session

    def __iter__(self) -> Iterator[Tether]:
        return iter(self._by_publisher.values())

    def __len__(self) -> int:
        return len(self._by_publisher)

    def peers(self) -> set[str]:
        """Brokers that a link is needed to."""
        return {peer for tether in self._by_publisher.values() for peer in tether.places()}

    # What the client does ------------------------------------------------------------------

    def make(self, session: Inbound) -> Tethered:
        """Let a client that publishes here be moved; it stays attached here for now."""
        publisher = self._tethered.adopt(session)
        tether = Tether(session, self._context.broker_id, next(self._numbers))
        self._by_publisher[session.life] = tether
        session.at = self
        return publisher

    def adopt(self, session: Inbound) -> bool:
        """Whether a client that comes back finds its tether; its new session goes on with it."""
        tether = self._by_publisher.get(session.life)
        if tether is None:
            return False
        finishing = tether.is_finishing()
        tether.come_back(session)
        session.at = self
        if finishing:
            self._go_home(tether)
        session.say(Attached(session.id))
        return True

    def advertise(self, session: Inbound, key: str, filter: Filter) -> None:
        tether = self._of(session)
        if session.advertisements.get(key) not in (None, filter):
            session.advertisement_ended()
        session.advertisements.put(key, filter)
        tether.heard.discard(key)
        self._pass(tether, TetherAdvertise(*tether.key, key, filter))

    def withdraw(self, session: Inbound, key: str) -> None:
        if session.advertisements.take(key) is not None:
            session.advertisement_ended()
            tether = self._of(session)
            self._pass(tether, TetherUnadvertise(*tether.key, key))

    def publish(self, session: Inbound, batch: Batch) -> None:
        tether = self._of(session)
        widened, ended = session.widened(batch)
        for key, filter in widened.items():
            self.advertise(session, key, filter)
        for key in ended:
            self.withdraw(session, key)
        for part in divided((batch,), self._context.options.frame_events_max):
            part.tether = self._context.broker_id
            self._pass(tether, part)

    def place(self, session: Inbound) -> str:
        return self._of(session).broker

    def must_wait(self, session: Inbound) -> bool:
        tether, options = self._of(session), self._context.options
        return (
            tether.held
            or tether.unsent.exceeds(options.hold_events_max, options.hold_bytes_max)
            or self._publishers.must_wait(session)
        )

    def close(self, session: Inbound) -> None:
        """The client is gone: the publisher ends behind what it has published."""
        tether = self._of(session)
        tether.session = None
        session.at = self._publishers
        session.enter(Publishing.GONE)
        self._pass(tether, TetherDetach(*tether.key))

    def _of(self, session: Inbound) -> Tether:
        """What stands for a client that is attached elsewhere."""
        return self._by_publisher[session.life]

    # Handing over --------------------------------------------------------------------------

    def _pass(self, tether: Tether, command: Command) -> None:
        if tether.state is State.ATTACHED:
            self._hand_over(tether, command)
            return
        tether.keep(command)
        if type(command) is Batch:
            self._update_reading(tether)

    def _hand_over(self, tether: Tether, command: Command) -> None:
        here = self._context.broker_id
        if tether.broker == here:
            if type(command) is Batch:
                self._tethered.publish(here, command)
            else:
                assert not isinstance(command, Batch)
                self._tethered.handle(here, command)
            self._note_taken(tether, command)
            return
        tether.sent.append(command)
        if isinstance(command, Batch):
            self._dispatch.hand_over_to(tether.broker, command)
            for observer in self._context.observers:
                observer.on_handed_over(here, tether.broker, command, self._context.now)
        else:
            self._dispatch.send_control(tether.broker, command)

    def taken(self, peer: str, message: Message) -> None:
        """The other end of a link has received a message of this one's."""
        if type(message) is Publications:
            for batch in message.batches:
                if batch.tether is not None:
                    self._taken(peer, batch.publisher, batch.incarnation, batch)
        elif isinstance(message, TetherAdvertise | TetherUnadvertise):
            self._taken(peer, message.publisher, message.incarnation, message)

    def _taken(self, peer: str, publisher: str, incarnation: int, command: Command) -> None:
        tether = self._by_publisher.get((publisher, incarnation))
        if tether is None or tether.broker != peer:
            return
        if tether.sent and tether.sent[0] is command:
            tether.sent.popleft()
            self._note_taken(tether, command)

    def _note_taken(self, tether: Tether, command: Command) -> None:
        tether.note_taken(command)
        if type(command) is TetherDetach:
            self._end(tether)

    def _resume(self, tether: Tether) -> None:
        tether.state = State.ATTACHED
        while tether.kept and tether.state is State.ATTACHED:
            self._hand_over(tether, tether.next_kept())
        self._update_reading(tether)

    def _update_reading(self, tether: Tether) -> None:
        if tether.session is not None:
            self._publishers.update_reading(tether.session)

    # Being attached elsewhere --------------------------------------------------------------

    def _attach(
        self, tether: Tether, path: tuple[str, ...], former: str = "", lost: str = ""
    ) -> None:
        """Attach the publisher to the last broker of `path`, from here; `lost` is where it was, if
        that cannot be reached."""
        tether.take_back()
        self._withdrawn.pop(tether.key, None)
        left, broker = tether.places(), path[-1]
        way = tuple(dict.fromkeys((*tether.path, *tether.next_path, *path)))
        tether.next_path = path
        tether.state = State.ATTACHING
        tether.broker, tether.former, tether.destination = broker, former, ""
        tether.attachment += 1
        tether.held = tether.unheard = False
        if tether.session is not None:
            tether.session.attachment = tether.attachment
        self._say_attach(tether, way, lost)
        if broker != self._context.broker_id:
            self._set_arrive_timer(tether)
        for peer in sorted(left):
            self._links.review(peer)
        self._update_reading(tether)

    def _set_arrive_timer(self, tether: Tether) -> None:
        at = self._context.now + ARRIVE_S_MAX
        self._context.set_timer(PublisherLate(tether.number), at)

    def _say_attach(self, tether: Tether, way: tuple[str, ...] = (), lost: str = "") -> None:
        about = (*tether.key, tether.attachment)
        self._say(tether.broker, TetherAttach(*about, dict(tether.advertised), way, lost))

    def _say(self, broker: str, message: FromTether) -> None:
        here = self._context.broker_id
        if broker == here:
            self._tethered.handle(here, message)
        else:
            self._links.want(broker)
            self._dispatch.send_control(broker, message)

    def _go_home(self, tether: Tether, lost: str = "") -> None:
        self._attach(tether, (self._context.broker_id,), lost=lost)

    def _go_back(self, tether: Tether) -> None:
        """It could not be attached where it was to go."""
        former, target = tether.former, tether.broker
        if self._links.is_up(target):
            self._say(target, TetherDetach(*tether.key))
        if former and self._links.is_up(former):
            self._attach(tether, tether.path)
        else:
            self._go_home(tether, former)

    def _pause(self, tether: Tether) -> None:
        tether.state = State.PAUSED
        about = (*tether.key, tether.attachment)
        self._say(tether.broker, TetherPaused(*about))

    def _end(self, tether: Tether) -> None:
        del self._by_publisher[tether.key]
        self._withdrawn.pop(tether.key, None)
        for peer in sorted(tether.places()):
            self._links.review(peer)

    # What the broker it is attached to says ------------------------------------------------

    def handle(self, peer: str, message: ToTether) -> None:
        tether = self._by_publisher.get((message.publisher, message.incarnation))
        if (
            tether is None
            or (tether.broker, tether.attachment) != (peer, message.attachment)
            or tether.state is State.WITHDRAWN
        ):
            return  # of where it was before
        match message:
            case TetherAttached():
                if tether.state is State.ATTACHING:
                    left, tether.former = tether.former, ""
                    tether.path = tether.next_path
                    self._resume(tether)
                    self._links.review(left)
            case TetherSettled():
                if tether.session is not None:
                    tether.session.say(AdvertisementSettled(message.publisher, message.name))
            case TetherHold():
                tether.held = message.hold
                self._update_reading(tether)
            case TetherRedirect():
                self._redirected(tether, message.target)
            case TetherClosed():
                self._closed(tether, message)

    def _redirected(self, tether: Tether, target: str) -> None:
        if target == tether.broker:
            left, tether.destination = tether.destination, ""
            self._links.review(left)
            if tether.state is State.PAUSED:
                self._resume(tether)
        elif tether.state is State.ATTACHED and not tether.is_finishing():
            tether.destination = target
            if target != self._context.broker_id:
                self._links.want(target)
            if self._links.is_up(target):
                self._pause(tether)

    def _closed(self, tether: Tether, message: TetherClosed) -> None:
        reason = message.reason
        if reason == MOVED and tether.state is State.PAUSED:
            # It had been told of the pause, so it has taken all that was ahead of it.
            while tether.sent:
                tether.note_taken(tether.sent.popleft())
            self._attach(tether, onward(tether.path, message.path, message.target), tether.broker)
        elif reason in (STOPPING, UNHEARD) and tether.state is State.ATTACHING:
            self._go_back(tether)
        elif reason in (STOPPING, UNHEARD):
            tether.state = State.WITHDRAWN
            if reason == UNHEARD:
                tether.unheard = True
                self._set_arrive_timer(tether)
            self._withdrawn[tether.key] = tether
            tether.take_back()
            self._update_reading(tether)
            self._check_withdrawn(tether)
        elif reason == ENDED and tether.is_finishing():
            while tether.sent:
                self._note_taken(tether, tether.sent.popleft())
        elif reason == TAKEN_OVER:
            session, tether.session = tether.session, None
            self._end(tether)
            if session is not None:
                session.at = self._publishers
                session.advertisements.clear()
                self._close_session(session.id, TAKEN_OVER)

    def heard(self, life: Life, key: str) -> None:
        """An advertisement has come over the tree."""
        tether = self._by_publisher.get(life)
        if tether is not None:
            tether.heard.add(key)

    def advertisements_ended(self) -> None:
        """Some advertisements have ended; they may be what a tether waits for."""
        for tether in list(self._withdrawn.values()):
            self._check_withdrawn(tether)

    def _check_withdrawn(self, tether: Tether) -> None:
        known = self._router.known_of(tether.key)
        if tether.has_heard() and all(one.is_here for one in known.values()):
            # All that it published there is ahead: what it advertised is advertised anew.
            tether.advertise_anew()
            self._go_home(tether, tether.broker)

    # What becomes of links -----------------------------------------------------------------

    def link_up(self, peer: str) -> None:
        """A link can be used: who waits for it to go there pauses."""
        for tether in list(self._by_publisher.values()):
            if tether.destination == peer and tether.state is State.ATTACHED:
                self._pause(tether)

    def link_reset(self, peer: str) -> None:
        """A link starts anew: the broker there has forgotten what was attached to it."""
        for tether in list(self._by_publisher.values()):
            if tether.broker != peer:
                continue
            if tether.state is State.ATTACHING:
                self._say_attach(tether)  # to one that has forgotten, so it is not waited for
            elif tether.state is not State.WITHDRAWN:
                self._go_home(tether)

    def link_lost(self, peer: str) -> None:
        """A link is given up."""
        for tether in list(self._by_publisher.values()):
            if tether.destination == peer:
                tether.destination = ""
            if tether.broker == peer and tether.state is State.ATTACHING:
                self._go_back(tether)
            elif tether.broker == peer and tether.state is not State.WITHDRAWN:
                self._go_home(tether, peer)

    def late(self, number: int) -> None:
        """A publisher should have been attached by now."""
        here = self._context.broker_id
        for tether in list(self._by_publisher.values()):
            if tether.number != number:
                continue
            if tether.state is State.ATTACHING and tether.broker != here:
                self._go_back(tether)
            elif tether.unheard:
                self._go_home(tether)
