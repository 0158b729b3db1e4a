"""What a client asks for: SUBSCRIBE, UNSUBSCRIBE, control messages and what is not offered.

Pure: a session's subscriptions by name, and what each packet changes about them. A condition in
`$where` holds for all topic filters of its SUBSCRIBE; `topic?k=v&n>5` carries one of its own.
What cannot be granted gets its reason code in the SUBACK, and the session goes on.
"""

from __future__ import annotations

from gravitate.broker.inputs import (
    BrokersPinged,
    ClientAdvertised,
    ClientArrived,
    ClientPaused,
    ClientSubscribed,
    ClientUnadvertised,
    ClientUnsubscribed,
)
from gravitate.errors import FilterError, MqttError
from gravitate.model.filters import EVERYTHING, Filter
from gravitate.model.language import parse, wanted_filter
from gravitate.model.topics import topic_filter
from gravitate.wire.mqtt.codes import ReasonCode
from gravitate.wire.mqtt.control import (
    ADVERTISE,
    ARRIVED,
    PAUSED,
    PONG,
    UNADVERTISE,
    WHERE,
    Pong,
    payload_of,
    subscription_name,
)
from gravitate.wire.mqtt.packets import Publish, Subscribe, TopicRequest, Unsubscribe
from gravitate.wire.mqtt.properties import Properties, Property, user_properties

SHARED_PREFIX = "$share/"


class Refused(Exception):
    """One topic filter is not granted."""

    def __init__(self, reason: ReasonCode, text: str) -> None:
        self.reason = reason
        super().__init__(text)


class Requests:
    """The subscriptions of one session, as the client spelled them."""

    def __init__(self, session: str) -> None:
        self._session = session
        self._topic_filters: dict[str, str] = {}
        """Subscription name -> the topic filter it was asked for with."""

    def subscribe(
        self, packet: Subscribe
    ) -> tuple[list[ClientSubscribed], list[ReasonCode], list[str]]:
        """The inputs, one reason code a topic filter, and why some are refused."""
        inputs: list[ClientSubscribed] = []
        reasons: list[ReasonCode] = []
        faults: list[str] = []
        where = condition_text(packet.properties)
        for request in packet.requests:
            try:
                filter = self._granted(request, where, packet.properties)
            except Refused as refused:
                reasons.append(refused.reason)
                if str(refused) not in faults:
                    faults.append(str(refused))
                continue
            name = subscription_name(request.topic_filter, where)
            qos = min(request.qos, 1)
            self._topic_filters[name] = request.topic_filter
            inputs.append(ClientSubscribed(self._session, name, filter, qos, request.no_local))
            reasons.append(ReasonCode(qos))
        return inputs, reasons, faults

    def _granted(self, request: TopicRequest, where: str | None, told: Properties) -> Filter:
        if Property.SUBSCRIPTION_IDENTIFIER in told:
            raise Refused(
                ReasonCode.SUBSCRIPTION_IDENTIFIERS_NOT_SUPPORTED,
                "subscription identifiers are not supported",
            )
        if request.topic_filter.startswith(SHARED_PREFIX):
            raise Refused(
                ReasonCode.SHARED_SUBSCRIPTIONS_NOT_SUPPORTED,
                f"{request.topic_filter}: shared subscriptions are not supported",
            )
        return granted_filter(request.topic_filter, where)

    def unsubscribe(self, packet: Unsubscribe) -> tuple[list[ClientUnsubscribed], list[ReasonCode]]:
        """The inputs, and one reason code a topic filter."""
        inputs: list[ClientUnsubscribed] = []
        reasons: list[ReasonCode] = []
        where = condition_text(packet.properties)
        for given in packet.topic_filters:
            if where is None:
                names = [n for n, asked in self._topic_filters.items() if asked == given]
            else:
                name = subscription_name(given, where)
                names = [name] if name in self._topic_filters else []
            for name in names:
                del self._topic_filters[name]
                inputs.append(ClientUnsubscribed(self._session, name))
            found = bool(names)
            reasons.append(ReasonCode.SUCCESS if found else ReasonCode.NO_SUBSCRIPTION_EXISTED)
        return inputs, reasons


def condition_text(properties: Properties) -> str | None:
    """The condition in a packet's `$where`; several are all to hold."""
    found = [value for name, value in user_properties(properties) if name == WHERE]
    if len(found) > 1:
        return " AND ".join(f"({text})" for text in found)
    return found[0] if found else None


def granted_filter(topic: str, where: str | None) -> Filter:
    """What a topic filter, its query and a condition mean together; raises `Refused`."""
    try:
        topic_filter(topic.partition("?")[0])
    except FilterError as error:
        raise Refused(ReasonCode.TOPIC_FILTER_INVALID, f"{topic}: {error}") from None
    try:
        return wanted_filter(topic, where)
    except FilterError as error:
        place = WHERE if error.text == where else topic
        raise Refused(ReasonCode.IMPLEMENTATION_SPECIFIC_ERROR, f"{place}: {error}") from None


def check_offered(packet: Publish) -> None:
    """Raise `MqttError` for a publication that uses what this broker does not offer."""
    if packet.qos == 2:
        raise MqttError("QoS 2 is not supported", ReasonCode.QOS_NOT_SUPPORTED)
    if packet.retain:
        raise MqttError("retained messages are not supported", ReasonCode.RETAIN_NOT_SUPPORTED)
    if Property.TOPIC_ALIAS in packet.properties:
        raise MqttError("topic aliases are not supported", ReasonCode.TOPIC_ALIAS_INVALID)
    if Property.SUBSCRIPTION_IDENTIFIER in packet.properties:
        raise MqttError(
            "a client's PUBLISH with a subscription identifier", ReasonCode.PROTOCOL_ERROR
        )


def control_input(
    session: str, packet: Publish
) -> ClientAdvertised | ClientUnadvertised | ClientPaused | ClientArrived | BrokersPinged:
    """What a control message of a marked client asks of the broker.

    Raises `Refused` for a filter that does not parse, `MqttError` for a message that is no
    control message."""
    if packet.topic == PAUSED and not packet.qos:
        return ClientPaused(session)
    if packet.topic == ARRIVED and not packet.qos:
        return ClientArrived(session)
    if packet.topic == PONG and not packet.qos:
        pong = payload_of(packet, Pong)
        return BrokersPinged(session, pong.token, pong.round_trips_s)
    fields = dict(user_properties(packet.properties))
    name = fields.get("name", "")
    if packet.qos or not name or packet.topic not in (ADVERTISE, UNADVERTISE):
        raise MqttError(
            f"{packet.topic!r} at QoS {packet.qos} with name {name!r} is no control message",
            ReasonCode.TOPIC_NAME_INVALID,
        )
    if packet.topic == UNADVERTISE:
        return ClientUnadvertised(session, name)
    where = fields.get(WHERE)
    if "topic" in fields:
        return ClientAdvertised(session, name, granted_filter(fields["topic"], where))
    try:
        return ClientAdvertised(session, name, EVERYTHING if where is None else parse(where))
    except FilterError as error:
        raise Refused(ReasonCode.IMPLEMENTATION_SPECIFIC_ERROR, f"{WHERE}: {error}") from None
