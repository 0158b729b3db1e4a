"""Answers that explain themselves: packets with a reason string, where one may be sent.

A reason string is left out when the client did not ask for it, when MQTT 3.1.1 has no place for
it, or when it would make the packet larger than the client takes.
"""

from __future__ import annotations

from typing import Final

from gravitate.broker.interface.effects import NOT_HERE, OVERLOADED, STOPPING, TAKEN_OVER
from gravitate.wire.mqtt.codes import V5, ReasonCode
from gravitate.wire.mqtt.encoder import encode
from gravitate.wire.mqtt.packets import Connack, Disconnect, Suback
from gravitate.wire.mqtt.properties import Properties, Property

REASON_BYTES_MAX: Final = 1000

_CLOSE_CODES: Final = {
    TAKEN_OVER: ReasonCode.SESSION_TAKEN_OVER,
    OVERLOADED: ReasonCode.QUOTA_EXCEEDED,
    STOPPING: ReasonCode.SERVER_SHUTTING_DOWN,
    NOT_HERE: ReasonCode.USE_ANOTHER_SERVER,
}


def close_code(reason: str) -> ReasonCode:
    """How MQTT says why the broker ended a session."""
    return _CLOSE_CODES.get(reason, ReasonCode.UNSPECIFIED_ERROR)


def explained(packet: Suback, told: str, version: int, size_max: int) -> bytes:
    """A SUBACK that says in words what was refused."""
    if told and version >= V5:
        full = encode(Suback(packet.packet_id, packet.reasons, reason_string(told)), version)
        if len(full) <= size_max:
            return full
    return encode(packet, version)


def farewell(code: ReasonCode, told: str, version: int, connected: bool, size_max: int) -> bytes:
    """The last packet before the server closes; empty where MQTT 3.1.1 has none."""
    if version < V5:
        return b"" if connected else encode(Connack(code), version)
    kind = Disconnect if connected else Connack
    full = encode(kind(code, properties=reason_string(told)), version)
    return full if len(full) <= size_max else encode(kind(code), version)


def moved(server: str, told: str, size_max: int) -> bytes:
    """Where the client is expected instead; only clients that asked for it are told."""
    properties: Properties = {Property.SERVER_REFERENCE: server}
    full = Disconnect(ReasonCode.SERVER_MOVED, properties | reason_string(told))
    packet = encode(full, V5)
    if len(packet) <= size_max:
        return packet
    return encode(Disconnect(ReasonCode.SERVER_MOVED, properties), V5)


def reason_string(told: str) -> Properties:
    """The property, shortened to what a client may be expected to take."""
    return {Property.REASON_STRING: shortened(told)}


def shortened(told: str) -> str:
    """A text that fits into any packet, whatever was to be said."""
    start = told[:REASON_BYTES_MAX].encode(errors="replace")[:REASON_BYTES_MAX]
    return start.decode(errors="ignore").replace("\0", "?")
