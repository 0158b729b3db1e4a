"""Notification types: brokers drawn by load, costs within their bounds, chains of subscribers."""

from __future__ import annotations

import itertools
from collections import Counter
from typing import Any

import numpy as np
import pytest

from gravitate.errors import InputError
from gravitate.pipeline.workloads import psoop
from gravitate.pipeline.workloads.generate import in_process
from gravitate.pipeline.workloads.making import parameters_of
from gravitate.pipeline.workloads.psoop import drawn_brokers, link_costs

SMALL = {"network": {"transit_domains": 2, "transit_nodes": 3, "stub_nodes": 10}, "brokers": 30}


def rows(seed: int = 1, **changes: Any) -> dict[str, list[dict[str, Any]]]:
    parameters = parameters_of(psoop.DEFINITION, SMALL | changes)
    made = psoop.make(parameters, seed, None)
    return {plan.table: in_process(plan, seed).to_pylist() for plan in made.plans}


def test_defaults_are_the_papers() -> None:
    defaults = psoop.Psoop()
    assert (defaults.brokers, defaults.notifications, defaults.subscriber_brokers) == (100, 50, 9)
    assert (defaults.rate_per_tick, defaults.expiry_per_tick) == (0.2, 0.0004)


def test_every_pair_of_brokers_has_a_cost_from_0_to_10() -> None:
    tables = rows()
    names = [row["broker"] for row in tables["brokers"]]
    pairs = [(row["broker"], row["peer"]) for row in tables["links"]]
    assert sorted(pairs) == [(a, b) for a in names for b in names if a < b]
    costs = [row["cost"] for row in tables["links"]]
    assert min(costs) == 0.0
    assert max(costs) == pytest.approx(10.0)
    assert all(0.0 <= row["processing_cost"] <= 10.0 for row in tables["brokers"])


@pytest.mark.parametrize(("alpha", "link", "processing"), [(0.0, 20, 0), (0.25, 15, 5), (1, 0, 20)])
def test_alpha_shifts_cost_from_links_to_brokers(
    alpha: float, link: float, processing: float
) -> None:
    tables = rows(alpha=alpha)
    assert max(row["cost"] for row in tables["links"]) == pytest.approx(link)
    highest = max(row["processing_cost"] for row in tables["brokers"])
    assert 0.7 * processing <= highest <= processing


def test_a_type_has_one_publisher_and_nine_different_brokers() -> None:
    found = rows()["notifications"]
    assert [row["notification"] for row in found] == list(range(50))
    for row in found:
        assert len(set(row["subscribers"])) == 9
        assert row["subscribers"] == sorted(row["subscribers"])
        assert row["rate_per_tick"] == 0.2


def test_subscriptions_begin_as_notifications_say_and_follow_each_other_elsewhere() -> None:
    tables = rows()
    chains: dict[str, list[dict[str, Any]]] = {}
    for row in tables["subscriptions"]:
        chains.setdefault(row["subscriber"].rpartition("-")[0], []).append(row)
    assert len(chains) == 50 * 9
    first: dict[str, list[str]] = {}
    for chain in chains.values():
        assert chain[0]["from_s"] == 0.0
        assert chain[-1]["until_s"] is None
        first.setdefault(chain[0]["topic"], []).append(chain[0]["broker"])
        for before, after in itertools.pairwise(chain):
            assert before["until_s"] == after["from_s"] > before["from_s"]
            assert before["broker"] != after["broker"]
            assert before["topic"] == after["topic"]
    wanted = {
        f"notifications/{row['notification']}": row["subscribers"]
        for row in tables["notifications"]
    }
    assert {topic: sorted(brokers) for topic, brokers in first.items()} == wanted
    ended = len(tables["subscriptions"]) - len(chains)
    assert ended == pytest.approx(450 * 30, rel=0.05)  # 0.0004 a tick over 75,000 ticks


def test_other_draws_change_their_costs_alone() -> None:
    before = rows()
    links = rows(link_draw=1)
    assert links["links"] != before["links"]
    assert links["brokers"] == before["brokers"]
    assert links["notifications"] == before["notifications"]
    processing = rows(processing_draw=1)
    assert processing["links"] == before["links"]
    assert processing["brokers"] != before["brokers"]
    assert [row["weight"] for row in processing["brokers"]] == [
        row["weight"] for row in before["brokers"]
    ]


def test_brokers_are_drawn_by_weight_without_repetition() -> None:
    """The chance to be among two of three by weights 6, 3, 1, counted out."""
    drawn = drawn_brokers(np.random.default_rng(1), 20_000, np.array([6.0, 3.0, 1.0]), 2)
    counts = Counter(drawn.ravel().tolist())
    expected = {
        0: 0.6 + 0.3 * 6 / 7 + 0.1 * 6 / 9,
        1: 0.3 + 0.6 * 3 / 4 + 0.1 * 3 / 9,
        2: 0.1 + 0.6 * 1 / 4 + 0.3 * 1 / 7,
    }
    for broker, chance in expected.items():
        assert counts[broker] / 20_000 == pytest.approx(chance, abs=0.015)


def test_equal_distances_cost_nothing_and_unreachable_brokers_are_refused() -> None:
    same = np.array([[0.0, 3.0], [3.0, 0.0]])
    assert link_costs(same, 10.0)[0, 1] == 0.0
    with pytest.raises(InputError, match="not connected"):
        link_costs(np.array([[0.0, np.inf], [np.inf, 0.0]]), 10.0)


def test_more_brokers_than_places_or_subscribers_than_brokers_are_refused() -> None:
    with pytest.raises(InputError, match="500 brokers do not fit"):
        rows(brokers=500)
    with pytest.raises(InputError, match="subscriber_brokers 31"):
        rows(subscriber_brokers=31)
