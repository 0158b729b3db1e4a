"""What a client sends once it is let in: packets in, broker inputs out.

Runs of publications become one input with the read's own buffer as their bodies, runs of PUBACKs
become one acknowledgement; every other packet is decoded and answered by itself. How much of that
is done at once the desk says: a request is left in the middle and carried on in a later turn, and
nothing behind it is taken before it is done.

Knows neither sockets nor timers. Raises `MqttError` for what a client must not send.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Final

from gravitate.broker.interface.inputs import ClientAcknowledged, ClientPublished
from gravitate.errors import MqttError
from gravitate.serve.mqtt.answers import explained
from gravitate.serve.mqtt.desk import Desk
from gravitate.serve.mqtt.handshake import ANY_PACKET_BYTES, Admission
from gravitate.serve.mqtt.host import Host
from gravitate.serve.mqtt.options import DoorOptions
from gravitate.serve.mqtt.outbox import Outbox
from gravitate.serve.mqtt.requests import (
    Allotment,
    Answer,
    Refused,
    Requests,
    check_offered,
    control_input,
)
from gravitate.serve.mqtt.telling import Telling
from gravitate.serve.mqtt.windows import AcceptQueue
from gravitate.wire.mqtt import kernels as k
from gravitate.wire.mqtt import packets as p
from gravitate.wire.mqtt.bodies import FrameBodies, by_payload
from gravitate.wire.mqtt.codec import decode, frame_end
from gravitate.wire.mqtt.codes import V5, PacketType, ReasonCode
from gravitate.wire.mqtt.control import ADVERTISEMENT, CONTROL_PREFIX
from gravitate.wire.mqtt.decoder import open_subscribe, open_unsubscribe
from gravitate.wire.mqtt.emit import upgrade
from gravitate.wire.mqtt.encoder import encode
from gravitate.wire.mqtt.primitives import Reader
from gravitate.wire.mqtt.properties import user_properties
from gravitate.wire.mqtt.scan import Frames, Row, scan

logger = logging.getLogger("gravitate.mqtt")

SUBSCRIBE_BYTE: Final = PacketType.SUBSCRIBE << 4 | 2
UNSUBSCRIBE_BYTE: Final = PacketType.UNSUBSCRIBE << 4 | 2
ATTENDING: Final = 10
"""What is counted for a packet that is decoded by itself, in the units of the desk."""


class Intake:
    """The packets of one session, in order."""

    def __init__(
        self,
        host: Host,
        options: DoorOptions,
        desk: Desk,
        admission: Admission,
        connection: int,
        outbox: Outbox,
        telling: Telling,
        origin: str,
    ) -> None:
        self._host = host
        self._options = options
        self._desk = desk
        self._admission = admission
        self._outbox = outbox
        self._telling = telling
        self._origin = origin
        self._connection = connection
        self._version = admission.version
        self._size_max = options.packet_bytes_max
        self._fields_bytes_max = options.payload_fields_bytes_max if options.payload_fields else 0
        self._counter = None if admission.mark is None else admission.mark.counter
        self._requests = Requests(
            connection,
            telling.name_bytes_max if telling.is_marked else None,
            options.filters_bytes_max,
        )
        self._advertised = Allotment(options.filters_bytes_max)
        self.accepts = AcceptQueue()
        self.task: Iterator[int] | None = None
        """A request that is taken in parts; what it yields is the effort of each."""
        self.is_stuck = False
        """Whether this turn's effort is spent."""
        self.is_over = False
        """Whether the client has said that it leaves."""

    def take(self, data: bytes, position: int) -> int:
        """Everything complete in `data` from `position` on; the first byte not taken."""
        while position < len(data):
            frames, runs, position, error = scan(data, position, self._version, self._size_max)
            for kind, first, after in runs:
                part = frames if after - first == len(frames) else frames[first:after]
                if kind == k.PUBLISH_0:
                    self._published(data, part, 0)
                elif kind == k.PUBLISH_1:
                    self._published(data, part, 1)
                elif kind == k.PUBACK:
                    self._acknowledged(part)
                else:
                    for row in part:
                        self.is_stuck = self._desk.allowance <= 0
                        if self.is_stuck:
                            return int(row[0])
                        self._attend(data, row)
                        if self.is_stuck or self.is_over:
                            return int(row[1])
            if error:
                # The codec knows how to say what is wrong with this header.
                frame_end(data, position, self._size_max)
            if not runs:
                break
        return position

    def carry_on(self) -> None:
        """As much as may be taken now of the request that was left in the middle."""
        self.is_stuck = False
        if self.task is None:
            return
        left = self._desk.allowance
        for effort in self.task:
            self._desk.spend(effort)
            left -= effort
            if left <= 0:
                self.is_stuck = True
                return
        self.task = None

    def tell_acknowledged(self) -> None:
        sequence = self._outbox.newly_acknowledged()
        if sequence:
            self._host.submit(ClientAcknowledged(self._connection, sequence))

    # --- the plain many -------------------------------------------------------------------------

    def _published(self, data: bytes, frames: Frames, qos: int) -> None:
        bytes_max = self._fields_bytes_max
        if len(data) <= bytes_max or not bytes_max:
            self._submit_published(data, frames, qos, bytes_max > 0)
            return
        for part, has_fields in by_payload(frames, bytes_max):
            self._submit_published(data, part, qos, has_fields)

    def _submit_published(self, data: bytes, frames: Frames, qos: int, has_fields: bool) -> None:
        if self._version >= V5:
            bodies = FrameBodies(data, frames, qos, has_fields)
        else:
            bodies = upgrade(data, frames, qos, has_fields)
        if qos:
            self.accepts.received(frames)
            if self.accepts.waiting > self._options.receive_maximum and self._version >= V5:
                raise MqttError(
                    f"more than {self._options.receive_maximum} publications unacknowledged",
                    ReasonCode.RECEIVE_MAXIMUM_EXCEEDED,
                )
        counter = self._counter
        if counter is not None:
            self._counter = counter + len(frames)
        self._host.submit(ClientPublished(self._connection, bodies, qos, counter))

    def _acknowledged(self, frames: Frames) -> None:
        self._outbox.window.settle_frames(frames)
        self.tell_acknowledged()

    # --- packets that are decoded ---------------------------------------------------------------

    def _attend(self, data: bytes, row: Row) -> None:
        start, end = int(row[0]), int(row[1])
        body, _ = frame_end(data, start, self._size_max)
        if data[start] == SUBSCRIBE_BYTE:
            self.task = self._subscribing(Reader(data, body, end))
            self.carry_on()
            return
        if data[start] == UNSUBSCRIBE_BYTE:
            self.task = self._unsubscribing(Reader(data, body, end))
            self.carry_on()
            return
        self._desk.spend(ATTENDING)
        packet = decode(data[start], data[body:end], self._version)
        match packet:
            case p.Publish():
                self._publish_one(packet)
            case p.Puback():
                self._outbox.window.settle_packet(packet.packet_id)
                self.tell_acknowledged()
            case p.Pingreq():
                self._outbox.write(encode(p.Pingresp(), self._version))
            case p.Disconnect():
                self.is_over = True
            case _:
                raise MqttError(
                    f"{type(packet).__name__.upper()} does not belong here",
                    ReasonCode.PROTOCOL_ERROR,
                )

    def _publish_one(self, packet: p.Publish) -> None:
        check_offered(packet)
        if packet.topic.startswith("$"):
            self._control(packet)
            return
        # DUP says nothing to the next receiver; everything else goes on as it came.
        plain = p.Publish(
            packet.topic, packet.payload, packet.qos, packet.packet_id, properties=packet.properties
        )
        data = encode(plain, self._version)
        frames, runs, _, _ = scan(data, 0, self._version, ANY_PACKET_BYTES)
        assert runs[0][0] in (k.PUBLISH_0, k.PUBLISH_1), "codec and scanner disagree"
        self._published(data, frames, packet.qos)

    def _control(self, packet: p.Publish) -> None:
        if self._counter is None or not packet.topic.startswith(CONTROL_PREFIX):
            raise MqttError(
                f"the topic {packet.topic!r} is the broker's own", ReasonCode.TOPIC_NAME_INVALID
            )
        try:
            asked, effort = control_input(
                self._connection, packet, self._telling.name_bytes_max, self._advertised
            )
        except Refused as refused:
            logger.warning("%s: advertisement refused: %s", self._origin, refused)
            fields = dict(user_properties(packet.properties))
            self._telling.refused(ADVERTISEMENT, fields["name"], str(refused))
            self._desk.spend(sum(map(len, fields.values())) >> 1)
        else:
            self._desk.spend(effort)
            self._host.submit(asked)

    def _subscribing(self, reader: Reader) -> Iterator[int]:
        packet_id, told, requests = open_subscribe(reader, self._version)
        answer = Answer()
        for effort, subscribed in self._requests.subscribe(told, requests, answer):
            if subscribed is not None:
                self._host.submit(subscribed)
            if reader.left():
                yield effort
            else:
                # The answer goes out ahead of what follows from the last.
                self._desk.spend(effort)
        refused = answer.told()
        if refused:
            logger.warning("%s: subscription refused: %s", self._origin, refused)
        suback = p.Suback(packet_id, bytes(answer.reasons))
        reason = refused if self._admission.wants_reasons else ""
        size_max = self._admission.packet_bytes_max
        self._outbox.write(explained(suback, reason, self._version, size_max))

    def _unsubscribing(self, reader: Reader) -> Iterator[int]:
        packet_id, told, topic_filters = open_unsubscribe(reader, self._version)
        answer = Answer()
        for effort, unsubscribed in self._requests.unsubscribe(told, topic_filters, answer):
            if unsubscribed is not None:
                self._host.submit(unsubscribed)
            yield effort
        self._outbox.write(encode(p.Unsuback(packet_id, bytes(answer.reasons)), self._version))
