"""An observer that turns what brokers report into rows of traces.

`TraceRows` serves one broker or all brokers of a process or world. Events of the sample get rows
in `publications`, `hops` and `deliveries`; subscriptions, moves and the counts of links are always
complete. Rows wait in memory until there are `rows_per_group` of them, or `bytes_per_group`, and
then go to a sink as one group. `TraceWriter` has files for a sink and writes groups at once, as
worlds want it; a node has one that only takes them in (`serve.node.trace_queue`).

Whoever attaches one must `close` it (it is a context manager): what is not closed has no
final name. Times are taken from the calls; no clock is read here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from sys import getsizeof
from types import TracebackType
from typing import Protocol, Self

import msgspec

from gravitate.broker.observers import LinkChange, Matched, Observer
from gravitate.model.events import TOPIC, Attributes, Batch
from gravitate.model.filters import Filter
from gravitate.model.language import render
from gravitate.model.moves import Move, MoveOutcome
from gravitate.trace import schemas
from gravitate.trace.columns import BYTES_PER_GROUP, ROWS_PER_GROUP, BatchColumns, Group, RowColumns
from gravitate.trace.files import ROWS_PER_FILE, TraceFiles
from gravitate.trace.sampling import Sampler

LINK_PERIOD_S = 1.0

_encode = msgspec.json.Encoder().encode
_BATCH = ("publisher", "incarnation", "broker", "at_s")


class Sink(Protocol):
    """Where groups of rows go."""

    def put(self, table: str, group: Group) -> None: ...

    def close(self) -> None:
        """No more groups come."""
        ...


class TraceRows(Observer):
    """Makes the rows of the six tables and hands them to `sink`, group by group."""

    def __init__(
        self,
        sink: Sink,
        rate: float = 1.0,
        *,
        rows_per_group: int = ROWS_PER_GROUP,
        bytes_per_group: int = BYTES_PER_GROUP,
        link_period_s: float = LINK_PERIOD_S,
    ) -> None:
        self._sink = sink
        self._sampler = Sampler(rate)
        full = rows_per_group, bytes_per_group
        self._publications = BatchColumns(
            schemas.PUBLICATIONS,
            (*_BATCH, "qos", "size_bytes"),
            ("counter", "topic", "attributes"),
            *full,
        )
        self._hops = BatchColumns(
            schemas.HOPS,
            (*_BATCH, "came_from", "hops"),
            ("counter", "local_deliveries", "links"),
            *full,
        )
        self._deliveries = BatchColumns(
            schemas.DELIVERIES, (*_BATCH, "session", "delay_s", "hops", "qos"), ("counter",), *full
        )
        self._subscriptions = RowColumns(schemas.SUBSCRIPTIONS, *full)
        self._link_rows = RowColumns(schemas.LINKS, *full)
        self._moves = RowColumns(schemas.MOVES, *full)
        self._link_period_s = link_period_s
        self._links_due_at = float("-inf")
        self._link_counts: dict[tuple[str, str], list[float]] = {}
        self._rtts: dict[tuple[str, str], float] = {}
        self._last_at = 0.0
        self._columns: dict[str, BatchColumns | RowColumns] = {
            "publications": self._publications,
            "hops": self._hops,
            "deliveries": self._deliveries,
            "subscriptions": self._subscriptions,
            "links": self._link_rows,
            "moves": self._moves,
        }

    # --- events: sampled ---------------------------------------------------------------------

    def on_published(self, broker: str, batch: Batch, now: float) -> None:
        kept = self._kept(batch)
        if kept is None:
            return
        bodies = kept.bodies
        size_bytes = bodies.size_bytes() // len(kept)
        topics, attributes = [], []
        for told in bodies.every_attribute():
            topic = told.get(TOPIC)
            topics.append(None if topic is None else str(topic))
            attributes.append(_as_json(told))
        count = len(kept)
        text_bytes = sum(map(getsizeof, topics)) + sum(map(getsizeof, attributes))
        if self._publications.append(
            count,
            (kept.publisher, kept.incarnation, broker, now, kept.qos, size_bytes),
            (kept.counters, topics, attributes),
            text_bytes + count * len(kept.publisher),
        ):
            self._hand_over("publications")

    def on_handed_over(self, broker: str, peer: str, batch: Batch, now: float) -> None:
        """A tether is a link of its own; what goes over it has not been at a broker yet."""
        self._count_links(broker, batch, [(peer,)] * len(batch), now)

    def on_hop(self, hop: Matched, now: float) -> None:
        broker, came_from, batch, local, links = hop
        self._count_links(broker, batch, links, now)
        positions = self._sampler.kept(batch.publisher, batch.incarnation, batch.counters)
        count = len(positions)
        if not count:
            return
        counters = batch.counters
        if count < len(counters):
            counters = [counters[i] for i in positions]
            local = [local[i] for i in positions]
            links = [links[i] for i in positions]
        publisher = batch.publisher
        if self._hops.append(
            count,
            (publisher, batch.incarnation, broker, now, came_from, batch.hops_at(broker)),
            (counters, map(len, local), map(tuple, links)),
            count * len(publisher),
        ):
            self._hand_over("hops")

    def on_delivered(self, broker: str, session: str, batch: Batch, qos: int, now: float) -> None:
        positions = self._sampler.kept(batch.publisher, batch.incarnation, batch.counters)
        count = len(positions)
        if not count:
            return
        counters = batch.counters
        if count < len(counters):
            counters = [counters[i] for i in positions]
        publisher = batch.publisher
        delay_s, hops = now - batch.published_at, batch.hops_at(broker)
        if self._deliveries.append(
            count,
            (publisher, batch.incarnation, broker, now, session, delay_s, hops, qos),
            (counters,),
            count * (len(publisher) + len(session)),
        ):
            self._hand_over("deliveries")

    # --- subscriptions, links, moves: complete -----------------------------------------------

    def on_subscribed(
        self, broker: str, session: str, subscription: str, filter: Filter, now: float
    ) -> None:
        self._subscription(broker, session, subscription, now, "subscribed", render(filter))

    def on_settled(self, broker: str, session: str, subscription: str, now: float) -> None:
        self._subscription(broker, session, subscription, now, "settled", None)

    def on_unsubscribed(self, broker: str, session: str, subscription: str, now: float) -> None:
        self._subscription(broker, session, subscription, now, "unsubscribed", None)

    def on_link(self, broker: str, peer: str, change: LinkChange, now: float) -> None:
        self._link_row(broker, peer, now, change.value)

    def on_move(self, broker: str, move: Move, outcome: MoveOutcome, now: float) -> None:
        details = msgspec.json.encode(move).decode()
        kind = str(move.__struct_config__.tag)
        why = move.why
        if self._moves.append(
            move.id, kind, broker, now, outcome.value, why.reason, why.gain, why.cost, details
        ):
            self._hand_over("moves")

    def note_rtt(self, broker: str, peer: str, rtt_s: float) -> None:
        """The latest round trip of a link; drivers that measure it say so."""
        self._rtts[broker, peer] = rtt_s

    # --- handing over ------------------------------------------------------------------------

    def flush(self) -> None:
        """Hand over all waiting rows."""
        self._sweep_links(self._last_at)
        for table, columns in self._columns.items():
            if columns.rows:
                self._hand_over(table)

    def close(self) -> None:
        """Hand over what is waiting and end the sink."""
        self.flush()
        self._sink.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _hand_over(self, table: str) -> None:
        self._sink.put(table, self._columns[table].take())

    def _kept(self, batch: Batch) -> Batch | None:
        positions = self._sampler.kept(batch.publisher, batch.incarnation, batch.counters)
        return batch.select(positions) if positions else None

    def _subscription(
        self, broker: str, session: str, name: str, now: float, change: str, text: str | None
    ) -> None:
        self._last_at = max(self._last_at, now)
        if self._subscriptions.append(broker, session, name, now, change, text):
            self._hand_over("subscriptions")

    def _count_links(
        self, broker: str, batch: Batch, links: Sequence[Sequence[str]], now: float
    ) -> None:
        self._last_at = now
        if now >= self._links_due_at:
            self._sweep_links(now)
            self._links_due_at = now + self._link_period_s
        sent = Counter(chain.from_iterable(links))
        if not sent:
            return
        each_bytes = batch.bodies.size_bytes() / len(batch)
        for peer, events in sent.items():
            counts = self._link_counts.get((broker, peer))
            if counts is None:
                counts = self._link_counts[broker, peer] = [0, 0.0]
            counts[0] += events
            counts[1] += events * each_bytes

    def _sweep_links(self, now: float) -> None:
        for (broker, peer), (events, _) in self._link_counts.items():
            if events:
                self._link_row(broker, peer, now, None)

    def _link_row(self, broker: str, peer: str, now: float, state: str | None) -> None:
        self._last_at = max(self._last_at, now)
        counts = self._link_counts.setdefault((broker, peer), [0, 0.0])
        events, size_bytes = int(counts[0]), round(counts[1])
        counts[0], counts[1] = 0, 0.0
        rtt_s = self._rtts.get((broker, peer))
        if self._link_rows.append(broker, peer, now, state, events, size_bytes, rtt_s):
            self._hand_over("links")


class TraceWriter(TraceRows):
    """Writes the six tables below `directory` at once; `name` tells its files from others'."""

    def __init__(
        self,
        directory: str | Path,
        name: str,
        rate: float = 1.0,
        *,
        rows_per_group: int = ROWS_PER_GROUP,
        rows_per_file: int = ROWS_PER_FILE,
        link_period_s: float = LINK_PERIOD_S,
    ) -> None:
        super().__init__(
            TraceFiles(directory, name, rows_per_file),
            rate,
            rows_per_group=rows_per_group,
            link_period_s=link_period_s,
        )


def _as_json(attributes: Attributes) -> str | None:
    """All but the topic, which has a column of its own."""
    others = {name: value for name, value in attributes.items() if name != TOPIC}
    return _encode(others).decode() if others else None
