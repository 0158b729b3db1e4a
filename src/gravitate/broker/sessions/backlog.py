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
from typing import NamedTuple

from gravitate.broker.links.link import Mark
from gravitate.broker.links.table import LinkTable
from gravitate.broker.lives import Life
from gravitate.broker.measure import Measure
from gravitate.model.events import Batch

Seen = tuple[tuple[str, int, int], ...]
"""Publishers and their incarnations, with the last counter that a client has been given."""
Backlog = tuple[tuple[Batch, int], ...]
"""Batches that are left to deliver, with their quality of service."""


def parts_of(backlog: Backlog, events_max: int, bytes_max: int) -> list[Backlog]:
    """A backlog in parts of so many events and bytes, or of one batch that is larger; at least
    one part."""
    parts: list[list[tuple[Batch, int]]] = [[]]
    measure = Measure()
    for batch, qos in backlog:
        measure.add(batch.bodies)
        part = parts[-1]
        if part and measure.exceeds(events_max, bytes_max):
            part, measure = [], Measure()
            measure.add(batch.bodies)
            parts.append(part)
        part.append((batch, qos))
    return [tuple(part) for part in parts]


class Kept:
    """Batches in the order in which they came."""

    __slots__ = ("_batches", "_bytes_max", "_events_max", "measure")

    def __init__(self, events_max: int, bytes_max: int) -> None:
        self._batches: deque[tuple[Batch, int]] = deque()
        self._events_max = events_max
        self._bytes_max = bytes_max
        self.measure = Measure()

    def __iter__(self) -> Iterator[tuple[Batch, int]]:
        return iter(self._batches)

    def __len__(self) -> int:
        """In batches."""
        return len(self._batches)

    def add(self, batch: Batch, qos: int) -> bool:
        """Keep a batch; False, and it is not kept, when that would be too much."""
        self.measure.add(batch.bodies)
        if self.measure.exceeds(self._events_max, self._bytes_max):
            self.measure.take(batch.bodies)
            return False
        self._batches.append((batch, qos))
        return True

    def take_first(self) -> tuple[Batch, int]:
        batch, qos = self._batches.popleft()
        self.measure.take(batch.bodies)
        return batch, qos

    def put_back(self, batch: Batch, qos: int) -> None:
        """What is left of the first one."""
        self._batches.appendleft((batch, qos))
        self.measure.add(batch.bodies)

    def take_all(self) -> list[tuple[Batch, int]]:
        taken = list(self._batches)
        self._batches.clear()
        self.measure = Measure()
        return taken

    def cut(self, seen: Seen, backlog: Iterable[tuple[Batch, int]]) -> None:
        """The client has had everything up to `seen`, but for the backlog."""
        had = {(id, incarnation): last for id, incarnation, last in seen}
        kept = self.take_all()
        for batch, qos in backlog:
            self._put(batch, qos)
        for batch, qos in kept:
            fresh = above(batch, had.get(batch.stream, 0))
            if fresh is not None:
                self._put(fresh, qos)

    def _put(self, batch: Batch, qos: int) -> None:
        """Keep a batch, however much there is."""
        self._batches.append((batch, qos))
        self.measure.add(batch.bodies)


class Source(NamedTuple):
    """Where something comes from that is kept for a client of another broker's."""

    mark: Mark | None
    """The message that has brought it, if one has."""
    version: int
    """Of what the client wanted when it was matched."""


class Retained(Kept):
    """The same, each batch with its source; the message that has brought it is retained."""

    __slots__ = ("_links", "_sources")

    def __init__(self, events_max: int, bytes_max: int, links: LinkTable) -> None:
        super().__init__(events_max, bytes_max)
        self._links = links
        self._sources: deque[Source] = deque()

    def retain(self, batch: Batch, qos: int, source: Source) -> bool:
        """Keep a batch; False when that would be too much."""
        if not self.add(batch, qos):
            return False
        self._note(source)
        return True

    def _note(self, source: Source) -> None:
        self._sources.append(source)
        self._links.retain(source.mark)

    def take_first(self) -> tuple[Batch, int]:
        self._links.let_go(self._sources.popleft().mark)
        return super().take_first()

    def take_all(self) -> list[tuple[Batch, int]]:
        return [(batch, qos) for batch, qos, _ in self.take()]

    def take(
        self, is_taken: Callable[[Batch], bool] = lambda batch: True
    ) -> list[tuple[Batch, int, Source]]:
        """Take out some, each with its source."""
        sources, self._sources = self._sources, deque()
        taken: list[tuple[Batch, int, Source]] = []
        for (batch, qos), source in zip(super().take_all(), sources, strict=True):
            self._links.let_go(source.mark)
            if is_taken(batch):
                taken.append((batch, qos, source))
            else:
                self._put(batch, qos)
                self._note(source)
        return taken

    def change_sources(self, change: Callable[[Source], Source]) -> None:
        """Tell anew where everything comes from."""
        former, self._sources = self._sources, deque()
        for source in former:
            self._note(change(source))
            self._links.let_go(source.mark)

    def cut_from(self, seen: Seen, backlog: Iterable[tuple[Batch, int]], source: Source) -> None:
        """`cut`, with the source of the backlog."""
        had = {(id, incarnation): last for id, incarnation, last in seen}
        kept = self.take()
        self._put_backlog(backlog, source)
        for batch, qos, its_source in kept:
            fresh = above(batch, had.get(batch.stream, 0))
            if fresh is not None:
                self._put(fresh, qos)
                self._note(its_source)

    def precede(self, backlog: Iterable[tuple[Batch, int]], source: Source) -> None:
        """What is kept has no holes, and something that the client lacks comes before it: a backlog
        of all that came before, and perhaps some of what is kept."""
        kept = self.take()
        firsts: dict[Life, int] = {}
        for batch, _, _ in kept:
            firsts.setdefault(batch.stream, batch.counters[0])
        earlier = [(below(batch, firsts.get(batch.stream)), qos) for batch, qos in backlog]
        self._put_backlog(((one, qos) for one, qos in earlier if one is not None), source)
        for batch, qos, its_source in kept:
            self._put(batch, qos)
            self._note(its_source)

    def _put_backlog(self, backlog: Iterable[tuple[Batch, int]], source: Source) -> None:
        for batch, qos in backlog:
            self._put(batch, qos)
            self._note(source)


def above(batch: Batch, last: int) -> Batch | None:
    """The events of a batch with greater counters."""
    if batch.counters[0] > last:
        return batch
    fresh = [i for i, counter in enumerate(batch.counters) if counter > last]
    return batch.select(fresh) if fresh else None


def below(batch: Batch, first: int | None) -> Batch | None:
    """The events of a batch with smaller counters; all of them where there is no first."""
    if first is None or batch.counters[-1] < first:
        return batch
    earlier = [i for i, counter in enumerate(batch.counters) if counter < first]
    return batch.select(earlier) if earlier else None
