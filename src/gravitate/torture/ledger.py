"""What happened in a run, as torture saw it: who published, who received, what was done to whom.

Clients, movers and faults write here; `judging` reads. Times are seconds since the run began, given
by the writers. Owns the records and nothing else: what is owed to whom is not known here.

A publication is known by its publisher and a number that grows from 1. One that was sent and not
acknowledged when the connection ended is sent anew, and marked: both may arrive.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Iterable
from typing import Final, NamedTuple

import msgspec

from gravitate.model.moves import MoveOutcome

STEADY: Final = ("0", "1")
"""Lanes of what is published all the time, in turn."""
EXTRA: Final = "extra"
"""The lane of bursts and large publications."""
STAYING: Final = (STEADY[0], EXTRA)
VISITING: Final = (STEADY[1],)
"""What subscribers want that stay, and that come and go. Neither covers the other: a broker has to
tell its neighbours when a visitor comes."""

KILLED: Final = "killed"
RESTARTED: Final = "restarted"
ENDS_CONNECTIONS: Final = frozenset({KILLED, RESTARTED})
"""What may be done to a broker that ends the connections of its clients."""

Link = tuple[str, str]
"""Two brokers, in order."""
Spot = str | Link
"""A broker, or the link between two."""


def link(one: str, other: str) -> Link:
    return (one, other) if one < other else (other, one)


class Role(str, enum.Enum):
    PUBLISHER = "publisher"
    SUBSCRIBER = "subscriber"


class ClientSpec(msgspec.Struct, frozen=True):
    """A client, and the broker it connects to: its home."""

    name: str
    role: Role
    home: str
    lanes: tuple[str, ...] = ()
    """What a subscriber wants."""


class Publication(msgspec.Struct):
    publisher: str
    number: int
    lane: str
    connection: int
    """Which connection of the publisher it was sent on last, from 1."""
    sent_at: float
    """When it was sent last."""
    acknowledged_at: float = math.inf
    resent: bool = False


class Arrival(NamedTuple):
    publisher: str
    number: int
    at: float


class Presence(msgspec.Struct):
    """One connection of a subscriber."""

    subscriber: str
    subscribed_at: float = math.inf
    """When the SUBACK came."""
    ready_at: float = math.inf
    """When its broker first said after that that it is ready, with all its links."""
    ended_at: float = math.inf
    arrivals: list[Arrival] = []


class Disturbance(msgspec.Struct):
    """Something was done to a broker or a link, and its consequences for that one."""

    spot: Spot
    what: str
    began_at: float
    ended_at: float = math.inf


class Sighting(NamedTuple):
    """A client was, or was asked to be, attached or served at a broker."""

    client: str
    broker: str
    at: float


class Closing(NamedTuple):
    """A client's connection ended."""

    client: str
    at: float
    why: str


class Ledger:
    def __init__(self, clients: Iterable[ClientSpec]) -> None:
        self.clients = {spec.name: spec for spec in clients}
        self.publications: dict[str, list[Publication]] = {
            spec.name: [] for spec in self.clients.values() if spec.role is Role.PUBLISHER
        }
        """In the order of their numbers."""
        self.presences: list[Presence] = []
        self.disturbances: list[Disturbance] = []
        self.sightings: list[Sighting] = []
        self.closings: list[Closing] = []
        self.moves = {outcome.value: 0 for outcome in MoveOutcome}
        """How many moves ended how."""
        self.refused = 0
        """Publications that a broker answered with a failure."""

    # --- publishers -----------------------------------------------------------------------------

    def published(self, publisher: str, lane: str, connection: int, at: float) -> Publication:
        """Something new is about to be sent."""
        known = self.publications[publisher]
        publication = Publication(publisher, len(known) + 1, lane, connection, at)
        known.append(publication)
        return publication

    def sent_anew(self, publication: Publication, connection: int, at: float) -> None:
        publication.resent = True
        publication.connection = connection
        publication.sent_at = at

    def acknowledged(self, publication: Publication, at: float) -> None:
        publication.acknowledged_at = at

    # --- subscribers ----------------------------------------------------------------------------

    def entered(self, subscriber: str) -> Presence:
        """A subscriber is connected, and about to subscribe."""
        presence = Presence(subscriber)
        self.presences.append(presence)
        return presence

    def closed(self, client: str, at: float, why: str) -> None:
        """A connection ended that torture did not end itself."""
        self.closings.append(Closing(client, at, why))

    # --- what was done --------------------------------------------------------------------------

    def disturb(self, spot: Spot, what: str, at: float) -> Disturbance:
        """From now on the spot need not do what it should, until the disturbance is ended."""
        disturbance = Disturbance(spot, what, at)
        self.disturbances.append(disturbance)
        return disturbance

    def seen(self, client: str, broker: str, at: float) -> None:
        self.sightings.append(Sighting(client, broker, at))

    def moved(self, outcome: str) -> None:
        self.moves[outcome] = self.moves.get(outcome, 0) + 1

    # --- totals ---------------------------------------------------------------------------------

    def all_publications(self) -> Iterable[Publication]:
        for publications in self.publications.values():
            yield from publications
