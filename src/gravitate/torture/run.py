"""A run from its first process to its verdict.

    report = torture(Settings("kill", seed=7))

Owns the order: brokers behind proxies, clients in place, load and moves while one kind of fault
goes on, everything mended, what is owed waited for, judgement. What is done follows from the seed;
when and in which order the brokers do their part does not.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import shutil
import signal
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec
import uvloop

from gravitate.config.build import shaped
from gravitate.config.network import Network
from gravitate.errors import EnvironmentLack, InputError
from gravitate.serve.control.network import on_free_ports
from gravitate.torture.brokers import Brokers
from gravitate.torture.clients import Client, Publisher, Subscriber
from gravitate.torture.faults import FAULTS
from gravitate.torture.judging import Judge, Judgement, judge
from gravitate.torture.ledger import STAYING, VISITING, ClientSpec, Disturbance, Ledger, Role
from gravitate.torture.movers import Mover
from gravitate.torture.proxies import Proxies
from gravitate.torture.scene import Scene

PER_BROKER: Final = 2
"""Publishers, and subscribers, at each broker unless told."""
CALM_S: Final = 3.0
"""Load before the first fault, and after the last."""
ENTER_S_MAX: Final = 30.0
MEND_S_MAX: Final = 60.0
DRAIN_S_MAX: Final = 30.0
DRAIN_LOOK_S: Final = 1.0
STRAY_S: Final = 1.0
"""How long is waited, once everything has come, for what should not."""
VISIT_EVERY_S: Final = 2.0
PAYLOAD_BYTES: Final = {"slow": 1_000}
"""Of what is published all the time, where it is not 100."""


class Settings(msgspec.Struct, frozen=True):
    fault: str
    brokers: int = 5
    minutes: float = 1.0
    seed: int = 1
    rate_per_s: float = 20.0
    """Of each publisher."""
    moved_share: float = 0.5
    """Of the clients: those that are moved."""
    publishers: int = 0
    subscribers: int = 0
    """0: two a broker."""


class MemoryUse(msgspec.Struct, frozen=True):
    """Resident memory of a broker in MiB."""

    max_mib: float
    growth_mib: float


class Report(msgspec.Struct, frozen=True):
    """How a run went."""

    settings: Settings
    is_kept: bool
    """Whether everything promised was kept."""
    judgement: Judgement
    published: int
    acknowledged: int
    resent: int
    refused: int
    """Publications that brokers answered with a failure."""
    faults: int
    disturbances: list[Disturbance]
    """What was done, to whom and when."""
    moves: dict[str, int]
    brokers_ended: list[str]
    errors_logged: list[str]
    problems: list[str]
    """What kept the run from being what it should."""
    queued_most: int
    """Events that waited at one link when bursts were let through."""
    memory: dict[str, MemoryUse]
    logs: str = ""
    """Where the brokers' logs are, of a run in which a promise was broken."""


Progress = Callable[[float], None]
"""Told the share of the run that is over."""


def torture(settings: Settings, progress: Progress = lambda share: None) -> Report:
    """Run it, in this process and those of the brokers.

    Unless everything was kept, the brokers' logs stay: the report says where, or a note to the
    error."""
    if settings.fault not in FAULTS:
        raise InputError(f"unknown fault '{settings.fault}': write one of {', '.join(FAULTS)}")
    if settings.brokers < 2:
        raise InputError(f"{settings.brokers} brokers have no links: write a number from 2")
    directory = Path(tempfile.mkdtemp(prefix="gravitate-torture-"))
    try:
        report = uvloop.run(_interruptible(_run(settings, directory, progress)))
    except BaseException as problem:
        problem.add_note(f"logs of the brokers: {directory}")
        raise
    if report.is_kept:
        shutil.rmtree(directory, ignore_errors=True)
    return report


async def _interruptible(run: Coroutine[Any, Any, Report]) -> Report:
    """A run that is told to terminate ends what it has started."""
    task = asyncio.create_task(run)
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, task.cancel)
    try:
        return await task
    finally:
        loop.remove_signal_handler(signal.SIGTERM)


def clients_of(settings: Settings, network: Network) -> list[ClientSpec]:
    """Everybody, spread evenly over the brokers; every other round of subscribers are visitors."""
    homes = [spec.id for spec in network.brokers]
    count = PER_BROKER * len(homes)
    publishers = [
        ClientSpec(f"p{number + 1:02d}", Role.PUBLISHER, homes[number % len(homes)])
        for number in range(settings.publishers or count)
    ]
    subscribers = [
        ClientSpec(
            f"s{number + 1:02d}",
            Role.SUBSCRIBER,
            homes[number % len(homes)],
            STAYING if number // len(homes) % 2 == 0 else VISITING,
        )
        for number in range(settings.subscribers or count)
    ]
    return publishers + subscribers


def moved_of(settings: Settings, clients: Sequence[ClientSpec]) -> list[ClientSpec]:
    """Who is moved: the same share of publishers and of subscribers."""
    generator = random.Random(f"{settings.seed}:moved")
    moved: list[ClientSpec] = []
    for role in Role:
        some = [spec for spec in clients if spec.role is role]
        moved += generator.sample(some, round(settings.moved_share * len(some)))
    return moved


async def _run(settings: Settings, directory: Path, progress: Progress) -> Report:
    network = on_free_ports(
        shaped("random-tree", settings.brokers, seed=settings.seed, name="torture")
    )
    began_s = time.monotonic()

    def clock() -> float:
        return time.monotonic() - began_s

    async with _scene(settings, network, directory, clock) as scene:
        began, until = clock(), clock() + 2 * CALM_S + 60 * settings.minutes
        telling = asyncio.create_task(_tell(progress, clock, began, until + DRAIN_S_MAX / 2))
        try:
            await _load(settings, scene, until)
            await _mended(scene)
            await _drained(scene)
        finally:
            telling.cancel()
        judgement = judge(network, scene.ledger, clock())
        for client in (*scene.publishers, *scene.subscribers):
            await client.close()
        await scene.brokers.stop()
        return _report(settings, scene, judgement, directory)


@contextlib.asynccontextmanager
async def _scene(
    settings: Settings, network: Network, directory: Path, clock: Callable[[], float]
) -> AsyncIterator[Scene]:
    """Everybody in place; all ends with it."""
    specs = clients_of(settings, network)
    ledger = Ledger(specs)
    proxies = Proxies(network)
    brokers = Brokers({spec.id: proxies.view(spec.id) for spec in network.brokers}, directory)
    addresses = {spec.id: spec.address for spec in network.brokers}
    publishers = [
        Publisher(spec, addresses[spec.home], ledger, clock)
        for spec in specs
        if spec.role is Role.PUBLISHER
    ]
    subscribers = [
        Subscriber(spec, addresses[spec.home], ledger, clock)
        for spec in specs
        if spec.role is Role.SUBSCRIBER
    ]
    scene = Scene(
        network,
        ledger,
        brokers,
        proxies,
        publishers,
        subscribers,
        frozenset(spec.name for spec in moved_of(settings, specs)),
        random.Random(f"{settings.seed}:faults"),
        clock,
    )
    clients: list[Client] = [*publishers, *subscribers]
    watching = None
    try:
        await proxies.open()
        if not await brokers.start():
            raise EnvironmentLack(f"brokers did not come to be ready: {_last_lines(brokers)}")
        watching = asyncio.create_task(brokers.watch())
        for client in clients:
            client.start()
        try:
            async with asyncio.timeout(ENTER_S_MAX):
                await asyncio.gather(*(client.is_in.wait() for client in clients))
        except TimeoutError:
            raise EnvironmentLack(
                f"not every client was connected after {ENTER_S_MAX:g} s: {_last_lines(brokers)}"
            ) from None
        yield scene
    finally:
        if watching is not None:
            watching.cancel()
        for client in clients:
            client.leave()
        brokers.close()
        await proxies.close()


async def _load(settings: Settings, scene: Scene, until: float) -> None:
    """Publications and moves until a time, and longer if the fault takes longer; the fault between
    two calm moments."""
    payload_bytes = PAYLOAD_BYTES.get(settings.fault, 100)
    moved = [spec for spec in scene.ledger.clients.values() if spec.name in scene.moved]
    addresses = {spec.id: spec.address for spec in scene.network.brokers}
    generator = random.Random(f"{settings.seed}:moves")
    mover = Mover(moved, addresses, scene.ledger, scene.now, generator)
    speaking = [
        asyncio.create_task(one.publish_steadily(settings.rate_per_s, payload_bytes))
        for one in scene.publishers
    ]
    moving = asyncio.create_task(mover.run(until - CALM_S))
    visiting = asyncio.create_task(_visits(settings, scene))
    try:
        await asyncio.sleep(CALM_S)
        await FAULTS[settings.fault](scene, until - CALM_S)
        await scene.sleep_until(max(until, scene.now() + CALM_S))
        await moving
    finally:
        for task in (moving, visiting, *speaking):
            task.cancel()


async def _visits(settings: Settings, scene: Scene) -> None:
    """Some subscribers go and come back all the time, whoever else is away, until cancelled."""
    generator = random.Random(f"{settings.seed}:visits")
    visitors = [one for one in scene.subscribers if one.spec.lanes == VISITING]
    while visitors:
        await asyncio.sleep(VISIT_EVERY_S)
        generator.choice(visitors).go_and_come_back()


async def _mended(scene: Scene) -> None:
    """Until every broker is ready and every client connected, or long enough."""
    try:
        async with asyncio.timeout(MEND_S_MAX):
            await asyncio.gather(*(one.await_ready() for one in scene.brokers.by_id.values()))
            for client in (*scene.publishers, *scene.subscribers):
                await client.is_in.wait()
    except TimeoutError:
        scene.problems.append(f"not everybody was back {MEND_S_MAX:g} s after the last fault")


async def _drained(scene: Scene) -> None:
    """Until nothing is missing, or long enough."""
    began = scene.now()
    while scene.now() < began + DRAIN_S_MAX:
        await asyncio.sleep(DRAIN_LOOK_S)
        found = Judge(scene.network, scene.ledger, scene.now()).missing()
        waiting = sum(publisher.unacknowledged for publisher in scene.publishers)
        if not waiting and all(one.is_taken for one in found):
            break
    await asyncio.sleep(STRAY_S)


async def _tell(progress: Progress, clock: Callable[[], float], began: float, until: float) -> None:
    while True:
        progress(min(1.0, (clock() - began) / (until - began)))
        await asyncio.sleep(0.5)


def _last_lines(brokers: Brokers) -> str:
    said = []
    for broker in brokers.by_id.values():
        lines = broker.log.read_text(errors="replace").splitlines() if broker.log.exists() else []
        said.append(f"{broker.id}: {lines[-1] if lines else 'it says nothing'}")
    return "; ".join(said)


def _report(settings: Settings, scene: Scene, judgement: Judgement, directory: Path) -> Report:
    publications = list(scene.ledger.all_publications())
    ended, errors = scene.brokers.ended, scene.brokers.errors_logged()
    is_kept = judgement.is_kept() and not (ended or errors or scene.problems)
    return Report(
        settings=settings,
        is_kept=is_kept,
        judgement=judgement,
        published=len(publications),
        acknowledged=sum(one.acknowledged_at < float("inf") for one in publications),
        resent=sum(one.resent for one in publications),
        refused=scene.ledger.refused,
        faults=scene.faults,
        disturbances=scene.ledger.disturbances,
        moves=scene.ledger.moves,
        brokers_ended=ended,
        errors_logged=errors,
        problems=scene.problems,
        queued_most=scene.queued_most,
        memory={
            broker.id: MemoryUse(
                round(broker.memory.max_mib, 1),
                round(broker.memory.last_mib - broker.memory.first_mib, 1),
            )
            for broker in scene.brokers.by_id.values()
        },
        logs="" if is_kept else str(directory),
    )
