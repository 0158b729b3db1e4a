"""What can be set on a broker, with the defaults a node runs with."""

from __future__ import annotations

from typing import Annotated, Final

import msgspec

MIB: Final = 1024 * 1024

Count = Annotated[int, msgspec.Meta(ge=1)]
Seconds = Annotated[float, msgspec.Meta(ge=0, le=1e9)]
Interval = Annotated[float, msgspec.Meta(ge=0.001, le=1e9)]


class BrokerOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Bounds and intervals. Everything that grows has a bound here, in bytes where bytes are held:
    those of events as they came, without what Python adds."""

    network: str = "gravitate"
    """Brokers of another network are refused."""

    heartbeat_s: Seconds = 1.0
    """Between pings on a link; a peer that nothing comes from for two and a half of them is cut.
    0: no heartbeat."""
    retry_s_min: Interval = 0.05
    retry_s_max: Interval = 2.0
    """A link that cannot be had is tried again after this long, doubling between the bounds."""
    acknowledge_after_s: Seconds = 0.02
    acknowledge_every: Count = 64
    """An acknowledgement waits for data to ride on: this long, or this many messages."""
    frame_events_max: Count = 16_384
    frame_bytes_max: Count = MIB
    """What goes into one frame between brokers; a larger event goes alone. A frame is sent again
    whole when its connection is lost."""
    link_queue_events_max: Count = 200_000
    link_queue_bytes_max: Count = 64 * MIB
    """Above this much unacknowledged on a link, publishers whose events go over it are held."""
    link_control_bytes_max: Count = 16 * MIB
    """A link that is not up and has more than this to say, events apart, forgets it: when it is
    back both sides start anew and say everything again."""
    link_grace_s: Seconds = 600.0
    """A link down for longer is given up: its queue is dropped and what is behind it forgotten
    until it returns. 0: never."""

    session_window_bytes_max: Count = 8 * MIB
    """Deliveries at QoS 1 that a client has not acknowledged; what is beyond waits, as beyond the
    client's own window. A larger event is given alone."""
    session_queue_events_max: Count = 100_000
    session_queue_bytes_max: Count = 64 * MIB
    """What waits for a client at QoS 1, or is kept for one that moves; a client that is further
    behind is closed."""
    session_seen_bytes_max: Count = 4 * MIB
    """What a session remembers of publishers, so that what comes again is recognised: about 150
    bytes each. Those whose events cannot come again are forgotten first; when others must be, the
    longest silent ones, that is counted (`publishers_forgotten`)."""

    advertise_topics_max: Count = 8
    """A publisher with more topics than this is advertised by a common prefix of them."""
    hold_s_max: Seconds = 5.0
    """A first publication waits for its advertisement to settle, but no longer than this; after
    that it also follows every link on which the advertisement has not settled."""
    hold_events_max: Count = 1_000
    hold_bytes_max: Count = 8 * MIB
    """A client with more publications waiting, for this or for a move of its, is not read from."""

    deposits_bytes_max: Count = 16 * MIB
    """What is remembered for a neighbour of those it serves for others, in case that it is killed;
    what is beyond is not (`deposits_refused`)."""
    portion_max: Count = 256
    """Subscriptions and advertisements that are undone in one step when a client leaves; those of
    one that had more end in portions, with other clients' turns in between."""
    durable: bool = False
    """Publications at QoS 1 are accepted only when the driver has persisted them."""
    stop_s_max: Seconds = 10.0
    """An orderly stop that cannot empty its links gives up after this long. 0: never."""


DEFAULTS = BrokerOptions()
