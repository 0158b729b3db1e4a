"""The stock-quote workload: shares as rated, brokers as mixed, the same rows for every cut."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import Literal

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gravitate.config.stock_tables import (
    CLASSES,
    StockQuotes,
    StockWorkload,
    problem,
    publications,
    publishers,
    subscriptions,
)
from gravitate.config.workload import stock_quotes
from gravitate.config.workload_tables import PUBLICATIONS, PUBLISHERS, SUBSCRIPTIONS
from gravitate.model.semantics import matches

BROKERS = tuple(f"b{number:02}" for number in range(1, 16))
Mix = Literal["random", "enterprise"]


def workload(publishers: int = 8, subscribers: int = 400, **options: object) -> StockWorkload:
    chosen = StockQuotes(publishers, subscribers, 2.0, **options)  # type: ignore[arg-type]
    return StockWorkload(chosen, BROKERS, 60.0, seed=5)


@given(st.integers(0, 7), st.integers(0, 30), st.lists(st.integers(0, 7)), st.integers(0, 99))
@settings(max_examples=40)
def test_any_cut_into_ranges_of_publishers_gives_the_same_rows(
    count: int, subscribers: int, cuts: list[int], seed: int
) -> None:
    options = StockQuotes(count, subscribers if count else 0, 2.0, "enterprise")
    whole = StockWorkload(options, BROKERS, 3.0, seed)
    bounds = [0, *sorted(cut for cut in cuts if cut <= count), count]
    ranges = list(pairwise(bounds))
    for make in (publishers, publications, lambda *args: subscriptions(*args).rows):
        parts = [make(whole, start, stop) for start, stop in ranges]
        assert pa.concat_tables(parts).equals(make(whole, 0, count))


def test_a_publisher_does_not_depend_on_how_many_others_there_are() -> None:
    few, many = workload(3, 30), workload(9, 90)
    assert publications(few, 1, 2)["attributes"] == publications(many, 1, 2)["attributes"]
    assert publishers(few, 1, 2).equals(publishers(many, 1, 2))
    conditions = [subscriptions(which, 1, 2).rows["condition"] for which in (few, many)]
    assert conditions[0] == conditions[1]


def test_tables_have_their_schemas_even_when_they_are_empty() -> None:
    for whole in (workload(), workload(0, 0)):
        everybody = (whole, 0, whole.options.publishers)
        assert publishers(*everybody).schema.equals(PUBLISHERS)
        assert publications(*everybody).schema.equals(PUBLICATIONS)
        assert subscriptions(*everybody).rows.schema.equals(SUBSCRIPTIONS)


@pytest.mark.parametrize("mix", ["random", "enterprise"])
def test_the_deliveries_that_are_counted_are_the_matches_by_the_definition(mix: Mix) -> None:
    whole = workload(subscribers=100, mix=mix)
    clients, published = stock_quotes(whole.options, BROKERS, 60.0, seed=5)
    made = subscriptions(whole, 0, 8)
    counted = dict(zip(made.rows["subscriber"].to_pylist(), made.deliveries.tolist(), strict=True))
    assert len(counted) == 100
    for client in clients:
        for subscription in client.subscriptions:
            filter = subscription.filter()
            got = sum(matches(filter, p.event.attributes) for p in published)
            assert counted[client.id] == got


def shares(mix: Mix, subscribers: int = 4000) -> dict[str, tuple[float, float]]:
    """Of each class: its share of the subscribers, and of its symbols' publications."""
    whole = workload(subscribers=subscribers, mix=mix)
    made = subscriptions(whole, 0, 8)
    found = {}
    for number, name in enumerate(CLASSES):
        here = made.classes == number
        if here.any():
            traffic = made.deliveries[here].mean() / whole.publications_each
            found[name] = (here.mean(), traffic)
    return found


def test_the_random_mix_is_mostly_low_with_some_medium_and_few_high() -> None:
    assert shares("random") == {
        "high": (pytest.approx(0.05, abs=0.015), 1.0),
        "medium": (pytest.approx(0.25, abs=0.03), pytest.approx(0.50, abs=0.01)),
        "low": (pytest.approx(0.70, abs=0.03), pytest.approx(0.10, abs=0.01)),
    }
    brokers = subscriptions(workload(), 0, 8).rows["broker"].to_pylist()
    assert set(brokers) == set(BROKERS)


def test_the_enterprise_mix_has_all_high_ones_on_one_broker_of_their_own() -> None:
    assert shares("enterprise") == {
        "high": (pytest.approx(0.05, abs=0.015), 1.0),
        "low": (pytest.approx(0.95, abs=0.015), pytest.approx(0.10, abs=0.01)),
    }
    made = subscriptions(workload(mix="enterprise"), 0, 8)
    brokers = Counter(zip(made.classes.tolist(), made.rows["broker"].to_pylist(), strict=True))
    high = {broker for rating, broker in brokers if CLASSES[rating] == "high"}
    others = {broker for rating, broker in brokers if CLASSES[rating] != "high"}
    assert len(high) == 1
    assert others == set(BROKERS) - high


@pytest.mark.parametrize("mix", ["random", "enterprise"])
@pytest.mark.parametrize("count", [1, 2, 6])
def test_subscribers_are_on_as_many_brokers_as_is_said(mix: Mix, count: int) -> None:
    made = subscriptions(workload(mix=mix, subscriber_brokers=count), 0, 8)
    assert len(set(made.rows["broker"].to_pylist())) == count


def test_subscribers_follow_the_symbols_in_turn() -> None:
    whole = workload(3, 10)
    topics = dict(
        zip(*subscriptions(whole, 0, 3).rows.select(["subscriber", "topic"]), strict=True)
    )
    for number in range(10):
        topic = topics[pa.scalar(f"sub-{number + 1:02}")].as_py()
        assert topic == f"stocks/{whole.symbol(number % 3)}"


def test_publications_are_a_regular_beat_from_a_drawn_phase() -> None:
    rows = publications(workload(), 2, 3)
    times = rows["at_s"].to_pylist()
    assert rows["number"].to_pylist() == list(range(1, 121))
    assert 0 <= times[0] < 0.5
    assert all(b - a == pytest.approx(0.5) for a, b in pairwise(times))
    assert times[-1] <= 60.0


def test_a_duration_of_whole_intervals_loses_no_publication_to_rounding() -> None:
    whole = StockWorkload(StockQuotes(rate_msgs_per_s=70 / 60), BROKERS, 1080.0, 1)
    assert whole.publications_each == 1260


@pytest.mark.parametrize(
    ("options", "name"),
    [
        (StockQuotes(publishers=-1), "publishers"),
        (StockQuotes(subscribers=-1), "subscribers"),
        (StockQuotes(publishers=0), "publishers"),
        (StockQuotes(rate_msgs_per_s=0.0), "rate_msgs_per_s"),
        (StockQuotes(rate_msgs_per_s=float("nan")), "rate_msgs_per_s"),
        (StockQuotes(payload_bytes=-1), "payload_bytes"),
        (StockQuotes(payload_bytes=2**31), "payload_bytes"),
        (StockQuotes(subscriber_brokers=16), "subscriber_brokers"),
    ],
)
def test_parameters_out_of_range_are_named(options: StockQuotes, name: str) -> None:
    found = problem(options, len(BROKERS))
    assert found is not None
    assert found[0] == name
    assert name in found[1]


def test_sound_parameters_have_no_problem() -> None:
    assert problem(StockQuotes(), 15) is None
    assert problem(StockQuotes(publishers=0, subscribers=0), 15) is None


def test_rows_stay_what_they_are_between_versions() -> None:
    whole = workload()
    assert publishers(whole, 0, 1).to_pylist() == [
        {
            "publisher": "pub-1",
            "broker": "b06",
            "advertisement": "topic = 'stocks/OMNI'",
            "rate_msgs_per_s": 2.0,
        }
    ]
    assert publications(whole, 0, 1).to_pylist()[7] == {
        "publisher": "pub-1",
        "number": 8,
        "at_s": 3.551412,
        "topic": "stocks/OMNI",
        "attributes": '{"class":"STOCK","symbol":"OMNI","open":197.07,"high":197.48,'
        '"low":195.79,"close":196.55,"volume":279272,"date":"2013-02-19","openClose%Diff":-0.2639,'
        '"highLow%Diff":0.8632,"closeEqualsLow":false,"closeEqualsHigh":false}',
        "payload_bytes": 0,
        "broker": None,
    }
    assert subscriptions(whole, 0, 1).rows.to_pylist()[0] == {
        "subscriber": "sub-001",
        "subscription": "quotes",
        "broker": "b07",
        "topic": "stocks/OMNI",
        "condition": '"volume" <= 264313',
        "from_s": 0.0,
        "until_s": None,
    }
