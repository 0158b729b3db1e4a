"""What a network file may set on the MQTT listener of a broker.

Everything that a stranger can make a broker hold or do has a bound here. What happens when it is
reached stands with it.
"""

from __future__ import annotations

from typing import Annotated, Final

import msgspec

PACKET_BYTES_MAX: Final = 48 * 1024 * 1024
FILTERS_BYTES_MAX: Final = 32 * 1024 * 1024
"""What a frame between brokers has room for: one publication, all that a client asks for."""

_Bytes = Annotated[int, msgspec.Meta(ge=1)]
_Seconds = Annotated[float, msgspec.Meta(ge=0)]


class MqttSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    packet_bytes_max: Annotated[int, msgspec.Meta(ge=1, le=PACKET_BYTES_MAX)] = 16 * 1024 * 1024
    """The largest packet taken from a client, announced as Maximum Packet Size. Who sends a
    larger one is closed with Packet too large as soon as its header is read."""
    connect_bytes_max: _Bytes = 64 * 1024
    """The largest CONNECT. Who sends a larger one is closed with Packet too large as soon as its
    header is read: nothing is known of the client yet."""
    unread_bytes_max: _Bytes = 64 * 1024 * 1024
    """What all connections together may have sent that waits here: packets that are not whole
    yet, and requests that are taken in parts. Who would exceed it is closed with Quota
    exceeded."""
    payload_fields_bytes_max: Annotated[int, msgspec.Meta(ge=0)] = 64 * 1024
    """The largest payload that conditions look into. A larger one has no fields."""
    filters_bytes_max: Annotated[int, msgspec.Meta(ge=1, le=FILTERS_BYTES_MAX)] = FILTERS_BYTES_MAX
    """What the subscriptions of a client take together, and likewise its advertisements. What is
    beyond is refused with Quota exceeded."""
    receive_maximum: Annotated[int, msgspec.Meta(ge=1, le=65535)] = 8192
    """Publications of QoS 1 that a client may have unacknowledged, announced. Who has more is
    closed with Receive Maximum exceeded."""
    keep_alive_s_max: Annotated[int, msgspec.Meta(ge=0, le=65535)] = 0
    """A client that asks for a longer keep alive, or none, is told this one. 0: as it asks."""
    connect_s_max: _Seconds = 10.0
    """A connection that has not sent CONNECT after this long is closed."""
    linger_s: _Seconds = 2.0
    """How long a closed connection may take to receive what was written to it."""
    write_bytes_high: _Bytes = 4 * 1024 * 1024
    write_bytes_low: _Bytes = 1024 * 1024
    """A client with more than the first unsent is congested until it is below the second."""
