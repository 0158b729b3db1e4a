"""What can be set on an MQTT listener."""

from __future__ import annotations

import msgspec


class DoorOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    payload_fields: bool = True
    """Whether conditions may look into JSON payloads that came in here (`payload.x`)."""
    packet_bytes_max: int = 16 * 1024 * 1024
    """The largest packet taken from a client; announced as Maximum Packet Size."""
    receive_maximum: int = 8192
    """Publications of QoS 1 that a client may have unacknowledged; announced."""
    keep_alive_s_max: int = 0
    """A client that asks for a longer keep alive, or none, is told this one. 0: as it asks."""
    connect_s_max: float = 10.0
    """A connection that has not sent CONNECT after this long is closed."""
    linger_s: float = 2.0
    """How long a closed connection may take to receive what was written to it."""
    write_bytes_high: int = 4 * 1024 * 1024
    write_bytes_low: int = 1024 * 1024
    """A client with more than the first unsent is congested until it is below the second."""
