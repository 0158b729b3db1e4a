"""Tethers of publishers: a client stays connected here and is attached as a publisher elsewhere.

Its publications are numbered and accepted here, and handed over unmatched to the broker it is
attached to, over a direct link; so are its advertisements. What the client does becomes *commands*,
which are handed over in order and once. A command is kept until it is handed over, then sent until
the other broker has passed on what it brought: it is taken then.

The origin takes the publisher home as a client would go: the advertisement goes round the tree with
a greater attachment, and is settled behind the last publication made where it was. A broker that
stops in order ends the advertisements itself, so the origin waits to see them end (WITHDRAWN)
instead of asking a broker that does not listen any more. Those that have not settled by then may
still be on their way here, ahead of what was published under them: the origin waits to hear of them
first (UNHEARD).

Invariants: what was handed over is kept until the other broker has acknowledged it, and is handed
over again, in order, wherever the publisher is attached next; subscribers recognise by its numbers
what they have had. A tether outlives its client's session until everything has been taken, and is
ahead of what the client may publish when it comes back.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import msgspec

from gravitate.broker.interface import effects
from gravitate.broker.lives import Life
from gravitate.broker.measure import Measure
from gravitate.broker.messages import tether as t
from gravitate.broker.messages.frames import Message
from gravitate.broker.messages.parcels import divided
from gravitate.broker.moves.tether.attached import Tethered, TetheredPublishers
from gravitate.broker.moves.tether.origin import State, Tether, Tethers
from gravitate.broker.routing.router import Router
from gravitate.broker.sessions.advertisements import Advertisements
from gravitate.broker.sessions.inbound import Inbound
from gravitate.broker.sessions.publishers import Publishers
from gravitate.broker.sessions.states import Publishing as InboundState
from gravitate.model.events import Batch
from gravitate.model.filters import Filter

Command = t.HandedOver | t.TetherAdvertise | t.TetherDetach
"""What is handed over in order, once."""


class PublisherTether(Tether):
    """One client of this broker as a publisher: what is on the way to where it is attached."""

    def __init__(self, kind: PublisherTethers, session: Inbound) -> None:
        super().__init__(kind, *session.life, session.attachment)
        self.life = session.life
        self.session: Inbound | None = session
        """None: the client is gone, and the tether ends when all has been taken."""
        self.advertised: dict[str, Filter] = dict(session.advertisements)
        """By key, as of the last command that was taken."""
        self.heard: set[str] = set()
        """Keys whose latest advertisement has come here over the tree."""
        self.sent: deque[Command] = deque()
        """Handed over and not taken."""
        self.kept: deque[Command] = deque()
        """Not handed over yet."""
        self.unsent = Measure()
        """Of what is kept."""
        self.sequence = 0
        """Of the last command that was handed over."""
        self.held = False
        """The other broker has said that too much of it waits there."""

    def role(self, was: tuple[str, ...], lost: str | None) -> t.Publishing:
        return t.Publishing(dict(self.advertised), was, lost)

    def may_move(self) -> bool:
        return not self.is_finishing()

    def is_finishing(self) -> bool:
        """Whether the end of the publisher has been handed over."""
        return bool(self.sent) and type(self.sent[-1]) is t.TetherDetach

    def keep(self, command: Command) -> None:
        self.kept.append(command)
        for batch in _batches(command):
            self.unsent.add(batch.bodies)

    def next_kept(self) -> Command:
        command = self.kept.popleft()
        for batch in _batches(command):
            self.unsent.take(batch.bodies)
        return command

    def is_next_taken(self, peer: str, message: t.Counted) -> bool:
        """Whether it is the first of what was sent where it is attached."""
        first = self.sent[0] if self.place == peer and self.sent else None
        known_by = (message.attachment, message.sequence)
        return isinstance(first, t.Counted) and (first.attachment, first.sequence) == known_by

    def take_back(self) -> None:
        """What was handed over and not taken will be handed over again."""
        commands = (*self.sent, *self.kept)
        self.sent, self.kept, self.unsent = deque(), deque(), Measure()
        for command in commands:
            self.keep(command)

    def come_back(self, session: Inbound) -> None:
        """The client is here again: its publisher does not end, but as if its former session had
        ended, all that it advertised does."""
        self.session = session
        session.attachment = self.attachment
        self.sent, self.kept = (
            deque(c for c in commands if type(c) is not t.TetherDetach)
            for commands in (self.sent, self.kept)
        )
        advertised = dict(self.advertised)
        for command in (*self.sent, *self.kept):
            _apply(advertised, command)
        self.kept.extend(t.TetherAdvertise(self.number, 0, 0, key, None) for key in advertised)

    def advertise_anew(self) -> None:
        """What was advertised has ended everywhere, and is to be advertised again first of all."""
        again = [t.TetherAdvertise(self.number, 0, 0, *one) for one in self.advertised.items()]
        self.kept, self.advertised = deque([*again, *self.kept]), {}


def _batches(command: Command) -> Sequence[Batch]:
    return command.batches if isinstance(command, t.HandedOver) else ()


def _apply(advertised: dict[str, Filter], command: Command) -> None:
    """What is advertised after a command has been taken."""
    if isinstance(command, t.TetherAdvertise):
        if command.filter is not None:
            advertised[command.key] = command.filter
        else:
            advertised.pop(command.key, None)


@dataclass(eq=False)
class PublisherTethers:
    """The publishers of this broker's clients that may be attached elsewhere."""

    _router: Router
    _publishers: Publishers
    _tethered: TetheredPublishers
    tethers: Tethers
    _by_life: dict[Life, PublisherTether] = field(default_factory=dict)
    _homeward: dict[int, PublisherTether] = field(default_factory=dict)
    """By number, those that wait for advertisements to end."""

    def __iter__(self) -> Iterator[PublisherTether]:
        return iter(self._by_life.values())

    # What the client does ------------------------------------------------------------------

    def make(self, session: Inbound) -> Tethered:
        """Let a client that publishes here be moved; it stays attached here for now."""
        tether = PublisherTether(self, session)
        self._by_life[tether.life] = tether
        self.tethers.add(tether)
        session.at = self
        return self._tethered.adopt(session, tether.number)

    def adopt(self, session: Inbound) -> bool:
        """Whether a client that comes back finds its tether; its new session goes on with it."""
        tether = self._by_life.get(session.life)
        if tether is None:
            return False
        finishing = tether.is_finishing()
        tether.come_back(session)
        session.at = self
        if finishing:
            self.go_home(tether)
        session.say(effects.Attached())
        return True

    def advertise(self, session: Inbound, key: str, filter: Filter) -> None:
        tether = self._by_life[session.life]
        if session.advertisements.get(key) not in (None, filter):
            session.advertisement_ended()
        session.advertisements.put(key, filter)
        tether.heard.discard(key)
        self._pass(tether, t.TetherAdvertise(tether.number, 0, 0, key, filter))

    def withdraw(self, session: Inbound, key: str) -> None:
        if session.advertisements.take(key) is not None:
            session.advertisement_ended()
            tether = self._by_life[session.life]
            self._pass(tether, t.TetherAdvertise(tether.number, 0, 0, key, None))

    def publish(self, session: Inbound, batch: Batch) -> None:
        tether = self._by_life[session.life]
        widened, ended = session.widened(batch)
        for key, filter in widened.items():
            self.advertise(session, key, filter)
        for key in ended:
            self.withdraw(session, key)
        for part in divided((batch,), self.tethers.remote.context.options.frame_events_max):
            self._pass(tether, t.HandedOver(tether.number, 0, 0, (part,)))

    def place(self, session: Inbound) -> str:
        return self._by_life[session.life].place

    def must_wait(self, session: Inbound) -> bool:
        tether, options = self._by_life[session.life], self.tethers.remote.context.options
        is_full = tether.unsent.exceeds(options.hold_events_max, options.hold_bytes_max)
        return tether.held or is_full or self._publishers.must_wait(session)

    def close(self, session: Inbound) -> None:
        """The client is gone: the publisher ends behind what it has published."""
        tether = self._by_life[session.life]
        tether.session = None
        session.at = self._publishers
        session.enter(InboundState.GONE)
        self._pass(tether, t.TetherDetach(tether.number, 0))

    # Handing over --------------------------------------------------------------------------

    def _pass(self, tether: PublisherTether, command: Command) -> None:
        if tether.state is State.ATTACHED:
            self._hand_over(tether, command)
            return
        tether.keep(command)
        if isinstance(command, t.HandedOver):
            self._update_reading(tether)

    def _hand_over(self, tether: PublisherTether, command: Command) -> None:
        attachment, replace = tether.attachment, msgspec.structs.replace
        if isinstance(command, t.Counted):
            tether.sequence += 1
            command = replace(command, attachment=attachment, sequence=tether.sequence)
        else:
            command = replace(command, attachment=attachment)
        if self.tethers.remote.tell(tether.place, command):
            self._note_taken(tether, command)
        else:
            tether.sent.append(command)

    def taken(self, peer: str, message: Message) -> None:
        """The other end of a link has taken a message of this one's."""
        if isinstance(message, t.HandedOver | t.TetherAdvertise):
            tether = self.tethers.get(message.number)
            if isinstance(tether, PublisherTether) and tether.is_next_taken(peer, message):
                self._note_taken(tether, tether.sent.popleft())

    def _note_taken(self, tether: PublisherTether, command: Command) -> None:
        _apply(tether.advertised, command)
        if type(command) is t.TetherDetach:
            self._end(tether)

    def go_on(self, tether: PublisherTether) -> None:
        while tether.kept and tether.state is State.ATTACHED:
            self._hand_over(tether, tether.next_kept())
        self._update_reading(tether)

    def _update_reading(self, tether: PublisherTether) -> None:
        if tether.session is not None:
            self._publishers.update_reading(tether.session)

    def _end(self, tether: PublisherTether) -> None:
        del self._by_life[tether.life]
        self._homeward.pop(tether.number, None)
        self.tethers.end(tether)

    # Being attached elsewhere --------------------------------------------------------------

    def on_attaching(self, tether: PublisherTether, move: str | None) -> None:
        while move is not None and tether.sent:
            # Where it was had been told of the pause, so it has taken all that was ahead of it.
            _apply(tether.advertised, tether.sent.popleft())
        tether.take_back()
        tether.held = False
        self._homeward.pop(tether.number, None)
        if tether.session is not None:
            tether.session.attachment = tether.attachment
        self._update_reading(tether)

    def go_home(self, tether: PublisherTether, lost: str | None = None) -> None:
        self.tethers.attach(tether, tether.here, lost=lost)

    def on_said(self, tether: PublisherTether, message: t.TetherSettled | t.TetherHold) -> None:
        if isinstance(message, t.TetherHold):
            tether.held = message.hold
            self._update_reading(tether)
        elif tether.session is not None:
            tether.session.say(effects.AdvertisementSettled(message.name))

    def on_closed(self, tether: PublisherTether, reason: str) -> None:
        if reason in (effects.STOPPING, effects.UNHEARD):
            self._withdraw(tether, reason)
        elif reason == effects.ENDED and tether.is_finishing():
            while tether.sent:
                self._note_taken(tether, tether.sent.popleft())
        elif reason == effects.TAKEN_OVER:
            session, tether.session = tether.session, None
            self._end(tether)
            if session is not None:
                session.at = self._publishers
                session.advertisements = Advertisements()
                self.tethers.close_session(session.id, effects.TAKEN_OVER)

    # Where it was ends what it advertised --------------------------------------------------

    def _withdraw(self, tether: PublisherTether, reason: str) -> None:
        if reason == effects.UNHEARD:
            tether.enter(State.UNHEARD)
            self.tethers.wait(tether)
        else:
            tether.enter(State.WITHDRAWN)
        self._homeward[tether.number] = tether
        tether.take_back()
        self._update_reading(tether)
        self._check_withdrawn(tether)

    def heard(self, life: Life, key: str) -> None:
        """An advertisement has come over the tree."""
        tether = self._by_life.get(life)
        if tether is not None:
            tether.heard.add(key)

    def advertisements_ended(self) -> None:
        """Some advertisements have ended; they may be what a tether waits for."""
        for tether in list(self._homeward.values()):
            self._check_withdrawn(tether)

    def _check_withdrawn(self, tether: PublisherTether) -> None:
        has_heard = tether.state is not State.UNHEARD or tether.heard.issuperset(tether.advertised)
        known = self._router.known_of(tether.life)
        if has_heard and all(one.is_here for one in known.values()):
            # All that it published there is ahead: what it advertised is advertised anew.
            tether.advertise_anew()
            self.go_home(tether, tether.place)
