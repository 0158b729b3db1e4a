"""Routing strategies: who wants an event, and how that becomes known in the network.

`Router` is what a broker needs of any of them; which links lead to the anchors it answers with
is the forwarding strategy's business. `content` runs on an acyclic primary overlay.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple, Protocol

from gravitate.broker.lives import Life
from gravitate.broker.messages.frames import Control, RoutingMessage
from gravitate.broker.routing.settlement import Answer, Asker
from gravitate.model.events import Batch
from gravitate.model.filters import Filter


class RouterPorts(NamedTuple):
    """What a router asks of the broker, and tells it."""

    send: Callable[[str, Control], None]
    destination_of: Callable[[str], int]
    """The destination of an anchor."""
    departed: Callable[[Life, str], None]
    """The publisher of a local advertisement, given with its key, has attached itself elsewhere."""
    moved: Callable[[Life, str | None], None]
    """What a life of a publisher publishes comes another way than before; and again when nothing
    more comes the way it came."""
    ended: Callable[[Life], None]
    """The last advertisement of a life has ended."""
    advertised: Callable[[Life, str], None]
    """A neighbour has said an advertisement."""
    withdrawn: Callable[[], None]
    """Advertisements may have ended."""
    synchronised: Callable[[str], None]
    """A neighbour has said what it knows."""


class Known(NamedTuple):
    """An advertisement of a publisher as this broker knows it."""

    filter: Filter
    is_here: bool
    """The publisher is attached to this broker."""
    is_passing: bool
    """What it has published elsewhere may still come."""


class Router(Protocol):
    """The routing state of one broker; it speaks to neighbours through what it was given."""

    def route(self, batch: Batch, came_from: str | None) -> list[tuple[int, ...]]:
        """Per event, the sorted destinations: anchors that it is to reach, and local subscriptions
        that it is delivered to. A subscription that has not settled is not served yet with what may
        have holes; once it was given something of a publisher, it is given all that follows."""

    def outlives_reset(self, batch: Batch, peer: str) -> Batch:
        """The batch for a neighbour that has forgotten everything: as it is, or flooded if nobody
        will tell the neighbour any more who wanted it."""

    def known_of(self, life: Life) -> Mapping[str, Known]:
        """The advertisements of a life of a publisher by key, wherever it is attached."""

    def is_advertised(self, life: Life) -> bool:
        """Whether a life of a publisher has any advertisement."""

    def sides_of(self, life: Life) -> Iterable[str]:
        """The neighbours that events of a life of a publisher come from."""

    def subscribe(
        self, id: str, filter: Filter, destination: int, asker: Asker, is_renewed: bool = False
    ) -> None:
        """One that is renewed after a broker has lost its memory is served at once: neighbours have
        not forgotten what they send it."""

    def serve(self, id: str) -> None:
        """A local subscription is served from every side from now on, settled or not."""

    def unsubscribe(self, id: str) -> None: ...

    def advertise(
        self, life: Life, key: str, filter: Filter, asker: Asker, attachment: int = 0
    ) -> None:
        """`attachment` counts how often the publisher has attached itself to a broker."""

    def withdraw(self, life: Life, key: str, settled: Answer) -> None: ...

    def on_message(self, peer: str, message: RoutingMessage) -> None:
        """A neighbour's message; `PeerError` when it cannot be meant."""

    def reset(self, peer: str) -> None:
        """The link to `peer` starts anew."""

    def absent(self, peer: str) -> None:
        """The link to `peer` has been down for a while."""

    def present(self, peer: str) -> None:
        """The link to `peer` goes on where it was."""

    def sizes(self) -> Mapping[str, int]:
        """How much it holds; nothing once everybody is gone."""

    def unsettled(self) -> Mapping[str, int]:
        """How many local subscriptions a neighbour has not settled, by neighbour."""

    def is_awaited(self, peer: str) -> bool:
        """Whether a neighbour has yet to say what it knows, or to answer a local subscription."""

    def synchronise(self) -> None:
        """Links that started anew have been given what they had queued."""

    def forget(self, peer: str) -> None:
        """The neighbour is given up."""
