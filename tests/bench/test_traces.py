"""Made traces agree with themselves as those of a real run do."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gravitate.bench.traces import BLOCK_S, Block, Scene, Traffic, save_manifest, write_share
from gravitate.config import network
from gravitate.trace import manifest, reader

TRAFFIC = Traffic(brokers=7, publishers=5, rate_msgs_per_s=0.2, interested_share=0.4)
BLOCKS = range(3)
UNDER_WAY_S_MAX = 1.0
"""Events that are under way when a block ends come after the first of the next."""

Rows = dict[str, list[dict[str, Any]]]


def _event(row: dict[str, Any]) -> tuple[Any, ...]:
    return row["publisher"], row["incarnation"], row["counter"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made")
    for share in range(2):
        write_share(folder, TRAFFIC, BLOCKS, share, 2)
    save_manifest(folder, TRAFFIC)
    return folder


@pytest.fixture(scope="module")
def rows(folder: Path) -> Rows:
    tables = ("publications", "hops", "deliveries", "links")
    return {table: reader.read(folder, table).to_pylist() for table in tables}


def test_every_event_has_one_first_broker_and_every_other_got_it_from_one_that_sent_it(
    rows: Rows,
) -> None:
    hops = {(_event(row), row["broker"]): row for row in rows["hops"]}
    assert len(hops) == len(rows["hops"])
    sent = {(_event(row), peer, row["broker"]) for row in rows["hops"] for peer in row["links"]}
    came = {
        (_event(row), row["broker"], row["came_from"]) for row in rows["hops"] if row["came_from"]
    }
    assert sent == came
    firsts = Counter(_event(row) for row in rows["hops"] if row["came_from"] is None)
    assert firsts == Counter(_event(row) for row in rows["publications"])
    assert set(firsts.values()) == {1}
    for (event, _), row in hops.items():
        before = hops.get((event, row["came_from"]))
        assert row["hops"] == (before["hops"] + 1 if before else 0)


def test_nothing_travels_to_where_nobody_wants_it(rows: Rows) -> None:
    ends = [row for row in rows["hops"] if row["came_from"] and not row["links"]]
    assert ends
    assert all(row["local_deliveries"] for row in ends)


def test_deliveries_are_what_hops_announce(rows: Rows) -> None:
    announced = Counter(
        {(_event(row), row["broker"]): row["local_deliveries"] for row in rows["hops"]}
    )
    assert +announced == Counter((_event(row), row["broker"]) for row in rows["deliveries"])
    published = {_event(row): row["at_s"] for row in rows["publications"]}
    for row in rows["deliveries"]:
        assert row["delay_s"] > 0
        assert row["at_s"] - row["delay_s"] == pytest.approx(published[_event(row)])


def test_links_count_what_hops_sent(rows: Rows) -> None:
    carried: Counter[tuple[str, str]] = Counter()
    for row in rows["links"]:
        carried[row["broker"], row["peer"]] += row["events"]
    assert carried == Counter(
        (row["broker"], peer) for row in rows["hops"] for peer in row["links"]
    )


def test_counters_are_consecutive_over_blocks(rows: Rows) -> None:
    counters = sorted(row["counter"] for row in rows["publications"] if row["publisher"][-1] == "0")
    assert counters == list(range(len(BLOCKS) * TRAFFIC.events_per_block))
    assert max(row["at_s"] for row in rows["publications"]) < len(BLOCKS) * BLOCK_S


def test_files_are_those_of_brokers_in_order_of_time(folder: Path) -> None:
    names = {broker.id for broker in network.loads(manifest.load(folder).network).brokers}
    for file in reader.files(folder, "hops"):
        rows = reader.read_file(file, "hops")
        (broker,) = set(rows["broker"].to_pylist())
        assert broker in names
        assert file.name.startswith(f"part-{broker}-")
        at_s = rows["at_s"].to_numpy()
        assert (np.diff(at_s) > -UNDER_WAY_S_MAX).all()


def test_a_block_follows_from_its_number_alone() -> None:
    one, other = (Block(Scene(TRAFFIC), 2) for _ in range(2))
    assert (one.visited == other.visited).all()
    assert (one.published_at_s == other.published_at_s).all()
    assert one.hops == one.visited.sum()
