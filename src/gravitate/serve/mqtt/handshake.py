"""Who is let in: CONNECT in, an `Admission` or a refusal out.

Pure: knows what this broker offers and how it says so in CONNACK, not sockets or sessions.
Offered are QoS 0 and 1, wildcards and content conditions. Not offered, and therefore announced as
missing or refused: QoS 2, retained messages, wills, stored sessions, shared subscriptions,
subscription identifiers, topic aliases, enhanced authentication.
"""

from __future__ import annotations

import secrets

import msgspec

from gravitate.errors import MqttError
from gravitate.serve.mqtt.options import DoorOptions
from gravitate.wire.mqtt.codes import REMAINING_LENGTH_MAX, V5, ReasonCode
from gravitate.wire.mqtt.control import ClientMark, client_mark
from gravitate.wire.mqtt.packets import Connack, Connect
from gravitate.wire.mqtt.properties import Properties, Property, number

CLIENT_ID_BYTES_MAX = 1024
ANY_PACKET_BYTES = REMAINING_LENGTH_MAX + 5


class Admission(msgspec.Struct, frozen=True):
    """What was agreed with a client, and the CONNACK that tells it."""

    session: str
    version: int
    keep_alive_s: int
    window: int
    packet_bytes_max: int
    """The largest packet that the client takes."""
    wants_reasons: bool
    """Whether reason strings may be sent wherever they fit."""
    mark: ClientMark | None
    connack: Connack


def admit(connect: Connect, options: DoorOptions) -> Admission:
    """What is agreed with the client; raises `MqttError` to refuse it."""
    told = connect.properties
    if connect.will is not None:
        raise MqttError(
            "wills are not supported, connect without one",
            ReasonCode.IMPLEMENTATION_SPECIFIC_ERROR,
        )
    if Property.AUTHENTICATION_METHOD in told:
        raise MqttError(
            f"authentication method {told[Property.AUTHENTICATION_METHOD]!r} is not supported",
            ReasonCode.BAD_AUTHENTICATION_METHOD,
        )
    session = connect.client_id
    if len(session.encode()) > CLIENT_ID_BYTES_MAX:
        raise MqttError(
            f"a client identifier has at most {CLIENT_ID_BYTES_MAX} bytes",
            ReasonCode.CLIENT_IDENTIFIER_NOT_VALID,
        )
    answer: Properties = {}
    if not session:
        if connect.version < V5 and not connect.clean_start:
            raise MqttError(
                "a stored session needs a client identifier",
                ReasonCode.CLIENT_IDENTIFIER_NOT_VALID,
            )
        session = f"assigned-{secrets.token_hex(8)}"
        answer[Property.ASSIGNED_CLIENT_IDENTIFIER] = session
    keep_alive_s = connect.keep_alive_s
    longest = options.keep_alive_s_max
    if connect.version >= V5 and longest and not 0 < keep_alive_s <= longest:
        keep_alive_s = answer[Property.SERVER_KEEP_ALIVE] = longest
    if number(told, Property.SESSION_EXPIRY_INTERVAL, 0):
        answer[Property.SESSION_EXPIRY_INTERVAL] = 0
    answer |= {
        Property.RECEIVE_MAXIMUM: options.receive_maximum,
        Property.MAXIMUM_QOS: 1,
        Property.RETAIN_AVAILABLE: 0,
        Property.MAXIMUM_PACKET_SIZE: options.packet_bytes_max,
        Property.TOPIC_ALIAS_MAXIMUM: 0,
        Property.SUBSCRIPTION_IDENTIFIER_AVAILABLE: 0,
        Property.SHARED_SUBSCRIPTION_AVAILABLE: 0,
    }
    return Admission(
        session=session,
        version=connect.version,
        keep_alive_s=keep_alive_s,
        window=number(told, Property.RECEIVE_MAXIMUM, 65535),
        packet_bytes_max=number(told, Property.MAXIMUM_PACKET_SIZE, ANY_PACKET_BYTES),
        wants_reasons=number(told, Property.REQUEST_PROBLEM_INFORMATION, 1) == 1,
        mark=client_mark(told),
        connack=Connack(properties=answer if connect.version >= V5 else {}),
    )


def answering_version(connect_body: bytes) -> int:
    """The version to refuse a CONNECT in that could not be decoded: 5 when it claims 5 or more."""
    name_size = int.from_bytes(connect_body[:2], "big")
    level = connect_body[2 + name_size : 3 + name_size]
    return V5 if level and level[0] >= V5 else V5 - 1
