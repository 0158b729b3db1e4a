"""`gravitate apply` with a plan that moves subscribers, on a running network under traffic."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

import pytest
from tests.cli.test_apply import plan_for, ran
from tests.client.moving import address_of, asked, client, live
from tests.client.test_following_subscribers import Ear, voices
from tests.serve.conftest import eventually
from tests.serve.mqtt.talk import on_loop

from gravitate.config import network as network_file
from gravitate.config import plan as plans
from gravitate.errors import FileError
from gravitate.model.moves import Rationale, ReassignSubscriber
from gravitate.serve.control.network import LiveNetwork

CHAIN = tuple(f"b{number}" for number in range(1, 7))
SUBSCRIBERS = 30


def reassignment(subscriber: str, source: str, target: str) -> ReassignSubscriber:
    first, last = CHAIN.index(source), CHAIN.index(target)
    step = 1 if first < last else -1
    path = CHAIN[first : last + step if last + step >= 0 else None : step]
    why = Rationale("its broker gets this anyway", 5.0, float(len(path) - 1), {"filters": 2.0})
    return ReassignSubscriber("", subscriber, source, target, why, path)


def written(folder: Path, running: LiveNetwork, *moves: ReassignSubscriber) -> tuple[Path, Path]:
    network_file.save(running.network, folder / "network.toml")
    plans.save(plan_for(running.network, *moves), folder / "plan.json")
    return folder / "plan.json", folder / "network.toml"


async def served(running: LiveNetwork) -> dict[str, set[str]]:
    """Who each broker serves, as it tells."""
    pages = {id: await asked(address_of(running, id).http, "GET", "/subscribers") for id in CHAIN}
    return {
        id: {name for name in page["clients"] if name.startswith("s")}
        for id, (_, page) in pages.items()
    }


def test_thirty_subscribers_are_reassigned_and_taken_back_under_traffic(tmp_path: Path) -> None:
    places = {f"s{n}": (CHAIN[n % 6], CHAIN[(n + 1 + n % 5) % 6]) for n in range(SUBSCRIBERS)}

    async def body() -> None:
        async with live(*CHAIN) as running, contextlib.AsyncExitStack() as stack:
            ears = []
            for number, (name, (source, _)) in enumerate(places.items()):
                # Every third stays connected where it is, as a stock client would.
                one = client(running, source, name, follow=number % 3 > 0)
                ears.append(Ear(await stack.enter_async_context(one)))
                await ears[-1].subscribe(number % 2)
            moves = [reassignment(name, *there) for name, there in places.items()]
            plan, network = written(tmp_path, running, *moves)
            async with voices(running, "b6") as speakers:
                await speakers.reach(10)
                applied = json.loads((await ran("apply", plan, network, "--json")).stdout)
                assert applied["done"] == SUBSCRIBERS, applied["carried"]
                await speakers.reach(10)
                where = await served(running)
                for name, (_, target) in places.items():
                    assert [id for id, names in where.items() if name in names] == [target]
                with pytest.raises(FileError, match="subscriber 's0' is at b2, the plan has it"):
                    await ran("apply", plan, network)
                listed = json.loads((await ran("moves", network, "--json")).stdout)
                assert {it["state"] for it in listed["moves"]} == {"done"}
                explained = await ran("explain", "s7", network)
                assert "its broker gets this anyway" in explained.stdout
                undone = json.loads((await ran("apply", applied["undo"], network, "--json")).stdout)
                assert undone["done"] == SUBSCRIBERS, undone["carried"]
                await speakers.reach(10)
                published = await speakers.stop()
            for ear in ears:
                await ear.has_all(published)
            assert [len(names) for names in (await served(running)).values()] == [5] * 6
            assert sum(ear.client.reconnects for ear in ears) == 0
            brokers = [node.broker for node in running.nodes.values()]
            await eventually(lambda: not any(len(broker.guests) for broker in brokers))

    on_loop(body)


def test_a_subscriber_that_has_gone_is_named_and_can_be_skipped(tmp_path: Path) -> None:
    async def body() -> None:
        async with live(*CHAIN) as running, client(running, "b1", "s1") as one:
            await Ear(one).subscribe(1)
            moves = reassignment("gone", "b1", "b2"), reassignment("s1", "b1", "b3")
            plan, network = written(tmp_path, running, *moves)
            with pytest.raises(FileError, match="subscriber 'gone' is not connected, the plan has"):
                await ran("apply", plan, network)
            applied = await ran("apply", plan, network, "--keep-going", "--json")
            told = json.loads(applied.stdout)
            assert [it["outcome"] for it in told["carried"]] == ["skipped", "done"]
            (back,) = plans.load(told["undo"]).moves
            assert isinstance(back, ReassignSubscriber)
            assert (back.subscriber, back.source, back.target) == ("s1", "b3", "b1")
            assert back.path == ("b3", "b2", "b1")

    on_loop(body)
