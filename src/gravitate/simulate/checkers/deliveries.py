"""Loss, duplicates, order, gaps and uncalled-for deliveries, judged event by event.

A client has one *life* from its connecting to its disconnecting, whatever broker serves it
meanwhile; one that goes to another broker when it is told to takes its life along. What counts is
what the client's own broker is asked for and tells the client, seen from outside: the inputs it
takes and the effects it wants. Only that a session begins, ends or goes on elsewhere, and that an
event enters, is reported by brokers as to any other observer.

What is owed: a client gets an event if one of its subscriptions matches it, was told to have
settled before the event entered its first broker, and is still live. Before it settled an event
*may* come; but once a subscription has had an event of a publisher, the publisher's later ones that
match are owed too. Events entering again (a client that counts sends again what was not accepted in
its sight) owe nothing new. Per life and publisher, counters only grow. A delivery is called for if
a subscription that matches is live, or was when the event entered.

How it is kept cheap: an event that enters is matched once against all live subscriptions; what
remains is one set of numbers an event, from which deliveries strike out. Loss is read off when
the world is quiet: whatever is still in a set and owed was lost. What a broker that was killed held
(`held`) may be, by those it held it for. Everything here happens in the order in which it is seen,
counted in ticks, so that what falls on the same instant is still in order.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Container, Sequence

from gravitate.broker.interface import effects as e
from gravitate.broker.interface import inputs as i
from gravitate.broker.observers import Observer
from gravitate.model.events import Batch
from gravitate.model.filters import Filter
from gravitate.model.semantics import matches
from gravitate.simulate.checkers.held import Holding
from gravitate.simulate.checkers.oracle import MatcherOracle, Oracle
from gravitate.simulate.checkers.violations import Violations
from gravitate.simulate.hosts import StepWatcher

Publisher = tuple[str, int]
"""A publisher and its incarnation."""

Place = tuple[str, str]
"""A broker and a session."""

NEVER = float("inf")

_ASKING = frozenset((i.ClientSubscribed, i.ClientUnsubscribed, i.ClientConnected))
"""Inputs that change what is owed."""

Between = Callable[[str, str, str], bool]
"""Asked of the broker where an event enters, that of a client, and the client."""


def _nothing(entered_at: str, broker: str, session: str) -> bool:
    return False


class _Subscription:
    __slots__ = ("filter", "first", "key", "life", "name", "settled_tick")

    def __init__(self, key: int, name: str, filter: Filter, life: _Life) -> None:
        self.key = key
        self.name = name
        self.filter = filter
        self.life = life
        self.settled_tick: float = NEVER
        self.first: dict[Publisher, int] = {}
        """The first event of a publisher that it had before it was owed any."""


class _Life:
    """One client from its connecting to its disconnecting."""

    __slots__ = ("began_at", "broker", "ended", "last", "session", "subscriptions")

    def __init__(self, broker: str, session: str, began_at: float) -> None:
        self.began_at = began_at
        self.broker = broker
        self.session = session
        self.subscriptions: dict[str, _Subscription] = {}
        self.ended: list[tuple[Filter, int]] = []
        """Filters of the subscriptions it had, and when each ended."""
        self.last: dict[Publisher, int] = {}


class _Pending:
    """One event that entered: when, and which subscriptions have not had it."""

    __slots__ = ("entered_at", "excused", "served", "tick", "waiting")

    def __init__(self, tick: int, waiting: set[int], entered_at: str) -> None:
        self.entered_at = entered_at
        self.tick = tick
        self.waiting = waiting
        self.excused: list[Holding] = []
        """For whom brokers held it that were killed."""
        self.served: set[int] = set()
        """Subscriptions that must have it although they have not settled."""


class DeliveryChecker(Observer, StepWatcher):
    """Observes all brokers of a world; `check_quiet` judges what should have come by now."""

    def __init__(
        self,
        violations: Violations,
        oracle: Oracle | None = None,
        no_local: Container[str] = (),
    ) -> None:
        self._violations = violations
        self._oracle = oracle or MatcherOracle()
        self._no_local = no_local
        """Sessions none of whose subscriptions want what their own client publishes."""
        self._tick = 0
        self._keys = 0
        self._live: dict[int, _Subscription] = {}
        self._sessions: dict[int, str] = {}
        """Clients by their connections."""
        self._lives: dict[Place, _Life] = {}
        self._closing: dict[Place, list[_Life]] = {}
        """Lives that end within this step: some of its effects are still theirs."""
        self._changed: set[tuple[str, str]] = set()
        """Sessions and names of subscriptions that were changed in this step."""
        self._arriving: dict[Place, dict[str, Filter]] = {}
        """What clients ask for that come to another broker, before they have arrived."""
        self._pending: dict[tuple[Publisher, int], _Pending] = {}
        self._entered: dict[Publisher, int] = {}
        self._entered_ticks: dict[Publisher, tuple[list[int], list[int]]] = {}
        """First counters of batches, and when these entered."""
        self._again: set[tuple[Publisher, int]] = set()
        """Events that entered more than once."""
        self.entered = 0
        self.entered_again = 0
        self.owed = 0
        """Deliveries owed or possible when their event entered."""
        self.delivered = 0
        self.is_served: Between | None = None
        """While something is away: whether those of a broker that have not settled everywhere are
        served nevertheless with what enters at another."""
        self.taken = 0
        """Deliveries owed that were lost with brokers that were killed, or links given up."""

    # Lives

    def on_session(self, broker: str, session: str, state: str, now: float) -> None:
        place = (broker, session)
        if state == "opened":
            self._end_life(place)
            self._lives[place] = _Life(broker, session, now)
        elif state == "closed":
            self._end_life(place)

    def on_subscriber_moved(
        self, broker: str, session: str, source: str, since: float, now: float
    ) -> None:
        """The client has come from `source`: its life goes on here."""
        here, there = (broker, session), (source, session)
        asked = self._arriving.pop(here, {})
        former = self._lives.get(there)
        if former is None or former.began_at > since:
            for name, filter in asked.items():
                self._begin(self._lives[here], name, filter)
            return  # that one is gone, and what it was owed with it
        self._lives[here] = self._lives.pop(there)
        former.broker = broker
        for name in [name for name in former.subscriptions if name not in asked]:
            self._end(former, name)
        for name, filter in asked.items():
            self._begin(former, name, filter)

    def _end_life(self, place: Place) -> None:
        life = self._lives.pop(place, None)
        if life is not None:
            self._closing.setdefault(place, []).append(life)

    def on_crash(self, broker: str, core: object, now: float) -> None:
        for place in [place for place in self._lives if place[0] == broker]:
            self._end_life(place)
        self._close()

    def _close(self) -> None:
        """The step is over, and the lives that ended within it."""
        for lives in self._closing.values():
            for life in lives:
                for name in list(life.subscriptions):
                    self._end(life, name)
        self._closing.clear()

    def _at(self, place: Place) -> _Life | None:
        """The life that something in this step is about."""
        closing = self._closing.get(place)
        return closing[0] if closing else self._lives.get(place)

    def excuse(self, publisher: Publisher, counter: int, holding: Holding) -> None:
        """A broker that is killed has this event for somebody; nobody else may miss it."""
        pending = self._pending.get((publisher, counter))
        if pending is not None:
            pending.excused.append(holding)

    # What clients ask for, and are told

    def on_step(
        self, broker: str, inputs: Sequence[i.Input], effects: Sequence[e.Effect], now: float
    ) -> None:
        connected = ""
        if self._changed:
            self._changed.clear()
        sessions = self._sessions
        for item in inputs:
            if type(item) not in _ASKING:
                continue
            if type(item) is i.ClientSubscribed:
                session = sessions[item.connection]
                self._asked((broker, session), item, self._asking(broker, session, connected))
            elif type(item) is i.ClientUnsubscribed:
                session = sessions[item.connection]
                self._arriving.get((broker, session), {}).pop(item.name, None)
                life = self._asking(broker, session, connected)
                if life is not None and item.name in life.subscriptions:
                    self._end(life, item.name)
            elif type(item) is i.ClientConnected:
                connected = sessions[item.connection] = item.session
                self._arriving.pop((broker, item.session), None)
                if item.continues is i.Continues.MOVED:
                    self._arriving[broker, item.session] = {}
        for effect in effects:
            if type(effect) is e.Deliver:
                self._delivered(broker, sessions[effect.connection], effect.batch, now)
            elif type(effect) is e.Tell:
                self._told((broker, sessions[effect.connection]), effect.word)
        if self._closing:
            self._close()

    def _told(self, place: Place, word: e.Word) -> None:
        if type(word) is e.SubscriptionSettled:
            # Which one is meant is not known where it was changed in the same step.
            if (place[1], word.name) not in self._changed:
                self._settled(*place, word.name)
        elif type(word) is e.CloseSession:
            for life in self._closing.get(place, [])[:1]:
                for name in list(life.subscriptions):
                    self._end(life, name)
                self._closing[place].remove(life)

    def _asking(self, broker: str, session: str, connected: str) -> _Life | None:
        """The life that asks for something; the latest, if it has connected in this step."""
        place = (broker, session)
        if session != connected:
            return self._at(place)
        return self._lives.get(place) or next(reversed(self._closing.get(place, [])), None)

    def _asked(self, place: Place, item: i.ClientSubscribed, life: _Life | None) -> None:
        if place in self._arriving:
            self._arriving[place][item.name] = item.filter
        elif life is not None:
            self._begin(life, item.name, item.filter)

    def _begin(self, life: _Life, name: str, filter: Filter) -> None:
        former = life.subscriptions.get(name)
        if former is not None:
            if former.filter == filter:
                return
            self._end(life, name)
            self._changed.add((life.session, name))
        self._keys += 1
        live = _Subscription(self._keys, name, filter, life)
        life.subscriptions[name] = live
        self._live[live.key] = live
        self._oracle.add(live.key, filter)

    def _settled(self, broker: str, session: str, name: str) -> None:
        life = self._at((broker, session))
        live = life.subscriptions.get(name) if life is not None else None
        if live is not None and live.settled_tick == NEVER:
            self._tick += 1
            live.settled_tick = self._tick

    def _end(self, life: _Life, name: str) -> None:
        self._tick += 1
        ended = life.subscriptions.pop(name)
        life.ended.append((ended.filter, self._tick))
        del self._live[ended.key]
        self._oracle.remove(ended.key)

    # Events

    def on_published(self, broker: str, batch: Batch, now: float) -> None:
        publisher = batch.stream
        entered = self._entered.get(publisher, 0)
        counters = batch.counters
        if counters[0] <= entered:
            indices = [n for n, counter in enumerate(counters) if counter > entered]
            self._again.update((publisher, counter) for counter in counters if counter <= entered)
            self.entered_again += len(counters) - len(indices)
            if not indices:
                return
            batch = batch.select(indices)
            counters = batch.counters
        self._entered[publisher] = counters[-1]
        self.entered += len(counters)
        self._tick += 1
        firsts, ticks = self._entered_ticks.setdefault(publisher, ([], []))
        firsts.append(counters[0])
        ticks.append(self._tick)
        matched = self._oracle.match(batch.bodies.every_attribute())
        for counter, keys in zip(counters, matched, strict=True):
            if keys:
                waiting = set(keys)
                self.owed += len(waiting)
                pending = _Pending(self._tick, waiting, broker)
                self._pending[publisher, counter] = pending
                if self.is_served is not None:
                    lives = {key: self._live[key].life for key in waiting}
                    pending.served = {
                        key
                        for key, life in lives.items()
                        if self.is_served(broker, life.broker, life.session)
                    }

    def _delivered(self, broker: str, session: str, batch: Batch, now: float) -> None:
        publisher = batch.stream
        life = self._at((broker, session))
        if life is None:
            self._violations.add(
                "uncalled", now, f"{session} at {broker} has no session and got {batch!r}"
            )
            return
        last = life.last.get(publisher, 0)
        counters = batch.counters
        subscriptions = life.subscriptions
        for index, counter in enumerate(counters):
            pending = self._pending.get((publisher, counter))
            struck = 0
            if pending is not None:
                waiting = pending.waiting
                for live in subscriptions.values():
                    if live.key in waiting:
                        waiting.remove(live.key)
                        struck += 1
                        if pending.tick < live.settled_tick:
                            self._note_first(life, publisher, counter, batch, index)
                if not waiting:
                    del self._pending[publisher, counter]
            if counter <= last:
                kind = "order" if struck else "duplicate"
                self._violations.add(
                    kind,
                    now,
                    f"{session} at {broker} got {batch.publisher}#{batch.incarnation} "
                    f"{counter} after {last}",
                )
            elif not struck:
                self._note_first(life, publisher, counter, batch, index)
                self._check_called_for(life, batch, index, now)
            last = max(last, counter)
        life.last[publisher] = last
        self.delivered += len(counters)

    def _matching(self, life: _Life, batch: Batch, index: int) -> list[_Subscription]:
        (attributes,) = batch.bodies.select((index,)).every_attribute()
        return [s for s in life.subscriptions.values() if matches(s.filter, attributes)]

    def _note_first(
        self, life: _Life, publisher: Publisher, counter: int, batch: Batch, index: int
    ) -> None:
        """Delivery to a subscription has started early: only certain if no other called for it,
        and if it is not a copy that comes behind what its publisher did not send again."""
        if (publisher, counter) in self._again:
            return
        matching = self._matching(life, batch, index)
        if len(matching) == 1 and not self._did_match(life, batch, index):
            matching[0].first.setdefault(publisher, counter)

    def _did_match(self, life: _Life, batch: Batch, index: int) -> bool:
        """Whether a subscription called for the event that has ended since it entered."""
        (attributes,) = batch.bodies.select((index,)).every_attribute()
        firsts, ticks = self._entered_ticks.get(batch.stream, ([], []))
        which = bisect_right(firsts, batch.counters[index]) - 1
        entered = ticks[which] if which >= 0 else 0
        return any(ended >= entered and matches(filter, attributes) for filter, ended in life.ended)

    def _check_called_for(self, life: _Life, batch: Batch, index: int, now: float) -> None:
        own = self._is_own(life, batch.stream)
        wanted = self._matching(life, batch, index) or self._did_match(life, batch, index)
        if own or not wanted:
            self._violations.add(
                "uncalled",
                now,
                f"{life.session} at {life.broker} wants no event {batch.counters[index]} "
                f"of {batch.publisher}#{batch.incarnation}",
            )

    def _is_own(self, life: _Life, publisher: Publisher) -> bool:
        return life.session == publisher[0] and life.session in self._no_local

    def check_quiet(
        self, now: float, is_excused: Between = _nothing, is_deferred: Between = _nothing
    ) -> None:
        """The world is quiet: what is owed and has not come will not come. But for what may have
        been lost between two brokers, and what is judged later."""
        self._close()
        deferred: dict[tuple[Publisher, int], _Pending] = {}
        for event, pending in self._pending.items():
            publisher, counter = event
            for key in sorted(pending.waiting):
                live = self._live.get(key)
                if live is None or self._is_own(live.life, publisher):
                    continue
                first = live.first.get(publisher)
                settled = live.settled_tick < pending.tick or key in pending.served
                if not settled and (first is None or first >= counter):
                    continue
                if is_deferred(pending.entered_at, live.life.broker, live.life.session):
                    deferred[event] = pending
                elif self._may_be_lost(pending, live.life, is_excused):
                    self.taken += 1
                else:
                    self._violations.add(
                        "loss" if settled else "gap",
                        now,
                        f"{live.life.session} at {live.life.broker} never got {counter} of "
                        f"{publisher[0]}#{publisher[1]} (subscription {live.name}"
                        + ("" if settled else f", which had had {first}")
                        + ")",
                    )
        self._pending = deferred

    def _may_be_lost(self, pending: _Pending, life: _Life, is_excused: Between) -> bool:
        return is_excused(pending.entered_at, life.broker, life.session) or any(
            holding.may_be_for(life.broker, life.session) for holding in pending.excused
        )
