"""Real connections before a real core, fed with nonsense: brokers go on, others do not notice."""

from __future__ import annotations

import asyncio

import pytest
from tests.client.moving import address_of, live
from tests.serve.hostile import Attacker, Bystanders, everything
from tests.serve.mqtt.talk import on_loop


def noticed(bystanders: Bystanders) -> tuple[int, int, bool]:
    """What two that behave have missed, got twice, and whether it came in order."""
    got = bystanders.numbers
    in_order = bystanders.order == sorted(bystanders.order)
    return bystanders.sent - len(got), got.total() - len(got), in_order


@pytest.mark.parametrize("seed", [1, 2])
def test_two_brokers_take_whatever_clients_send(seed: int) -> None:
    async def body() -> None:
        async with live("b1", "b2") as running:
            one, two = address_of(running, "b1"), address_of(running, "b2")
            bystanders = Bystanders(one, two)
            await bystanders.start()
            attackers = [
                Attacker((one, two)[n % 2], 10 * seed + n, 1_500, damage)
                for n, damage in enumerate((0.3, 0.03, 0.01))
            ]
            await asyncio.gather(*(attacker.run() for attacker in attackers))
            await bystanders.stop()
            assert noticed(bystanders) == (0, 0, True)
            for node in running.nodes.values():
                assert node.failures.counts == {"clients": 0, "links": 0, "watchers": 0}

    on_loop(body)


@pytest.mark.slow
@pytest.mark.processor_time(300)
def test_a_hundred_thousand_packets_a_slow_reader_and_half_connects_cost_little() -> None:
    found = asyncio.run(everything(100_000, 3))
    assert (found["bystander_missing"], found["bystander_doubled"]) == (0, 0)
    assert found["bystander_in_order"]
    assert found["memory_mb_more"] < 150
    assert [found["counters"][f"{kind}_failed"] for kind in ("clients", "links", "watchers")] == [
        0, 0, 0,
    ]  # fmt: skip
    assert found["tables"] == {"subscriptions": 0, "advertisements": 0}
