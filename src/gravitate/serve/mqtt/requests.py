"""What a client asks for: SUBSCRIBE, UNSUBSCRIBE, control messages and what is not offered.

Pure: a session's subscriptions by name, and what each packet changes about them. A condition in
`$where` holds for all topic filters of its SUBSCRIBE; `topic?k=v&n>5` carries one of its own.
What cannot be granted gets its reason code in the SUBACK, and the session goes on.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from gravitate.broker.interface.inputs import (
    BrokersPinged,
    ClientAdvertised,
    ClientArrived,
    ClientPaused,
    ClientSubscribed,
    ClientUnadvertised,
    ClientUnsubscribed,
)
from gravitate.config.listeners import FILTERS_BYTES_MAX
from gravitate.errors import FilterError, MqttError
from gravitate.model.filters import EVERYTHING, Filter
from gravitate.model.language import compiled, narrowed
from gravitate.model.limits import Measure
from gravitate.model.topics import topic_filter
from gravitate.serve.mqtt.answers import REASON_BYTES_MAX
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
from gravitate.wire.mqtt.packets import Publish, TopicRequest
from gravitate.wire.mqtt.properties import Properties, Property, user_properties

SHARED_PREFIX: Final = "$share/"
ENTRY_BYTES: Final = 60
"""What a subscription or an advertisement takes in a message beside its name and its filter."""

SUBSCRIBING: Final = 30
UNSUBSCRIBING: Final = 40
LOOKING: Final = 5
"""What is counted for a subscription and again for each of its alternatives, for the end of one,
and for what is looked at only; in the units of the desk."""
SUBSCRIBE_EFFORT_MAX: Final = 10_000_000
"""The most that one SUBSCRIBE may ask for; what is beyond is refused."""


class Refused(Exception):
    """One topic filter is not granted."""

    def __init__(self, reason: ReasonCode, text: str) -> None:
        self.reason = reason
        super().__init__(text)


class Answer:
    """What a SUBACK or UNSUBACK will say: a code a topic filter, and why some are refused."""

    __slots__ = ("_told_bytes", "faults", "reasons")

    def __init__(self) -> None:
        self.reasons = bytearray()
        self.faults: dict[str, None] = {}
        self._told_bytes = 0

    def refuse(self, refused: Refused) -> None:
        self.reasons.append(refused.reason)
        # More than a client would be told is not remembered: there may be very many.
        if self._told_bytes < REASON_BYTES_MAX and str(refused) not in self.faults:
            self.faults[str(refused)] = None
            self._told_bytes += len(str(refused))

    def told(self) -> str:
        return "; ".join(self.faults)


class Allotment:
    """What the filters of one client take together, by name: all of them go in one message when
    the client is moved."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._sizes: dict[str, int] = {}
        self._bytes = 0

    def take(self, name: str, filter_bytes: int) -> None:
        """A filter is asked for under a name, whatever that meant before; raises `Refused`."""
        size = ENTRY_BYTES + len(name) + filter_bytes
        taken = self._bytes + size - self._sizes.get(name, 0)
        if taken > self._bytes_max:
            raise Refused(
                ReasonCode.QUOTA_EXCEEDED,
                f"{_shown(name)}: what a client subscribes to, or advertises, takes at most "
                f"{self._bytes_max} bytes, this would make it {taken}",
            )
        self._sizes[name] = size
        self._bytes = taken

    def give(self, name: str) -> None:
        """Nothing is asked for under a name any more."""
        self._bytes -= self._sizes.pop(name, 0)


Step = tuple[int, ClientSubscribed | ClientUnsubscribed | None]
"""What a part of a request took, in the units of the desk, and what it asks of the broker."""


class Requests:
    """The subscriptions of one session, as the client spelled them.

    Requests are taken step by step, so that others may have their turn in between."""

    def __init__(
        self,
        connection: int,
        name_bytes_max: int | None = None,
        filters_bytes_max: int = FILTERS_BYTES_MAX,
    ) -> None:
        self._connection = connection
        self._allotment = Allotment(filters_bytes_max)
        self._name_bytes_max = name_bytes_max
        """The longest name that the client can be told; None when it is told none."""
        self._names: dict[str, dict[str, None]] = {}
        """Topic filter -> the names of the subscriptions it was asked for with."""

    def subscribe(
        self, told: Properties, requests: Iterable[TopicRequest], answer: Answer
    ) -> Iterator[Step]:
        """What a SUBSCRIBE asks for. Its condition is compiled once."""
        where = condition_text(told)
        condition: Filter | str = EVERYTHING
        spent = 0
        if where is not None:
            condition, spent, _ = _compiled(where)
            yield spent, None
        for request in requests:
            effort = LOOKING
            try:
                if spent >= SUBSCRIBE_EFFORT_MAX:
                    raise Refused(
                        ReasonCode.QUOTA_EXCEEDED,
                        f"the topic filters of a SUBSCRIBE take at most {SUBSCRIBE_EFFORT_MAX} "
                        f"steps together, a plain one about {2 * SUBSCRIBING} and each alternative "
                        f"of a condition {SUBSCRIBING} more: send several",
                    )
                effort += len(request.topic_filter) + len(where or "") >> 2
                subscribed, taking = self._granted(request, told, where, condition)
                effort += taking
            except Refused as refused:
                answer.refuse(refused)
                yield effort, None
            else:
                answer.reasons.append(subscribed.qos)
                yield effort, subscribed
            spent += effort

    def _granted(
        self,
        request: TopicRequest,
        told: Properties,
        where: str | None,
        condition: Filter | str,
    ) -> tuple[ClientSubscribed, int]:
        """The subscription and what it takes; raises `Refused`."""
        topic = request.topic_filter
        if Property.SUBSCRIPTION_IDENTIFIER in told:
            raise Refused(
                ReasonCode.SUBSCRIPTION_IDENTIFIERS_NOT_SUPPORTED,
                "subscription identifiers are not supported",
            )
        if topic.startswith(SHARED_PREFIX):
            raise Refused(
                ReasonCode.SHARED_SUBSCRIPTIONS_NOT_SUPPORTED,
                f"{_shown(topic)}: shared subscriptions are not supported",
            )
        filter, measure = granted_filter(topic, condition)
        name = subscription_name(topic, where)
        if self._name_bytes_max is not None and len(name.encode()) > self._name_bytes_max:
            raise Refused(
                ReasonCode.IMPLEMENTATION_SPECIFIC_ERROR,
                f"{_shown(topic)}: a topic filter and its condition have at most "
                f"{self._name_bytes_max} bytes together, these have {len(name.encode())}",
            )
        self._allotment.take(name, measure.size_bytes)
        self._names.setdefault(topic, {})[name] = None
        subscribed = ClientSubscribed(
            self._connection, name, filter, min(request.qos, 1), request.no_local
        )
        return subscribed, effort_of(filter, measure)

    def unsubscribe(
        self, told: Properties, topic_filters: Iterable[str], answer: Answer
    ) -> Iterator[Step]:
        """What an UNSUBSCRIBE ends."""
        where = condition_text(told)
        for given in topic_filters:
            names = self._names.get(given, {})
            if where is None:
                ended = list(names)
            else:
                name = subscription_name(given, where)
                ended = [name] if name in names else []
            for name in ended:
                del names[name]
                self._allotment.give(name)
                yield UNSUBSCRIBING, ClientUnsubscribed(self._connection, name)
            if ended and not names:
                del self._names[given]
            reason = ReasonCode.SUCCESS if ended else ReasonCode.NO_SUBSCRIPTION_EXISTED
            answer.reasons.append(reason)
            yield LOOKING + (len(where or "") >> 9), None


def _shown(text: str) -> str:
    return text if len(text) <= 200 else f"{text[:200]}..."


def effort_of(filter: Filter, measure: Measure) -> int:
    """What making a filter and taking it in costs, in the units of the desk."""
    entering = SUBSCRIBING * (1 + len(filter.conjunctions))
    return entering + (measure.weight**2 >> 10) + (measure.size_bytes >> 3)


def condition_text(properties: Properties) -> str | None:
    """The condition in a packet's `$where`; several are all to hold."""
    found = [value for name, value in user_properties(properties) if name == WHERE]
    if len(found) > 1:
        return " AND ".join(f"({text})" for text in found)
    return found[0] if found else None


def _compiled(where: str) -> tuple[Filter | str, int, int]:
    """A condition, or in words why it is none; what that took, and its size when it is sent."""
    reading = len(where) >> 1
    try:
        condition, measure = compiled(where)
    except FilterError as error:
        return f"{WHERE}: {error}", reading, 0
    return condition, reading + effort_of(condition, measure), measure.size_bytes


def granted_filter(topic: str, condition: Filter | str) -> tuple[Filter, Measure]:
    """What a topic filter, its query and a condition mean together; raises `Refused`."""
    try:
        topic_filter(topic.partition("?")[0])
    except FilterError as error:
        raise Refused(ReasonCode.TOPIC_FILTER_INVALID, f"{_shown(topic)}: {error}") from None
    if isinstance(condition, str):
        raise Refused(ReasonCode.IMPLEMENTATION_SPECIFIC_ERROR, condition)
    try:
        return narrowed(topic, condition)
    except FilterError as error:
        raise Refused(
            ReasonCode.IMPLEMENTATION_SPECIFIC_ERROR, f"{_shown(topic)}: {error}"
        ) from None


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


Asked = ClientAdvertised | ClientUnadvertised | ClientPaused | ClientArrived | BrokersPinged


def control_input(
    connection: int, packet: Publish, name_bytes_max: int, allotment: Allotment
) -> tuple[Asked, int]:
    """What a control message of a marked client asks of the broker, and what that took.

    Raises `Refused` for a filter that does not parse or is too much, `MqttError` for a message that
    is no control message or cannot be answered."""
    if packet.topic == PAUSED and not packet.qos:
        return ClientPaused(connection), LOOKING
    if packet.topic == ARRIVED and not packet.qos:
        return ClientArrived(connection), LOOKING
    if packet.topic == PONG and not packet.qos:
        pong = payload_of(packet, Pong)
        return BrokersPinged(connection, pong.token, pong.round_trips_s), len(packet.payload) >> 3
    fields = dict(user_properties(packet.properties))
    name = fields.get("name", "")
    if packet.qos or not name or packet.topic not in (ADVERTISE, UNADVERTISE):
        raise MqttError(
            f"{packet.topic!r} at QoS {packet.qos} with name {_shown(name)!r} is no control "
            "message",
            ReasonCode.TOPIC_NAME_INVALID,
        )
    if len(name.encode()) > name_bytes_max:
        raise MqttError(
            f"an advertisement's name of {len(name.encode())} bytes: the client takes no packet "
            f"with one of more than {name_bytes_max}",
            ReasonCode.PACKET_TOO_LARGE,
        )
    if packet.topic == UNADVERTISE:
        allotment.give(name)
        return ClientUnadvertised(connection, name), UNSUBSCRIBING
    where = fields.get(WHERE)
    filter, effort, size_bytes = (EVERYTHING, 0, 0) if where is None else _compiled(where)
    if "topic" in fields:
        filter, measure = granted_filter(fields["topic"], filter)
        effort += effort_of(filter, measure)
        size_bytes = measure.size_bytes
    elif isinstance(filter, str):
        raise Refused(ReasonCode.IMPLEMENTATION_SPECIFIC_ERROR, filter)
    allotment.take(name, size_bytes)
    return ClientAdvertised(connection, name, filter), effort + LOOKING
