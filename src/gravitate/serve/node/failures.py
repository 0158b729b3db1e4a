"""What has raised in one node and was contained: counted, and logged once for each place in code.

Owns the counts and what has been said. Who is closed or detached because of a failure is the node's
business.
"""

from __future__ import annotations

import logging
import traceback
from typing import Final

logger = logging.getLogger("gravitate.failures")

KINDS: Final = ("clients", "links", "watchers")


class Failures:
    """Of one broker."""

    def __init__(self, broker_id: str) -> None:
        self._broker_id = broker_id
        self.counts = dict.fromkeys(KINDS, 0)
        """How many clients, links and watchers were let go of because something raised."""
        self._said: set[tuple[str, str]] = set()

    def note(self, kind: str, whom: str, error: Exception) -> None:
        """Something raised while `whom` was served."""
        self.counts[kind] += 1
        frames = traceback.extract_tb(error.__traceback__)
        place = f"{frames[-1].filename}:{frames[-1].lineno}" if frames else type(error).__name__
        if (kind, place) in self._said:
            logger.debug("%s lets go of %s: %r", self._broker_id, whom, error)
            return
        self._said.add((kind, place))
        logger.error("%s lets go of %s and goes on", self._broker_id, whom, exc_info=error)
