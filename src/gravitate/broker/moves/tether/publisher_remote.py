"""Publishers that are attached here and connected elsewhere: the far end of tethers.

For each there is a `Tethered`, a publisher without a session: what its client's broker hands over
is published here, as if the client were here. It follows relocations, because the broker at the
other end does so in its stead. A tether whose two ends are one broker is the same without a link.

Owns the tethered publishers and the order of what happens to them. The other end, and which links
exist for tethers, are not known here: `tell` takes what the other end is to be told.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from typing import NamedTuple

import msgspec

from gravitate.broker.context import Context
from gravitate.broker.interface.effects import (
    ENDED,
    MOVED,
    STOPPING,
    TAKEN_OVER,
    UNHEARD,
    AdvertisementSettled,
    Attached,
    CloseSession,
    HoldReading,
    Redirect,
    ToPublisher,
)
from gravitate.broker.interface.timers import TetheredHoldOver
from gravitate.broker.links.table import LinkTable
from gravitate.broker.lives import Life
from gravitate.broker.messages.frames import (
    FromTether,
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
from gravitate.broker.options import BrokerOptions
from gravitate.broker.routing.router import Router
from gravitate.broker.sessions.advertisements import Advertisements
from gravitate.broker.sessions.elsewhere import PublishesAt
from gravitate.broker.sessions.inbound import Inbound
from gravitate.broker.sessions.publishers import Publishers
from gravitate.broker.sessions.states import Publishing
from gravitate.broker.sessions.store import Store
from gravitate.model.events import Batch

Key = tuple[str, str, int]
"""The broker of the client's session, the publisher, its incarnation."""


class _ToOrigin:
    """Tells the broker of a client what the client would be told, as a publisher `about` which it
    is."""

    def __init__(
        self, tell: Callable[[str, ToTether], None], origin: str, about: tuple[str, int, int]
    ) -> None:
        self._tell = tell
        self._origin = origin
        self._about = about
        self.path: tuple[str, ...] = ()
        """Along which it was sent elsewhere."""

    def say(self, effect: ToPublisher, /) -> None:
        about = self._about
        match effect:
            case Attached():
                message: ToTether = TetherAttached(*about)
            case AdvertisementSettled():
                message = TetherSettled(*about, effect.name)
            case HoldReading():
                message = TetherHold(*about, effect.hold)
            case Redirect():
                message = TetherRedirect(*about, effect.target)
            case CloseSession():
                message = TetherClosed(*about, effect.reason, effect.target, self.path)
        self._tell(self._origin, message)


class Tethered(Inbound):
    """One publisher whose client is connected to broker `origin`."""

    def __init__(
        self,
        origin: str,
        id: str,
        incarnation: int,
        attachment: int,
        options: BrokerOptions,
        tell: Callable[[str, ToTether], None],
        number: int,
        at: PublishesAt,
    ) -> None:
        about = (id, incarnation, attachment)
        self.outlet = _ToOrigin(tell, origin, about)
        super().__init__(*about, options, self.outlet.say, TetheredHoldOver(number), at)
        self.origin: str = origin
        self.number = number

    def unadvertised(self, batch: Batch) -> list[str]:
        """The broker of its session advertises for it."""
        return []


class TetheredPublisherPorts(NamedTuple):
    """Who is told of publishers that are attached here for others."""

    on_paused: Callable[[Tethered], None]
    on_closed: Callable[[Inbound], None]
    """Told of publishers that end, but for departing ones."""


class TetheredPublishers:
    """All publishers that are attached to this broker by a tether."""

    def __init__(
        self,
        context: Context,
        router: Router,
        publishers: Publishers,
        links: LinkTable,
        tell: Callable[[str, ToTether], None],
        ports: TetheredPublisherPorts,
    ) -> None:
        self._ports = ports
        self._context = context
        self._router = router
        self._publishers = publishers
        self._links = links
        self._tell = tell
        self._attached: Store[Key, Tethered] = Store(_key)
        self._by_number: dict[int, Tethered] = {}
        self._leaving: Store[int, Tethered] = Store(lambda publisher: publisher.number)
        """Publishers that have been ended by the other end, which waits to hear that this is known
        everywhere."""
        self._numbers = count(1)
        self._stopping = False

    def __iter__(self) -> Iterator[Tethered]:
        return iter(self._attached)

    def find(self, publisher: str) -> Tethered | None:
        """The latest life of a publisher that is attached here."""
        lives = self._attached.of_client(publisher)
        return max(lives, key=lambda one: (one.incarnation, one.attachment), default=None)

    def of(self, life: Life) -> list[Tethered]:
        """Those that are attached here of one life of a publisher."""
        return [one for one in self._attached.of_client(life[0]) if one.life == life]

    def is_origin(self, broker: str) -> bool:
        """Whether clients of a broker are attached here, or were and may come back."""
        stores = (self._attached, self._publishers.departing, self._leaving)
        return any(broker in store.origins() for store in stores)

    # What the other end says ---------------------------------------------------------------

    def handle(self, origin: str, message: FromTether) -> None:
        if isinstance(message, TetherAttach):
            self._attach(origin, message)
            return
        publisher = self._attached.get((origin, message.publisher, message.incarnation))
        if publisher is None or publisher.state is Publishing.TAKEN:
            return  # it has gone elsewhere meanwhile, and says all of this again there
        match message:
            case TetherAdvertise():
                self._publishers.advertise(publisher, message.key, message.filter)
            case TetherUnadvertise():
                self._publishers.withdraw(publisher, message.key)
            case TetherPaused():
                if message.attachment == publisher.attachment:
                    self._ports.on_paused(publisher)
            case TetherDetach():
                self._leaving.put(publisher)
                self._end(publisher)

    def publish(self, origin: str, batch: Batch) -> None:
        """A batch that was handed over is published here."""
        publisher = self._attached.get((origin, batch.publisher, batch.incarnation))
        if publisher is not None and publisher.state is not Publishing.TAKEN:
            mark = self._links.mark()
            if mark is not None and mark.peer == origin:
                self._links.retain(mark)
                publisher.marks.append(mark)
            batch = msgspec.structs.replace(batch, tether=None, flood=False)
            self._publishers.publish(publisher, batch)

    def _attach(self, origin: str, message: TetherAttach) -> None:
        id, incarnation = message.publisher, message.incarnation
        publisher = self._make(origin, id, incarnation, message.attachment)
        if self._stopping and origin != self._context.broker_id:
            publisher.say(CloseSession(id, STOPPING))
            return
        former: list[Inbound] = []
        for one in self.of((id, incarnation)):
            former.append(one)
            self._remove(one, Publishing.ENDING)
            if one.origin != origin:
                one.say(CloseSession(id, TAKEN_OVER))
        former += self._publishers.came_back(id, incarnation)
        self._add(publisher)
        publisher.way, publisher.lost = frozenset(message.way), message.lost
        self._publishers.bring_along(publisher, message.advertisements)
        for ended in former:
            self._publishers.unadvertise_all(ended)

    def adopt(self, session: Inbound) -> Tethered:
        """A publisher in place of a session's at rest, as if attached by a tether from here."""
        assert session.at_rest()
        assert session.state is Publishing.HERE
        here = self._context.broker_id
        publisher = self._make(here, session.id, session.incarnation, session.attachment)
        publisher.advertisements = Advertisements(session.advertisements)
        self._publishers.own(publisher)
        self._add(publisher)
        return publisher

    def _make(self, origin: str, id: str, incarnation: int, attachment: int) -> Tethered:
        about = (origin, id, incarnation, attachment, self._context.options)
        return Tethered(*about, self._tell, next(self._numbers), self._publishers)

    # What becomes of them ------------------------------------------------------------------

    def depart(self, publisher: Tethered, path: tuple[str, ...]) -> None:
        """Send a publisher along a path; its advertisements wait to be taken along."""
        self._remove(publisher, Publishing.DEPARTING)
        self._publishers.depart(publisher)
        publisher.outlet.path = path
        publisher.say(CloseSession(publisher.id, MOVED, path[-1]))

    def taken_over(self, publisher: Inbound) -> None:
        """It is attached elsewhere; the other end may know."""
        if isinstance(publisher, Tethered):
            self._remove(publisher, Publishing.GONE)
            publisher.say(CloseSession(publisher.id, TAKEN_OVER))
            self._ports.on_closed(publisher)

    def ended(self, publisher: Inbound) -> None:
        """All that a publisher no longer advertises has ended everywhere: what it published is
        ahead of whatever its client publishes next."""
        if isinstance(publisher, Tethered) and self._leaving.remove(publisher):
            publisher.say(CloseSession(publisher.id, ENDED))
            self._publishers.ports.on_left(publisher)

    def lost(self, origin: str) -> None:
        """The broker at the other end has forgotten its tethers, or is gone."""
        for leaving in self._leaving.of_origin(origin):
            self._leaving.remove(leaving)
        for publisher in self._attached.of_origin(origin):
            self._end(publisher)

    def take_no_more(self) -> None:
        """This broker is about to stop: nothing more is attached from elsewhere."""
        self._stopping = True

    def stop(self) -> None:
        """Whatever is attached from elsewhere ends. Nothing that is handed over may be received
        after this, for it would be acknowledged and not be published."""
        for publisher in self._attached:
            if publisher.origin != self._context.broker_id:
                reason = UNHEARD if publisher.unsettled_advertisements else STOPPING
                self._end(publisher)
                publisher.say(CloseSession(publisher.id, reason))

    def hold_expired(self, number: int) -> None:
        """The oldest publication of a publisher has waited long enough."""
        publisher = self._by_number.get(number)
        if publisher is not None:
            self._publishers.release(publisher)

    def _end(self, publisher: Tethered) -> None:
        self._remove(publisher, Publishing.ENDING)
        self._publishers.unadvertise_all(publisher)
        self._ports.on_closed(publisher)

    def _add(self, publisher: Tethered) -> None:
        self._attached.put(publisher)
        self._by_number[publisher.number] = publisher

    def _remove(self, publisher: Tethered, state: Publishing) -> None:
        """What waits goes out; nothing more is taken from it."""
        self._publishers.release(publisher)
        publisher.enter(state)
        self._attached.remove(publisher)
        del self._by_number[publisher.number]
        self._publishers.ports.on_gone(publisher.life)
        self._publishers.ports.on_left(publisher)


def _key(publisher: Tethered) -> Key:
    return publisher.origin, publisher.id, publisher.incarnation
