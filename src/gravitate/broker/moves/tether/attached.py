"""Publishers that are attached here and connected elsewhere: the far end of their tethers.

What the broker of the client (the *origin*) hands over is published here, as if the client were
here. What it has handed over is retained there until all have it that it was passed on to.

Owns these publishers and the order of what happens to them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import msgspec

from gravitate.broker.interface import effects
from gravitate.broker.interface.timers import TetheredHoldOver
from gravitate.broker.links.seek import Seek
from gravitate.broker.lives import Life
from gravitate.broker.messages.tether import FromOrigin, HandedOver, TetherAdvertise, TetherAttach
from gravitate.broker.messages.tether import Publishing as Role
from gravitate.broker.moves.engine import Engine
from gravitate.broker.moves.tether.remote import End, Key, Remote
from gravitate.broker.routing.settlement import NOWHERE, Open
from gravitate.broker.sessions.advertisements import Advertisements
from gravitate.broker.sessions.inbound import Inbound
from gravitate.broker.sessions.publishers import Publishers
from gravitate.broker.sessions.states import Publishing
from gravitate.broker.sessions.store import Store
from gravitate.model.events import Batch
from gravitate.model.filters import Filter


class Tethered(End, Inbound):
    """One publisher whose client is connected elsewhere."""

    origin: str

    def __init__(self, kind: TetheredPublishers, key: Key, life: Life, attachment: int) -> None:
        End.__init__(self, kind, key)
        timer, options = TetheredHoldOver(self.serial), self.remote.context.options
        Inbound.__init__(self, *life, attachment, options, self.say, timer, kind.publishers)

    def listens(self) -> bool:
        return self.state is not Publishing.TAKEN

    def unadvertised(self, batch: Batch) -> list[str]:
        """The broker of its session advertises for it."""
        return []


@dataclass(eq=False)
class TetheredPublishers:
    """All publishers that are attached to this broker by a tether."""

    publishers: Publishers
    remote: Remote
    _engine: Engine
    _seek: Seek
    _leaving: Store[int, Tethered] = field(default_factory=lambda: Store(lambda one: one.serial))
    """Publishers that the other end has ended, and waits to hear that all know of it."""

    def __iter__(self) -> Iterator[Tethered]:
        return (end for end in self.remote if isinstance(end, Tethered))

    def find(self, publisher: str) -> Tethered | None:
        """The latest life of a publisher that is attached here."""
        those = self._all(publisher)
        return max(those, key=lambda one: (one.incarnation, one.attachment), default=None)

    def of(self, life: Life) -> list[Tethered]:
        return [one for one in self._all(life[0]) if one.life == life]

    def _all(self, publisher: str) -> list[Tethered]:
        return [one for one in self.remote.of_client(publisher) if isinstance(one, Tethered)]

    # What the other end says ---------------------------------------------------------------

    def attach(self, origin: str, message: TetherAttach, role: Role) -> None:
        life, key = (message.client, message.incarnation), (origin, message.number)
        publisher = Tethered(self, key, life, message.attachment)
        if self._engine.stopping and origin != self.remote.context.broker_id:
            publisher.say(effects.CloseSession(effects.STOPPING))
            return
        former = self.of(life)
        for one in former:
            self._remove(one, Publishing.ENDING)
            if one.key != key:
                one.say(effects.CloseSession(effects.TAKEN_OVER))
        back = self.publishers.came_back(life)
        self.remote.add(publisher)
        publisher.lost = role.lost or ""
        self._seek_ways(publisher, role.was, NOWHERE)
        self.publishers.bring_along(publisher, role.advertisements)
        for ended in (*former, *back):
            self.publishers.unadvertise_all(ended)

    def _seek_ways(self, publisher: Tethered, to: tuple[str, ...], known: Open) -> None:
        """Find out which brokers are between here and where a publisher was, all of it or none."""

        def found(way: tuple[str, ...] | None) -> None:
            if way is not None:
                self._seek_ways(publisher, to[1:], known.union(way))

        if to:
            self._seek(to[0], found)
        else:
            publisher.way = known
            self.publishers.review_arrival(publisher)

    def adopt(self, session: Inbound, number: int) -> Tethered:
        """A publisher in place of a session's at rest, as if attached by a tether from here."""
        assert session.at_rest()
        assert session.state is Publishing.HERE
        key = (self.remote.context.broker_id, number)
        publisher = Tethered(self, key, session.life, session.attachment)
        publisher.advertisements = Advertisements(session.advertisements)
        self.publishers.own(publisher)
        self.remote.add(publisher)
        return publisher

    def do(self, end: Tethered, message: FromOrigin | HandedOver) -> None:
        match message:
            case HandedOver():
                for batch in message.batches:
                    self._publish(end, batch)
            case TetherAdvertise(filter=None):
                self.publishers.withdraw(end, message.key)
            case TetherAdvertise(filter=Filter() as filter):
                self.publishers.advertise(end, message.key, filter)

    def _publish(self, publisher: Tethered, batch: Batch) -> None:
        """A batch that was handed over is published here."""
        mark = self.remote.links.mark()
        if mark is not None and mark.link.peer == publisher.origin:
            self.remote.links.retain(mark)
            publisher.marks.append(mark)
        self.publishers.publish(publisher, msgspec.structs.replace(batch, flood=False))

    def detach(self, end: Tethered) -> None:
        if end.listens():
            self._leaving.put(end)
            self.close(end)

    # What becomes of them ------------------------------------------------------------------

    def depart(self, publisher: Tethered, move: str, target: str) -> None:
        """A move sends a publisher elsewhere; its advertisements wait to be taken along."""
        publisher.move = move
        self._remove(publisher, Publishing.DEPARTING)
        self.publishers.depart(publisher)
        publisher.say(effects.CloseSession(effects.MOVED, target))

    def taken_over(self, publisher: Inbound) -> None:
        """It is attached elsewhere; the other end may know."""
        if isinstance(publisher, Tethered):
            self._remove(publisher, Publishing.GONE)
            publisher.say(effects.CloseSession(effects.TAKEN_OVER))
            self.remote.ports.on_closed(publisher)

    def ended(self, publisher: Inbound) -> None:
        """All that a publisher no longer advertises has ended everywhere: what it published is
        ahead of whatever its client publishes next."""
        if isinstance(publisher, Tethered) and self._leaving.remove(publisher):
            publisher.say(effects.CloseSession(effects.ENDED))
            self.remote.ports.on_left(publisher.origin)

    def expects(self, origin: str) -> bool:
        """Whether clients of a broker were attached here that may come back, or are to end."""
        stores = (self.publishers.departing, self._leaving)
        return any(origin in store.origins() for store in stores)

    def forget(self, origin: str) -> None:
        """Nobody waits there any more to hear that something has ended."""
        for publisher in self._leaving.of_origin(origin):
            self._leaving.remove(publisher)

    def stop(self) -> None:
        """Whatever is attached from elsewhere ends. Nothing that is handed over may be received
        after this, for it would be acknowledged and not be published."""
        for publisher in list(self):
            if publisher.origin != self.remote.context.broker_id:
                reason = effects.UNHEARD if publisher.unsettled_advertisements else effects.STOPPING
                self.close(publisher)
                publisher.say(effects.CloseSession(reason))

    def hold_expired(self, serial: int) -> None:
        """The oldest publication of a publisher has waited long enough."""
        publisher = self.remote.by_serial.get(serial)
        if isinstance(publisher, Tethered):
            self.publishers.release(publisher)

    def close(self, end: Tethered) -> None:
        self._remove(end, Publishing.ENDING)
        self.publishers.unadvertise_all(end)
        self.remote.ports.on_closed(end)

    on_origin_lost = close

    def _remove(self, publisher: Tethered, state: Publishing) -> None:
        """What waits goes out; nothing more is taken from it."""
        self.publishers.release(publisher)
        publisher.enter(state)
        self.remote.remove(publisher)
        self.publishers.congestion.left(publisher.life)
