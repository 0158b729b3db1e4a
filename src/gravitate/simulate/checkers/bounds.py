"""Bounds hold at every moment: what brokers keep for clients is looked at while a world goes on.

Bounds that hold a client back instead of refusing it (`hold_bytes_max`, `link_queue_bytes_max`) are
exceeded by what was under way, so they are not judged here.
"""

from __future__ import annotations

from collections.abc import Iterator

from gravitate.broker.core import Broker
from gravitate.broker.forwarding.receiver import SWEEP_BYTES_MIN
from gravitate.broker.links.link import LinkState
from gravitate.broker.lives import LIFE_BYTES
from gravitate.broker.options import BrokerOptions
from gravitate.broker.sessions.outbound import LocalOutbound, Outbound
from gravitate.broker.sessions.states import Owed
from gravitate.simulate.world import World

EVENT_BYTES_MAX = 1000
"""No event of a random world has more."""


def exceeded(world: World, options: BrokerOptions) -> Iterator[str]:
    """What is held beyond its bound, in sentences."""
    for host in world.hosts.values():
        broker = host.broker
        if not isinstance(broker, Broker):
            continue
        connected = [session.outbound for session in broker.clients.sessions.values()]
        for outbound in (*connected, *broker.tethered_subscribers):
            for sentence in _of_subscriber(outbound, options):
                yield f"{host.id}: {outbound.id}: {sentence}"
        for link in broker.links:
            most = options.link_control_bytes_max
            if link.state is LinkState.DOWN and link.control_bytes > most:
                yield f"{host.id} has {link.control_bytes} bytes to say to {link.peer}"


def _of_subscriber(outbound: Outbound, options: BrokerOptions) -> Iterator[str]:
    events_max, bytes_max = options.session_queue_events_max, options.session_queue_bytes_max
    # What is kept may come from two brokers, where a subscriber was and where it is.
    queues = [("are kept", outbound.kept, 2), ("wait", outbound.waiting, 1)]
    most = options.session_window_bytes_max + EVENT_BYTES_MAX
    if isinstance(outbound, LocalOutbound) and outbound.unacknowledged_bytes > most:
        yield f"{outbound.unacknowledged_bytes} bytes unacknowledged"
    for what, queue, times in queues:
        events = sum(len(batch) for batch, _ in queue)
        size_bytes = sum(batch.size_bytes() for batch, _ in queue)
        if events > times * events_max or size_bytes > times * bytes_max:
            yield f"{events} events of {size_bytes} bytes {what}"
    remembered = max(options.session_seen_bytes_max, SWEEP_BYTES_MIN) + 2 * LIFE_BYTES
    if outbound.seen_bytes > remembered and outbound.state is Owed.CONNECTED:
        yield f"{outbound.seen_bytes} bytes remembered of publishers"
