"""Common interest in shares: what is found does not depend on how words are dealt out."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np
import pytest

from gravitate.pipeline import schemas
from gravitate.pipeline.derive import interest
from gravitate.pipeline.derive.filters import FilterShape
from gravitate.pipeline.derive.interest import common_interest, dealt, needed, reach

PERIOD_S = 60.0
WORDS = 150


@pytest.fixture(scope="module")
def profiles(spark: Any) -> Any:
    """Three brokers, each with some bits of every word, spread over two spans."""
    random = np.random.default_rng(3)
    rows = [
        (period, f"p{number % 7}", 1, broker, number, int(random.integers(1, 2**62)), 1)
        for number in range(WORDS)
        for broker in ("b1", "b2", "b3")
        for period in (number % 12,)
    ]
    return spark.createDataFrame(rows, schemas.PUBLISHER_PROFILES)


def test_a_span_with_many_rows_is_dealt_out_by_words(profiles: Any) -> None:
    rows = dealt(profiles, PERIOD_S, rows_per_share=50).collect()
    sizes: dict[int, int] = defaultdict(int)
    shares: dict[tuple[Any, ...], set[int]] = defaultdict(set)
    for row in rows:
        sizes[row["span"]] += 1
        shares[row["span"], row["publisher"], row["incarnation"], row["word"]].add(row["share"])
    assert all(len(found) == 1 for found in shares.values())
    for span, size in sizes.items():
        count = -(-size // 50)
        assert {row["shares"] for row in rows if row["span"] == span} == {count}
        used = {share for key, found in shares.items() if key[0] == span for share in found}
        assert used == set(range(count))
    assert max(sizes.values()) > 150


def test_shares_add_up_to_the_whole(profiles: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def found() -> dict[tuple[Any, ...], tuple[int, int]]:
        rows = common_interest(profiles, PERIOD_S).collect()
        return {tuple(row)[:3]: tuple(row)[3:] for row in rows}

    whole = found()
    monkeypatch.setattr(interest, "dealt", lambda profiles, period_s: dealt(profiles, period_s, 50))
    shared = found()
    assert {key: events for key, (events, _) in shared.items()} == {
        key: events for key, (events, _) in whole.items()
    }
    assert all(events <= bloom <= 1.02 * events + 2 for events, bloom in shared.values())


def test_a_share_of_a_filter_is_as_full_as_the_whole() -> None:
    assert FilterShape().share(1) == FilterShape()
    assert FilterShape().share(8) == FilterShape(bits=12_500, ids_max=1_024)


def test_periods_need_their_whole_span_and_what_is_around_it() -> None:
    around = reach(PERIOD_S)
    assert needed({-1, 3}, PERIOD_S) == set(range(-8 - around, 8 + around))
