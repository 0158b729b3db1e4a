"""What a broker can ask to be reminded of, each named by what it is about.

A timer is the key of `SetTimer` and of `TimerFired`: two that are equal are the same timer. Those
that are set again and again are made once and kept; their hash is too.
"""

from __future__ import annotations

import msgspec


class Timer(msgspec.Struct, frozen=True, gc=False, cache_hash=True):
    """`incoming` has what takes each kind."""


class _OfLink(Timer, frozen=True):
    peer: str


class _OfNumber(Timer, frozen=True):
    number: int


class AcknowledgeLink(_OfLink, frozen=True):
    """What was received waits to be acknowledged."""


class RetryLink(_OfLink, frozen=True):
    """It is dialled again."""


class Heartbeat(_OfLink, frozen=True):
    """A ping is due, or it has been silent for too long."""


class LinkAbsent(_OfLink, frozen=True):
    """Who need not waits for it no longer."""


class GraceOver(_OfLink, frozen=True):
    """It has been down for so long that it is given up."""


class LinkIdle(_OfLink, frozen=True):
    """Perhaps no tether needs it any more."""


class LinkDown(_OfLink, frozen=True):
    """It has been down for longer than tethers wait."""


class HoldOver(Timer, frozen=True):
    """What a client of this broker has published has waited long enough."""

    client: str


class TetheredHoldOver(_OfNumber, frozen=True):
    """The same of a publisher whose client is connected elsewhere."""


class MoveLate(Timer, frozen=True):
    """A state of it has lasted long, or too long."""

    move: str


class LocksOver(Timer, frozen=True):
    """A move's hold on this broker has ended."""


class TetherLate(_OfNumber, frozen=True):
    """A client should have been attached elsewhere by now, or what it waits for have happened."""


class VisitOver(_OfNumber, frozen=True):
    """Nobody has recalled a tethered subscriber that was lost."""


class RecallAgain(_OfNumber, frozen=True):
    """The broker that a subscriber is recalled from has not answered yet."""


class MechanismTimer(Timer, frozen=True):
    mechanism: str
    key: str


class ChoresLeft(Timer, frozen=True):
    """There is more to undo than one step may."""


class RecentOver(Timer, frozen=True):
    """Nobody will remind this broker of anything any more."""


class StopLate(Timer, frozen=True):
    """An orderly stop has taken too long."""


LinkTimer = AcknowledgeLink | RetryLink | Heartbeat | LinkAbsent | GraceOver
"""Those of a link itself, whatever it is for."""
