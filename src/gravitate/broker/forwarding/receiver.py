"""To whom a batch is delivered: what forwarding knows of subscribers."""

from __future__ import annotations

from typing import Protocol

from gravitate.broker.lives import Life
from gravitate.model.events import Batch


class Receiver(Protocol):
    """One subscriber, for whom duplicates are left out and which may keep what comes."""

    id: str
    connection: int
    """That of its client, while there is one."""
    congested: bool
    """Its client takes nothing at the moment."""
    indirect: bool
    """What is for the client does not go to it at once."""

    @property
    def holding(self) -> bool:
        """Whether it keeps what is for its client."""

    def saw(self, publisher: Life, first: int, last: int) -> bool:
        """Whether all of that is new, which is noted."""

    def fresh(self, batch: Batch) -> Batch | None:
        """What is new of a batch."""

    def offer(self, batch: Batch, qos: int) -> bool:
        """Whether there was room for it."""

    def released(self) -> list[tuple[Batch, int]]:
        """Hold no longer; what does not fit is returned."""


class Subscription(Protocol):
    """One of a client of this broker, and the destination that stands for it."""

    destination: int
    qos: int
    no_local: bool

    @property
    def receiver(self) -> Receiver: ...
