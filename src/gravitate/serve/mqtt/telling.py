"""Control messages to a client that has marked itself as one that understands them.

To any other client nothing is said, nor encoded: it would take control messages for events. What
is larger than the client takes is left out, as the specification demands.
"""

from __future__ import annotations

from collections.abc import Mapping

from gravitate.serve.mqtt.answers import shortened
from gravitate.serve.mqtt.outbox import Outbox
from gravitate.wire.mqtt.control import (
    ATTACHED,
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

NAME_BYTES_MAX = 65535
"""What a property of a control message can hold."""


class Telling:
    """What one client is told."""

    __slots__ = ("_outbox", "_size_max", "is_marked")

    def __init__(self, outbox: Outbox, is_marked: bool, size_max: int) -> None:
        self._outbox = outbox
        self._size_max = size_max
        self.is_marked = is_marked

    @property
    def name_bytes_max(self) -> int:
        """The longest name that the client can be told."""
        # Both lengths in the packet take up to three bytes more than they do for an empty name.
        beside = len(control_message(SETTLED, kind=SUBSCRIPTION, name="")) + 6
        return max(0, min(NAME_BYTES_MAX, self._size_max - beside))

    def settled(self, kind: str, name: str) -> None:
        if self.is_marked:
            self._write(control_message(SETTLED, kind=kind, name=name))

    def refused(self, kind: str, name: str, reason: str) -> None:
        if self.is_marked:
            told = shortened(reason)
            self._write(control_message(REFUSED, kind=kind, name=name, reason=told))

    def redirect(self, target: str, host: str, port: int) -> None:
        if self.is_marked:
            server = server_reference(host, port)
            self._write(control_message(REDIRECT, target=target, server=server))

    def stay(self) -> None:
        if self.is_marked:
            self._write(control_message(STAY))

    def attached(self) -> None:
        if self.is_marked:
            self._write(control_message(ATTACHED))

    def ping(self, brokers: Mapping[str, tuple[str, int]], token: int) -> None:
        if self.is_marked:
            self._write(ping_message(Ping(dict(brokers), token)))

    def _write(self, message: bytes) -> None:
        if len(message) <= self._size_max:
            self._outbox.write(message)
