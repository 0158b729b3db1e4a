"""To whom a batch is delivered, and what that one has been given before.

Duplicates are recognised here, per publisher, by the last counter seen; links keep the order. Does
not know how a client is given what is for it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import OrderedDict
from dataclasses import dataclass
from typing import Generic, TypeVar

from gravitate.broker.lives import Life, Lives, size_bytes
from gravitate.broker.messages.guests import Wanted
from gravitate.broker.options import BrokerOptions
from gravitate.model.events import Batch

SWEEP_BYTES_MIN = 64 * 1024
"""What is remembered of publishers is not looked through for less."""


class Receiver(ABC):
    """One subscriber that is served here."""

    connection = 0
    """That of its client, while it has one to this broker."""
    congested = False
    """Its client takes nothing at the moment."""
    indirect = True
    """What is for the client does not go to it at once: something waits, or it holds."""

    def __init__(self, id: str, options: BrokerOptions, lives: Lives) -> None:
        self.id = id
        self._options = options
        self._lives = lives
        self._seen: OrderedDict[Life, int] = OrderedDict()
        self.seen_bytes = 0
        self._sweep_at_bytes = SWEEP_BYTES_MIN

    @property
    @abstractmethod
    def holding(self) -> bool:
        """Whether what comes is kept."""

    @abstractmethod
    def may_forget(self) -> bool:
        """Whether nobody else will ask what the client has been given."""

    @abstractmethod
    def offer(self, batch: Batch, qos: int) -> bool:
        """Hand over a fresh batch, or keep it for later; False: the client is too far behind."""

    @abstractmethod
    def released(self) -> list[tuple[Batch, int]]:
        """Hold no longer; what was kept, in order, to be offered now."""

    def saw(self, publisher: Life, first: int, last: int) -> bool:
        """Note that the client gets a publisher's events `first` to `last`; False, and nothing is
        noted, when it has been given some of them before."""
        seen = self._seen
        before = seen.get(publisher, 0)
        if first <= before:
            return False
        seen[publisher] = last
        if before:
            seen.move_to_end(publisher)
        else:
            self.seen_bytes += size_bytes(publisher)
            if self.seen_bytes > self._sweep_at_bytes and self.may_forget():
                self._forget_publishers()
        return True

    def _forget_publishers(self) -> None:
        """Those whose events cannot come again; if that is not enough, the longest silent."""
        seen, lives = self._seen, self._lives
        bytes_max = self._options.session_seen_bytes_max
        for publisher in [one for one in seen if not lives.may_come(one)]:
            del seen[publisher]
            self.seen_bytes -= size_bytes(publisher)
        while self.seen_bytes > bytes_max and len(seen) > 1:
            publisher, _ = seen.popitem(last=False)
            self.seen_bytes -= size_bytes(publisher)
            lives.forgotten += 1
        # Looking at all of them must not happen with every new one.
        self._sweep_at_bytes = max(SWEEP_BYTES_MIN, min(2 * self.seen_bytes, bytes_max))

    def fresh(self, batch: Batch) -> Batch | None:
        """The part of the batch the client has not been given before."""
        publisher, counters = batch.stream, batch.counters
        if self.saw(publisher, counters[0], counters[-1]):
            return batch
        before = self._seen[publisher]
        if counters[-1] <= before:
            return None
        batch = batch.select([i for i, counter in enumerate(counters) if counter > before])
        self.saw(publisher, batch.counters[0], batch.counters[-1])
        return batch

    def note_seen(self, publisher: Life, last: int) -> None:
        """The client has been given, or will be, what a publisher published up to here."""
        if publisher not in self._seen:
            self.seen_bytes += size_bytes(publisher)
        self._seen[publisher] = max(last, self._seen.get(publisher, 0))

    def continue_from(self, former: Receiver) -> None:
        """The client has been given all that another one of its gave it."""
        self._seen, self.seen_bytes = OrderedDict(former._seen), former.seen_bytes


R = TypeVar("R", bound=Receiver)


@dataclass(slots=True, eq=False)
class Subscription(Generic[R]):
    """One that is served here, and the destination that stands for it once it has one."""

    receiver: R
    wanted: Wanted
    id: str
    destination: int = -1
