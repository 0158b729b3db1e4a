"""Moves: the one language in which both loops change the network.

A move names its subject, where from and where to, why, and what it is predicted to gain and to
cost. It is carried out by a protocol that loses nothing, and ends in a `MoveOutcome`.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Final

import msgspec


class MoveOutcome(str, enum.Enum):
    DONE = "done"
    REFUSED = "refused"
    ROLLED_BACK = "rolled back"


class Rationale(msgspec.Struct, frozen=True):
    """Why a move is proposed, with the figures it was decided on."""

    reason: str
    gain: float = 0.0
    cost: float = 0.0
    figures: dict[str, float] = {}


class RelocatePublisher(msgspec.Struct, frozen=True, tag="relocate-publisher"):
    """`path` are the brokers from `source` to `target`, both included; left out, `source` seeks
    it."""

    id: str
    publisher: str
    source: str
    target: str
    why: Rationale
    path: tuple[str, ...] = ()


class ReassignSubscriber(msgspec.Struct, frozen=True, tag="reassign-subscriber"):
    """`path` are the brokers from `source` to `target`, both included; left out, `source` seeks
    it."""

    id: str
    subscriber: str
    source: str
    target: str
    why: Rationale
    path: tuple[str, ...] = ()


class OpenLink(msgspec.Struct, frozen=True, tag="open-link"):
    id: str
    between: tuple[str, str]
    why: Rationale


class CloseLink(msgspec.Struct, frozen=True, tag="close-link"):
    id: str
    between: tuple[str, str]
    why: Rationale


class ExchangeLink(msgspec.Struct, frozen=True, tag="exchange-link"):
    """The primary link `removed` gives way to `added`."""

    id: str
    removed: tuple[str, str]
    added: tuple[str, str]
    why: Rationale


class RemapBrokers(msgspec.Struct, frozen=True, tag="remap-brokers"):
    """Brokers take new places on the ring."""

    id: str
    places: dict[str, int]
    why: Rationale


ClientMove = RelocatePublisher | ReassignSubscriber
"""A client goes from one broker to another, along a path."""


LOCKED: Final = "is locked by another move"
"""In the reason of a refusal: the move may be asked for again when the other has ended."""


def client_of(move: ClientMove) -> str:
    """Who goes."""
    return move.publisher if isinstance(move, RelocatePublisher) else move.subscriber


def described(move: Move) -> str:
    """A move in a few words."""
    if isinstance(move, ClientMove):
        return f"{client_of(move)}: {' - '.join(move.path or (move.source, move.target))}"
    told = {
        name: value
        for name, value in msgspec.structs.asdict(move).items()
        if name not in {"id", "why"}
    }
    return f"{move.__struct_config__.tag} {told}"


def moving_cost(path: Sequence[str]) -> float:
    """What it costs to move a client along a path of brokers: the links on which that has to be
    agreed. The same for whoever decides the move, so that costs add up."""
    return float(len(path) - 1)


Move = RelocatePublisher | ReassignSubscriber | OpenLink | CloseLink | ExchangeLink | RemapBrokers
