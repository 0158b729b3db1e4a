"""Quotes look like quotes, spread as real ones do, and a longer series begins with the shorter."""

from __future__ import annotations

import math
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gravitate.config import quotes
from gravitate.config.quotes import History, Quotes, attributes_json, drawn, joined, symbol


def columns(series: Quotes) -> list[list[Any]]:
    return [getattr(series, name).tolist() for name in Quotes.__struct_fields__]


def test_symbols_are_distinct_words_also_beyond_those_of_four_letters() -> None:
    many = [symbol(1, index) for index in (*range(2000), *range(26**4, 26**4 + 2000))]
    assert len(set(many)) == 4000
    assert {len(word) for word in many[:2000]} == {4}
    assert {len(word) for word in many[2000:]} == {5}
    assert all(word.isalpha() and word.isupper() for word in many)
    assert symbol(2, 0) != symbol(1, 0)


@given(st.integers(0, 2**40), st.integers(0, 10**6), st.integers(0, 40), st.integers(0, 40))
def test_a_longer_series_begins_with_the_shorter(
    seed: int, index: int, count: int, more: int
) -> None:
    short, long = columns(drawn(seed, index, count)), columns(drawn(seed, index, count + more))
    assert short == [column[:count] for column in long]


@given(st.integers(0, 1000), st.integers(0, 50))
def test_a_quote_agrees_with_itself(seed: int, index: int) -> None:
    series = drawn(seed, index, 200)
    assert np.all(series.low <= np.minimum(series.open, series.close))
    assert np.all(series.high >= np.maximum(series.open, series.close))
    assert np.all(series.low > 0)
    assert np.all(series.volume >= 0)
    assert np.all(np.diff(series.day) >= 1)
    assert series.close.tolist() == [round(price, 2) for price in series.close.tolist()]


def test_prices_stay_in_their_range_however_long_the_walk() -> None:
    series = drawn(1, 0, 200_000)
    assert series.high.max() / series.low.min() < math.exp(2 * quotes.WALK_MAX + 1.0)
    assert series.day.max() < np.datetime64("2040-01-01").astype(int)


def test_the_spread_over_symbols_and_days_is_the_one_it_is_fitted_to() -> None:
    series = [drawn(1, index, 1259) for index in range(300)]
    day = [np.std(np.log(one.close / one.open)) for one in series]
    night = [np.std(np.log(one.open[1:] / one.close[:-1])) for one in series]
    volume = [np.log(np.maximum(one.volume, 1)) for one in series]
    assert np.exp(np.mean(np.log(day))) == pytest.approx(0.0124, rel=0.05)
    assert np.std(np.log(day)) == pytest.approx(0.257, rel=0.15)
    assert np.exp(np.mean(np.log(night))) == pytest.approx(0.0086, rel=0.05)
    assert np.mean([one.mean() for one in volume]) == pytest.approx(14.62, abs=0.15)
    assert np.std([one.mean() for one in volume]) == pytest.approx(0.95, rel=0.15)
    assert np.mean([one.std() for one in volume]) == pytest.approx(0.45, rel=0.05)
    memory = [np.corrcoef(one[1:], one[:-1])[0, 1] for one in volume]
    assert np.mean(memory) == pytest.approx(0.60, abs=0.03)
    every = joined(series)
    assert np.mean(every.close == every.high) == pytest.approx(0.012, abs=0.006)


def test_attributes_are_those_of_a_stock_quote() -> None:
    one, two = drawn(1, 0, 3), drawn(1, 1, 2)
    found = [
        msgspec.json.decode(text)
        for text in attributes_json(["ONE", "TWO"], [3, 2], joined([one, two]))
    ]
    assert [quote["symbol"] for quote in found] == ["ONE"] * 3 + ["TWO"] * 2
    first = found[0]
    opening, close = first["open"], first["close"]
    assert list(first) == [
        "class",
        "symbol",
        "open",
        "high",
        "low",
        "close",
        "volume",
        "date",
        "openClose%Diff",
        "highLow%Diff",
        "closeEqualsLow",
        "closeEqualsHigh",
    ]
    assert first["class"] == "STOCK"
    assert first["date"] == "2013-02-08"
    assert first["openClose%Diff"] == pytest.approx(100 * (close - opening) / opening, abs=1e-4)
    assert first["closeEqualsHigh"] is (close == first["high"])
    assert isinstance(first["volume"], int)


def test_a_history_is_played_from_its_first_day_and_again_when_it_is_over() -> None:
    prices = np.array([10_0000, 20_0000, 30_0000])
    history = History(
        symbols=("A", "B"),
        starts=np.array([0, 1, 3]),
        day=np.array([100, 200, 201]),
        open=prices,
        high=prices - 5,
        low=prices + 5,
        close=prices,
        volume=np.array([7, 8, 9]),
    )
    series = history.quotes(1, 5)
    assert series.volume.tolist() == [8, 9, 8, 9, 8]
    assert series.open.tolist() == [20.0, 30.0, 20.0, 30.0, 20.0]
    assert series.high.tolist() == series.low.tolist() == series.open.tolist()
    assert history.quotes(0, 0).open.tolist() == []
