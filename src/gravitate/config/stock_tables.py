"""The stock-quote workload of the publisher-placement study, as tables (paper 1).

Every publisher quotes one symbol on the topic `stocks/SYMBOL`; subscriber `s` follows the symbol
of publisher `s % publishers`. *High-rated* subscribers take all of it, *medium* and *low* ones
about half and a tenth, by a condition on one attribute whose bound is a quantile of what that
publisher really publishes.

Tables are made for publishers `start` to `stop` (not included), in the schemas of
`workload_tables`. What belongs to one publisher depends on the parameters, the seed and the
publisher's index alone, so any cut into ranges gives the same rows: in one process for a scenario,
in many for a large workload. It is not known here how a workload is stored or run.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, Final, Literal

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from gravitate.config import quotes
from gravitate.config.workload_tables import PUBLICATIONS, PUBLISHERS, SUBSCRIPTIONS
from gravitate.model.seeds import generator

SUBSCRIPTION: Final = "quotes"
"""Name of a subscriber's one subscription."""

CLASSES: Final = ("high", "medium", "low")
TRAFFIC_SHARES: Final = (1.0, 0.5, 0.1)
"""What a subscriber of each class takes of its symbol, on average."""
TRAFFIC_SPREAD: Final = 0.2
"""How far a medium or low subscriber's share is from its class's, at most and relatively."""
MIXES: Final = {"enterprise": (0.05, 0.0, 0.95), "random": (0.05, 0.25, 0.70)}
"""Share of the subscribers in each class."""


class StockQuotes(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Parameters of the stock-quote workload; rates are per publisher.

    The paper's own table of rates is unreadable; here it is 70 a minute. With the mix
    *random* subscribers of all classes are anywhere; with *enterprise* all high-rated ones are on
    one broker and the low-rated ones on the others."""

    publishers: int = 40
    subscribers: int = 1000
    rate_msgs_per_s: float = 70 / 60
    mix: Literal["random", "enterprise"] = "random"
    subscriber_brokers: int = 0
    """On how many brokers subscribers are (the paper's X); 0: on all."""
    qos: Literal[0, 1] = 1
    payload_bytes: int = 0


def problem(options: StockQuotes, brokers: int) -> tuple[str, str] | None:
    """What is wrong with parameters for so many brokers: which one, and a sentence; or None."""
    for name in ("publishers", "subscribers", "subscriber_brokers", "payload_bytes"):
        number = getattr(options, name)
        if number < 0:
            return name, f"'{name}' is {number}: write a whole number from 0"
    if options.publishers == 0 and options.subscribers:
        return "publishers", "subscribers follow publishers: write at least 1 publisher"
    if options.subscriber_brokers > brokers:
        return "subscriber_brokers", (
            f"'subscriber_brokers' is {options.subscriber_brokers} and there are {brokers} "
            f"brokers: write 0 (all) to {brokers}"
        )
    if options.payload_bytes >= 2**31:
        return "payload_bytes", f"'payload_bytes' is {options.payload_bytes}: write less than 2^31"
    if not 0 < options.rate_msgs_per_s < math.inf:
        return (
            "rate_msgs_per_s",
            f"'rate_msgs_per_s' is {options.rate_msgs_per_s:g}: write a number above 0",
        )
    return None


class StockWorkload(msgspec.Struct, frozen=True):
    """One stock-quote workload: everything that decides its rows."""

    options: StockQuotes
    brokers: tuple[str, ...]
    duration_s: float
    seed: int
    history: quotes.History | None = None
    """Recorded quotes to publish in place of drawn ones; has at least as many symbols as there
    are publishers."""

    @property
    def publications_each(self) -> int:
        """How often every publisher publishes."""
        # A duration that is a multiple of the interval must not lose one to rounding.
        return int(self.duration_s * self.options.rate_msgs_per_s + 1e-9)

    @property
    def subscribers_each_max(self) -> int:
        """How many subscribers a publisher has, at most."""
        return -(-self.options.subscribers // max(self.options.publishers, 1))

    def publisher_id(self, index: int) -> str:
        return f"pub-{index + 1:0{len(str(self.options.publishers))}}"

    def symbol(self, index: int) -> str:
        if self.history is not None:
            return self.history.symbols[index]
        return quotes.symbol(self.seed, index)

    def quotes(self, index: int) -> quotes.Quotes:
        if self.history is not None:
            return self.history.quotes(index, self.publications_each)
        return quotes.drawn(self.seed, index, self.publications_each)

    def place(self, index: int) -> tuple[str, float]:
        """The broker of a publisher, and when it publishes first."""
        where, when = generator(self.seed, "stocks", "place", index).random(2).tolist()
        return self.brokers[int(where * len(self.brokers))], when / self.options.rate_msgs_per_s

    def subscribers_places(self) -> list[str]:
        """The brokers that subscribers are on; the first is the one of the high-rated in the mix
        *enterprise*."""
        order = generator(self.seed, "stocks", "subscribers' brokers").permutation(
            len(self.brokers)
        )
        wanted = self.options.subscriber_brokers or len(self.brokers)
        return [self.brokers[index] for index in order[:wanted]]


def publishers(workload: StockWorkload, start: int, stop: int) -> pa.Table:
    """The rows of `publishers`."""
    indices = range(start, stop)
    return _table(
        PUBLISHERS,
        [workload.publisher_id(index) for index in indices],
        [workload.place(index)[0] for index in indices],
        [f"topic = '{_topic(workload, index)}'" for index in indices],
        [workload.options.rate_msgs_per_s] * len(indices),
    )


def publications(workload: StockWorkload, start: int, stop: int) -> pa.Table:
    """The rows of `publications`, publisher after publisher, each in the order of time."""
    indices = range(start, stop)
    each = workload.publications_each
    interval_s = 1.0 / workload.options.rate_msgs_per_s
    phases_s = np.array([workload.place(index)[1] for index in indices])
    times_s = np.round(phases_s[:, None] + np.arange(each) * interval_s, 6).ravel()
    symbols = [workload.symbol(index) for index in indices]
    published = quotes.joined([workload.quotes(index) for index in indices])
    return _table(
        PUBLICATIONS,
        _repeated([workload.publisher_id(index) for index in indices], each),
        np.tile(np.arange(1, each + 1), len(indices)),
        times_s,
        _repeated([_topic(workload, index) for index in indices], each),
        quotes.attributes_json(symbols, [each] * len(indices), published),
        np.full(len(times_s), workload.options.payload_bytes, np.int32),
        pa.nulls(len(times_s), pa.string()),
    )


class Subscribers(msgspec.Struct, frozen=True):
    """Rows of `subscriptions`, the class of each, and how many publications each one gets."""

    rows: pa.Table
    classes: npt.NDArray[np.int64]
    deliveries: npt.NDArray[np.int64]


def subscriptions(workload: StockWorkload, start: int, stop: int) -> Subscribers:
    """The subscribers of publishers `start` to `stop`, publisher after publisher."""
    options = workload.options
    places = workload.subscribers_places()
    width = len(str(options.subscribers))
    ids: list[str] = []
    topics: list[str] = []
    brokers: list[str] = []
    conditions: list[str] = []
    classes, deliveries = [], []
    for index in range(start, stop):
        numbers = range(index, options.subscribers, options.publishers)
        drawn = generator(workload.seed, "stocks", "subscribers", index).random((len(numbers), 5))
        rating = _ratings(options.mix, drawn[:, 0])
        ids += [f"sub-{number + 1:0{width}}" for number in numbers]
        topics += [_topic(workload, index)] * len(numbers)
        brokers += _placed(options.mix, places, rating, drawn[:, 1])
        wanted, got = _conditions(workload.quotes(index), rating, drawn[:, 2:])
        conditions += wanted
        classes.append(rating)
        deliveries.append(got)
    empty = np.zeros(0, np.int64)
    rows = _table(
        SUBSCRIPTIONS,
        ids,
        [SUBSCRIPTION] * len(ids),
        brokers,
        topics,
        conditions,
        np.zeros(len(ids)),
        pa.nulls(len(ids), pa.float64()),
    )
    return Subscribers(
        rows, np.concatenate([empty, *classes]), np.concatenate([empty, *deliveries])
    )


def _topic(workload: StockWorkload, index: int) -> str:
    return f"stocks/{workload.symbol(index)}"


def _ratings(mix: str, chances: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
    """The class of each subscriber, as a place in `CLASSES`."""
    bounds = np.cumsum(MIXES[mix])[:-1]
    return np.searchsorted(bounds, chances, side="right").astype(np.int64)


def _placed(
    mix: str, places: Sequence[str], rating: npt.NDArray[np.int64], chances: npt.NDArray[np.float64]
) -> list[str]:
    """The broker of each subscriber."""
    if mix == "enterprise" and len(places) > 1:
        others = 1 + (chances * (len(places) - 1)).astype(np.int64)
        chosen = np.where(rating == CLASSES.index("high"), 0, others)
    else:
        chosen = (chances * len(places)).astype(np.int64)
    return [places[index] for index in chosen.tolist()]


def _conditions(
    published: quotes.Quotes, rating: npt.NDArray[np.int64], chances: npt.NDArray[np.float64]
) -> tuple[list[str], npt.NDArray[np.int64]]:
    """A condition for each subscriber, empty for those who want all, and how many quotes meet it.

    Columns of `chances`: which attribute, how large a share, from above or below."""
    count = len(published)
    everything = rating == CLASSES.index("high")
    if count == 0:
        return [""] * len(rating), np.zeros(len(rating), np.int64)
    attribute = (chances[:, 0] * len(quotes.RANKED)).astype(np.int64)
    spread = 1.0 + TRAFFIC_SPREAD * (2.0 * chances[:, 1] - 1.0)
    shares = np.array(TRAFFIC_SHARES)[rating] * spread
    wanted = np.clip(np.rint(shares * count).astype(np.int64), 1, count)
    above = chances[:, 2] < 0.5
    ranks = np.where(above, count - wanted, wanted - 1)
    ranked = published.ranked()
    bounds = np.stack(ranked)[attribute, ranks]
    got = np.full(len(rating), count, np.int64)
    for number, column in enumerate(ranked):
        from_below = np.searchsorted(column, bounds, side="right")
        from_above = count - np.searchsorted(column, bounds, side="left")
        here = ~everything & (attribute == number)
        got[here] = np.where(above, from_above, from_below)[here]
    rows = zip(
        everything.tolist(), attribute.tolist(), above.tolist(), bounds.tolist(), strict=True
    )
    return list(_texts(rows)), got


def _texts(rows: Iterator[tuple[bool, int, bool, float]]) -> Iterator[str]:
    for everything, attribute, above, bound in rows:
        if everything:
            yield ""
        else:
            sign = ">=" if above else "<="
            value = int(bound) if quotes.RANKED[attribute] == "volume" else bound
            yield f'"{quotes.RANKED[attribute]}" {sign} {value!r}'


def _repeated(texts: Sequence[str], times: int) -> Any:
    """Each text so many times over."""
    indices = np.repeat(np.arange(len(texts), dtype=np.int32), times)
    return pa.DictionaryArray.from_arrays(indices, pa.array(texts, pa.string())).cast(pa.string())


def _table(schema: pa.Schema, *columns: Any) -> pa.Table:
    arrays = []
    for field, column in zip(schema, columns, strict=True):
        if isinstance(column, list) and column and isinstance(column[0], bytes):
            column = pa.array(column, pa.binary())  # JSON: known to be text
        arrays.append(
            pa.array(column).cast(field.type) if len(column) else pa.array([], field.type)
        )
    return pa.Table.from_arrays(arrays, schema=schema)
