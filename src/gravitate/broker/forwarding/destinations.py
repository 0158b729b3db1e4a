"""Destinations: the small numbers a matcher answers with, and what they stand for.

A destination is an anchor (a broker to send towards) or a subscription of a local client. A
`Plan` is what a set of destinations comes to: the neighbours to send to and the sessions to
deliver to, each once, with the best quality of service that was asked for. Which neighbours lead to
the anchors that want an event is for a forwarding strategy to say.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, Final

from gravitate.broker.forwarding.receiver import Receiver, Subscription
from gravitate.overlay.strategies import S0, Forwarding

LocalSubscription = Subscription[Any]

NOWHERE: Final = ""
"""In place of a subscription that nothing goes to any more; no broker has this name."""
PLANNED_MAX: Final = 500_000
"""Destinations in all plans that are remembered; some hundred bytes each."""

Forwarder = Callable[[Collection[str], str | None], tuple[str, ...]]
"""Whom to send to so that every anchor is reached: each once, sorted, never where it came from."""


def primary_links(anchors: Collection[str], came_from: str | None) -> tuple[str, ...]:
    """Primary links alone: with `delta = 1` an anchor is the neighbour itself."""
    return tuple(sorted({*anchors} - {came_from}))


FORWARDERS: Final[Mapping[Forwarding, Forwarder]] = {S0: primary_links}


class Plan:
    """Where events with the same destinations go."""

    __slots__ = ("hops", "session_ids", "sessions")

    def __init__(self, hops: tuple[str, ...], sessions: list[tuple[Receiver, int, bool]]) -> None:
        self.hops = hops
        self.sessions = sessions
        """(session, quality of service asked for, whether its own events are unwanted)."""
        self.session_ids = tuple(session.id for session, _, _ in sessions)


class Destinations:
    def __init__(self, forwarder: Forwarder) -> None:
        self._hops = forwarder
        self._stands_for: list[str | LocalSubscription | None] = []
        """Anchors and subscriptions by number; None: the number is free."""
        self._free: list[int] = []
        self._anchors: dict[str, int] = {}
        self._plans: dict[str | None, dict[tuple[int, ...], Plan]] = defaultdict(dict)
        """By where events came from. Invalidated by any destination that is removed or changed
        (`changed`); one that is new is in no plan."""
        self._planned = 0
        """How many destinations these plans are made of."""

    def anchor(self, broker: str) -> int:
        """The destination of an anchor."""
        destination = self._anchors.get(broker)
        if destination is None:
            destination = self._anchors[broker] = self._allocate(broker)
        return destination

    def add(self, subscription: LocalSubscription) -> None:
        """A new local subscription gets its destination."""
        subscription.destination = self._allocate(subscription)

    def mute(self, subscriptions: Iterable[LocalSubscription]) -> None:
        """Nothing goes to these any more; their numbers stay theirs until they are removed."""
        for subscription in subscriptions:
            self._stands_for[subscription.destination] = NOWHERE
        self.changed()

    def remove(self, subscription: LocalSubscription) -> None:
        self._stands_for[subscription.destination] = None
        self._free.append(subscription.destination)
        self.changed()

    def changed(self) -> None:
        """A subscription asks for something else from now on, or links lead elsewhere."""
        self._plans.clear()
        self._planned = 0

    def plan(self, destinations: tuple[int, ...], came_from: str | None) -> Plan:
        plan = self._plans[came_from].get(destinations)
        if plan is None:
            plan = self._make_plan(destinations, came_from)
            if self._planned > PLANNED_MAX:
                self.changed()
            self._plans[came_from][destinations] = plan
            self._planned += 1 + len(destinations)
        return plan

    def _make_plan(self, destinations: tuple[int, ...], came_from: str | None) -> Plan:
        anchors: list[str] = []
        sessions: dict[Receiver, tuple[Receiver, int, bool]] = {}
        for destination in destinations:
            target = self._stands_for[destination]
            assert target is not None, f"destination {destination} stands for nothing"
            if isinstance(target, str):
                if target != NOWHERE:
                    anchors.append(target)
                continue
            session, wanted = target.receiver, target.wanted
            qos, no_local = wanted.qos, wanted.no_local
            if session in sessions:
                _, other_qos, other_no_local = sessions[session]
                qos, no_local = max(qos, other_qos), no_local and other_no_local
            sessions[session] = (session, qos, no_local)
        return Plan(self._hops(anchors, came_from), list(sessions.values()))

    def _allocate(self, target: str | LocalSubscription) -> int:
        if self._free:
            destination = self._free.pop()
            self._stands_for[destination] = target
            return destination
        self._stands_for.append(target)
        return len(self._stands_for) - 1
