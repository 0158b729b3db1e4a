"""What a client's core wants done, and said. A driver carries effects out at once and in order."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Any, NamedTuple

from gravitate.client.outgoing import Publication
from gravitate.client.states import State


class Kind(enum.Enum):
    SUBSCRIPTION = "subscription"
    ADVERTISEMENT = "advertisement"


class Wanted(NamedTuple):
    """One of this name is wanted from now on."""

    kind: Kind
    name: str
    what: Any


class Dropped(NamedTuple):
    """One of this name is not wanted any more."""

    kind: Kind
    name: str
    what: Any


class Note(enum.Enum):
    PAUSED = "paused"
    """Nothing more will be asked for here."""
    ARRIVED = "arrived"
    """All that is subscribed to has been said; what was kept may be delivered."""


Word = Wanted | Dropped | Publication[Any] | Note


class Dial(NamedTuple):
    """Connect to a place after a while, and introduce the client; then `opened` or `lost`."""

    connection: int
    """It is also the number of the attachment."""
    place: Any
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
    """Those who wait for something may look again."""

    before: State
    to: State


class Failed(NamedTuple):
    """There will be no further connection."""


Effect = Dial | HangUp | Say | Alarm | Changed | Failed
