"""Stock quotes look like quotes, and subscribers get the shares their rating says."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from gravitate.config.workload import StockQuotes, quotes, stock_quotes, symbols
from gravitate.model.semantics import matches

BROKERS = [f"b{number:02}" for number in range(1, 16)]


def test_symbols_are_distinct() -> None:
    found = symbols(200, random.Random(1))
    assert len(set(found)) == 200


def test_a_quote_has_the_attributes_of_a_day_and_they_agree() -> None:
    found = quotes("ABCD", 300, random.Random(1))
    assert len(found) == 300
    for quote in found:
        opening, high, low, close = (
            float(quote[name]) for name in ("open", "high", "low", "close")
        )
        assert low <= min(opening, close) <= max(opening, close) <= high
        assert quote["closeEqualsHigh"] == (close == high)
        assert quote["closeEqualsLow"] == (close == low)
        assert quote["topic"] == "stocks/ABCD"
        assert float(quote["highLow%Diff"]) >= 0
    assert any(quote["closeEqualsHigh"] for quote in found)


def shares(mix: str) -> tuple[dict[str, float], dict[str, str]]:
    """Per subscriber the share of its symbol's quotes that it gets, and its broker."""
    options = StockQuotes(publishers=8, subscribers=400, rate_msgs_per_s=2.0, mix=mix)  # type: ignore[arg-type]
    clients, publications = stock_quotes(options, BROKERS, 60.0, seed=5)
    found, brokers = {}, {}
    for client in clients:
        for subscription in client.subscriptions:
            filter = subscription.filter()
            got = sum(matches(filter, p.event.attributes) for p in publications)
            found[client.id] = got / 120
            brokers[client.id] = client.broker
    return found, brokers


def rating(share: float) -> str:
    return "high" if share > 0.8 else "medium" if share > 0.3 else "low"


def test_the_random_mix_is_mostly_low_with_some_medium_and_few_high() -> None:
    found, brokers = shares("random")
    counts = Counter(map(rating, found.values()))
    assert counts["low"] / 400 == pytest.approx(0.70, abs=0.06)
    assert counts["medium"] / 400 == pytest.approx(0.25, abs=0.06)
    assert counts["high"] / 400 == pytest.approx(0.05, abs=0.03)
    low = [share for share in found.values() if rating(share) == "low"]
    assert sum(low) / len(low) == pytest.approx(0.10, abs=0.02)
    assert len(set(brokers.values())) == len(BROKERS)


def test_the_enterprise_mix_has_all_high_ones_on_one_broker_of_their_own() -> None:
    found, brokers = shares("enterprise")
    high = {brokers[client] for client, share in found.items() if rating(share) == "high"}
    others = {brokers[client] for client, share in found.items() if rating(share) != "high"}
    assert len(high) == 1
    assert not high & others
