"""The packets of MQTT 3.1.1 and 5, as plain structs.

One struct serves both versions; what a version does not have keeps its default. How they become
bytes is known to `codec` alone.
"""

from __future__ import annotations

import msgspec

from gravitate.wire.mqtt.codes import V5, ReasonCode
from gravitate.wire.mqtt.properties import Properties


class Will(msgspec.Struct, frozen=True):
    topic: str
    payload: bytes
    qos: int = 0
    retain: bool = False
    properties: Properties = {}


class Connect(msgspec.Struct, frozen=True):
    client_id: str
    version: int = V5
    clean_start: bool = True
    keep_alive_s: int = 0
    username: str | None = None
    password: bytes | None = None
    will: Will | None = None
    properties: Properties = {}


class Connack(msgspec.Struct, frozen=True):
    reason: ReasonCode = ReasonCode.SUCCESS
    session_present: bool = False
    properties: Properties = {}


class Publish(msgspec.Struct, frozen=True):
    topic: str
    payload: bytes = b""
    qos: int = 0
    packet_id: int = 0
    retain: bool = False
    dup: bool = False
    properties: Properties = {}


class Acknowledgement(msgspec.Struct, frozen=True):
    """What the four of them say of a publication."""

    packet_id: int
    reason: ReasonCode = ReasonCode.SUCCESS
    properties: Properties = {}


class Puback(Acknowledgement, frozen=True):
    pass


class Pubrec(Acknowledgement, frozen=True):
    pass


class Pubrel(Acknowledgement, frozen=True):
    pass


class Pubcomp(Acknowledgement, frozen=True):
    pass


class TopicRequest(msgspec.Struct, frozen=True):
    """One topic filter of a SUBSCRIBE with its options."""

    topic_filter: str
    qos: int = 0
    no_local: bool = False
    retain_as_published: bool = False
    retain_handling: int = 0


class Subscribe(msgspec.Struct, frozen=True):
    packet_id: int
    requests: tuple[TopicRequest, ...]
    properties: Properties = {}


class Suback(msgspec.Struct, frozen=True):
    """`reasons` may be given as the bytes they are written as."""

    packet_id: int
    reasons: tuple[ReasonCode, ...] | bytes
    properties: Properties = {}


class Unsubscribe(msgspec.Struct, frozen=True):
    packet_id: int
    topic_filters: tuple[str, ...]
    properties: Properties = {}


class Unsuback(msgspec.Struct, frozen=True):
    """`reasons` stays empty in 3.1.1, and may be given as the bytes they are written as."""

    packet_id: int
    reasons: tuple[ReasonCode, ...] | bytes = ()
    properties: Properties = {}


class Pingreq(msgspec.Struct, frozen=True):
    pass


class Pingresp(msgspec.Struct, frozen=True):
    pass


class Disconnect(msgspec.Struct, frozen=True):
    reason: ReasonCode = ReasonCode.NORMAL_DISCONNECTION
    properties: Properties = {}


class Auth(msgspec.Struct, frozen=True):
    reason: ReasonCode = ReasonCode.SUCCESS
    properties: Properties = {}


Packet = (
    Connect
    | Connack
    | Publish
    | Puback
    | Pubrec
    | Pubrel
    | Pubcomp
    | Subscribe
    | Suback
    | Unsubscribe
    | Unsuback
    | Pingreq
    | Pingresp
    | Disconnect
    | Auth
)
