"""Where clients are told things, and who takes what they do.

A client of this broker may be attached as a publisher, or served as a subscriber, elsewhere, while
it stays connected here. Whoever takes what it does then stands in for this broker's own publishers
and subscriptions; sessions do not know which of them it is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from gravitate.broker.interface.effects import ToClient
from gravitate.broker.messages.guests import Wanted
from gravitate.model.events import Batch
from gravitate.model.filters import Filter

if TYPE_CHECKING:
    from gravitate.broker.sessions.inbound import Inbound
    from gravitate.broker.sessions.local import LocalOutbound


class Outlet(Protocol):
    """Where what a client of this broker's is told and given goes."""

    connection: int
    """That of the client, if it has one to this broker."""

    def say(self, word: ToClient, /) -> None: ...

    def hand_over(self, to: LocalOutbound, batch: Batch, qos: int, sequence: int, /) -> None:
        """`sequence` is the number of the first event, 0 at QoS 0."""


class PublishesAt(Protocol):
    """Takes what clients do as publishers."""

    def place(self, inbound: Inbound) -> str | None:
        """The broker that it is attached to, or is being attached to; None: this one, and nobody
        stands for it."""

    def advertise(self, inbound: Inbound, key: str, filter: Filter) -> None: ...

    def withdraw(self, inbound: Inbound, key: str) -> None: ...

    def publish(self, inbound: Inbound, batch: Batch) -> None: ...

    def must_wait(self, inbound: Inbound) -> bool:
        """Whether the client is not to be read from for now."""

    def close(self, inbound: Inbound) -> None:
        """The client is gone."""


class PublishersElsewhere(PublishesAt, Protocol):
    def adopt(self, inbound: Inbound) -> bool:
        """Whether a client that comes back is attached elsewhere; its new session goes on."""


class ServedAt(Protocol):
    """Takes what clients do as subscribers."""

    def place(self, outbound: LocalOutbound) -> str | None:
        """The broker that serves it, or is about to; None: this one, and nobody stands for it."""

    def subscribe(self, outbound: LocalOutbound, wanted: Wanted) -> None: ...

    def unsubscribe(self, outbound: LocalOutbound, name: str) -> None: ...

    def close(self, outbound: LocalOutbound) -> None:
        """The client is gone."""
