"""Which filters match an event."""

from gravitate.matching.matcher import Matcher

__all__ = ["Matcher"]
