"""The event space of recorded traffic: what a filter's interest is as a box, and its measure.

    space = EventSpace(TopicOrder(topics), ("volume",))
    lows, highs = space.box([parse("topic = 'quotes/IBM' and volume > 500")])
    density = Density.of(volumes, marks=bounds)
    from_, to = density.interval(lows, highs)

The axes are the topic, by its rank in a `TopicOrder`, and some numeric attributes. A disjunction,
and a client with several subscriptions, has the box around all parts: it counts for what lies
between them too, because a client is served as a whole at one broker.

Paper 4 measures filters by volume, which is traffic when events are spread evenly. Recorded ones
are not, so each axis is transformed by their distribution (section 2 allows any density): a bound
goes to the share of events below it. An interval [low, high] becomes

    [share of events < low, share of events <= high],

so on one axis the measure of an interval, and of a union of them, *is* the share of the events in
it, also where many have the same value. With several axes a box measures the product of the
shares: exact when the axes are independent in the traffic, an approximation otherwise.

An event that lacks the attribute lies below everything: an interest that says nothing about the
attribute has it, one with a bound does not. Sides without a bound end where the events do.

Owns boxes and densities. It knows neither traces nor subscribers. Densities add up, so parts of
the traffic can be counted apart.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

import msgspec
import numpy as np
from numpy.typing import ArrayLike, NDArray

from gravitate.model.boxes import Box, conjunction_box
from gravitate.model.events import TOPIC, Value
from gravitate.model.filters import Filter
from gravitate.model.regions import conjunction_region
from gravitate.model.semantics import value_number
from gravitate.model.topic_order import TopicOrder

Floats = NDArray[np.float64]
Longs = NDArray[np.int64]


class EventSpace:
    """Axes: the topic if an order of topics is given, then the attributes."""

    def __init__(self, topics: TopicOrder | None, attributes: Sequence[str]) -> None:
        self.topics = topics
        self.attributes = tuple(attributes)

    @property
    def names(self) -> tuple[str, ...]:
        """What the axes are called, in their order."""
        return self.attributes if self.topics is None else (TOPIC, *self.attributes)

    def __len__(self) -> int:
        return len(self.names)

    def box(self, filters: Iterable[Filter]) -> Box | None:
        """The smallest box around all that passes any of the filters, as far as its topic is
        known; None when there is nothing. Infinite where there is no bound."""
        found: Box | None = None
        for filter in filters:
            for conjunction in filter.conjunctions:
                region = conjunction_region(conjunction)
                if region is None:
                    continue
                box = conjunction_box(region, self.attributes)
                if self.topics is not None:
                    extent = self.topics.extent(conjunction)
                    if extent is None:
                        continue
                    box = Box((extent[0], *box.lows), (extent[1], *box.highs))
                found = box if found is None else found.joined(box)
        return found

    def coordinates(
        self, topics: Sequence[str | None], attributes: Sequence[Mapping[str, Value | None]]
    ) -> Floats:
        """Events as points, one column each; nan where an event has no coordinate."""
        columns = [
            [_or_nan(_number(told.get(name))) for told in attributes] for name in self.attributes
        ]
        if self.topics is not None:
            rank = self.topics.rank
            columns.insert(0, [_or_nan(None if t is None else rank(t)) for t in topics])
        return np.array(columns, dtype=np.float64).reshape(len(self), len(topics))


class Density(msgspec.Struct, frozen=True, eq=False):
    """How events are spread over one axis, as far as intervals between `marks` need it."""

    marks: Floats
    """The finite bounds that intervals may have: ascending, each once."""
    bins: Longs
    """Events below the first mark, at it, between it and the second, at the second, and so on."""
    missing: int = 0
    """Events without a coordinate."""

    @classmethod
    def of(cls, values: ArrayLike, marks: ArrayLike) -> Density:
        """The density of some coordinates; nan: the event has none."""
        given = np.asarray(values, dtype=np.float64)
        bounds = marks_of(marks)
        known = given[~np.isnan(given)]
        bins = np.bincount(bins_of(known, bounds), minlength=2 * len(bounds) + 1)
        return cls(bounds, bins.astype(np.int64), int(len(given) - len(known)))

    @property
    def events(self) -> int:
        return int(self.bins.sum()) + self.missing

    def __add__(self, other: Density) -> Density:
        assert np.array_equal(self.marks, other.marks), "densities of other marks do not add up"
        return Density(self.marks, self.bins + other.bins, self.missing + other.missing)

    def interval(self, lows: ArrayLike, highs: ArrayLike) -> tuple[Floats, Floats]:
        """Intervals as shares of the events; their bounds are marks or infinite."""
        low, high = np.asarray(lows, dtype=np.float64), np.asarray(highs, dtype=np.float64)
        upto = np.concatenate(([0], np.cumsum(self.bins)))
        # Of mark i, events below are in the first 2 i + 1 bins, and those at it in the next.
        below = upto[2 * np.searchsorted(self.marks, low) + 1] + self.missing
        through = upto[2 * np.searchsorted(self.marks, high, side="right")] + self.missing
        begins = np.where(np.isinf(low), self.missing, below)
        begins = np.where(np.isinf(low) & np.isinf(high), 0, begins)
        ends = np.where(np.isinf(high), self.events, through)
        share = 1.0 / max(self.events, 1)
        return begins * share, np.maximum(ends, begins) * share


def marks_of(bounds: ArrayLike) -> Floats:
    """The finite ones of some bounds, ascending, each once."""
    given = np.asarray(bounds, dtype=np.float64)
    found: Floats = np.unique(given[np.isfinite(given)])
    return found


def bins_of(values: Floats, marks: Floats) -> Longs:
    """Into which bin of a `Density` each coordinate falls."""
    found: Longs = np.searchsorted(marks, values) + np.searchsorted(marks, values, side="right")
    return found


def _number(value: Value | None) -> float | None:
    return None if value is None else value_number(value)


def _or_nan(number: float | None) -> float:
    return math.nan if number is None else float(number)
