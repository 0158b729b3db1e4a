"""The tables of guests: subscribers that are led here, and those that come home.

What they mean is said in `staging`, which plays them.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from gravitate.broker.messages.guests import GuestCut, TakeGuest
from gravitate.broker.moves.table import LEASE, On, Part, Row, Wait
from gravitate.broker.routing.settlement import NOWHERE, Open
from gravitate.broker.sessions.outbound import Outbound
from gravitate.model.events import Batch


class Own(enum.Enum):
    SAID = "everything it subscribes to has been said"
    SETTLED = "something of it may have settled, wherever somebody can be reached"
    AGAIN = "the old place has not answered for a while"
    CUT_CAME = "a part of what the subscriber has had elsewhere"
    CUT_WHOLE = "all parts have come"
    CLAIMED = "somebody has come for it"
    ARRIVED = "and says so"
    LEFT = "who had come for it is gone, or it is too far behind, or no longer expected"
    ORIGIN_GONE = "the client that it is for is gone"
    POLLED = "who led it here has not heard of its arrival"


class Staged(enum.Enum):
    SUBSCRIBING = "subscribing"
    READY = "ready"
    TAKEN = "taken"
    CLAIMED = "claimed"
    ARRIVED = "arrived"
    GONE = "gone"


class Recalled(enum.Enum):
    SUBSCRIBING = "subscribing"
    READY = "ready"
    PARTLY = "partly"
    """What it has had is known, but for what is missing."""
    COMING = "coming"
    SERVED = "served"
    TAKEN = "taken"
    CLAIMED = "claimed"
    ARRIVED = "arrived"
    GONE = "gone"


class Noted(enum.Enum):
    NOTED = "noted"
    FORGOTTEN = "forgotten"


def _ends(state: Any, waiting: Sequence[enum.Enum], others: Sequence[enum.Enum]) -> list[Row]:
    """How both kinds of guests arrive, or do not."""
    return [
        Row(state.SUBSCRIBING, Own.SAID, state.SUBSCRIBING, "look"),
        Row(state.TAKEN, Own.CLAIMED, state.CLAIMED),
        Row(state.CLAIMED, Own.ARRIVED, state.ARRIVED, "arrive"),
        *(Row(one, On.STOPPING, state.GONE, "give_up") for one in waiting),
        *(Row(one, Own.LEFT, state.GONE, "give_up") for one in (*waiting, *others)),
        *(Row(one, Own.ORIGIN_GONE, state.GONE, "drop_run") for one in (*waiting, *others)),
    ]


_WAITING: Final = (Staged.SUBSCRIBING, Staged.READY, Staged.TAKEN)
TARGET: Final = Part(
    "reassignment, target",
    Staged,
    {
        **dict.fromkeys(_WAITING, Wait(LEASE, "nobody came")),
        Staged.CLAIMED: Wait(None, "it has not arrived"),
    },
    [
        Row(Staged.SUBSCRIBING, Own.SETTLED, Staged.READY, "ask", "has_settled"),
        Row(Staged.READY, Own.CUT_CAME, Staged.READY, "add_part", "is_answer"),
        Row(Staged.READY, Own.CUT_WHOLE, Staged.TAKEN, "complete"),
        *_ends(Staged, _WAITING, (Staged.CLAIMED,)),
        *(Row(one, On.LATE, Staged.GONE, "give_up") for one in _WAITING),
        *(Row(one, On.ENDED, Staged.GONE, "drop_run") for one in _WAITING),
    ],
)
"""A subscriber is led here."""

_ASKING: Final = (Recalled.READY, Recalled.PARTLY, Recalled.SERVED)
_UNCLAIMED: Final = (Recalled.SUBSCRIBING, Recalled.READY, Recalled.PARTLY, Recalled.TAKEN)
_CLAIMED: Final = (Recalled.COMING, Recalled.SERVED, Recalled.CLAIMED)
HOME: Final = Part(
    "recall, home",
    Recalled,
    dict.fromkeys((*_UNCLAIMED, *_CLAIMED), Wait(None, "the old place has not answered")),
    [
        Row(Recalled.SUBSCRIBING, Own.SETTLED, Recalled.READY, "ask", "has_settled_within_reach"),
        *(Row(one, Own.SETTLED, one, "ask", "is_settled") for one in _ASKING),
        *(Row(one, Own.AGAIN, one, "ask") for one in _ASKING),
        Row(Recalled.READY, Own.CUT_CAME, Recalled.READY, "add_part", "is_answer"),
        Row(Recalled.PARTLY, Own.CUT_CAME, Recalled.PARTLY, "add_part", "is_whole_answer"),
        Row(Recalled.SERVED, Own.CUT_CAME, Recalled.SERVED, "add_part", "is_whole_answer"),
        Row(Recalled.READY, Own.CUT_WHOLE, Recalled.PARTLY, "complete", "is_missing"),
        Row(Recalled.READY, Own.CUT_WHOLE, Recalled.TAKEN, "complete"),
        Row(Recalled.PARTLY, Own.CUT_WHOLE, Recalled.TAKEN, "complete"),
        Row(Recalled.PARTLY, Own.CLAIMED, Recalled.COMING),
        Row(Recalled.COMING, Own.ARRIVED, Recalled.SERVED, "serve"),
        Row(Recalled.SERVED, Own.CUT_WHOLE, Recalled.ARRIVED, "finish"),
        *_ends(Recalled, _UNCLAIMED, _CLAIMED),
    ],
)
"""A subscriber comes home, and nobody leads it: there is no way back for it."""

NOTE: Final = Part(
    "reassignment, target, afterwards",
    Noted,
    {Noted.NOTED: Wait(LEASE, "nobody asked")},
    [
        Row(Noted.NOTED, Own.POLLED, Noted.NOTED, "say_arrived"),
        Row(Noted.NOTED, On.LATE, Noted.FORGOTTEN),
    ],
)
"""Who has led a guest here may ask again, for as long as it waits."""


@dataclass(slots=True, eq=False)
class Guest:
    """One subscriber that is to come along the path of its request, to this broker."""

    request: TakeGuest
    session: Outbound
    since: float
    attachment: int = 0
    """That it comes home by."""
    served_version: int = 0
    """What is certain to have been served there."""
    has_served: bool = False
    """The old place is certain to have served it; nobody else can answer for it otherwise."""
    partly: set[str] = field(default_factory=set)
    """Names of subscriptions that have settled wherever somebody can be reached."""
    missing: Open = NOWHERE
    """What the subscriber has had is known, but for what has passed these brokers."""
    backlog: list[tuple[Batch, int]] = field(default_factory=list)
    """What the parts of the cut have brought that have come so far."""
    parts: int = 0

    def add_part(self, message: GuestCut) -> bool:
        """Whether the cut is whole now. Its parts come in order, and the same once more when it is
        asked for again; behind one that was lost, those that still come do not count."""
        if message.part == 0:
            self.backlog, self.parts = [], 0
        if message.part != self.parts:
            return False
        self.parts += 1
        self.backlog += zip(message.batches, message.qos, strict=True)
        return not message.more
