"""Which filters match an event."""

from gravitate.matching.matcher import Matcher, warm

__all__ = ["Matcher", "warm"]
