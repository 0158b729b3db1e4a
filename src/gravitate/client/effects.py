"""What a client's core wants done, and said. A driver carries effects out at once and in order."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Any, Generic, NamedTuple, TypeVar

from gravitate.client.outgoing import Publication

P = TypeVar("P")
"""A place: where a broker takes clients."""
W = TypeVar("W")
"""What a driver knows of a subscription or an advertisement."""


class Kind(enum.Enum):
    SUBSCRIPTION = "subscription"
    ADVERTISEMENT = "advertisement"


class Wanted(NamedTuple, Generic[W]):
    """One of this name is wanted from now on."""

    kind: Kind
    name: str
    what: W


class Dropped(NamedTuple, Generic[W]):
    """One of this name is not wanted any more."""

    kind: Kind
    name: str
    what: W


class Note(enum.Enum):
    PAUSED = "paused"
    """Nothing more will be asked for here."""
    ARRIVED = "arrived"
    """All that is subscribed to has been said; what was kept may be delivered."""


Word = Wanted[Any] | Dropped[Any] | Publication[Any] | Note


class Dial(NamedTuple, Generic[P]):
    """Connect to a place after a while, and introduce the client; then `opened` or `lost`."""

    connection: int
    """It is also the number of the attachment."""
    place: P
    after_s: float
    continues: str
    """`MOVED`, `BACK` or nothing: the session that the client has come for."""


class HangUp(NamedTuple):
    """Give the last connection up, open or not: say goodbye where that can be said."""


class Say(NamedTuple):
    """Write all this on the connection."""

    words: Sequence[Word]


class Alarm(NamedTuple):
    """Tell `late` of this connection after a while."""

    connection: int
    after_s: float


class Changed(NamedTuple):
    """The client is in another state: those who wait for something may look again."""


class Failed(NamedTuple):
    """There will be no further connection."""


Effect = Dial[Any] | HangUp | Say | Alarm | Changed | Failed
