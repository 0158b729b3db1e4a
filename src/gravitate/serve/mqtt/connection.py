"""One MQTT client's connection: bytes in, broker inputs out; broker effects in, bytes out.

Everything that one read delivered is scanned at once. Runs of publications become one input with
the read's own buffer as their bodies, runs of PUBACKs become one acknowledgement; every other
packet is decoded and answered by itself. Effects are buffered and written once.

Owns the connection's state and its timers. What CONNECT may ask for is known to `handshake`,
what SUBSCRIBE means to `requests`, packet ids to `windows`.

Invariants: nothing is submitted before CONNECT is accepted or after the session is left; the
session is left exactly once, whoever closes first; a fault of the client is told to it with its
reason code, logged once with the origin, and ends this connection only.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import cast

from gravitate.broker.effects import STOPPING
from gravitate.broker.inputs import (
    ClientAcknowledged,
    ClientCongested,
    ClientConnected,
    ClientDisconnected,
    ClientPublished,
    Continues,
    Input,
)
from gravitate.config.network import EVERY_HOST
from gravitate.errors import MqttError
from gravitate.model.events import Batch
from gravitate.serve.mqtt.answers import close_code, explained, farewell, moved
from gravitate.serve.mqtt.handshake import ANY_PACKET_BYTES, Admission, admit, answering_version
from gravitate.serve.mqtt.host import Host
from gravitate.serve.mqtt.inbox import Inbox
from gravitate.serve.mqtt.options import DoorOptions
from gravitate.serve.mqtt.outbox import Outbox
from gravitate.serve.mqtt.requests import (
    Refused,
    Requests,
    check_offered,
    control_input,
)
from gravitate.serve.mqtt.windows import AcceptQueue
from gravitate.wire.mqtt import kernels as k
from gravitate.wire.mqtt import packets as p
from gravitate.wire.mqtt.bodies import FrameBodies
from gravitate.wire.mqtt.codec import decode, frame_end
from gravitate.wire.mqtt.codes import V5, PacketType, ReasonCode
from gravitate.wire.mqtt.control import (
    ADVERTISEMENT,
    ATTACHED,
    CONTROL_PREFIX,
    REDIRECT,
    REFUSED,
    SETTLED,
    STAY,
    SUBSCRIPTION,
    Ping,
    control_message,
    ping_message,
    server_reference,
)
from gravitate.wire.mqtt.emit import upgrade
from gravitate.wire.mqtt.encoder import encode
from gravitate.wire.mqtt.properties import user_properties
from gravitate.wire.mqtt.scan import Frames, Row, scan, scan_short

logger = logging.getLogger("gravitate.mqtt")


class Connection(asyncio.Protocol):
    """A client, from accept to close; what the node calls is at the end."""

    def __init__(self, host: Host, options: DoorOptions, siblings: set[Connection]) -> None:
        self._host = host
        self._options = options
        self._siblings = siblings
        self._loop = asyncio.get_running_loop()
        self.gone: asyncio.Future[None] = self._loop.create_future()
        self.origin = "?"
        self.session = ""
        self._version = V5
        self._admission: Admission | None = None
        self._requests = Requests("")
        self._left = False
        self._closing = False
        self._counter: int | None = None
        self._inbox = Inbox()
        self._size_max = options.packet_bytes_max
        self._heard_at_s = 0.0
        self._held = False
        self._timer: asyncio.TimerHandle | None = None
        self._accepts = AcceptQueue()

    # --- the transport's side -------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport = cast(asyncio.Transport, transport)
        self._transport = transport
        self._outbox = Outbox(transport)
        host, port = (transport.get_extra_info("peername") or ("?", 0))[:2]
        self.origin = f"{host}:{port}"
        transport.set_write_buffer_limits(
            high=self._options.write_bytes_high, low=self._options.write_bytes_low
        )
        self._siblings.add(self)
        self._timer = self._loop.call_later(self._options.connect_s_max, self._connect_is_late)

    def connection_lost(self, error: Exception | None) -> None:
        self._closing = True
        self._leave()
        if self._timer is not None:
            self._timer.cancel()
        self._siblings.discard(self)
        if not self.gone.done():
            self.gone.set_result(None)

    def pause_writing(self) -> None:
        self._submit(ClientCongested(self.session, True))

    def resume_writing(self) -> None:
        self._submit(ClientCongested(self.session, False))

    def data_received(self, data: bytes) -> None:
        if self._closing:
            return
        self._heard_at_s = self._loop.time()
        if self._inbox.chunks:
            data = self._inbox.joined(data)
            if not data:
                return
        try:
            if self._admission is not None:
                position = self._take(data, 0)
            else:
                position = self._opened(data)
                if self._admission is not None:
                    position = self._take(data, position)
            if position < len(data) and not self._closing:
                self._inbox.keep(data, position, self._size_max)
        except MqttError as error:
            self._fail(error)
        if self._outbox.chunks:
            self._outbox.flush()
        self._host.hurry(self._heard_at_s)

    def eof_received(self) -> None:
        """The client will send no more; the transport closes."""

    # --- reading --------------------------------------------------------------------------------

    def _opened(self, data: bytes) -> int:
        """Take CONNECT from the first bytes; where it ends, 0 while it is incomplete."""
        if data[0] != PacketType.CONNECT << 4:
            raise MqttError(
                f"the first packet is not CONNECT but begins with {data[0]:#04x}",
                ReasonCode.PROTOCOL_ERROR,
            )
        start, end = frame_end(data, 0, self._size_max)
        if not end or end > len(data):
            return 0
        self._version = answering_version(data[start:end])
        connect = decode(data[0], data[start:end], V5)
        assert isinstance(connect, p.Connect)
        self._version = connect.version
        self._admitted(admit(connect, self._options))
        return end

    def _admitted(self, admission: Admission) -> None:
        self._admission = admission
        self.session = admission.session
        self.origin = f"{self.session!r} at {self.origin}"
        self._requests = Requests(self.session)
        self._outbox.agree(
            admission.version,
            admission.packet_bytes_max if admission.packet_bytes_max < ANY_PACKET_BYTES else 0,
        )
        mark = admission.mark
        self._counter = None if mark is None else mark.counter
        self._host.attach(self.session, self)
        self._host.submit(
            ClientConnected(
                self.session,
                self._host.next_incarnation() if mark is None else mark.incarnation,
                window=admission.window,
                counts=mark is not None,
                attachment=0 if mark is None else mark.attachment,
                follows=mark is not None and mark.follows,
                continues=Continues("" if mark is None else mark.continues),
            )
        )
        self._outbox.write(encode(admission.connack, admission.version))
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if admission.keep_alive_s:
            self._watch(1.5 * admission.keep_alive_s)

    def _take(self, data: bytes, position: int) -> int:
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
                        self._attend(data, row)
                        if self._closing:
                            return position
            if error:
                # The codec knows how to say what is wrong with this header.
                frame_end(data, position, self._size_max)
            if not runs:
                break
        return position

    def _published(self, data: bytes, frames: Frames, qos: int) -> None:
        if self._version >= V5:
            bodies = FrameBodies(data, frames, qos, self._options.payload_fields)
        else:
            bodies = upgrade(data, frames, qos, self._options.payload_fields)
        if qos:
            self._accepts.received(frames)
            if self._accepts.waiting > self._options.receive_maximum and self._version >= V5:
                raise MqttError(
                    f"more than {self._options.receive_maximum} publications unacknowledged",
                    ReasonCode.RECEIVE_MAXIMUM_EXCEEDED,
                )
        counter = self._counter
        if counter is not None:
            self._counter = counter + len(frames)
        self._host.submit(ClientPublished(self.session, bodies, qos, counter))

    def _acknowledged(self, frames: Frames) -> None:
        self._outbox.window.settle_frames(frames)
        self._tell_acknowledged()

    def _tell_acknowledged(self) -> None:
        sequence = self._outbox.newly_acknowledged()
        if sequence:
            self._submit(ClientAcknowledged(self.session, sequence))

    def _attend(self, data: bytes, row: Row) -> None:
        """A packet that is not one of the plain many."""
        start, end = row[0], row[1]
        body, _ = frame_end(data, start, self._size_max)
        packet = decode(data[start], data[body:end], self._version)
        match packet:
            case p.Publish():
                self._publish_one(packet)
            case p.Puback():
                self._outbox.window.settle_packet(packet.packet_id)
                self._tell_acknowledged()
            case p.Subscribe():
                self._subscribe(packet)
            case p.Unsubscribe():
                inputs, reasons = self._requests.unsubscribe(packet)
                for one in inputs:
                    self._host.submit(one)
                self._outbox.write(
                    encode(p.Unsuback(packet.packet_id, tuple(reasons)), self._version)
                )
            case p.Pingreq():
                self._outbox.write(encode(p.Pingresp(), self._version))
            case p.Disconnect():
                self._leave()
                self._finish()
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
        frames, runs, _, _ = scan_short(data, 0, self._version, ANY_PACKET_BYTES)
        assert runs[0][0] in (k.PUBLISH_0, k.PUBLISH_1), "codec and scanner disagree"
        self._published(data, frames, packet.qos)

    def _control(self, packet: p.Publish) -> None:
        if self._counter is None or not packet.topic.startswith(CONTROL_PREFIX):
            raise MqttError(
                f"the topic {packet.topic!r} is the broker's own", ReasonCode.TOPIC_NAME_INVALID
            )
        try:
            self._host.submit(control_input(self.session, packet))
        except Refused as refused:
            logger.warning("%s: advertisement refused: %s", self.origin, refused)
            name = dict(user_properties(packet.properties))["name"]
            self._outbox.write(
                control_message(REFUSED, kind=ADVERTISEMENT, name=name, reason=str(refused))
            )

    def _subscribe(self, packet: p.Subscribe) -> None:
        inputs, reasons, faults = self._requests.subscribe(packet)
        for one in inputs:
            self._host.submit(one)
        told = "; ".join(faults)
        if told:
            logger.warning("%s: subscription refused: %s", self.origin, told)
        self._answer(p.Suback(packet.packet_id, tuple(reasons)), told)

    # --- answering ------------------------------------------------------------------------------

    def _answer(self, packet: p.Suback, told: str) -> None:
        admission = self._admission
        assert admission is not None
        reason = told if admission.wants_reasons else ""
        self._outbox.write(explained(packet, reason, self._version, admission.packet_bytes_max))

    def _fail(self, error: MqttError) -> None:
        """The client broke the protocol: tell it, log it, leave."""
        code = ReasonCode(error.reason_code)
        logger.warning("%s: closed with %s: %s", self.origin, code.name, error)
        self._dismiss(code, str(error))

    def _dismiss(self, code: ReasonCode, told: str, server: str = "") -> None:
        """Say why, as the version and the state allow, leave the session and close."""
        if self._closing:
            return
        admission = self._admission
        size_max = ANY_PACKET_BYTES if admission is None else admission.packet_bytes_max
        if server:
            self._outbox.write(moved(server, told, size_max))
        else:
            self._outbox.write(farewell(code, told, self._version, admission is not None, size_max))
        self._leave()
        self._finish()

    def _leave(self) -> None:
        """End the session, unless that has happened already."""
        if self._admission is not None and not self._left:
            self._host.submit(ClientDisconnected(self.session))
            self._left = True
            self._host.detach(self.session, self)

    def _finish(self) -> None:
        """Write what is to be written and close."""
        self._closing = True
        self._inbox.clear()
        self._outbox.flush()
        self._transport.close()
        if self._timer is not None:
            self._timer.cancel()
        # A client that does not read must not keep the socket.
        self._timer = self._loop.call_later(self._options.linger_s, self._transport.abort)

    def _submit(self, input: Input) -> None:
        if self._admission is not None and not self._left:
            self._host.submit(input)

    # --- time -----------------------------------------------------------------------------------

    def _connect_is_late(self) -> None:
        logger.warning("%s: closed, no CONNECT in time", self.origin)
        self._finish()

    def _watch(self, patience_s: float) -> None:
        """Close when nothing is heard for `patience_s`; looks again instead of being reset."""
        now_s = self._loop.time()
        if self._held:
            # Nothing can be heard from a client that is not read from.
            self._heard_at_s = now_s
        left_s = self._heard_at_s + patience_s - now_s
        if left_s <= 0:
            self._fail(
                MqttError(f"nothing heard for {patience_s} s", ReasonCode.KEEP_ALIVE_TIMEOUT)
            )
        else:
            self._timer = self._loop.call_later(left_s, self._watch, patience_s)

    # --- the node's side ------------------------------------------------------------------------

    def deliver(self, batch: Batch, qos: int, sequence: int) -> None:
        if self._outbox.deliver(batch.bodies, qos, sequence):
            self._tell_acknowledged()

    def accept(self, count: int) -> None:
        self._outbox.write(*self._accepts.accepted(count))

    def subscription_settled(self, name: str) -> None:
        self._tell(control_message(SETTLED, kind=SUBSCRIPTION, name=name))

    def advertisement_settled(self, name: str) -> None:
        self._tell(control_message(SETTLED, kind=ADVERTISEMENT, name=name))

    def hold_reading(self, hold: bool) -> None:
        if hold == self._held or self._closing:
            return
        self._held = hold
        if hold:
            self._transport.pause_reading()
        else:
            self._heard_at_s = self._loop.time()
            self._transport.resume_reading()

    def redirect(self, target: str, host: str, port: int) -> None:
        """The client is expected at broker `target`: it pauses, and is told to go or to stay."""
        server = server_reference(self._reachable(host), port)
        self._tell(control_message(REDIRECT, target=target, server=server))

    def stay(self) -> None:
        self._tell(control_message(STAY))

    def ping(self, brokers: Mapping[str, tuple[str, int]], token: int) -> None:
        """The client is to measure how far brokers are that take clients at these addresses."""
        named = {id: (self._reachable(host), port) for id, (host, port) in brokers.items()}
        self._tell(ping_message(Ping(named, token)))

    def attached(self) -> None:
        self._tell(control_message(ATTACHED))

    def moved(self, target: str, host: str, port: int) -> None:
        """The broker has ended the session; the client is expected at broker `target`."""
        server = server_reference(self._reachable(host), port)
        self._ended(f"moved to {target}")
        self._dismiss(ReasonCode.SERVER_MOVED, f"expected at {target}", server)

    def close(self, reason: str) -> None:
        """The broker has ended the session."""
        self._ended(reason)
        self._dismiss(close_code(reason), reason)

    def _ended(self, reason: str) -> None:
        self._left = True
        self._host.detach(self.session, self)
        if reason != STOPPING:
            logger.info("%s: session closed: %s", self.origin, reason)

    def _tell(self, message: bytes) -> None:
        """Control messages are for marked clients; others would take them for events."""
        if self._counter is not None:
            self._outbox.write(message)

    def _reachable(self, host: str) -> str:
        """A broker that listens everywhere is, to this client, where this one is."""
        return str(self._transport.get_extra_info("sockname")[0]) if host in EVERY_HOST else host

    def flush(self) -> None:
        self._outbox.flush()

    def shut_down(self) -> None:
        """The door closes."""
        self._dismiss(ReasonCode.SERVER_SHUTTING_DOWN, "the broker stops")
