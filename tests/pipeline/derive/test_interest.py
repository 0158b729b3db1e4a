"""Common interest in shares: what is found does not depend on how words are dealt out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gravitate.pipeline.derive.filters import FilterShape
from gravitate.pipeline.derive.interest import Share, added_up, counting, dealt, needed, reach
from gravitate.pipeline.tables import schemas

PERIOD_S = 60.0
WORDS = 150
PERIODS = 12


@pytest.fixture(scope="module")
def profiles(tmp_path_factory: pytest.TempPathFactory) -> dict[int, list[Path]]:
    """Three brokers, each with some bits of every word, spread over two spans; a file a broker."""
    random = np.random.default_rng(3)
    folder = tmp_path_factory.mktemp("profiles")
    files: dict[int, list[Path]] = {}
    for period in range(PERIODS):
        numbers = range(period, WORDS, PERIODS)
        for broker in ("b1", "b2", "b3"):
            rows = pa.table(
                {
                    "publisher": [f"p{number % 7}" for number in numbers],
                    "incarnation": [1 for _ in numbers],
                    "broker": [broker for _ in numbers],
                    "word": list(numbers),
                    "bits": [int(random.integers(1, 2**62)) for _ in numbers],
                    "deliveries": [1 for _ in numbers],
                }
            )
            file = folder / f"{period}-{broker}.parquet"
            pq.write_table(rows, file)
            files.setdefault(period, []).append(file)
    return files


def test_a_span_with_many_rows_is_dealt_out(profiles: dict[int, list[Path]]) -> None:
    shares = dealt(profiles, PERIOD_S, rows_per_share=50)
    around = {0: range(10), 8: range(6, PERIODS)}
    for first, periods in around.items():
        own = [share for share in shares if share.periods[0] == first]
        rows = sum(len(range(period, WORDS, PERIODS)) * 3 for period in periods)
        assert [share.number for share in own] == list(range(-(-rows // 50)))
        assert {share.shares for share in own} == {len(own)}
        for share in own:
            assert [period for period, _ in share.files[::3]] == list(periods)
    assert {period for share in shares for period in share.periods} == set(range(PERIODS))


def test_of_a_span_only_what_is_asked_for_is_computed(profiles: dict[int, list[Path]]) -> None:
    (share,) = dealt(profiles, PERIOD_S, periods={2, 5, 77})
    assert share.periods == (2, 5)
    assert {period for period, _ in share.files} == set(range(10))


def test_shares_add_up_to_the_whole(spark: Any, profiles: dict[int, list[Path]]) -> None:
    def found(shares: list[Share]) -> dict[tuple[Any, ...], tuple[int, int]]:
        numbers = spark.range(0, len(shares), 1, 3)
        counts = numbers.mapInArrow(counting(shares, PERIOD_S), schemas.COMMON_INTEREST)
        rows = added_up(counts).collect()
        return {tuple(row)[:3]: tuple(row)[3:] for row in rows}

    whole = found(dealt(profiles, PERIOD_S))
    shared = found(dealt(profiles, PERIOD_S, rows_per_share=50))
    assert {key: events for key, (events, _) in shared.items()} == {
        key: events for key, (events, _) in whole.items()
    }
    assert len(whole) == 6 * PERIODS
    assert all(events <= bloom <= 1.02 * events + 2 for events, bloom in shared.values())


def test_without_profiles_there_is_nothing_to_do() -> None:
    assert dealt({}, PERIOD_S) == []


def test_a_share_of_a_filter_is_as_full_as_the_whole() -> None:
    assert FilterShape().share(1) == FilterShape()
    assert FilterShape().share(8) == FilterShape(bits=12_500, ids_max=1_024)


def test_periods_need_their_whole_span_and_what_is_around_it() -> None:
    around = reach(PERIOD_S)
    assert needed({-1, 3}, PERIOD_S) == set(range(-8 - around, 8 + around))
