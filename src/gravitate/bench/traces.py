"""Traces of a busy network, made without running it: what the pipeline is measured on.

A balanced tree of 63 brokers, hundreds of publishers, each event wanted at some brokers and passed
along the tree to them: publications, hops, deliveries and links agree with each other as those of
a real run do. Written as brokers write: every broker its own rolling files, rows in time order.

Time is cut into *blocks*. A block's events follow from the seed and its number alone, so each
task makes all events of a block, arrays at a time, and writes the rows of its own brokers. Knows
nothing of Spark beyond the function that tasks run (`write_share`).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from gravitate.config import network
from gravitate.config.build import shaped
from gravitate.trace import schemas
from gravitate.trace.columns import ROWS_PER_GROUP
from gravitate.trace.files import RollingFile
from gravitate.trace.manifest import RunManifest
from gravitate.trace.writer import LINK_PERIOD_S

BLOCK_S: Final = 60.0
Array = NDArray[Any]


class Traffic(msgspec.Struct, frozen=True):
    """What is going on in the network."""

    brokers: int = 63
    publishers: int = 300
    rate_msgs_per_s: float = 1.2
    """Of one publisher."""
    interested_share: float = 0.05
    """Of the brokers, for each publisher."""
    seed: int = 1

    @property
    def events_per_block(self) -> int:
        """Of one publisher."""
        return max(1, round(self.rate_msgs_per_s * BLOCK_S))


class Scene:
    """The network and who wants what; the same for every block."""

    def __init__(self, traffic: Traffic) -> None:
        self.traffic = traffic
        self.network = shaped("balanced-tree", traffic.brokers, fanout=2, link_ms=20.0)
        self.names = [broker.id for broker in self.network.brokers]
        near = self.network.topology().near()
        number = {name: i for i, name in enumerate(self.names)}
        self.neighbours = [[number[other] for other in near[name]] for name in self.names]
        random = np.random.default_rng([traffic.seed, 0])
        count = traffic.brokers
        latency_s = np.triu(random.uniform(0.005, 0.04, (count, count)))
        self.latency_s = latency_s + latency_s.T
        self.parent = np.full((count, count), -1)
        self.depth = np.zeros((count, count), dtype=np.int16)
        self.distance_s = np.zeros((count, count))
        self.orders = [self._ways_from(root) for root in range(count)]
        self.home = random.integers(0, count, traffic.publishers)
        shape = traffic.publishers, count
        interested = random.random(shape) < traffic.interested_share
        self.chance = (interested * random.choice([0.2, 0.5, 1.0], shape)).astype(np.float32)
        self.sessions = random.geometric(0.5, shape).astype(np.int32)
        self.publisher_names = pa.array([f"ticker-{i:03d}" for i in range(traffic.publishers)])
        self.topics = pa.array([f"stocks/{i:03d}" for i in range(traffic.publishers)])
        self.sizes_bytes = random.integers(120, 400, traffic.publishers).astype(np.int32)

    def _ways_from(self, root: int) -> list[int]:
        """Brokers from the nearest to the farthest; notes how each is reached."""
        order = [root]
        for broker in order:
            for other in self.neighbours[broker]:
                if other != self.parent[root, broker]:
                    self.parent[root, other] = broker
                    self.depth[root, other] = self.depth[root, broker] + 1
                    way_s = self.distance_s[root, broker] + self.latency_s[broker, other]
                    self.distance_s[root, other] = way_s
                    order.append(other)
        return order


class Block:
    """The events of one stretch of time and the brokers they come to; arrays by broker, event."""

    def __init__(self, scene: Scene, number: int) -> None:
        traffic = scene.traffic
        random = np.random.default_rng([traffic.seed, 1, number])
        each = traffic.events_per_block
        self.number = number
        self.publisher = np.repeat(np.arange(traffic.publishers), each)
        step = np.tile(np.arange(each), traffic.publishers)
        self.counter = step + number * each
        moment = (step + random.random(len(step))) / each
        self.published_at_s = (number + moment) * BLOCK_S
        self.home = scene.home[self.publisher]
        draws = random.random((traffic.brokers, len(step)), dtype=np.float32)
        self.wanted = draws < scene.chance.T[:, self.publisher]
        self.visited = self.wanted.copy()
        for home in np.unique(self.home).tolist():
            events = np.flatnonzero(self.home == home)
            visited = self.visited[:, events]
            for broker in reversed(scene.orders[home][1:]):
                visited[scene.parent[home, broker]] |= visited[broker]
            visited[home] = True
            self.visited[:, events] = visited

    @property
    def hops(self) -> int:
        """Rows of `hops` in this block."""
        return int(self.visited.sum())


class _Share:
    """One broker's tables: rows gathered into groups as its writer would."""

    def __init__(self, directory: Path, broker: str) -> None:
        self._files = {
            table: RollingFile(directory, table, schemas.TABLES[table], broker)
            for table in ("publications", "hops", "deliveries", "links")
        }
        self._waiting: dict[str, list[pa.Table]] = {table: [] for table in self._files}

    def add(self, table: str, columns: dict[str, Any]) -> None:
        schema = schemas.TABLES[table]
        waiting = self._waiting[table]
        waiting.append(pa.table([columns[name] for name in schema.names], schema=schema))
        if sum(rows.num_rows for rows in waiting) >= ROWS_PER_GROUP:
            rows = pa.concat_tables(waiting).combine_chunks()
            whole = rows.num_rows - rows.num_rows % ROWS_PER_GROUP
            for start in range(0, whole, ROWS_PER_GROUP):
                self._files[table].write(rows.slice(start, ROWS_PER_GROUP))
            self._waiting[table] = [rows.slice(whole)]

    def close(self) -> None:
        for table, waiting in self._waiting.items():
            rows = pa.concat_tables(waiting) if waiting else None
            if rows is not None and rows.num_rows:
                self._files[table].write(rows.combine_chunks())
            self._files[table].close()


def write_share(
    directory: Path, traffic: Traffic, blocks: range, share: int, shares: int
) -> dict[str, int]:
    """Write the rows of every `shares`-th broker from `share` on; how many of each table."""
    scene = Scene(traffic)
    mine = range(share, traffic.brokers, shares)
    writers = {broker: _Share(directory, scene.names[broker]) for broker in mine}
    rows = dict.fromkeys(("publications", "hops", "deliveries", "links"), 0)
    for number in blocks:
        block = Block(scene, number)
        for broker, writer in writers.items():
            for table, columns in broker_rows(scene, block, broker).items():
                writer.add(table, columns)
                rows[table] += len(columns["at_s"])
    for writer in writers.values():
        writer.close()
    return rows


def save_manifest(directory: Path, traffic: Traffic) -> None:
    """Write what a reader of the tables needs to know beside them."""
    RunManifest(network.render(Scene(traffic).network), "virtual", seed=traffic.seed).save(
        directory
    )


def broker_rows(scene: Scene, block: Block, broker: int) -> dict[str, dict[str, Any]]:
    """The columns of the rows that one broker writes about a block."""
    random = np.random.default_rng([scene.traffic.seed, 2, block.number, broker])
    events = np.flatnonzero(block.visited[broker])
    home = block.home[events]
    hops = scene.depth[home, broker]
    queued_s = random.exponential(0.001, len(events)) * (hops + 1)
    at_s = block.published_at_s[events] + scene.distance_s[home, broker] + queued_s
    order = np.argsort(at_s, kind="stable")
    events, home, hops, at_s = events[order], home[order], hops[order], at_s[order]
    publisher = block.publisher[events]
    local = np.where(block.wanted[broker, events], scene.sessions[publisher, broker], 0)
    goes = np.zeros((len(events), len(scene.neighbours[broker])), dtype=np.bool_)
    for i, other in enumerate(scene.neighbours[broker]):
        goes[:, i] = block.visited[other, events] & (scene.parent[home, other] == broker)
    tables = {
        "hops": {
            **_ids(scene, block, events, broker),
            "came_from": _names(scene).take(_none_below_zero(scene.parent[home, broker])),
            "at_s": at_s,
            "hops": hops,
            "local_deliveries": local.astype(np.int32),
            "links": _lists(scene, broker, goes),
        },
        "links": _link_rows(scene, block, broker, at_s, publisher, goes, random),
    }
    again = np.repeat(np.arange(len(events)), local)
    which = np.arange(len(again)) - np.repeat(np.cumsum(local) - local, local)
    delay_s = at_s - block.published_at_s[events]
    tables["deliveries"] = {
        **_ids(scene, block, events[again], broker),
        "session": _sessions(scene, broker).take(pa.array((publisher[again] + which) % 40)),
        "at_s": at_s[again],
        "delay_s": delay_s[again],
        "hops": hops[again],
        "qos": (which % 2).astype(np.int8),
    }
    first = events[home == broker]
    tables["publications"] = {
        **_ids(scene, block, first, broker),
        "at_s": block.published_at_s[first],
        "topic": scene.topics.take(pa.array(block.publisher[first])),
        "qos": np.zeros(len(first), dtype=np.int8),
        "size_bytes": scene.sizes_bytes[block.publisher[first]],
        "attributes": pa.nulls(len(first), pa.string()),
    }
    return tables


def _ids(scene: Scene, block: Block, events: Array, broker: int) -> dict[str, Any]:
    return {
        "publisher": scene.publisher_names.take(pa.array(block.publisher[events])),
        "incarnation": np.ones(len(events), dtype=np.int64),
        "counter": block.counter[events],
        "broker": _names(scene).take(pa.array(np.full(len(events), broker))),
    }


def _names(scene: Scene) -> pa.Array:
    return pa.array(scene.names)


def _sessions(scene: Scene, broker: int) -> pa.Array:
    return pa.array([f"trader-{scene.names[broker]}-{i:02d}" for i in range(40)])


def _none_below_zero(positions: Array) -> pa.Array:
    return pa.array(positions, mask=positions < 0)


def _lists(scene: Scene, broker: int, goes: Array) -> pa.Array:
    names = pa.array([scene.names[other] for other in scene.neighbours[broker]], pa.string())
    offsets = np.concatenate([[0], np.cumsum(goes.sum(axis=1))]).astype(np.int32)
    values = names.take(pa.array(np.nonzero(goes)[1]))
    field = schemas.HOPS.field("links").type.value_field
    return pa.ListArray.from_arrays(pa.array(offsets), values).cast(pa.list_(field))


def _link_rows(
    scene: Scene,
    block: Block,
    broker: int,
    at_s: Array,
    publisher: Array,
    goes: Array,
    random: np.random.Generator,
) -> dict[str, Any]:
    """A row for each neighbour and second in which something went there."""
    others = scene.neighbours[broker]
    # What is under way when the block ends is written down with the next second.
    seconds = int(BLOCK_S / LINK_PERIOD_S) + 5
    second = np.minimum((at_s - block.number * BLOCK_S) // LINK_PERIOD_S, seconds - 1)
    slot = second.astype(np.int64)[:, None] * len(others) + np.arange(len(others))
    weight = np.broadcast_to(scene.sizes_bytes[publisher][:, None], goes.shape)
    events = np.bincount(slot[goes], minlength=seconds * len(others))
    sizes = np.bincount(slot[goes], weight[goes], minlength=seconds * len(others))
    used = np.flatnonzero(events)
    peer = used % len(others)
    latency_s = scene.latency_s[broker, np.array(others)[peer]]
    return {
        "broker": _names(scene).take(pa.array(np.full(len(used), broker))),
        "peer": _names(scene).take(pa.array(np.array(others)[peer])),
        "at_s": block.number * BLOCK_S + (used // len(others) + 1) * LINK_PERIOD_S,
        "state": pa.nulls(len(used), pa.string()),
        "events": events[used],
        "size_bytes": sizes[used].astype(np.int64),
        "rtt_s": 2 * latency_s + random.exponential(0.001, len(used)),
    }
