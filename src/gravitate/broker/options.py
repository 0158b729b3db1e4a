"""What can be set on a broker, with the defaults a node runs with."""

from __future__ import annotations

import msgspec


class BrokerOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Bounds and intervals. Everything that grows has a bound here."""

    network: str = "gravitate"
    """Brokers of another network are refused."""

    heartbeat_s: float = 2.0
    """Between pings on a link; a peer silent for three of them is cut. 0: no heartbeat."""
    retry_s_min: float = 0.05
    retry_s_max: float = 2.0
    """A link that cannot be had is tried again after this long, doubling between the bounds."""
    acknowledge_after_s: float = 0.02
    acknowledge_every: int = 64
    """An acknowledgement waits for data to ride on: this long, or this many messages."""
    link_queue_events_max: int = 200_000
    """Above this many unacknowledged events on a link, publishers everywhere are held."""
    link_grace_s: float = 600.0
    """A link down for longer is given up: its queue is dropped and what is behind it forgotten
    until it returns. 0: never."""

    session_queue_events_max: int = 100_000
    """Deliveries at QoS 1 beyond a client's window; a client that is further behind is closed."""
    session_publishers_max: int = 4_096
    """Publishers whose last counter a session remembers, the most recent ones."""

    advertise_topics_max: int = 8
    """A publisher with more topics than this is advertised by a common prefix of them."""
    hold_s_max: float = 5.0
    """A first publication waits for its advertisement to settle, but no longer than this; after
    that it also follows every link on which the advertisement has not settled."""
    hold_events_max: int = 1_000
    """A client with more publications waiting like this is not read from."""

    durable: bool = False
    """Publications at QoS 1 are accepted only when the driver has persisted them."""
    stop_s_max: float = 10.0
    """An orderly stop that cannot empty its links gives up after this long. 0: never."""


DEFAULTS = BrokerOptions()
