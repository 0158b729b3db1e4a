"""The states of what a client is owed and of what it publishes, as tables.

`Outbound` and `Inbound` enter states through their `enter`, which knows no other way. What a state
means for events is said there; who makes it change is the business of `clients`, `publishers` and
`moves`.
"""

from __future__ import annotations

import enum
from typing import Final

from gravitate.model.machines import Machine, Row, rows


class Owed(enum.Enum):
    """Of an `Outbound`. But for the first two, what comes is kept."""

    CONNECTED = "connected"
    """What comes goes to the client, or waits until it acknowledges."""
    PREPARING = "preparing"
    """The same; nothing that was seen is forgotten, for a broker that prepares will be told."""
    CUTTING = "cutting"
    """That one is told: what comes from now on is kept, what was given is acknowledged."""
    DETACHED = "detached"
    """The client was sent there; its move leads it."""
    LEASED = "leased"
    """Nobody leads it, and it ends unless somebody comes for it in time."""
    REMINDED = "reminded"
    """The same, unknown to observers: one it was reminded of, or recalled before it arrived."""
    STAGED = "staged"
    """A client is to come that is served elsewhere; observers do not know of it."""
    CLAIMED = "claimed"
    """Somebody has come for it, and has not said yet that it has arrived."""
    RESUMING = "resuming"
    """The same of one that was sent away and has come back."""
    PARTLY = "partly"
    """Served, but for what has passed brokers that could not be asked: that alone is kept."""
    ENDED = "ended"
    DROPPED = "dropped"
    """Ended without having been served: observers have never known of it."""


GIVING: Final = (Owed.CONNECTED, Owed.PREPARING)
"""What comes is not kept."""
UNOBSERVED: Final = (Owed.STAGED, Owed.CLAIMED, Owed.REMINDED, Owed.DROPPED)
"""Observers do not know of it."""

LEASES: Final = (Owed.LEASED, Owed.REMINDED)
"""It ends unless somebody comes for it in time."""
BACK: Final = (Owed.CUTTING, Owed.DETACHED, Owed.LEASED, Owed.REMINDED, Owed.RESUMING)
"""One that comes back goes on from here."""

SERVED: Final = (
    Owed.CONNECTED, Owed.PREPARING, Owed.CUTTING, Owed.DETACHED, Owed.LEASED, Owed.RESUMING,
)  # fmt: skip
"""It has been served here, and may be again."""

OWED: Final = Machine(
    "outbound",
    Owed,
    [
        Row(None, "its client connects, or gets a tether", Owed.CONNECTED),
        Row(None, "another broker asks", Owed.STAGED, "subscribe; told what the client has had"),
        Row(None, "a neighbour reminds this broker", Owed.REMINDED, "subscribe; lease"),
        Row(Owed.CONNECTED, "a move of it is granted", Owed.PREPARING),
        Row(Owed.PREPARING, "the target is ready", Owed.CUTTING, "tell the cut; say pause"),
        *rows((Owed.PREPARING, Owed.CUTTING), "it stays", Owed.CONNECTED, "give what was kept"),
        Row(Owed.CUTTING, "drained, paused, cut taken", Owed.DETACHED, "send the client away"),
        Row(Owed.STAGED, "somebody comes for it", Owed.CLAIMED),
        *rows(BACK, "it is back", Owed.RESUMING),
        *rows((Owed.CLAIMED, Owed.RESUMING), "it has arrived", Owed.CONNECTED, "give all"),
        Row(Owed.CLAIMED, "it has arrived, something is missing", Owed.PARTLY, "give the rest"),
        Row(Owed.PARTLY, "nothing is missing", Owed.CONNECTED, "give what was kept"),
        *rows(SERVED, "its origin is lost or recalls it, its move is late", Owed.LEASED, "lease"),
        *rows((Owed.CLAIMED, Owed.REMINDED), "the same", Owed.REMINDED, "lease"),
        *rows((*SERVED, Owed.PARTLY), "gone, overloaded, served elsewhere, lease over", Owed.ENDED),
        *rows(UNOBSERVED[:-1], "gone, overloaded, not needed, lease over", Owed.DROPPED),
    ],
    ends=(Owed.ENDED, Owed.DROPPED),
)


class Publishing(enum.Enum):
    """Of an `Inbound`."""

    HERE = "here"
    ARRIVING = "arriving"
    """What it has published elsewhere may not be ahead: what it sends waits."""
    TAKEN = "taken"
    """Attached elsewhere: nothing is taken from it, what it has advertised is taken along."""
    DEPARTING = "departing"
    """It was sent elsewhere: its advertisements wait to be taken along."""
    ENDING = "ending"
    """Its client is gone: its advertisements end."""
    GONE = "gone"


LIVE: Final = (Publishing.HERE, Publishing.ARRIVING, Publishing.TAKEN)
"""Not ended, and not on its way to another broker."""

PUBLISHING: Final = Machine(
    "inbound",
    Publishing,
    [
        Row(None, "its client connects, or is attached", Publishing.HERE),
        Row(Publishing.HERE, "known elsewhere, or trailed", Publishing.ARRIVING, "advertise"),
        Row(Publishing.ARRIVING, "all has settled", Publishing.HERE, "look at what was sent"),
        *rows(LIVE, "attached elsewhere", Publishing.TAKEN),
        *rows((Publishing.HERE, Publishing.TAKEN), "its move sends it away", Publishing.DEPARTING),
        Row(Publishing.HERE, "sent away as a subscriber", Publishing.GONE),
        Row(Publishing.TAKEN, "all was taken along", Publishing.GONE, "tell its origin"),
        Row(Publishing.DEPARTING, "all was taken along, or it is back", Publishing.GONE),
        Row(Publishing.DEPARTING, "nobody came", Publishing.ENDING, "withdraw"),
        *rows(LIVE, "its client is gone", Publishing.ENDING, "withdraw"),
        Row(Publishing.ENDING, "withdrawn everywhere", Publishing.GONE, "tell its origin"),
    ],
    ends=(Publishing.GONE,),
)
