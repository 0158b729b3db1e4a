"""Subscriptions held in one process and asked with batches of events: what a task matches.

    interests = Interests()
    for batch in subscriptions: interests.add(batch)
    for events, subscriptions in interests.pairs(EventBatch(...)): ...

Owns filters, holding times, and that a subscriber is counted once however many of its
subscriptions match. Equal filters are matched once. Works on Arrow columns and numpy arrays; it
knows nothing of Spark, nor of which subscribers it was given.

Memory grows with the subscriptions, and for each answer with `PAIRS_AT_ONCE`, never with how many
events there are. Events are matched by topic and attributes; conditions on the payload
(`payload.x`) find nothing, because the tables of a workload have no payloads.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from gravitate.errors import FilterError, InputError
from gravitate.matching.matcher import Matcher
from gravitate.model.events import TOPIC, Value
from gravitate.model.language import wanted_filter

Positions = NDArray[np.int64]
Pairs = tuple[Positions, Positions]

EVENTS_AT_ONCE: Final = 4096
PAIRS_AT_ONCE: Final = 1 << 20

_attributes = msgspec.json.Decoder(dict[str, Value])


class EventBatch:
    """Some events, decoded."""

    def __init__(
        self, publisher: pa.Array, number: pa.Array, at_s: pa.Array, topic: pa.Array, text: pa.Array
    ) -> None:
        self.at_s = at_s.to_numpy(zero_copy_only=False)
        self.attributes: list[dict[str, Value]] = []
        for position, (topic_text, json) in enumerate(
            zip(topic.to_pylist(), text.to_pylist(), strict=True)
        ):
            try:
                attributes = _attributes.decode(json)
            except msgspec.DecodeError as problem:
                raise InputError(
                    f"publication {number[position]} of '{publisher[position]}' has attributes "
                    f"{json[:200]!r}: {problem}; write a JSON object of numbers, texts and truths"
                ) from None
            attributes[TOPIC] = topic_text
            self.attributes.append(attributes)

    def __len__(self) -> int:
        return len(self.attributes)


class Interests:
    """The subscriptions of some subscribers."""

    def __init__(self) -> None:
        self.subscribers: list[str] = []
        self.subscriptions: list[str] = []
        self.brokers: list[str | None] = []
        """Columns of the subscriptions, in the order they were added."""
        self._from_s: list[float] = []
        self._until_s: list[float | None] = []
        self._filter: list[int] = []
        self._filters: dict[tuple[str, str], int] = {}
        self._matcher = Matcher()
        self._index: _Index | None = None

    def __len__(self) -> int:
        return len(self.subscribers)

    def add(
        self,
        subscriber: pa.Array,
        subscription: pa.Array,
        broker: pa.Array,
        topic: pa.Array,
        condition: pa.Array,
        from_s: pa.Array,
        until_s: pa.Array,
    ) -> None:
        """Take in some subscriptions, given by their columns."""
        names = subscriber.to_pylist()
        for name, wanted in zip(
            names, zip(topic.to_pylist(), condition.to_pylist(), strict=True), strict=True
        ):
            number = self._filters.get(wanted)
            if number is None:
                number = self._filters[wanted] = len(self._filters)
                self._matcher.add(number, _filter_of(name, *wanted), number)
            self._filter.append(number)
        self.subscribers += names
        self.subscriptions += subscription.to_pylist()
        self.brokers += broker.to_pylist()
        self._from_s += from_s.to_pylist()
        self._until_s += until_s.to_pylist()
        self._index = None

    @property
    def index(self) -> _Index:
        """Invalidated by: `add`."""
        if self._index is None:
            until_s = [np.inf if at_s is None else at_s for at_s in self._until_s]
            self._index = _Index(
                self.subscribers,
                self._filter,
                len(self._filters),
                self._from_s,
                until_s,
                self._ranks() if len(set(self.subscribers)) < len(self.subscribers) else None,
            )
        return self._index

    def pairs(self, events: EventBatch) -> Iterator[Pairs]:
        """Positions of events and of the subscriptions they match, in the order of events.

        All pairs of one event are in one answer."""
        index = self.index
        for start, filters, ends in self._hits(events):
            widths = index.width[filters]
            per_event = np.diff(np.concatenate(([0], np.cumsum(widths)))[ends])
            for low, high in _slices(per_event):
                chosen = filters[ends[low] : ends[high]]
                event = start + low + np.repeat(np.arange(high - low), per_event[low:high])
                subscription = index.expanded(chosen)
                if index.windows:
                    at_s = events.at_s[event]
                    held = index.from_s[subscription] <= at_s
                    held &= at_s < index.until_s[subscription]
                    event, subscription = event[held], subscription[held]
                yield event, subscription

    def audience(self, events: EventBatch) -> Iterator[Pairs]:
        """The same with each subscriber once an event, by the first of its subscriptions that
        match; see `once`."""
        for event, subscription in self.pairs(events):
            chosen = self.once(event, subscription)
            yield event[chosen], subscription[chosen]

    def once(self, event: Positions, subscription: Positions) -> Positions:
        """Which of some pairs to take so that each event has each subscriber once: by the first
        of its subscriptions in the order of their names, whatever order they were added in."""
        rank = self.index.rank
        if rank is None:
            return np.arange(len(event))
        order: Positions = np.lexsort((rank[subscription], self.index.leader[subscription], event))
        key = event[order] * len(self.subscribers) + self.index.leader[subscription[order]]
        chosen: Positions = order[np.diff(key, prepend=-1) != 0]
        return chosen

    def _ranks(self) -> Positions:
        """The place of each subscription in the order of names; of those with one name, in an
        order of all else that they have."""
        wanted = list(self._filters)

        def told(position: int) -> tuple[Any, ...]:
            until_s, broker = self._until_s[position], self.brokers[position]
            return (
                self.subscriptions[position],
                wanted[self._filter[position]],
                self._from_s[position],
                np.inf if until_s is None else until_s,
                broker or "",
            )

        rank = np.empty(len(self), dtype=np.int64)
        rank[sorted(range(len(self)), key=told)] = np.arange(len(self))
        return rank

    def _hits(self, events: EventBatch) -> Iterator[tuple[int, Positions, Positions]]:
        """Chunk by chunk of events: where it starts, the filters matched by its events in turn,
        and where the filters of each event begin and end."""
        for start in range(0, len(events), EVENTS_AT_ONCE):
            answers = self._matcher.match(events.attributes[start : start + EVENTS_AT_ONCE])
            ends = np.zeros(len(answers) + 1, dtype=np.int64)
            np.cumsum([len(answer) for answer in answers], out=ends[1:])
            filters = np.fromiter(chain.from_iterable(answers), np.int64, int(ends[-1]))
            yield start, filters, ends


class _Index:
    """Arrays over subscriptions, for questions about many at once."""

    def __init__(
        self,
        subscribers: list[str],
        filters: list[int],
        filter_count: int,
        from_s: list[float],
        until_s: list[float],
        rank: Positions | None,
    ) -> None:
        of_filter = np.asarray(filters, dtype=np.int64)
        self._by_filter = np.argsort(of_filter, kind="stable")
        self.width = np.bincount(of_filter, minlength=filter_count)
        """How many subscriptions have each filter."""
        self._begin = np.concatenate(([0], np.cumsum(self.width)))[:-1]
        self.from_s = np.asarray(from_s, dtype=np.float64)
        self.until_s = np.asarray(until_s, dtype=np.float64)
        self.windows = bool(np.any(self.from_s > 0) or np.any(np.isfinite(self.until_s)))
        """Whether there are subscriptions that are not held all the time."""
        first: dict[str, int] = {}
        leader = [first.setdefault(name, position) for position, name in enumerate(subscribers)]
        self.leader = np.asarray(leader, dtype=np.int64)
        """For each subscription the first one of its subscriber."""
        self.rank = rank
        """The place of each subscription in the order of names; None when no subscriber has
        two."""

    def expanded(self, filters: Positions) -> Positions:
        """The subscriptions of each filter in turn."""
        widths = self.width[filters]
        ends = np.cumsum(widths)
        within = np.arange(ends[-1] if len(ends) else 0) - np.repeat(ends - widths, widths)
        found: Positions = self._by_filter[np.repeat(self._begin[filters], widths) + within]
        return found


def _filter_of(subscriber: str, topic: str, condition: str) -> Any:
    try:
        return wanted_filter(topic, condition or None)
    except FilterError as problem:
        wanted = f"'{topic}' where {condition}" if condition else f"'{topic}'"
        sentence = f"subscriber '{subscriber}' wants {wanted}, which does not parse: {problem}"
        raise InputError(" ".join(sentence.split())) from None


def _slices(sizes: Positions) -> Iterator[tuple[int, int]]:
    """Cuts of a row of events so that each has about `PAIRS_AT_ONCE` pairs, or one event."""
    ends = np.cumsum(sizes)
    low, done = 0, 0
    while low < len(sizes):
        high = max(low + 1, int(np.searchsorted(ends, done + PAIRS_AT_ONCE, side="right")))
        yield low, high
        low, done = high, int(ends[high - 1])
