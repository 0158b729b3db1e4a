"""Faults, and brokers that end though nobody has ended them."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest
import uvloop

from gravitate.config.build import shaped
from gravitate.serve.control.network import on_free_ports
from gravitate.torture import faults
from gravitate.torture.brokers import Broker, Brokers
from gravitate.torture.clients import Publisher, Subscriber
from gravitate.torture.faults import FAULTS
from gravitate.torture.ledger import STAYING, ClientSpec, Ledger, Role
from gravitate.torture.proxies import Proxies
from gravitate.torture.scene import Scene

BOUND_S = 30.0
UNTIL = 1.0


def on_loop(body: Coroutine[Any, Any, None]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(BOUND_S):
            await body

    uvloop.run(bounded())


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    """Two brokers that do not run, a publisher and a subscriber at each; it is always the
    beginning."""
    network = on_free_ports(shaped("line", 2))
    proxies = Proxies(network)
    brokers = Brokers({spec.id: proxies.view(spec.id) for spec in network.brokers}, tmp_path)
    publishing = [ClientSpec(f"p-{it.id}", Role.PUBLISHER, it.id) for it in network.brokers]
    wanting = [ClientSpec(f"s-{it.id}", Role.SUBSCRIBER, it.id, STAYING) for it in network.brokers]
    ledger = Ledger([*publishing, *wanting])
    addresses = {spec.id: spec.address for spec in network.brokers}

    def clock() -> float:
        return 0.0

    yield Scene(
        network,
        ledger,
        brokers,
        proxies,
        [Publisher(spec, addresses[spec.home], ledger, clock) for spec in publishing],
        [Subscriber(spec, addresses[spec.home], ledger, clock) for spec in wanting],
        frozenset(),
        random.Random(1),
        clock,
    )
    brokers.close()


def start_in_vain(broker: Broker, directory: Path) -> None:
    """Start it with a file that it cannot read."""
    (directory / f"{broker.id}.toml").write_text("this is no network")
    broker.start()


async def until_noted(brokers: Brokers) -> None:
    watching = asyncio.create_task(brokers.watch())
    while not brokers.ended:
        await asyncio.sleep(0.05)
    watching.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await watching


def test_a_broker_that_ended_by_itself_is_noted_once_and_not_stopped_again(
    scene: Scene, tmp_path: Path
) -> None:
    async def body() -> None:
        broker = scene.brokers.by_id["b01"]
        start_in_vain(broker, tmp_path)
        await until_noted(scene.brokers)
        assert not broker.runs
        broker.resume()
        await scene.brokers.stop()
        assert scene.brokers.ended == ["b01 ended by itself with status 2"]

    on_loop(body())


def test_one_that_ended_just_before_all_are_stopped_is_noted_too(
    scene: Scene, tmp_path: Path
) -> None:
    async def body() -> None:
        broker = scene.brokers.by_id["b01"]
        start_in_vain(broker, tmp_path)
        while broker.runs:
            await asyncio.sleep(0.05)
        await scene.brokers.stop()
        assert scene.brokers.ended == ["b01 ended by itself with status 2"]

    on_loop(body())


def test_only_brokers_that_run_are_chosen_and_only_publishers_that_have_one(scene: Scene) -> None:
    scene.brokers.by_id["b02"].start()
    brokers = [scene.any_broker() for _ in range(20)]
    assert [one.id for one in brokers if one] == 20 * ["b02"]
    publishers = [scene.any_publisher() for _ in range(20)]
    assert [one.spec.home for one in publishers if one] == 20 * ["b02"]
    assert scene.problems == []


@pytest.mark.parametrize(
    ("fault", "problem"),
    [
        ("kill", "no broker was left at 0.0 s"),
        ("pause", "no broker was left at 0.0 s"),
        ("slow", "no publisher had a broker at 0.0 s"),
        ("large", "no publisher had a broker at 0.0 s"),
        ("burst", "no two brokers were left at 0.0 s that a burst could go between"),
    ],
)
def test_a_fault_ends_with_a_problem_when_no_broker_is_left(
    scene: Scene, fault: str, problem: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scene, "primary_links", list)  # Slow ones would go on by the clock.
    on_loop(FAULTS[fault](scene, UNTIL))  # type: ignore[arg-type]
    assert problem in scene.problems


def test_no_burst_goes_to_a_broker_that_has_ended(scene: Scene) -> None:
    scene.brokers.by_id["b01"].start()
    on_loop(FAULTS["burst"](scene, UNTIL))  # type: ignore[arg-type]
    assert "no two brokers were left at 0.0 s that a burst could go between" in scene.problems
    assert scene.faults == 0


def test_nobody_waits_for_a_publisher_whose_broker_has_ended(scene: Scene, tmp_path: Path) -> None:
    """It is not connected, and never will be."""

    async def body() -> None:
        broker = scene.brokers.by_id["b01"]
        start_in_vain(broker, tmp_path)
        publisher = scene.publishers[0]
        assert not await faults._while_it_runs(broker, publisher.publish("extra", 10))

    on_loop(body())


def test_what_is_done_at_a_broker_that_runs_is_done(scene: Scene) -> None:
    async def body() -> None:
        broker = scene.brokers.by_id["b01"]
        broker.start()
        assert await faults._while_it_runs(broker, asyncio.sleep(0))

    on_loop(body())
