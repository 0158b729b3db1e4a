"""The enterprise workload on 63 brokers: the metric that is prioritised falls strongly."""

from __future__ import annotations

import math

import pytest

from gravitate.broker.observers import Observer
from gravitate.config import scenario
from gravitate.model.events import Batch
from gravitate.model.moves import Move, MoveOutcome
from gravitate.simulate.run import run_scenario
from gravitate.trace.metrics import Metrics, Summary
from tests.support.scenes import Watch

DURATION_S, SETTLED_S = 150.0, 110.0
BROKERS = [f"b{number:02}" for number in range(63)]

SCENARIO = """
name = "enterprise"
seed = 5
duration_s = {duration_s}
[network]
brokers = 63
latency_ms = [5.0, 40.0]
[workload]
publishers = 4
subscribers = 100
rate_msgs_per_s = 4.0
mix = "enterprise"
subscriber_brokers = {subscriber_brokers}
{mechanisms}
"""
GRAPE = "[mechanisms.grape]\nsession_publications = 100\nprioritised = '{}'"
POP = "[mechanisms.pop]\ntraces_min = 50\ntraced_max = 100"


class Late(Metrics):
    """The figures of what is published after most moves are over."""

    def __init__(self) -> None:
        super().__init__(since_s=math.inf)

    def on_published(self, broker: str, batch: Batch, now: float) -> None:
        self.since_s = min(self.since_s, now + SETTLED_S)
        super().on_published(broker, batch, now)


class Moves(Watch):
    """Also counts how often each publisher moves, and how many events came over links."""

    def __init__(self) -> None:
        super().__init__()
        self.of: dict[str, int] = {}
        self.arrivals = 0

    def on_move(self, broker: str, move: Move, outcome: MoveOutcome, now: float) -> None:
        super().on_move(broker, move, outcome, now)
        publisher = self.moves[-1][0].publisher
        self.of[publisher] = self.of.get(publisher, 0) + (outcome is MoveOutcome.DONE)


def figures(mechanisms: str, subscriber_brokers: int = 2) -> tuple[Summary, Moves]:
    text = SCENARIO.format(
        duration_s=DURATION_S, subscriber_brokers=subscriber_brokers, mechanisms=mechanisms
    )
    late, moves = Late(), Moves()
    observers: list[Observer] = [late, moves]
    result = run_scenario(scenario.loads(text), observers=observers, checks=False)
    assert result.is_sound()
    moves.arrivals = result.metrics.arrivals
    return late.summary(BROKERS), moves


@pytest.fixture(scope="module")
def static() -> Summary:
    summary, moves = figures("")
    assert moves.sent == {}
    return summary


def test_message_rates_fall_with_load_100(static: Summary) -> None:
    summary, moves = figures(GRAPE.format("load"))
    assert summary.broker_rate_msgs_per_s_mean < 0.6 * static.broker_rate_msgs_per_s_mean
    assert summary.delivered == static.delivered
    assert max(moves.of.values()) <= 2
    assert 0 < moves.sent["grape"] < 0.05 * moves.arrivals


def test_delay_falls_with_delay_100(static: Summary) -> None:
    summary, moves = figures(GRAPE.format("delay"))
    assert summary.delay_ms_mean < 0.5 * static.delay_ms_mean
    assert max(moves.of.values()) <= 3


def test_pop_brings_both_down(static: Summary) -> None:
    summary, moves = figures(POP)
    assert summary.delay_ms_mean < 0.6 * static.delay_ms_mean
    assert summary.broker_rate_msgs_per_s_mean < 0.8 * static.broker_rate_msgs_per_s_mean
    assert max(moves.of.values()) <= 3


def test_with_the_audience_on_one_broker_hardly_anything_is_left() -> None:
    before, _ = figures("", subscriber_brokers=1)
    for mechanisms in (GRAPE.format("load"), GRAPE.format("delay"), POP):
        after, _ = figures(mechanisms, subscriber_brokers=1)
        assert (before.arrivals > 0, after.arrivals) == (True, 0)
        assert after.delivered == before.delivered
