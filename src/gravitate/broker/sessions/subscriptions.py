"""Subscriptions of sessions: made, changed, ended, and seen by observers.

A subscription belongs to an `Outbound`, whose client may be connected or not; its id names the
broker that serves it, so that one and the same client may be subscribed at two brokers while it
moves. Does not know where the client is, nor what becomes of what it is delivered.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from typing import NamedTuple

from gravitate.broker.context import Context
from gravitate.broker.forwarding.destinations import Destinations
from gravitate.broker.forwarding.receiver import Subscription
from gravitate.broker.interface.effects import SubscriptionSettled
from gravitate.broker.messages.guests import Wanted
from gravitate.broker.routing.router import Router
from gravitate.broker.routing.settlement import Asker, Open
from gravitate.broker.sessions.chores import Chores
from gravitate.broker.sessions.outbound import Outbound


class SubscriptionPorts(NamedTuple):
    """Who is told of what becomes of subscriptions."""

    on_changed: Callable[[Outbound], None]
    """Told before a session subscribes to something else than before."""
    on_settled: Callable[[Outbound], None]
    """Told when everything that a session subscribes to has settled."""
    on_partly_settled: Callable[[Outbound, str], None]
    """Told of a subscription that has settled wherever somebody can be reached."""


@dataclass(eq=False)
class Subscriptions:
    _context: Context
    _router: Router
    _destinations: Destinations
    _chores: Chores
    _ports: SubscriptionPorts
    _numbers: Iterator[int] = field(default_factory=lambda: count(1))
    """Of all subscriptions made here: what a session left may end after its client is back."""

    def subscribe(self, outbound: Outbound, wanted: Wanted, is_renewed: bool = False) -> None:
        """Subscribe under a name, whatever that meant before; `is_renewed`: as this broker had
        subscribed before it lost its memory."""
        name, context, here = wanted.name, self._context, self._context.broker_id
        former = outbound.subscriptions.get(name)
        outbound.unconfirmed.discard(name)
        if former is not None and former.wanted.filter == wanted.filter:
            if former.wanted != wanted:
                self._ports.on_changed(outbound)
                former.wanted = wanted
                self._destinations.changed()
            subscription = former
        else:
            self._ports.on_changed(outbound)
            number = f"{outbound.series}{next(self._numbers)}"
            id = f"{outbound.id}#{outbound.incarnation}@{here}/{number}"
            subscription = Subscription(outbound, wanted, id)
            self._destinations.add(subscription)
            outbound.subscriptions[name] = subscription
            outbound.unsettled_subscriptions.add(name)
            if outbound.observed:
                for observer in context.observers:
                    observer.on_subscribed(here, outbound.id, id, wanted.filter, context.now)

        def settled() -> None:
            # It may have been handed over to another session of the same client meanwhile.
            now = subscription.receiver
            if now.subscriptions.get(name) is not subscription:
                return
            now.unsettled_subscriptions.discard(name)
            now.say(SubscriptionSettled(name))
            if now.observed:
                for observer in context.observers:
                    observer.on_settled(here, now.id, subscription.id, context.now)
            if not now.unsettled_subscriptions:
                self._ports.on_settled(now)

        def partly(open: Open) -> None:
            now = subscription.receiver
            if now.subscriptions.get(name) is subscription:
                self._ports.on_partly_settled(now, name)

        about = (subscription.id, wanted.filter, subscription.destination)
        self._router.subscribe(*about, Asker(None, settled, partly), is_renewed)
        if former is not None and former is not subscription:
            self._end(former)

    def unsubscribe(self, outbound: Outbound, name: str) -> None:
        if name in outbound.subscriptions:
            self._ports.on_changed(outbound)
            outbound.unsettled_subscriptions.discard(name)
            self._end(outbound.subscriptions.pop(name))

    def confirm(self, outbound: Outbound) -> None:
        """The client has said all that it subscribes to: what it has not said again ends."""
        for name in sorted(outbound.unconfirmed):
            self.unsubscribe(outbound, name)
        outbound.unconfirmed.clear()

    def set(self, outbound: Outbound, wanted: Collection[Wanted]) -> None:
        """Subscribe to all of these, and to nothing else."""
        names = {one.name for one in wanted}
        for name in [name for name in outbound.subscriptions if name not in names]:
            self.unsubscribe(outbound, name)
        for one in wanted:
            known = outbound.subscriptions.get(one.name)
            if known is None or known.wanted != one:
                self.subscribe(outbound, one)
            elif one.name not in outbound.unsettled_subscriptions:
                # Whoever asks may not have heard of it.
                outbound.say(SubscriptionSettled(one.name))

    def serve(self, outbound: Outbound) -> None:
        """What comes for a session has no holes, whatever has not settled."""
        for subscription in outbound.subscriptions.values():
            self._router.serve(subscription.id)

    def place(self, outbound: Outbound) -> None:
        """Nobody stands for it."""

    def close(self, outbound: Outbound) -> None:
        """Nothing more goes to the session; its subscriptions end one after the other."""
        ending = list(outbound.subscriptions.values())
        outbound.subscriptions.clear()
        outbound.unsettled_subscriptions.clear()
        self._destinations.mute(ending)
        self._chores.add(partial(self._end, subscription) for subscription in ending)

    def _end(self, subscription: Subscription[Outbound]) -> None:
        self._router.unsubscribe(subscription.id)
        self._destinations.remove(subscription)
        outbound, context, here = subscription.receiver, self._context, self._context.broker_id
        if outbound.observed:
            for observer in context.observers:
                observer.on_unsubscribed(here, outbound.id, subscription.id, context.now)

    def hand_over(self, former: Outbound, outbound: Outbound) -> None:
        """The subscriptions of one session are another's of the same client from now on."""
        for subscription in former.subscriptions.values():
            subscription.receiver = outbound
        outbound.subscriptions, former.subscriptions = former.subscriptions, {}
        outbound.unsettled_subscriptions = former.unsettled_subscriptions
        former.unsettled_subscriptions = set()
        outbound.series = former.series
        self._destinations.changed()

    def arrived(self, outbound: Outbound, state: str, source: str, since: float) -> None:
        """A guest is served from now on: observers learn of what it has long had."""
        context, here = self._context, self._context.broker_id
        for observer in context.observers:
            observer.on_session(here, outbound.id, state, context.now)
            for one in outbound.subscriptions.values():
                observer.on_subscribed(here, outbound.id, one.id, one.wanted.filter, context.now)
                if one.wanted.name not in outbound.unsettled_subscriptions:
                    observer.on_settled(here, outbound.id, one.id, context.now)
            if state == "opened":
                observer.on_subscriber_moved(here, outbound.id, source, since, context.now)

    def wanted(self, outbound: Outbound) -> tuple[Wanted, ...]:
        """What a session subscribes to, as its client asked for it."""
        return tuple(one.wanted for one in outbound.subscriptions.values())
