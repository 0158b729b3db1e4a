"""Hypothesis strategies for MQTT packets that can be sent."""

from __future__ import annotations

from hypothesis import strategies as st

from gravitate.wire.mqtt import packets as p
from gravitate.wire.mqtt.codes import CONNACK_RETURN_CODES_V311, V5, V311, PacketType, ReasonCode
from gravitate.wire.mqtt.properties import RULES, WILL, Kind, Properties, Property, PropertyValue

texts = st.text(st.characters(blacklist_categories=("Cs",), blacklist_characters="\0"), max_size=12)
topic_levels = st.text(
    st.characters(blacklist_categories=("Cs",), blacklist_characters="\0+#$"),
    min_size=1,
    max_size=9,
)
topics = st.lists(topic_levels, min_size=1, max_size=3).map("/".join)
payloads = st.binary(max_size=200)
packet_ids = st.integers(1, 65535)
versions = st.sampled_from((V311, V5))

_VALUES: dict[Kind, st.SearchStrategy[PropertyValue]] = {
    Kind.FLAG: st.integers(0, 1),
    Kind.U16: st.integers(0, 0xFFFF),
    Kind.POSITIVE_U16: st.integers(1, 0xFFFF),
    Kind.U32: st.integers(0, 0xFFFF_FFFF),
    Kind.POSITIVE_U32: st.integers(1, 0xFFFF_FFFF),
    Kind.TEXT: texts,
    Kind.BINARY: st.binary(max_size=20),
}
pairs = st.lists(st.tuples(texts, texts), min_size=1, max_size=5).map(tuple)
identifiers = st.lists(st.integers(1, 268_435_455), min_size=1, max_size=3, unique=True).map(tuple)

ACKNOWLEDGEMENTS = {
    p.Puback: (0x00, 0x10, 0x80, 0x83, 0x87, 0x90, 0x91, 0x97, 0x99),
    p.Pubrec: (0x00, 0x10, 0x80, 0x83, 0x87, 0x90, 0x91, 0x97, 0x99),
    p.Pubrel: (0x00, 0x92),
    p.Pubcomp: (0x00, 0x92),
}
CONNACK_REASONS = (0x00, 0x80, 0x81, 0x82, 0x83, 0x84, 0x85, 0x86, 0x87, 0x88, 0x89, 0x8A, 0x8C)
SUBACK_REASONS = (0x00, 0x01, 0x02, 0x80, 0x83, 0x87, 0x8F, 0x91, 0x97, 0x9E, 0xA1, 0xA2)
UNSUBACK_REASONS = (0x00, 0x11, 0x80, 0x83, 0x87, 0x8F, 0x91)
DISCONNECT_REASONS = (0x00, 0x04, 0x80, 0x81, 0x82, 0x83, 0x87, 0x89, 0x8B, 0x8D, 0x8E, 0x97, 0xA2)
AUTH_REASONS = (0x00, 0x18, 0x19)


def reasons(numbers: tuple[int, ...]) -> st.SearchStrategy[ReasonCode]:
    return st.sampled_from([ReasonCode(number) for number in numbers])


@st.composite
def properties(draw: st.DrawFn, place: int, without: tuple[Property, ...] = ()) -> Properties:
    """Any properties that may stand in `place`."""
    allowed = [q for q, rule in RULES.items() if place in rule.places and q not in without]
    found: Properties = {}
    for prop in draw(st.lists(st.sampled_from(allowed), unique=True, max_size=6)):
        if prop is Property.USER_PROPERTY:
            found[prop] = draw(pairs)
        elif prop is Property.SUBSCRIPTION_IDENTIFIER:
            value = draw(identifiers)
            found[prop] = value[:1] if place == PacketType.SUBSCRIBE else value
        elif prop is Property.RESPONSE_TOPIC:
            found[prop] = draw(topics)
        elif prop is Property.TOPIC_ALIAS:
            found[prop] = draw(st.integers(1, 0xFFFF))
        else:
            found[prop] = draw(_VALUES[RULES[prop].kind])
    if Property.AUTHENTICATION_DATA in found:
        found.setdefault(Property.AUTHENTICATION_METHOD, "method")
    return found


def told(
    version: int, place: int, without: tuple[Property, ...] = ()
) -> st.SearchStrategy[Properties]:
    return properties(place, without) if version == V5 else st.just({})


@st.composite
def publishes(draw: st.DrawFn, version: int, qos: tuple[int, ...] = (0, 1, 2)) -> p.Publish:
    level = draw(st.sampled_from(qos))
    return p.Publish(
        draw(topics),
        draw(payloads),
        level,
        draw(packet_ids) if level else 0,
        draw(st.booleans()),
        draw(st.booleans()) if level else False,
        draw(told(version, PacketType.PUBLISH)),
    )


PLAIN_WITHOUT = (Property.TOPIC_ALIAS, Property.SUBSCRIPTION_IDENTIFIER)


@st.composite
def plain_publishes(draw: st.DrawFn, version: int, qos: int) -> p.Publish:
    """What the scanner passes on without a second look."""
    number = draw(packet_ids) if qos else 0
    known = draw(told(version, PacketType.PUBLISH, PLAIN_WITHOUT))
    return p.Publish(draw(topics), draw(payloads), qos, number, properties=known)


@st.composite
def wills(draw: st.DrawFn, version: int) -> p.Will:
    return p.Will(
        draw(topics),
        draw(payloads),
        draw(st.integers(0, 2)),
        draw(st.booleans()),
        draw(told(version, WILL)),
    )


@st.composite
def connects(draw: st.DrawFn, version: int) -> p.Connect:
    username = draw(st.none() | texts)
    password = draw(st.none() | st.binary(max_size=20))
    return p.Connect(
        draw(texts),
        version,
        draw(st.booleans()),
        draw(st.integers(0, 65535)),
        username,
        password if username is not None or version == V5 else None,
        draw(st.none() | wills(version)),
        draw(told(version, PacketType.CONNECT)),
    )


@st.composite
def topic_requests(draw: st.DrawFn, version: int) -> p.TopicRequest:
    qos = draw(st.integers(0, 2))
    if version < V5:
        return p.TopicRequest(draw(topics), qos)
    return p.TopicRequest(
        draw(topics), qos, draw(st.booleans()), draw(st.booleans()), draw(st.integers(0, 2))
    )


@st.composite
def acknowledgements(draw: st.DrawFn, version: int) -> p.Packet:
    packet = draw(st.sampled_from([p.Puback, p.Pubrec, p.Pubrel, p.Pubcomp]))
    if version < V5:
        return packet(draw(packet_ids))
    place = PacketType[packet.__name__.upper()]
    return packet(
        draw(packet_ids), draw(reasons(ACKNOWLEDGEMENTS[packet])), draw(properties(place))
    )


def packets(version: int) -> st.SearchStrategy[p.Packet]:
    """Any packet of the version, in either direction."""
    listed = st.lists(topics, min_size=1, max_size=3).map(tuple)
    requested = st.lists(topic_requests(version), min_size=1, max_size=3).map(tuple)
    if version == V5:
        connack = st.builds(
            p.Connack, reasons(CONNACK_REASONS), st.booleans(), properties(PacketType.CONNACK)
        )
        granted, ended = reasons(SUBACK_REASONS), reasons(UNSUBACK_REASONS)
        ended_list = st.lists(ended, min_size=1, max_size=3).map(tuple)
        disconnect = st.builds(
            p.Disconnect, reasons(DISCONNECT_REASONS), properties(PacketType.DISCONNECT)
        )
    else:
        known = [*CONNACK_RETURN_CODES_V311]
        connack = st.builds(p.Connack, st.sampled_from(known), st.booleans())
        granted = reasons((0x00, 0x01, 0x02, 0x80))
        ended_list = st.just(())
        disconnect = st.just(p.Disconnect())
    choices = [
        connects(version),
        connack,
        publishes(version),
        acknowledgements(version),
        st.builds(p.Subscribe, packet_ids, requested, told(version, PacketType.SUBSCRIBE)),
        st.builds(
            p.Suback,
            packet_ids,
            st.lists(granted, min_size=1, max_size=3).map(tuple),
            told(version, PacketType.SUBACK),
        ),
        st.builds(p.Unsubscribe, packet_ids, listed, told(version, PacketType.UNSUBSCRIBE)),
        st.builds(p.Unsuback, packet_ids, ended_list, told(version, PacketType.UNSUBACK)),
        st.just(p.Pingreq()),
        st.just(p.Pingresp()),
        disconnect,
    ]
    if version == V5:
        choices.append(st.builds(p.Auth, reasons(AUTH_REASONS), properties(PacketType.AUTH)))
    return st.one_of(*choices)
