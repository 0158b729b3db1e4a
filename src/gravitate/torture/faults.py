"""What goes wrong in a run: one function a kind, all of them in `FAULTS`.

A fault goes on until a time, draws what it does from the scene's generator, notes it, and leaves
everything mended. Nothing that it does may cost more than is promised: one broker or one link at a
time, but for links that are slow. Brokers that ended by themselves are left alone; when nobody is
left that it needs, a fault ends early with a problem.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final, NamedTuple

from gravitate.operate.rolling import Step, roll
from gravitate.torture.brokers import Broker
from gravitate.torture.clients import Client, Publisher
from gravitate.torture.ledger import EXTRA, KILLED, RESTARTED, Disturbance, Link, link
from gravitate.torture.scene import EXCUSE_S_MAX, Scene

OTHER_LINKS: Final = 0.25
"""Share of cuts that are not of primary links."""
SLOW_BYTES_PER_S: Final = 400_000.0
SLOW_PAYLOAD_BYTES: Final = 1_000_000
LARGE_PAYLOAD_BYTES: Final = 4_000_000
QUEUED_EVENTS: Final = 30_000
BURST_PAYLOAD_BYTES: Final = 32
BURST_EVENTS_MAX: Final = 40_000
"""Not all of them need go where they are wanted to queue."""
DRAINED_EVENTS: Final = 50
DRAIN_S_MAX: Final = 20.0
ROLL_S_MAX: Final = 60.0
LOOK_EVERY_S: Final = 0.1
LULL_S: Final = (6.0, 7.0)
"""So long that silence can be told from a disturbance."""

Fault = Callable[[Scene, float], Awaitable[None]]


async def restart(scene: Scene, until: float) -> None:
    """Rolling restarts, as `gravitate restart` does them."""
    order = list(scene.brokers.by_id)
    while scene.now() < until:
        scene.generator.shuffle(order)
        for broker in order:
            if scene.now() < until:
                await restart_one(scene, broker)
                await scene.pause_between(0.2, 2.0, until)
        await scene.pause_between(*LULL_S, until)


async def restart_one(scene: Scene, broker: str) -> None:
    disturbances: list[Disturbance] = []

    def tell(id: str, step: Step) -> None:
        if step is Step.ASKED:
            disturbances.append(scene.ledger.disturb(id, RESTARTED, scene.now()))

    scene.faults += 1
    result = await asyncio.to_thread(roll, scene.network, [broker], ROLL_S_MAX, tell)
    for one in disturbances:
        one.ended_at = scene.now()
    if result.failed:
        scene.problems.append(f"{broker} was not restarted at {scene.now():.1f} s: {result.reason}")


async def kill(scene: Scene, until: float) -> None:
    """kill -9 of a random broker, started again after a moment."""
    while scene.now() < until and (broker := scene.any_broker()) is not None:
        async with scene.disturbed(broker.id, KILLED, recovers_s=0.0):
            await broker.kill()
            await scene.pause_between(0.1, 4.0, until)
            broker.start()
            await broker.await_ready(EXCUSE_S_MAX)
        await scene.pause_between(1.0, LULL_S[1], until)


async def pause(scene: Scene, until: float) -> None:
    """SIGSTOP and SIGCONT of a random broker: for a second, or for longer than links wait."""
    while scene.now() < until and (broker := scene.any_broker()) is not None:
        longest_s = scene.generator.choice([2.0, 6.0, 20.0])
        async with scene.disturbed(broker.id, "paused"):
            await _paused(scene, broker, longest_s, until)
        await scene.pause_between(1.0, 5.0, until)


async def _paused(scene: Scene, broker: Broker, longest_s: float, until: float) -> None:
    broker.pause()
    try:
        await scene.pause_between(1.0, longest_s, until)
    finally:
        broker.resume()


async def cut(scene: Scene, until: float) -> None:
    """Cuts and black holes of a link: of a primary one mostly, else of one that tethers may use."""
    links = scene.primary_links()
    others = [spot for spot in scene.proxies.by_link if spot not in links]
    while scene.now() < until:
        is_other = scene.generator.random() < OTHER_LINKS and bool(others)
        spot = scene.generator.choice(others if is_other else links)
        longest_s = scene.generator.choice([1.0, 4.0, 15.0])
        is_hole = scene.generator.random() < 0.5
        async with scene.disturbed(spot, "a black hole" if is_hole else "cut"):
            await _cut(scene, spot, is_hole, longest_s, until)
        await scene.pause_between(1.0, 5.0, until)


async def _cut(scene: Scene, spot: Link, is_hole: bool, longest_s: float, until: float) -> None:
    proxy = scene.proxies.by_link[spot]
    if is_hole:
        proxy.hole()
    else:
        await proxy.cut()
    try:
        await scene.pause_between(0.1, longest_s, until)
    finally:
        await proxy.mend()


async def slow(scene: Scene, until: float) -> None:
    """Some links carry 400 kB/s, others after a while, and now and then something of 1 MB."""
    links = scene.primary_links()
    async with asyncio.TaskGroup() as group:
        for spot in links:
            generator = random.Random(scene.generator.random())
            group.create_task(_slow_now_and_then(scene, spot, generator, until))
        group.create_task(_now_and_then(scene, SLOW_PAYLOAD_BYTES, 8.0, until))


async def _slow_now_and_then(
    scene: Scene, spot: Link, generator: random.Random, until: float
) -> None:
    proxy = scene.proxies.by_link[spot]
    if generator.random() < 0.5:
        await scene.pause_between(4.0, 12.0, until, generator)
    while scene.now() < until:
        async with scene.disturbed(spot, "slow"):
            proxy.slow(SLOW_BYTES_PER_S)
            await scene.pause_between(8.0, 20.0, until, generator)
            await proxy.mend()
        await scene.pause_between(4.0, 12.0, until, generator)


async def large(scene: Scene, until: float) -> None:
    """Publications of 4 MB, every few seconds."""
    await _now_and_then(scene, LARGE_PAYLOAD_BYTES, 2.0, until)


async def _now_and_then(scene: Scene, payload_bytes: int, every_s: float, until: float) -> None:
    while scene.now() < until and (publisher := scene.any_publisher()) is not None:
        scene.faults += 1
        home = scene.brokers.by_id[publisher.spec.home]
        await _while_it_runs(home, publisher.publish(EXTRA, payload_bytes))
        await scene.pause_between(0.5 * every_s, 1.5 * every_s, until)


async def _while_it_runs(broker: Broker, deed: Coroutine[Any, Any, None]) -> bool:
    """Do what cannot be done without a broker; whether it was done before the broker ended."""
    doing = asyncio.create_task(deed)
    try:
        while broker.runs:
            done, _ = await asyncio.wait([doing], timeout=LOOK_EVERY_S)
            if done:
                await doing
                return True
        return False
    finally:
        doing.cancel()


async def burst(scene: Scene, until: float) -> None:
    """Bursts towards a link where nothing passes or a broker that is paused, until 30,000 events
    are queued for it; then they are let through."""
    places = _burst_places(scene)
    while places and scene.now() < until:
        able = [one for one in places if one.near.runs and one.far.runs]
        if not able:
            scene.problems.append(
                f"no two brokers were left at {scene.now():.1f} s that a burst could go between"
            )
            break
        publisher, near, far = scene.generator.choice(able)
        if scene.generator.random() < 0.5:
            await _burst_at_pause(scene, publisher, near, far)
        else:
            await _burst_at_hole(scene, publisher, near, far)
        await scene.pause_between(1.0, 3.0, until)
    if scene.queued_most < QUEUED_EVENTS:
        scene.problems.append(
            f"{scene.queued_most} events were queued at most, not {QUEUED_EVENTS}: there were no "
            "bursts worth the name"
        )


class _Place(NamedTuple):
    """Where a burst can be: its publisher's home is `near`."""

    publisher: Publisher
    near: Broker
    far: Broker


def _burst_places(scene: Scene) -> list[_Place]:
    """Publishers, and neighbours of their homes behind which somebody wants their bursts. Where
    somebody is who is moved cannot be told, so others are preferred."""
    brokers = scene.brokers.by_id

    def stays(client: Client) -> bool:
        return client.spec.name not in scene.moved

    wanting = [one for one in scene.subscribers if EXTRA in one.spec.lanes]
    homes = {one.spec.home for one in wanting if stays(one)} or {one.spec.home for one in wanting}
    publishers = [one for one in scene.publishers if stays(one)] or scene.publishers
    places = [
        _Place(
            publisher,
            brokers[publisher.spec.home],
            brokers[scene.next_broker(publisher.spec.home, home)],
        )
        for publisher in publishers
        for home in sorted(homes - {publisher.spec.home})
    ]
    return list(dict.fromkeys(places))


async def _burst_at_hole(scene: Scene, publisher: Publisher, near: Broker, far: Broker) -> None:
    spot = link(near.id, far.id)
    proxy = scene.proxies.by_link[spot]
    async with scene.disturbed(spot, "burst at a black hole"):
        proxy.hole()
        try:
            await _burst(scene, publisher, near, far)
        finally:
            await proxy.mend()
        await _drained(scene, near, far)


async def _burst_at_pause(scene: Scene, publisher: Publisher, near: Broker, far: Broker) -> None:
    async with scene.disturbed(far.id, "burst while paused"):
        far.pause()
        try:
            await _burst(scene, publisher, near, far)
        finally:
            far.resume()
        await _drained(scene, near, far)


async def _burst(scene: Scene, publisher: Publisher, near: Broker, far: Broker) -> None:
    """Publish until enough waits at the near broker for the far one, or the near one has ended."""
    published = queued = 0
    while queued < QUEUED_EVENTS and published < BURST_EVENTS_MAX:
        some = min(5_000, QUEUED_EVENTS - queued + 100)
        if not await _while_it_runs(near, publisher.publish_burst(some, BURST_PAYLOAD_BYTES)):
            return
        published += some
        queued = await near.queued_events(far.id)
        scene.queued_most = max(scene.queued_most, queued)


async def _drained(scene: Scene, near: Broker, far: Broker) -> None:
    began = scene.now()
    while await near.queued_events(far.id) > DRAINED_EVENTS and scene.now() < began + DRAIN_S_MAX:
        await asyncio.sleep(0.1)


FAULTS: Final[dict[str, Fault]] = {
    "restart": restart,
    "kill": kill,
    "pause": pause,
    "cut": cut,
    "slow": slow,
    "burst": burst,
    "large": large,
}
