"""Loss, duplicates, order, gaps and uncalled-for deliveries, judged event by event.

What is owed: a session gets an event if one of its subscriptions matches it, had settled before
the event entered its first broker, and is still live. Before it settled an event *may* come; but
once a subscription has had an event of a publisher, the publisher's later ones that match are
owed too. Events entering again (a client that counts sends again what was not accepted in its
sight) owe nothing new. Per session and publisher, counters only grow.

How it is kept cheap: an event that enters is matched once against all live subscriptions; what
remains is one set of numbers an event, from which deliveries strike out. Loss is read off when
the world is quiet: whatever is still in a set and owed was lost.

A subscriber that moves lives on: its session at another broker is owed what the one it left was,
and gets it in the same order.

A delivery is called for while a subscription that matches is live, and after it has ended if it
may have waited for the client's window meanwhile. Everything here happens in the order in which
brokers report it, counted in ticks, so that what falls on the same instant is still in order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container

from gravitate.broker.observers import Observer
from gravitate.model.events import Batch
from gravitate.model.filters import Filter
from gravitate.model.semantics import matches
from gravitate.simulate.checkers.oracle import MatcherOracle, Oracle
from gravitate.simulate.checkers.violations import Violations

Publisher = tuple[str, int]
"""A publisher and its incarnation."""

Place = tuple[str, str]
"""A broker and a session."""

OPENED, SERVED = "opened", "served"
_KINDS = {OPENED: OPENED, "closed": OPENED, SERVED: SERVED, "left": SERVED}
"""States that observers are told, by how the session began that they are about."""

NEVER = float("inf")
EVERYTHING = frozenset[str]()


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
    """One session from its beginning to its end."""

    __slots__ = ("began_at", "broker", "ended", "last", "series", "session", "subscriptions")

    def __init__(self, broker: str, session: str, began_at: float) -> None:
        self.began_at = began_at
        self.broker = broker
        self.session = session
        self.subscriptions: dict[str, _Subscription] = {}
        self.ended: list[Filter] = []
        """Filters of the subscriptions it had."""
        self.last: dict[Publisher, int] = {}
        self.series = ""
        """What the names of its subscriptions have in common."""


class _Pending:
    """One event that entered: when, and which subscriptions have not had it."""

    __slots__ = ("tick", "waiting")

    def __init__(self, tick: int, waiting: set[int]) -> None:
        self.tick = tick
        self.waiting = waiting


class DeliveryChecker(Observer):
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
        self._lives: dict[Place, dict[str, _Life]] = {}
        """By how they began: a client may come anew where it is still served from elsewhere."""
        self._ended_lives: dict[Place, _Life] = {}
        self._moved_to: dict[Place, Place] = {}
        """Where sessions go on whose subscriber has moved."""
        self._left: Counter[tuple[Place, str]] = Counter()
        """How many sessions of that place and beginning have been left and not ended yet."""
        self._left_names: set[str] = set()
        """Their subscriptions."""
        self._pending: dict[tuple[Publisher, int], _Pending] = {}
        self._entered: dict[Publisher, int] = {}
        self._again: set[tuple[Publisher, int]] = set()
        """Events that entered more than once."""
        self.entered = 0
        self.entered_again = 0
        self.owed = 0
        """Deliveries owed or possible when their event entered."""
        self.delivered = 0

    # Sessions and subscriptions

    def on_session(self, broker: str, session: str, state: str, now: float) -> None:
        place, kind = (broker, session), _KINDS[state]
        begins = state == kind
        if not begins and self._left[place, kind]:
            self._left[place, kind] -= 1
            return
        life = self._lives.get(place, {}).pop(kind, None)
        if life is not None:
            for subscription in list(life.subscriptions):
                # That it has ended will be told in its turn.
                self._left_names.add(subscription)
                self._end(life, subscription)
            if kind == SERVED:
                # Its client is connected elsewhere, and may still be given what it was handed.
                self._ended_lives[place] = life
        if begins:
            self._moved_to.pop(place, None)
            self._ended_lives.pop(place, None)
            self._lives.setdefault(place, {})[kind] = _Life(broker, session, now)

    def on_subscriber_moved(
        self, broker: str, session: str, source: str, since: float, now: float
    ) -> None:
        """The life goes on at `broker`: what its subscriptions were owed they still are."""
        life = self._latest(broker, session)
        kind = SERVED if SERVED in self._lives.get((source, session), {}) else OPENED
        former = self._lives.get((source, session), {}).get(kind)
        if former is None or life is None or former.began_at > since:
            return  # that one is gone, and what it was owed with it
        del self._lives[source, session][kind]
        life.last, life.ended = former.last, former.ended
        for live in life.subscriptions.values():
            same = [one for one in former.subscriptions.values() if one.filter == live.filter]
            if same:
                self._oracle.remove(live.key)
                del self._live[live.key]
                live.key, live.first = same[0].key, same[0].first
                live.settled_tick = min(live.settled_tick, same[0].settled_tick)
                self._live[live.key] = live
                del former.subscriptions[same[0].name]
                self._left_names.add(same[0].name)
        for name in list(former.subscriptions):
            self._end(former, name)
            self._left_names.add(name)
        self._moved_to[source, session] = (broker, session)
        self._left[(source, session), kind] += 1

    def _latest(self, broker: str, session: str) -> _Life | None:
        """The life of a session at a broker that began last."""
        return next(reversed(self._lives.get((broker, session), {}).values()), None)

    def _life(self, broker: str, session: str) -> _Life | None:
        """The life that a session at a broker is part of, wherever it goes on by now."""
        place, seen = (broker, session), 0
        while not self._lives.get(place) and place in self._moved_to and seen < 100:
            place, seen = self._moved_to[place], seen + 1
        return self._latest(*place) or self._ended_lives.get(place)

    def _owner(self, broker: str, session: str, subscription: str) -> _Life | None:
        """The life that a subscription belongs to, if it does."""
        for life in self._lives.get((broker, session), {}).values():
            if subscription in life.subscriptions:
                return life
        return None

    def on_subscribed(
        self, broker: str, session: str, subscription: str, filter: Filter, now: float
    ) -> None:
        life = self._latest(broker, session)
        series = subscription.rstrip("0123456789")
        for other in self._lives.get((broker, session), {}).values():
            if other.series == series:
                life = other
        if life is None:
            self._violations.add("subscribed", now, f"{session} at {broker} has no session")
            return
        life.series = series
        if subscription in life.subscriptions:
            self._end(life, subscription)
        self._keys += 1
        live = _Subscription(self._keys, subscription, filter, life)
        life.subscriptions[subscription] = live
        self._live[live.key] = live
        self._oracle.add(live.key, filter)

    def on_settled(self, broker: str, session: str, subscription: str, now: float) -> None:
        if subscription in self._left_names:
            return
        life = self._owner(broker, session, subscription)
        if life is None:
            self._violations.add(
                "settled", now, f"{session} at {broker} has no subscription {subscription}"
            )
            return
        self._tick += 1
        life.subscriptions[subscription].settled_tick = self._tick

    def on_unsubscribed(self, broker: str, session: str, subscription: str, now: float) -> None:
        if subscription in self._left_names:
            self._left_names.discard(subscription)
            return
        life = self._owner(broker, session, subscription)
        if life is None:
            self._violations.add(
                "unsubscribed", now, f"{session} at {broker} has no subscription {subscription}"
            )
            return
        self._end(life, subscription)

    def _end(self, life: _Life, subscription: str) -> None:
        ended = life.subscriptions.pop(subscription)
        life.ended.append(ended.filter)
        del self._live[ended.key]
        self._oracle.remove(ended.key)

    # Events

    def on_published(self, broker: str, batch: Batch, now: float) -> None:
        publisher = (batch.publisher, batch.incarnation)
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
        matched = self._oracle.match(batch.bodies.attributes(EVERYTHING))
        for counter, keys in zip(counters, matched, strict=True):
            if keys:
                waiting = set(keys)
                self.owed += len(waiting)
                self._pending[publisher, counter] = _Pending(self._tick, waiting)

    def on_delivered(self, broker: str, session: str, batch: Batch, qos: int, now: float) -> None:
        publisher = (batch.publisher, batch.incarnation)
        life = self._life(broker, session)
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
        (attributes,) = batch.bodies.select((index,)).attributes(EVERYTHING)
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
        """Whether a subscription that has ended may have called for the event."""
        (attributes,) = batch.bodies.select((index,)).attributes(EVERYTHING)
        return any(matches(filter, attributes) for filter in life.ended)

    def _check_called_for(self, life: _Life, batch: Batch, index: int, now: float) -> None:
        own = self._is_own(life, (batch.publisher, batch.incarnation))
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

    def check_quiet(self, now: float) -> None:
        """The world is quiet: what is owed and has not come will not come."""
        for (publisher, counter), pending in self._pending.items():
            for key in sorted(pending.waiting):
                live = self._live.get(key)
                if live is None or self._is_own(live.life, publisher):
                    continue
                first = live.first.get(publisher)
                settled = live.settled_tick < pending.tick
                if settled or (first is not None and first < counter):
                    self._violations.add(
                        "loss" if settled else "gap",
                        now,
                        f"{live.life.session} at {live.life.broker} never got {counter} of "
                        f"{publisher[0]}#{publisher[1]} (subscription {live.name}"
                        + ("" if settled else f", which had had {first}")
                        + ")",
                    )
        self._pending.clear()
