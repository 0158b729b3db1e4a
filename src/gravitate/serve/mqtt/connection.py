"""One MQTT client's connection: a socket and its timers, from accept to close.

What is read goes to the `intake` once CONNECT is accepted, as far as the desk allows that in one
turn: what follows waits in the `inbox`, and soon reading stops. Effects are buffered in the
`outbox` and written once.

Owns the connection's state and its timers. What CONNECT may ask for is known to `handshake`,
what packets mean to `intake`, what a Gravitate client is told to `telling`.

Invariants: nothing is submitted before CONNECT is accepted or after the session is left; the
session is left exactly once, whoever closes first; packets are taken in their order; a fault of
the client is told to it with its reason code, logged once with the origin, and ends this
connection only.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final, cast

from gravitate.broker.interface import effects as e
from gravitate.broker.interface.inputs import (
    ClientCongested,
    ClientConnected,
    ClientDisconnected,
    Continues,
    Input,
)
from gravitate.config.network import EVERY_HOST
from gravitate.errors import MqttError
from gravitate.serve.mqtt.answers import close_code, farewell, moved
from gravitate.serve.mqtt.desk import Desk
from gravitate.serve.mqtt.handshake import ANY_PACKET_BYTES, Admission, admit, answering_version
from gravitate.serve.mqtt.host import Host
from gravitate.serve.mqtt.inbox import Inbox
from gravitate.serve.mqtt.intake import Intake
from gravitate.serve.mqtt.options import DoorOptions
from gravitate.serve.mqtt.outbox import Outbox
from gravitate.serve.mqtt.telling import Telling
from gravitate.wire.mqtt import packets as p
from gravitate.wire.mqtt.codec import decode, frame_end
from gravitate.wire.mqtt.codes import V5, PacketType, ReasonCode
from gravitate.wire.mqtt.control import ADVERTISEMENT, SUBSCRIPTION, server_reference
from gravitate.wire.mqtt.encoder import encode

logger = logging.getLogger("gravitate.mqtt")

LOOK_AGAIN_S: Final = 0.2
"""Between the time when something should have been read and the judgement that it was not."""

WAITING_BYTES_MAX: Final = 64 * 1024
"""How much is read from a client that waits for its turn, before it is not read any more."""


class Connection(asyncio.Protocol):
    """A client, from accept to close; what the node calls is at the end."""

    def __init__(
        self,
        host: Host,
        options: DoorOptions,
        siblings: set[Connection],
        desk: Desk | None = None,
    ) -> None:
        self._host = host
        self._options = options
        self._siblings = siblings
        self._desk = desk or Desk(options.unread_bytes_max)
        self._loop = asyncio.get_running_loop()
        self.gone: asyncio.Future[None] = self._loop.create_future()
        self.origin = "?"
        self.session = ""
        self._number = 0
        """Of the connection, once CONNECT is accepted."""
        self._version = V5
        self._client_bytes_max = ANY_PACKET_BYTES
        """The largest packet that the client takes."""
        self._intake: Intake | None = None
        self._left = False
        self._closing = False
        self._inbox = Inbox(self._desk)
        self._size_max = min(options.connect_bytes_max, options.packet_bytes_max)
        self._heard_at_s = 0.0
        self._held = False
        self._reads = True
        self._waits = False
        self._timer: asyncio.TimerHandle | None = None

    # --- the transport's side -------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport = cast(asyncio.Transport, transport)
        self._transport = transport
        self._outbox = Outbox(transport)
        self._telling = Telling(self._outbox, False, ANY_PACKET_BYTES)
        host, port = (transport.get_extra_info("peername") or ("?", 0))[:2]
        self.origin = f"{host}:{port}"
        transport.set_write_buffer_limits(
            high=self._options.write_bytes_high, low=self._options.write_bytes_low
        )
        self._siblings.add(self)
        self._timer = self._loop.call_later(self._options.connect_s_max, self._connect_is_late)

    def connection_lost(self, error: Exception | None) -> None:
        self._let_go()
        self._leave()
        if self._timer is not None:
            self._timer.cancel()
        self._siblings.discard(self)
        if not self.gone.done():
            self.gone.set_result(None)

    def pause_writing(self) -> None:
        self._submit(ClientCongested(self._number, True))

    def resume_writing(self) -> None:
        self._submit(ClientCongested(self._number, False))

    def data_received(self, data: bytes) -> None:
        if self._closing:
            return
        self._heard_at_s = self._loop.time()
        try:
            if self._waits:
                self._inbox.add(data)
                self._read_or_not()
                return
            if self._inbox.chunks:
                data = self._inbox.joined(data)
                if not data:
                    return
            self._read(data)
        except MqttError as error:
            self._fail(error)
        except Exception as error:
            self._host.client_failed(self, error)
        if self._outbox.chunks:
            self._outbox.flush()
        self._host.hurry(self._heard_at_s)

    def eof_received(self) -> None:
        """The client will send no more; the transport closes."""

    # --- reading --------------------------------------------------------------------------------

    def _read(self, data: bytes) -> None:
        """Take what can be taken now and keep the rest."""
        position = 0
        if self._intake is None:
            position = self._opened(data)
        intake = self._intake
        if intake is not None:
            position = intake.take(data, position)
            if intake.is_over:
                self._leave()
                self._finish()
            elif intake.is_stuck:
                at_work_bytes = 0 if intake.task is None else len(data)
                self._inbox.put_back(data, position, at_work_bytes)
                self._wait()
        if position < len(data) and not self._waits and not self._closing:
            self._inbox.keep(data, position, self._size_max)

    def _wait(self) -> None:
        """Nothing further is taken before this connection has had another turn."""
        self._waits = True
        self._desk.join(self)
        self._read_or_not()

    def go_on(self) -> None:
        """It is this connection's turn again."""
        intake = self._intake
        if self._closing or intake is None:
            return
        self._waits = False
        try:
            intake.carry_on()
            if intake.is_stuck:
                self._wait()
            else:
                self._read(self._inbox.taken_back())
        except MqttError as error:
            self._fail(error)
        except Exception as error:
            self._host.client_failed(self, error)
        self._outbox.flush()
        self._read_or_not()

    def _read_or_not(self) -> None:
        # While it waits it is read a little further, or its end would not be noticed.
        waits_long = self._waits and self._inbox.held_bytes > WAITING_BYTES_MAX
        reads = not (self._held or waits_long)
        if reads != self._reads and not self._closing:
            self._reads = reads
            if reads:
                self._heard_at_s = self._loop.time()
                self._transport.resume_reading()
            else:
                self._transport.pause_reading()

    def _opened(self, data: bytes) -> int:
        """Take CONNECT from the first bytes; where it ends, 0 while it is incomplete."""
        if data[0] != PacketType.CONNECT << 4:
            raise MqttError(
                f"the first packet is not CONNECT but begins with {data[0]:#04x}",
                ReasonCode.PROTOCOL_ERROR,
            )
        start, end = frame_end(data, 0, ANY_PACKET_BYTES)
        if not end:
            return 0
        self._version = answering_version(data[start:end])
        frame_end(data, 0, self._size_max)
        if end > len(data):
            return 0
        connect = decode(data[0], data[start:end], V5)
        assert isinstance(connect, p.Connect)
        self._version = connect.version
        self._admitted(admit(connect, self._options))
        return end

    def _admitted(self, admission: Admission) -> None:
        self.session = admission.session
        self.origin = f"{self.session!r} at {self.origin}"
        self._size_max = self._options.packet_bytes_max
        self._client_bytes_max = size_max = admission.packet_bytes_max
        self._outbox.agree(admission.version, size_max if size_max < ANY_PACKET_BYTES else 0)
        mark = admission.mark
        self._number = self._host.attach(self)
        self._telling = Telling(self._outbox, mark is not None, size_max)
        self._intake = Intake(
            self._host,
            self._options,
            self._desk,
            admission,
            self._number,
            self._outbox,
            self._telling,
            self.origin,
        )
        self._host.submit(
            ClientConnected(
                self._number,
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

    # --- answering ------------------------------------------------------------------------------

    def _fail(self, error: MqttError) -> None:
        """The client broke the protocol: tell it, log it, leave."""
        code = ReasonCode(error.reason_code)
        logger.warning("%s: closed with %s: %s", self.origin, code.name, error)
        self._dismiss(code, str(error))

    def _dismiss(self, code: ReasonCode, told: str, server: str = "") -> None:
        """Say why, as the version and the state allow, leave the session and close."""
        if self._closing:
            return
        is_in = self._intake is not None
        if server:
            self._outbox.write(moved(server, told, self._client_bytes_max))
        else:
            last = farewell(code, told, self._version, is_in, self._client_bytes_max)
            self._outbox.write(last)
        self._leave()
        self._finish()

    def _leave(self) -> None:
        """End the session, unless that has happened already."""
        if self._intake is not None and not self._left:
            self._host.submit(ClientDisconnected(self._number))
            self._left = True
            self._host.detach(self._number)

    def _finish(self) -> None:
        """Write what is to be written and close."""
        self._let_go()
        self._outbox.flush()
        self._transport.close()
        if self._timer is not None:
            self._timer.cancel()
        # A client that does not read must not keep the socket.
        self._timer = self._loop.call_later(self._options.linger_s, self._transport.abort)

    def _let_go(self) -> None:
        """Nothing more is taken from this client."""
        self._closing = True
        if self._intake is not None:
            self._intake.task = None
        self._inbox.clear()

    def _submit(self, input: Input) -> None:
        if self._intake is not None and not self._left:
            self._host.submit(input)

    # --- time -----------------------------------------------------------------------------------

    def _connect_is_late(self, looks_again: bool = False) -> None:
        if not looks_again:
            self._timer = self._loop.call_later(LOOK_AGAIN_S, self._connect_is_late, True)
            return
        logger.warning("%s: closed, no CONNECT in time", self.origin)
        self._finish()

    def _watch(self, patience_s: float, looks_again: bool = False) -> None:
        """Close when nothing is heard for `patience_s`; looks again instead of being reset, and
        once more before it closes: a process that was paused has not read what came meanwhile."""
        now_s = self._loop.time()
        if self._waits or not self._reads:
            # Nothing can be heard from a client that is not read from.
            self._heard_at_s = now_s
        left_s = self._heard_at_s + patience_s - now_s
        if left_s > 0:
            self._timer = self._loop.call_later(left_s, self._watch, patience_s)
        elif not looks_again:
            self._timer = self._loop.call_later(LOOK_AGAIN_S, self._watch, patience_s, True)
        else:
            self._fail(
                MqttError(f"nothing heard for {patience_s} s", ReasonCode.KEEP_ALIVE_TIMEOUT)
            )

    # --- the node's side ------------------------------------------------------------------------

    def deliver(self, effect: e.Deliver) -> None:
        settled = self._outbox.deliver(effect.batch.bodies, effect.qos, effect.sequence)
        if settled and self._intake is not None:
            self._intake.tell_acknowledged()

    def accept(self, count: int) -> None:
        if self._intake is not None:
            self._outbox.write(*self._intake.accepts.accepted(count))

    def tell(self, word: e.Word) -> None:
        match word:
            case e.SubscriptionSettled(name):
                self._telling.settled(SUBSCRIPTION, name)
            case e.AdvertisementSettled(name):
                self._telling.settled(ADVERTISEMENT, name)
            case e.HoldReading(hold):
                self._held = hold
                self._read_or_not()
            case e.Attached():
                self._telling.attached()
            case e.PingBrokers(brokers, token):
                found = {id: self._address(id) for id in brokers}
                self._telling.ping({id: at for id, at in found.items() if at}, token)
            case e.Stay():
                self._telling.stay()
            case e.Redirect(target):
                if address := self._address(target):
                    self._telling.redirect(target, *address)
                else:
                    # It is not told, does not pause, and stays.
                    logger.warning("%s: no MQTT address of %s is known", self.origin, target)
            case e.CloseSession(reason, target):
                self._ended(reason, target)

    def fail(self) -> None:
        """Something went wrong in the broker while this client was served."""
        self._outbox.chunks = []
        self._dismiss(ReasonCode.UNSPECIFIED_ERROR, "the broker failed to serve this client")

    def abort(self) -> None:
        """Close at once, whatever is still to be written."""
        self._let_go()
        self._leave()
        self._transport.abort()

    def _ended(self, reason: str, target: str) -> None:
        """The broker has ended the session; a client that moves is expected at broker `target`."""
        self._left = True
        self._host.detach(self._number)
        if reason != e.STOPPING:
            logger.info("%s: session closed: %s %s", self.origin, reason, target)
        if reason == e.MOVED and (address := self._address(target)):
            server = server_reference(*address)
            self._dismiss(ReasonCode.SERVER_MOVED, f"expected at {target}", server)
        else:
            self._dismiss(close_code(reason), reason)

    def _address(self, broker: str) -> tuple[str, int] | None:
        """Where a broker takes clients, if that is known. One that listens everywhere is, to this
        client, where this one is."""
        address = self._host.mqtt_addresses.get(broker)
        if address is None or address[0] not in EVERY_HOST:
            return address
        return str(self._transport.get_extra_info("sockname")[0]), address[1]

    def flush(self) -> None:
        self._outbox.flush()

    def shut_down(self) -> None:
        """The door closes."""
        self._dismiss(ReasonCode.SERVER_SHUTTING_DOWN, "the broker stops")
