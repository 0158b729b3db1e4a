"""What is kept for a client that cannot be given it now, in order and within a bound.

Kept are batches of many publishers, each with its quality of service. A *cut* tells what the client
has been given elsewhere: it is dropped, and what is left to deliver from there, the *backlog*,
comes first. Does not know sessions, nor why anything is kept.

What is kept for a client of another broker's is *retained*: the neighbours that it came from keep
it too until that broker has it, so that it is not lost with this one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from math import inf
from typing import Final, NamedTuple

from gravitate.broker.links.link import Mark
from gravitate.broker.links.table import LinkTable
from gravitate.broker.measure import Measure
from gravitate.broker.messages.parcels import parts
from gravitate.broker.options import BrokerOptions
from gravitate.model.events import Batch

Seen = tuple[tuple[str, int, int], ...]
"""Publishers and their incarnations, with the last counter that a client has been given."""
Backlog = tuple[tuple[Batch, int], ...]
"""Batches that are left to deliver, with their quality of service."""


def parts_of(backlog: Backlog, events_max: int, bytes_max: int) -> list[Backlog]:
    """In parts of so many events and bytes, or of one batch that is larger; at least one part."""
    weighed = ((one, len(one[0]), one[0].size_bytes()) for one in backlog)
    return [tuple(part) for part in parts(weighed, events_max, bytes_max)] or [()]


class Source(NamedTuple):
    """Where something comes from that is kept for a client of another broker's."""

    mark: Mark | None = None
    """The message that has brought it, if that is to be retained."""
    version: int = 0
    """Of what the client wanted when it was matched."""


HERE: Final = Source()
"""Of what is kept for a client of this broker's."""


class Kept:
    """Batches as they came, each with its source; what `links` have brought is retained."""

    __slots__ = ("_bytes_max", "_events_max", "_items", "_links", "measure")

    def __init__(self, options: BrokerOptions, links: LinkTable | None) -> None:
        self._items: deque[tuple[Batch, int, Source]] = deque()
        self._events_max = options.session_queue_events_max
        self._bytes_max = options.session_queue_bytes_max
        self._links = links
        self.measure = Measure()

    def __iter__(self) -> Iterator[tuple[Batch, int]]:
        return ((batch, qos) for batch, qos, _ in self._items)

    def __len__(self) -> int:
        """In batches."""
        return len(self._items)

    def add(self, batch: Batch, qos: int, source: Source = HERE) -> bool:
        """Keep a batch; False, and it is not kept, when that would be too much."""
        self.measure.add(batch.bodies)
        if self.exceeds():
            self.measure.take(batch.bodies)
            return False
        self._items.append((batch, qos, source))
        if self._links is not None:
            self._links.retain(source.mark)
        return True

    def exceeds(self, times: int = 1) -> bool:
        """Whether there is more than so many brokers may keep."""
        return self.measure.exceeds(times * self._events_max, times * self._bytes_max)

    def take_first(self) -> tuple[Batch, int]:
        batch, qos, source = self._items.popleft()
        self.measure.take(batch.bodies)
        if self._links is not None:
            self._links.let_go(source.mark)
        return batch, qos

    def put_back(self, batch: Batch, qos: int) -> None:
        """What is left of the first one."""
        self._items.appendleft((batch, qos, HERE))
        self.measure.add(batch.bodies)

    def take(
        self, is_taken: Callable[[Batch], bool] = lambda batch: True
    ) -> list[tuple[Batch, int, Source]]:
        """Take out some."""
        items, self._items = self._items, deque()
        self.measure = Measure()
        taken: list[tuple[Batch, int, Source]] = []
        for item in items:
            if is_taken(item[0]):
                taken.append(item)
            else:
                self._put(*item)
            if self._links is not None:
                self._links.let_go(item[2].mark)
        return taken

    def change_sources(self, change: Callable[[Source], Source]) -> None:
        """Tell anew where everything comes from."""
        for batch, qos, source in self.take():
            self._put(batch, qos, change(source))

    def cut(self, seen: Seen, backlog: Iterable[tuple[Batch, int]], source: Source = HERE) -> None:
        """The client has had everything up to `seen`, but for the backlog."""
        had = {(id, incarnation): last for id, incarnation, last in seen}
        kept = self.take()
        for batch, qos in backlog:
            self._put(batch, qos, source)
        for batch, qos, its_source in kept:
            self._put(_between(batch, last=had.get(batch.stream, 0)), qos, its_source)

    def precede(self, backlog: Iterable[tuple[Batch, int]], source: Source) -> None:
        """What is kept has no holes, and something that the client lacks comes before it: a backlog
        of all that came before, and perhaps some of what is kept."""
        kept = self.take()
        firsts = {batch.stream: batch.counters[0] for batch, _, _ in reversed(kept)}
        for batch, qos in backlog:
            self._put(_between(batch, first=firsts.get(batch.stream, inf)), qos, source)
        for item in kept:
            self._put(*item)

    def _put(self, batch: Batch | None, qos: int, source: Source) -> None:
        """Keep a batch, however much there is."""
        if batch is not None:
            self._items.append((batch, qos, source))
            self.measure.add(batch.bodies)
            if self._links is not None:
                self._links.retain(source.mark)


def _between(batch: Batch, last: float = -inf, first: float = inf) -> Batch | None:
    """The events of a batch with counters above the last and below the first."""
    if last < batch.counters[0] and batch.counters[-1] < first:
        return batch
    those = [i for i, counter in enumerate(batch.counters) if last < counter < first]
    return batch.select(those) if those else None
