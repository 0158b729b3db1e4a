"""A trace writer: an observer that turns what brokers report into Parquet files.

One writer serves one broker or all brokers of a process or world; its name is part of the file
names, so writers share a directory without knowing each other. Events of the sample get rows in
`publications`, `hops` and `deliveries`; subscriptions, moves and the counts of links are always
complete. Rows wait in memory until there are `rows_per_group` of them.

Whoever attaches a writer must `close` it (it is a context manager): what is not closed has no
final name. Times are taken from the calls; no clock is read here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from types import TracebackType

import msgspec

from gravitate.broker.observers import Observer
from gravitate.model.events import TOPIC, Attributes, Batch
from gravitate.model.filters import Filter
from gravitate.model.language import render
from gravitate.model.moves import Move, MoveOutcome
from gravitate.trace import schemas
from gravitate.trace.columns import BatchColumns, RowColumns
from gravitate.trace.files import ROWS_PER_FILE, RollingFile
from gravitate.trace.sampling import Sampler

ROWS_PER_GROUP = 16_384
LINK_PERIOD_S = 1.0

_encode = msgspec.json.Encoder().encode
_BATCH = ("publisher", "incarnation", "broker", "at_s")


class TraceWriter(Observer):
    """Writes the six tables below `directory`; `name` tells this writer's files from others'."""

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
        self._sampler = Sampler(rate)
        self._rows_per_group = rows_per_group
        self._publications = BatchColumns(
            schemas.PUBLICATIONS,
            (*_BATCH, "qos", "size_bytes"),
            ("counter", "topic", "attributes"),
        )
        self._hops = BatchColumns(
            schemas.HOPS,
            (*_BATCH, "came_from", "hops"),
            ("counter", "local_deliveries", "links"),
        )
        self._deliveries = BatchColumns(
            schemas.DELIVERIES, (*_BATCH, "session", "delay_s", "hops", "qos"), ("counter",)
        )
        self._subscriptions = RowColumns(schemas.SUBSCRIPTIONS)
        self._link_rows = RowColumns(schemas.LINKS)
        self._moves = RowColumns(schemas.MOVES)
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
        target = Path(directory)
        self._files = {
            table: RollingFile(target, table, schema, name, rows_per_file)
            for table, schema in schemas.TABLES.items()
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
        self._publications.append(
            len(kept),
            (kept.publisher, kept.incarnation, broker, now, kept.qos, size_bytes),
            (kept.counters, topics, attributes),
        )
        if self._publications.rows >= self._rows_per_group:
            self._write("publications")

    def on_handed_over(self, broker: str, peer: str, batch: Batch, now: float) -> None:
        """A tether is a link of its own; what goes over it has not been at a broker yet."""
        self._count_links(broker, batch, [(peer,)] * len(batch), now)

    def on_hop(
        self,
        broker: str,
        came_from: str | None,
        batch: Batch,
        local: Sequence[Sequence[str]],
        links: Sequence[Sequence[str]],
        now: float,
    ) -> None:
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
        self._hops.append(
            count,
            (
                batch.publisher,
                batch.incarnation,
                broker,
                now,
                came_from,
                batch.hops_at(broker),
            ),
            (counters, map(len, local), map(tuple, links)),
        )
        if self._hops.rows >= self._rows_per_group:
            self._write("hops")

    def on_delivered(self, broker: str, session: str, batch: Batch, qos: int, now: float) -> None:
        positions = self._sampler.kept(batch.publisher, batch.incarnation, batch.counters)
        count = len(positions)
        if not count:
            return
        counters = batch.counters
        if count < len(counters):
            counters = [counters[i] for i in positions]
        delay_s, hops = now - batch.published_at, batch.hops_at(broker)
        self._deliveries.append(
            count,
            (batch.publisher, batch.incarnation, broker, now, session, delay_s, hops, qos),
            (counters,),
        )
        if self._deliveries.rows >= self._rows_per_group:
            self._write("deliveries")

    # --- subscriptions, links, moves: complete -----------------------------------------------

    def on_subscribed(
        self, broker: str, session: str, subscription: str, filter: Filter, now: float
    ) -> None:
        self._subscription(broker, session, subscription, now, "subscribed", render(filter))

    def on_settled(self, broker: str, session: str, subscription: str, now: float) -> None:
        self._subscription(broker, session, subscription, now, "settled", None)

    def on_unsubscribed(self, broker: str, session: str, subscription: str, now: float) -> None:
        self._subscription(broker, session, subscription, now, "unsubscribed", None)

    def on_link(self, broker: str, peer: str, state: str, now: float) -> None:
        self._link_row(broker, peer, now, state)

    def on_move(self, broker: str, move: Move, outcome: MoveOutcome, now: float) -> None:
        details = msgspec.json.encode(move).decode()
        kind = str(move.__struct_config__.tag)
        why = move.why
        self._moves.append(
            move.id, kind, broker, now, outcome.value, why.reason, why.gain, why.cost, details
        )
        if self._moves.rows >= self._rows_per_group:
            self._write("moves")

    def note_rtt(self, broker: str, peer: str, rtt_s: float) -> None:
        """The latest round trip of a link; drivers that measure it say so."""
        self._rtts[broker, peer] = rtt_s

    # --- writing -----------------------------------------------------------------------------

    def flush(self) -> None:
        """Hand all waiting rows to the files."""
        self._sweep_links(self._last_at)
        for table, columns in self._columns.items():
            if columns.rows:
                self._write(table)

    def close(self) -> None:
        """Write what is waiting and give the files their names."""
        self.flush()
        for file in self._files.values():
            file.close()

    def __enter__(self) -> TraceWriter:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _write(self, table: str) -> None:
        self._files[table].write(self._columns[table].take())

    def _kept(self, batch: Batch) -> Batch | None:
        positions = self._sampler.kept(batch.publisher, batch.incarnation, batch.counters)
        return batch.select(positions) if positions else None

    def _subscription(
        self, broker: str, session: str, name: str, now: float, change: str, text: str | None
    ) -> None:
        self._last_at = max(self._last_at, now)
        self._subscriptions.append(broker, session, name, now, change, text)
        if self._subscriptions.rows >= self._rows_per_group:
            self._write("subscriptions")

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
        self._link_rows.append(broker, peer, now, state, events, size_bytes, rtt_s)
        if self._link_rows.rows >= self._rows_per_group:
            self._write("links")


def _as_json(attributes: Attributes) -> str | None:
    """All but the topic, which has a column of its own."""
    others = {name: value for name, value in attributes.items() if name != TOPIC}
    return _encode(others).decode() if others else None
