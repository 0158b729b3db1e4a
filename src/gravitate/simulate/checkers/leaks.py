"""Nothing stays behind: once all clients have left, every broker is as it was when it started.

Walks the attributes of a broker and of all its parts. Every table, map, queue and set must be
empty, and no timer may be set, but for what is listed here with the reason why it may stay. So a
part that is added later is watched without anybody thinking of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from gravitate.broker.core import Broker
from gravitate.broker.interface.timers import GraceOver, Heartbeat
from gravitate.simulate.checkers.walking import CONTAINERS, OWN, attributes
from gravitate.simulate.world import World

MAY_STAY: Final[Mapping[str, str]] = {
    "Broker.mechanisms": "what is switched on",
    "Context.effects": "those of the last step, which the driver has",
    "Context.observers": "who watches",
    "Context._due": "timers, which are looked at where they are set",
    "Parts.mechanisms": "what is switched on",
    "Broker._handlers": "what takes each kind of input",
    "Incoming._on_timer": "what takes each kind of timer",
    "Incoming._on_link": "who is told what becomes of links",
    "Incoming._on_tree_link": "who is told what becomes of links",
    "Incoming._on_any_link": "what takes each kind of message",
    "Incoming._along_tree": "what takes each kind of message",
    "Incoming._unheard": "neighbours that were never there",
    "Engine.watchers": "who watches",
    "Engine._leaders": "kinds of moves",
    "Part.waits": "a table",
    "Part.rows": "a table",
    "Part._by_event": "a table",
    "Posts._mechanisms": "what is switched on",
    "Topology.told": "brokers of the network",
    "Neighbourhood.neighbours": "neighbours",
    "TetherLinks._others": "brokers of the network",
    "LinkTable._links": "neighbours",
    "LinkTable._frame_max": "a bound",
    "RoutingTable.neighbours": "neighbours",
    "Synchronisation._progress": "neighbours",
    "Settlement._waiting": "neighbours, none of whom has anything to answer",
    "Destinations._anchors": "neighbours",
    "Destinations._stands_for": "numbers, to be used again",
    "Destinations._free": "numbers, to be used again",
    "Destinations._plans": "a cache, bounded, whose plans lead to nobody",
    "RoutingTable._by_topic": "a cache, bounded, whose answers lead to nobody",
    "Plan.hops": "neighbours",
    "Propagation._free_keys": "numbers, to be used again",
    "Lives._ended_at": "publishers whose events may come again until the grace of links is over",
    "CongestionView._high": "a bound",
    "CongestionView._low": "a bound",
}
"""By class and attribute. What is in one of these is walked in turn."""

_NESTED: Final = (
    "Destinations._plans",
    "Incoming._on_link",
    "Incoming._on_tree_link",
    "Part._by_event",
    "Part.waits",
    "Part.rows",
)
"""Those of them whose own containers may stay too."""
_TIMERS_STAY: Final = (Heartbeat, GraceOver)
"""Links are watched for as long as they are."""


def left_behind(world: World) -> Iterator[str]:
    """What brokers still hold, in sentences."""
    for host in world.hosts.values():
        if isinstance(host.broker, Broker):
            for found in held(host.broker):
                yield f"{host.id} still holds {found}"
            for timer in host.timers:
                if not isinstance(timer, _TIMERS_STAY):
                    yield f"{host.id} still has the timer {timer}"


def held(root: object) -> Iterator[str]:
    """Everything below an object that is not empty and may not stay: where, and how much."""
    seen: set[int] = set()
    below: list[object] = [root]
    while below:
        one = below.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        if isinstance(one, CONTAINERS):
            below += one.values() if isinstance(one, dict) else one
            continue
        if not type(one).__module__.startswith(OWN):
            continue
        for name, value in attributes(one):
            place = f"{type(one).__name__}.{name}"
            is_record = hasattr(value, "_fields")  # what can be asked of whom, by name
            if isinstance(value, CONTAINERS) and value and not is_record and place not in MAY_STAY:
                yield f"{place}: {len(value)}, for instance {_example(value)}"
            else:
                below.append(value)
                if isinstance(value, dict) and place in MAY_STAY and place not in _NESTED:
                    yield from _within(place, value)


def _within(place: str, container: dict[Any, Any]) -> Iterator[str]:
    """Maps and lists inside a map that may stay are to be empty."""
    for key, value in container.items():
        if isinstance(value, dict | list | set) and value:
            yield f"{place}[{key!r}]: {len(value)}, for instance {_example(value)}"


def _example(value: Any) -> str:
    text = repr(next(iter(value.items() if isinstance(value, dict) else value)))
    return text if len(text) <= 120 else f"{text[:117]}..."
