"""Compiled kernels are loaded before anybody waits for them.

The first use of a kernel in a process loads it from the cache, or compiles it when the cache is
cold: seconds that would otherwise stand in the way of the first events.
"""

from __future__ import annotations

from functools import cache

from gravitate import matching
from gravitate.wire.mqtt import warm as mqtt


@cache
def warm_up() -> None:
    """Load what brokers compute with; once a process."""
    matching.warm()
    mqtt.warm_up()
