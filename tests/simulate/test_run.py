"""A script run as a world delivers what it expects, the same every time, faults or not."""

from __future__ import annotations

import msgspec
import pytest

from gravitate.broker.observers import Observer
from gravitate.config.scenario import load, loads
from gravitate.config.script import (
    CutLink,
    DelayLink,
    DisconnectClient,
    Fault,
    RestartBroker,
    Script,
    expected,
)
from gravitate.model.events import Batch
from gravitate.simulate.models import ServiceModel
from gravitate.simulate.run import run_scenario


@pytest.fixture(scope="module")
def small() -> Script:
    return load("small")


def test_everything_expected_is_delivered_once_in_order_and_nothing_else(small: Script) -> None:
    result = run_scenario(small)
    assert result.is_sound(), result.violations
    assert result.deliveries == expected(small)
    assert result.expected == result.delivered == result.metrics.delivered
    assert result.metrics.published == len(small.publications)


def test_two_runs_are_the_same_step_for_step(small: Script) -> None:
    assert run_scenario(small) == run_scenario(small)


def test_a_busy_broker_delays_but_loses_nothing(small: Script) -> None:
    at_ease = run_scenario(small)
    busy = run_scenario(small, service=ServiceModel(batch_s=0.004, event_s=0.001))
    assert busy.is_sound(), busy.violations
    assert busy.deliveries == at_ease.deliveries
    assert busy.metrics.delay_ms_p50 > at_ease.metrics.delay_ms_p50
    assert busy.steps < at_ease.steps, "a busy broker takes more at a time"


@pytest.mark.parametrize(
    "fault",
    [
        CutLink(0.5, 0.7, ("b01", "b02")),
        DelayLink(0.5, 1.0, ("b01", "b03"), 300.0),
        RestartBroker(0.5, 0.5, "b03"),
        DisconnectClient(0.5, 0.5, "sub-03"),
    ],
)
def test_faults_break_no_promise(small: Script, fault: Fault) -> None:
    result = run_scenario(msgspec.structs.replace(small, faults=(fault,)))
    assert result.violations == ()
    assert result.unexpected == 0
    if isinstance(fault, CutLink | DelayLink):
        assert result.missing == 0, "links keep what a cut loses"


def test_progress_runs_from_nothing_to_everything(small: Script) -> None:
    shares: list[float] = []
    run_scenario(small, progress=shares.append, checks=False)
    assert (shares[0], shares[-1]) == (0.0, 1.0)
    assert shares == sorted(shares)


def test_observers_of_the_caller_see_the_run(small: Script) -> None:
    class Counting(Observer):
        delivered = 0

        def on_delivered(
            self, broker: str, session: str, batch: Batch, qos: int, now: float
        ) -> None:
            self.delivered += len(batch)

    counting = Counting()
    result = run_scenario(small, observers=[counting], checks=False)
    assert counting.delivered == result.delivered


LINE = """
name = "line"
duration_s = 1.0
[network]
shape = "line"
brokers = 4
latency_ms = [10.0, 10.0]
[workload]
publishers = 1
subscribers = 0
rate_msgs_per_s = 10.0
"""


def test_metrics_count_hops_forwarders_and_delays_as_they_say() -> None:
    """One publisher and one subscriber at the ends of a line: two brokers only pass on."""
    script = loads(LINE)
    publisher = msgspec.structs.replace(script.clients[0], broker="b01")
    topic = script.publications[0].event.attributes["topic"]
    script = msgspec.structs.replace(
        loads(
            LINE
            + f'[[clients]]\nid = "me"\nbroker = "b04"\nsubscriptions = [{{ topic = "{topic}" }}]\n'
        )
    )
    script = msgspec.structs.replace(script, clients=(publisher, script.clients[1]))
    metrics = run_scenario(script).metrics
    assert metrics.delivered == metrics.published == 10
    assert metrics.hops_mean == 3.0
    assert (metrics.arrivals, metrics.pure_forwarders) == (30, 20)
    assert metrics.yield_share == pytest.approx(1 / 3)
    assert metrics.delay_ms_p50 == pytest.approx(30.0)
    sent_s = [publication.at_s for publication in script.publications]
    # From the first publication until the last has come along the line.
    assert metrics.observed_s == pytest.approx(sent_s[-1] - sent_s[0] + 0.03)
    rate = pytest.approx(20 / metrics.observed_s)
    assert metrics.broker_rates_msgs_per_s == dict.fromkeys(("b01", "b02", "b03", "b04"), rate)
