"""What a run measured: who its subscribers are, and which stores are fit to be evaluated."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gravitate.errors import FileError
from gravitate.pipeline.evaluate import measured
from gravitate.pipeline.store.store import BatchRecord, Store, StoreManifest
from gravitate.pipeline.tables import schemas


def test_subscribers_are_those_who_are_left_each_at_its_last_broker(spark: Any) -> None:
    changes = [
        # stays, with two subscriptions
        ("b1", "stays", "one", 1.0, "subscribed"),
        ("b1", "stays", "one", 1.5, "settled"),
        ("b1", "stays", "two", 2.0, "subscribed"),
        # moves, and its former broker never says that it has gone
        ("b1", "moves", "one", 1.0, "subscribed"),
        ("b2", "moves", "one", 5.0, "subscribed"),
        # moves and comes back within an instant
        ("b2", "returns", "one", 1.0, "subscribed"),
        ("b2", "returns", "one", 3.0, "unsubscribed"),
        ("b3", "returns", "one", 3.0, "subscribed"),
        # ends one of two
        ("b3", "keeps", "one", 1.0, "subscribed"),
        ("b2", "keeps", "two", 2.0, "subscribed"),
        ("b2", "keeps", "two", 4.0, "unsubscribed"),
        # ends all
        ("b1", "leaves", "one", 1.0, "subscribed"),
        ("b1", "leaves", "one", 1.0, "unsubscribed"),
    ]
    frame = spark.createDataFrame(
        [(*change, None) for change in changes], schemas.TRACES["subscriptions"]
    )
    assert {row.session: row.broker for row in measured.subscribers(frame).collect()} == {
        "stays": "b1",
        "moves": "b2",
        "returns": "b3",
        "keeps": "b3",
    }


@pytest.mark.parametrize(
    ("taken_through", "derived_through", "recorded"), [(3, 2, ()), (3, 3, (4,)), (-1, -1, ())]
)
def test_a_store_without_all_its_tables_is_refused(
    tmp_path: Path, taken_through: int, derived_through: int, recorded: tuple[int, ...]
) -> None:
    store = Store(tmp_path)
    store.save(
        StoreManifest(
            network="",
            clock="virtual",
            taken_through=taken_through,
            derived_through=derived_through,
        )
    )
    for number in recorded:
        store.record(number, BatchRecord(files=1, rows={}, periods=()))
    with pytest.raises(FileError, match=r"has not all tables .* run `gravitate ingest RUN`"):
        measured.check(store)


def test_every_round_trip_counts_once_in_the_mean_of_a_link(spark: Any) -> None:
    """Whatever period it was measured in, and however many were."""
    rows = [(0, "b1", "b2", 5, 50, 0.9, 9), (1, "b1", "b2", 1, 10, 0.2, 1)]
    rows.append((0, "b2", "b1", 0, 0, 0.0, 0))
    found = measured._links(spark.createDataFrame(rows, schemas.LINK_LOAD))
    assert found["b1", "b2"] == measured.LinkCounts(6.0, 60.0, pytest.approx(0.11))
    assert found["b2", "b1"].rtt_s_mean is None


def test_a_store_with_all_its_tables_is_accepted(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.save(StoreManifest(network="", clock="virtual", taken_through=3, derived_through=3))
    store.record(3, BatchRecord(files=1, rows={}, periods=()))
    measured.check(store)
