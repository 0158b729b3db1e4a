"""Compiled kernels are loaded before anybody waits for them.

The first use of a kernel in a process loads it from the cache, or compiles it when the cache is
cold: seconds that would otherwise stand in the way of the first events. `warm_up` sends a few
events along the way of an event without a broker.
"""

from __future__ import annotations

from functools import cache
from itertools import product

from gravitate.matching import Matcher
from gravitate.model.events import Event
from gravitate.model.language import parse
from gravitate.wire.mqtt.bodies import FrameBodies
from gravitate.wire.mqtt.codes import V5, V311
from gravitate.wire.mqtt.emit import emit

CONDITIONS = (
    "price > 10",
    "price BETWEEN 5 AND 50 AND symbol = 'A'",
    "symbol LIKE 'A%'",
    "symbol IN ('A', 'B')",
    "volume IS NULL",
)
EVENTS = 64
"""Enough for the paths that many events take together."""


@cache
def warm_up() -> None:
    """Load what brokers compute with; once a process."""
    matcher = Matcher()
    for key, condition in enumerate(CONDITIONS):
        matcher.add(key, parse(condition), key)
    events = [Event({"topic": "t", "symbol": "A", "price": i}, b"x") for i in range(EVENTS)]
    for qos in (0, 1):
        bodies = FrameBodies.from_events(events, qos)
        bodies.topics()
        wanted = matcher.attributes
        matcher.match(bodies.attributes(wanted))
        matcher.match(bodies.select([0]).attributes(wanted))
        some = bodies.select(range(0, EVENTS, 2))
        some.spans()
        for version, asked in product((V311, V5), range(qos + 1)):
            emit(bodies, version, asked, asked)
            emit(some, version, asked, asked)
    matcher.remove(0)
