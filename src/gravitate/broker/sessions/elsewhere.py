"""What stands for a client that is connected here and attached, or served, elsewhere.

What sessions know of tethers: whom to tell what the client does, and when it must wait.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from gravitate.broker.measure import Measure
from gravitate.broker.messages.guests import Wanted
from gravitate.model.events import Batch
from gravitate.model.filters import Filter

if TYPE_CHECKING:
    from gravitate.broker.sessions.session import Session


class PublisherElsewhere(Protocol):
    """One client as a publisher."""

    place: str
    """Where it is attached, or is being attached."""
    held: bool
    """The broker that it is attached to takes nothing from it for now."""
    unsent: Measure
    """What waits to be handed over."""


class PublishersElsewhere(Protocol):
    def adopt(self, session: Session) -> bool:
        """Whether a client that comes back is attached elsewhere; its new session goes on."""

    def advertise(self, session: Session, key: str, filter: Filter) -> None: ...

    def withdraw(self, session: Session, key: str) -> None: ...

    def publish(self, session: Session, batch: Batch) -> None: ...

    def close(self, session: Session) -> None:
        """The client is gone."""


class SubscriberElsewhere(Protocol):
    """One client as a subscriber."""

    place: str
    """The broker that serves it, or is about to."""


class SubscribersElsewhere(Protocol):
    def subscribe(self, session: Session, wanted: Wanted) -> None: ...

    def unsubscribe(self, session: Session, name: str) -> None: ...

    def close(self, session: Session) -> None:
        """The client is gone."""
