"""Publishers attached to a broker: what they advertise, what waits, how they come and go.

A publication whose advertisement has not settled waits for it, everything published meanwhile
behind it. A publisher that has been at another broker is *arriving*: its advertisements are taken
along, and what it sends waits until they have settled, for then everything it published there is
ahead. One that was sent away is *departing*: it has ended here, its advertisements stay until
they have been taken along, or nobody has come for them in time.

Does not know whether a publisher is the client of a session or is tethered to this broker: what
the client is to be told goes to its outlet.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from operator import attrgetter
from typing import NamedTuple

from gravitate.broker.context import Context
from gravitate.broker.forwarding.congestion import CongestionView
from gravitate.broker.forwarding.handovers import Handovers
from gravitate.broker.forwarding.pipeline import Dispatch
from gravitate.broker.interface.effects import AdvertisementSettled, Attached, HoldReading
from gravitate.broker.interface.inputs import ClientPublished
from gravitate.broker.links.demand import TetherLinks
from gravitate.broker.lives import Life
from gravitate.broker.routing.router import Router
from gravitate.broker.routing.settlement import Asker, Open
from gravitate.broker.sessions.chores import Chores
from gravitate.broker.sessions.inbound import Inbound
from gravitate.broker.sessions.states import Publishing
from gravitate.broker.sessions.store import Store
from gravitate.model.events import Batch
from gravitate.model.filters import Filter

CLIENTS_OWN = "client:"
"""Before the name of an advertisement that the client made itself."""


class PublisherPorts(NamedTuple):
    """Who is asked and told about publishers."""

    on_departure: Callable[[Inbound, bool], None]
    """Told of a departing publisher that it is gone (True) or back (False)."""
    on_at_rest: Callable[[Inbound], None]
    """Told when a publisher comes to rest, see `Inbound.at_rest`."""
    on_taken_over: Callable[[Inbound], None]
    """Told of a live publisher that it is attached elsewhere now."""
    on_closed: Callable[[Inbound], None]
    """Told of publishers that end with their session."""
    on_ended: Callable[[Inbound], None]
    """Told when all that a publisher no longer advertises has ended everywhere."""
    take: Callable[[ClientPublished], None]
    """Looks at what a client has sent."""


@dataclass(eq=False)
class Publishers:
    _context: Context
    _router: Router
    _dispatch: Dispatch
    _handovers: Handovers
    congestion: CongestionView
    _links: TetherLinks
    _chores: Chores
    ports: PublisherPorts
    departing: Store[Life, Inbound] = field(default_factory=lambda: Store(attrgetter("life")))
    """Publishers on their way to another broker; a client may have had several lives meanwhile."""
    _owners: dict[tuple[Life, str], Inbound] = field(default_factory=dict)
    """Whose the local advertisements are, by life and key."""

    # Coming and going ----------------------------------------------------------------------

    def bring_along(
        self, publisher: Inbound, advertisements: Mapping[str, Filter] | None = None
    ) -> None:
        """Attach the publisher here, with whatever it has advertised wherever it was, or with
        the advertisements given, by key, which it had elsewhere."""
        known = self._router.known_of(publisher.life)
        if advertisements is None:
            advertisements = {key: one.filter for key, one in known.items()}
        # One may not have been heard of here yet; one just brought here may be passing still.
        moving = any(
            key not in known or known[key].is_passing or not known[key].is_here
            for key in advertisements
        )
        if moving:
            publisher.enter(Publishing.ARRIVING)
            publisher.expect_answers(advertisements)
        for key, filter in advertisements.items():
            self.advertise(publisher, key, filter)
        if not moving:
            publisher.say(Attached())

    def _arrived(self, publisher: Inbound) -> None:
        """Everything the publisher published elsewhere is ahead: it publishes here now."""
        if publisher.state is Publishing.ARRIVING:
            publisher.enter(Publishing.HERE)
            publisher.say(Attached())
            sent, publisher.arriving = publisher.arriving, deque()
            for input in sent:
                publisher.unpublished.take(input.bodies)
                self.ports.take(input)
            self.update_reading(publisher)

    def came_back(self, life: Life) -> list[Inbound]:
        """A publisher attaches itself here; if it had been sent away, what it was then."""
        former = self.departing.get(life)
        if former is None:
            return []
        self._end_departure(former, Publishing.GONE, False)
        return [former]

    def depart(self, publisher: Inbound) -> None:
        """The publisher has ended here; its advertisements wait to be taken along."""
        assert publisher.state is Publishing.DEPARTING, f"{publisher.id} goes on here"
        if publisher.advertisements:
            self.departing.put(publisher)
        else:
            publisher.enter(Publishing.GONE)
            self.ports.on_departure(publisher, True)

    def abandon(self, publisher: Inbound) -> None:
        """Nobody came for what a departing publisher had advertised."""
        if self._end_departure(publisher, Publishing.ENDING, False):
            self.unadvertise_all(publisher)

    def _end_departure(self, publisher: Inbound, state: Publishing, gone: bool) -> bool:
        """Whether a publisher was departing; it is gone or back."""
        if not self.departing.remove(publisher):
            return False
        publisher.enter(state)
        if publisher.origin is not None:
            self._links.review(publisher.origin)
        self.ports.on_departure(publisher, gone)
        return True

    def departed(self, life: Life, key: str) -> None:
        """The router tells that the publisher of a local advertisement is elsewhere now."""
        publisher = self._owners.pop((life, key), None)
        if publisher is None:
            return  # it was ending
        self.release(publisher)
        publisher.advertisements.take(key)
        self._expect_no_answer(publisher, key)
        if publisher.live:
            publisher.enter(Publishing.TAKEN)
        if publisher.advertisements:
            return
        if not self._end_departure(publisher, Publishing.GONE, True) and publisher.live:
            self.ports.on_taken_over(publisher)

    def close(self, publisher: Inbound) -> None:
        self.unadvertise_all(publisher)
        self.ports.on_closed(publisher)

    def place(self, publisher: Inbound) -> None:
        """Nobody stands for it."""

    # Advertisements ------------------------------------------------------------------------

    def advertise(self, publisher: Inbound, key: str, filter: Filter) -> None:
        """Advertise under `key`, whatever that meant before."""
        former = publisher.advertisements.get(key)
        if former is not None and former != filter:
            # What waits was published under what it meant before.
            self.release(publisher)
            publisher.advertisement_ended()
        publisher.advertisements.put(key, filter)
        publisher.expect_answers((key,))

        def partly(open: Open) -> None:
            if publisher.live and key in publisher.unsettled_advertisements:
                publisher.unsettled_advertisements[key] = open
                self._answered(publisher, key)

        def settled() -> None:
            if not publisher.live:
                return
            publisher.unsettled_advertisements.pop(key, None)
            self._answered(publisher, key)
            if key.startswith(CLIENTS_OWN):
                publisher.say(AdvertisementSettled(key.removeprefix(CLIENTS_OWN)))
            if not publisher.unsettled_advertisements:
                self._arrived(publisher)
                if publisher.at_rest():
                    self.ports.on_at_rest(publisher)

        life = publisher.life
        owner = self._owners.get((life, key))
        if owner is not None and owner is not publisher:
            owner.advertisements.take(key)
        self._owners[life, key] = publisher
        asker = Asker(None, settled, partly)
        self._router.advertise(life, key, filter, asker, publisher.attachment)

    def _answered(self, publisher: Inbound, key: str) -> None:
        """An advertisement has settled wherever somebody can be reached. Those who cannot miss
        nothing: what is published follows the links on which it has not settled."""
        publisher.unanswered_advertisements.discard(key)
        if publisher.state is Publishing.ARRIVING:
            self.review_arrival(publisher)
        elif not publisher.unanswered_advertisements:
            self.release(publisher)

    def review_arrival(self, publisher: Inbound) -> None:
        """More may be known of where a publisher was that arrives."""
        if publisher.may_arrive():
            self._arrived(publisher)

    def withdraw(self, publisher: Inbound, key: str) -> None:
        """End an advertisement; what waits was published under it and goes before it ends."""
        self.release(publisher)
        self._unadvertise(publisher, key)

    def _unadvertise(self, publisher: Inbound, key: str) -> None:
        if publisher.advertisements.take(key) is not None:
            self._expect_no_answer(publisher, key)
            publisher.advertisement_ended()
            if self._owners.get((publisher.life, key)) is publisher:
                del self._owners[publisher.life, key]
                publisher.unsettled_ends += 1
                self._router.withdraw(publisher.life, key, partial(self._ended, publisher, 1))

    def _expect_no_answer(self, publisher: Inbound, key: str) -> None:
        publisher.unsettled_advertisements.pop(key, None)
        publisher.unanswered_advertisements.discard(key)

    def _ended(self, publisher: Inbound, count: int) -> None:
        """So many advertisements have ended everywhere; nothing may be advertised any more."""
        publisher.unsettled_ends -= count
        if not publisher.advertisements and not publisher.unsettled_ends:
            if publisher.state is Publishing.ENDING:
                publisher.enter(Publishing.GONE)
            self.ports.on_ended(publisher)

    def unadvertise_all(self, publisher: Inbound) -> None:
        """What it advertised ends, one after the other; others may take it over before that."""
        keys = list(publisher.advertisements)
        ends = (partial(self._unadvertise, publisher, key) for key in keys)
        self._chores.add(chain(ends, [partial(self._ended, publisher, 0)]))

    def own(self, publisher: Inbound) -> None:
        """The publisher has its advertisements from one that was here before it."""
        for key in publisher.advertisements:
            self._owners[publisher.life, key] = publisher

    # Publications --------------------------------------------------------------------------

    def publish(self, publisher: Inbound, batch: Batch) -> None:
        """Route a batch, after what it has to wait for."""
        context = self._context
        for observer in context.observers:
            batch.trace_mark = batch.trace_mark or observer.mark(batch, context.now)
        for observer in context.observers:
            observer.on_published(context.broker_id, batch, context.now)
        widened, ended = publisher.widened(batch)
        for key, filter in widened.items():
            self.advertise(publisher, key, filter)
        for key in ended:
            self._unadvertise(publisher, key)
        if not publisher.unanswered_advertisements and not publisher.held:
            self._route(publisher, batch)
            return
        if not publisher.held:
            at = context.now + context.options.hold_s_max
            context.set_timer(publisher.hold_timer, at)
        publisher.held.append(batch)
        publisher.unpublished.add(batch.bodies)
        self.update_reading(publisher)

    def release(self, publisher: Inbound) -> None:
        """What waits goes out; it follows the links on which its advertisement has not settled."""
        while publisher.held:
            batch = publisher.held.popleft()
            publisher.unpublished.take(batch.bodies)
            self._route(publisher, batch)
        self.update_reading(publisher)

    def _route(self, publisher: Inbound, batch: Batch) -> None:
        if publisher.marks:
            self._handovers.route(batch, publisher.marks.popleft())
        else:
            self._dispatch.route(batch, None)

    def must_wait(self, publisher: Inbound) -> bool:
        options = self._context.options
        is_full = publisher.unpublished.exceeds(options.hold_events_max, options.hold_bytes_max)
        return is_full or self.congestion.is_held(publisher.life)

    def update_reading(self, publisher: Inbound) -> None:
        """Hold the client, or let it go on, if that has changed."""
        hold = publisher.at.must_wait(publisher)
        if hold != publisher.reading_held:
            publisher.reading_held = hold
            publisher.say(HoldReading(hold))
