"""Changing interests: what users hold at any time, by each pattern."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

import pytest

from gravitate.errors import InputError
from gravitate.pipeline.workloads import poisson
from gravitate.pipeline.workloads.generate import in_process
from gravitate.pipeline.workloads.making import parameters_of

SMALL = {"subscribers": 300, "brokers": 10, "topics": 100, "modes": 10}


def rows(**changes: Any) -> dict[str, list[dict[str, Any]]]:
    made = poisson.make(parameters_of(poisson.DEFINITION, SMALL | changes), 3, None)
    return {plan.table: in_process(plan, 3).to_pylist() for plan in made.plans}


def test_defaults_are_the_papers() -> None:
    defaults = poisson.PoissonTopics()
    assert (defaults.subscribers, defaults.brokers, defaults.topics) == (50_000, 100, 1000)
    assert (defaults.topics_each, defaults.modes) == (5, 100)
    assert (defaults.duration_s, defaults.step_s) == (100 * 3600.0, 3600.0)


@pytest.mark.parametrize("pattern", ["uniform", "zipf", "multimodal"])
def test_a_user_holds_five_different_topics_at_all_times(pattern: str) -> None:
    by_user = defaultdict(list)
    for row in rows(pattern=pattern, skew=2.0)["subscriptions"]:
        by_user[row["subscriber"]].append(row)
    assert len(by_user) == 300
    for held in by_user.values():
        assert len({row["broker"] for row in held}) == 1
        for hour in range(100):
            now = [
                row
                for row in held
                if row["from_s"] <= hour * 3600 < (row["until_s"] or float("inf"))
            ]
            assert len({row["topic"] for row in now}) == len(now) == 5
            assert len({row["subscription"] for row in now}) == 5


def test_changes_come_at_whole_steps_and_as_often_as_said() -> None:
    found = rows(subscribers=2000)["subscriptions"]
    assert all(row["from_s"] % 3600 == 0 for row in found)
    assert len(found) == pytest.approx(2000 * (5 + 0.1 * 100), rel=0.03)


def test_multimodal_users_stay_in_their_mode() -> None:
    modes = defaultdict(set)
    for row in rows()["subscriptions"]:
        modes[row["subscriber"]].add((int(row["topic"][-3:]) - 1) // 10)
    assert all(len(mine) == 1 for mine in modes.values())
    assert {mode for mine in modes.values() for mode in mine} == set(range(10))


def test_zipf_popularity_falls_by_the_power() -> None:
    found = rows(pattern="zipf", subscribers=20_000, topics_each=1, changes_per_h=0.0)
    counts = Counter(row["topic"] for row in found["subscriptions"])
    first, ninth = counts["topics/t001"], counts["topics/t009"]
    assert first / ninth == pytest.approx(5.0, rel=0.15)  # (1 + 1) ** -1 over (9 + 1) ** -1


def test_a_skew_that_leaves_hardly_a_choice_still_gives_different_topics() -> None:
    found = rows(pattern="zipf", topics=6, topics_each=5, skew=40.0, subscribers=20)
    assert found["subscriptions"]


def test_publications_are_on_every_topic_at_the_rate() -> None:
    found = rows()["publications"]
    assert len(found) == pytest.approx(100 * 100, rel=0.05)
    assert len({row["topic"] for row in found}) == 100


def test_more_topics_each_than_a_mode_has_are_refused() -> None:
    with pytest.raises(InputError, match=r"topics_each 10 .* at most 9"):
        rows(topics_each=10)
