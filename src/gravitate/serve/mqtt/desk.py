"""What the connections of one door share: time for requests, and room for what waits.

A request may ask for any amount of work. So that nobody else waits long for it, requests are
taken in parts: in one turn of the event loop all connections together may spend so much effort
on them, one connection so much in a row; who has more to do waits for the next turn, in order.

Owns no request and no bytes: connections tell what they spend and what they hold.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Final, Protocol

from gravitate.errors import MqttError
from gravitate.wire.mqtt.codes import ReasonCode

EFFORT_A_TURN: Final = 20_000
"""What all connections may spend in one turn. A unit is about a microsecond of processor time,
what the broker does with the request included, but it is counted and never measured."""
EFFORT_AT_ONCE: Final = 10_000
"""What one connection may spend before others have theirs."""


class Waiting(Protocol):
    """A connection with more to do."""

    def go_on(self) -> None:
        """Spend what is allowed now; join again where that is not enough."""
        ...


class Desk:
    """Turns and room. Its connections live in one event loop."""

    def __init__(self, unread_bytes_max: int) -> None:
        self.unread_bytes = 0
        """What connections hold."""
        self.refused = 0
        """How often there was no room for more."""
        self._unread_bytes_max = unread_bytes_max
        self._queue: deque[Waiting] = deque()
        self._left = EFFORT_A_TURN
        self._scheduled = False

    @property
    def allowance(self) -> int:
        """How much effort may be spent now; none when this turn's is spent."""
        return min(self._left, EFFORT_AT_ONCE)

    def spend(self, effort: int) -> None:
        self._left -= effort
        self._schedule()

    def join(self, waiting: Waiting) -> None:
        """Have a turn."""
        self._queue.append(waiting)
        self._schedule()

    def hold(self, change_bytes: int) -> None:
        """A connection holds so much more, or less; raises `MqttError` where there is no room."""
        if change_bytes > 0 and self.unread_bytes + change_bytes > self._unread_bytes_max:
            self.refused += 1
            raise MqttError(
                f"no room for {change_bytes} more bytes beside what other clients have begun to "
                f"send, {self._unread_bytes_max} in all",
                ReasonCode.QUOTA_EXCEEDED,
            )
        self.unread_bytes += change_bytes

    def _schedule(self) -> None:
        if not self._scheduled:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self._turn)

    def _turn(self) -> None:
        self._scheduled = False
        self._left = EFFORT_A_TURN
        for _ in range(len(self._queue)):
            if self._left <= 0:
                break
            self._queue.popleft().go_on()
        if self._queue:
            self._schedule()
