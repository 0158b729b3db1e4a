"""Subscriptions of sessions: made, changed, ended, and seen by observers.

A subscription belongs to a session, connected or not; its id names the broker that serves it, so
that one and the same client may be subscribed at two brokers while it moves. Does not know where a
session's client is, nor what becomes of what it is delivered.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import partial
from itertools import count
from typing import NamedTuple

from gravitate.broker.context import Context
from gravitate.broker.forwarding.destinations import Destinations
from gravitate.broker.interface.effects import SubscriptionSettled
from gravitate.broker.messages.guests import Wanted
from gravitate.broker.routing.router import Router
from gravitate.broker.routing.settlement import Open
from gravitate.broker.sessions.chores import Chores
from gravitate.broker.sessions.session import LocalSubscription, Session


class SubscriptionPorts(NamedTuple):
    """Who is told of what becomes of subscriptions."""

    on_changed: Callable[[Session], None]
    """Told before a session subscribes to something else than before."""
    on_settled: Callable[[Session], None]
    """Told when everything that a session subscribes to has settled."""
    on_partly_settled: Callable[[Session, str], None]
    """Told of a subscription that has settled wherever somebody can be reached."""


class Subscriptions:
    def __init__(
        self,
        context: Context,
        router: Router,
        destinations: Destinations,
        chores: Chores,
        ports: SubscriptionPorts,
    ) -> None:
        self._ports = ports
        self._context = context
        self._router = router
        self._destinations = destinations
        self._chores = chores
        self._numbers = count(1)
        """Of all subscriptions made here: what a session left may end after its client is back."""

    def subscribe(self, session: Session, wanted: Wanted, is_renewed: bool = False) -> None:
        """Subscribe under a name, whatever that meant before; `is_renewed`: as this broker had
        subscribed before it lost its memory."""
        name, context = wanted.name, self._context
        former = session.subscriptions.get(name)
        session.unconfirmed.discard(name)
        if former is not None and former.filter == wanted.filter:
            if (former.qos, former.no_local) != (wanted.qos, wanted.no_local):
                self._ports.on_changed(session)
                former.qos, former.no_local = wanted.qos, wanted.no_local
                self._destinations.changed()
            subscription = former
        else:
            self._ports.on_changed(session)
            number = f"{session.series}{next(self._numbers)}"
            id = f"{session.id}#{session.incarnation}@{context.broker_id}/{number}"
            subscription = self._destinations.add(
                lambda destination: LocalSubscription(
                    session, name, id, wanted.filter, wanted.qos, wanted.no_local, destination
                )
            )
            session.subscriptions[name] = subscription
            session.unsettled_subscriptions.add(name)
            if session.observed:
                for observer in context.observers:
                    observer.on_subscribed(
                        context.broker_id, session.id, id, wanted.filter, context.now
                    )

        def settled() -> None:
            # It may have been handed over to another session of the same client meanwhile.
            now = subscription.session
            if now.subscriptions.get(name) is not subscription:
                return
            now.unsettled_subscriptions.discard(name)
            now.say(SubscriptionSettled(now.id, name))
            if now.observed:
                for observer in context.observers:
                    observer.on_settled(context.broker_id, now.id, subscription.id, context.now)
            if not now.unsettled_subscriptions:
                self._ports.on_settled(now)

        def partly(open: Open) -> None:
            now = subscription.session
            if now.subscriptions.get(name) is subscription:
                self._ports.on_partly_settled(now, name)

        about = (subscription.id, subscription.filter, subscription.destination)
        self._router.subscribe(*about, settled, partly, is_renewed)
        if former is not None and former is not subscription:
            self._end(former)

    def unsubscribe(self, session: Session, name: str) -> None:
        if name in session.subscriptions:
            self._ports.on_changed(session)
            session.unsettled_subscriptions.discard(name)
            self._end(session.subscriptions.pop(name))

    def confirm(self, session: Session) -> None:
        """The client has said all that it subscribes to: what it has not said again ends."""
        for name in sorted(session.unconfirmed):
            self.unsubscribe(session, name)
        session.unconfirmed.clear()

    def set(self, session: Session, wanted: Collection[Wanted]) -> None:
        """Subscribe to all of these, and to nothing else."""
        names = {one.name for one in wanted}
        for name in [name for name in session.subscriptions if name not in names]:
            self.unsubscribe(session, name)
        for one in wanted:
            known = session.subscriptions.get(one.name)
            if known is None or _wanted(known) != one:
                self.subscribe(session, one)
            elif one.name not in session.unsettled_subscriptions:
                # Whoever asks may not have heard of it.
                session.say(SubscriptionSettled(session.id, one.name))

    def serve(self, session: Session) -> None:
        """What comes for a session has no holes, whatever has not settled."""
        for subscription in session.subscriptions.values():
            self._router.serve(subscription.id)

    def end_all(self, session: Session) -> None:
        """Nothing more goes to the session; its subscriptions end one after the other."""
        ending = list(session.subscriptions.values())
        session.subscriptions.clear()
        session.unsettled_subscriptions.clear()
        self._destinations.mute(ending)
        self._chores.add(partial(self._end, subscription) for subscription in ending)

    def _end(self, subscription: LocalSubscription) -> None:
        self._router.unsubscribe(subscription.id)
        self._destinations.remove(subscription)
        session, context = subscription.session, self._context
        if session.observed:
            for observer in context.observers:
                observer.on_unsubscribed(
                    context.broker_id, session.id, subscription.id, context.now
                )

    def hand_over(self, former: Session, session: Session) -> None:
        """The subscriptions of one session are another's of the same client from now on."""
        for subscription in former.subscriptions.values():
            subscription.session = session
        session.subscriptions, former.subscriptions = former.subscriptions, {}
        session.unsettled_subscriptions = former.unsettled_subscriptions
        former.unsettled_subscriptions = set()
        session.series = former.series
        self._destinations.changed()

    def arrived(self, session: Session, state: str, source: str, since: float) -> None:
        """A guest is served from now on: observers learn of what it has long had."""
        context, here = self._context, self._context.broker_id
        session.observed = True
        for observer in context.observers:
            observer.on_session(here, session.id, state, context.now)
            for one in session.subscriptions.values():
                observer.on_subscribed(here, session.id, one.id, one.filter, context.now)
                if one.name not in session.unsettled_subscriptions:
                    observer.on_settled(here, session.id, one.id, context.now)
            if state == "opened":
                observer.on_subscriber_moved(here, session.id, source, since, context.now)

    def wanted(self, session: Session) -> tuple[Wanted, ...]:
        """What a session subscribes to, as its client asked for it."""
        return tuple(map(_wanted, session.subscriptions.values()))


def _wanted(subscription: LocalSubscription) -> Wanted:
    return Wanted(subscription.name, subscription.filter, subscription.qos, subscription.no_local)
