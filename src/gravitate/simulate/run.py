"""Running a script as a world: the simulator's side of `gravitate simulate SCENARIO`.

    script = gravitate.config.scenario.load("demo")
    result = run_scenario(script, observers=[tracer], progress=bar)

Owns the order of a run: everybody connects, everything settles, the publications and faults of
the script happen at their times, the world comes to rest, and what was delivered is compared with
what the script expects. A trace writer or a live view is an observer passed in.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import msgspec

from gravitate.adapt.catalogue import mechanisms
from gravitate.broker.core import Broker
from gravitate.broker.observers import Observer
from gravitate.broker.options import BrokerOptions
from gravitate.config.network import Network
from gravitate.config.outcome import Outcome, judged
from gravitate.config.script import Delivery, Publication, Script, delivery_of, expected
from gravitate.model.events import Batch, PlainBodies
from gravitate.model.language import parse
from gravitate.simulate import faults
from gravitate.simulate.checkers.deliveries import DeliveryChecker
from gravitate.simulate.checkers.loops import LoopChecker
from gravitate.simulate.checkers.tables import check_tables
from gravitate.simulate.checkers.violations import Violations
from gravitate.simulate.clients import Client
from gravitate.simulate.hosts import BrokerFactory
from gravitate.simulate.models import ServiceModel
from gravitate.simulate.world import World
from gravitate.trace.metrics import Metrics, Summary

SIMULATED: BrokerOptions = BrokerOptions(heartbeat_s=0.0)
"""Options of simulated brokers: links that are cut are known to be, so nobody pings."""
MEASURING: BrokerOptions = BrokerOptions(heartbeat_s=5.0)
"""The same with mechanisms, which learn from heartbeats how far neighbours are."""

QUIET_S = 10.0
"""A world in which nothing has been said for this long is quiet."""
SETTLE_S_MAX = 3600.0

Progress = Callable[[float], None]
"""Called with the share of the script's duration that is done, 0 to 1."""


class RunResult(Outcome, frozen=True, kw_only=True):
    """What a run delivered, and what the checkers found (nothing, if all is well)."""

    violations: tuple[str, ...]
    steps: int
    started_at_s: float
    """When the times of the script began to count, on the clock of the world and of its traces:
    everybody has connected and all has settled by then."""
    simulated_s: float
    metrics: Summary
    deliveries: frozenset[Delivery]
    """Who got which publication; the same on every driver."""

    def is_sound(self) -> bool:
        return Outcome.is_sound(self) and not self.violations


def broker_factory(
    network: Network,
    options: BrokerOptions = SIMULATED,
    started: Callable[[str], None] = lambda broker: None,
) -> BrokerFactory:
    """Builds production brokers as `network` has them; `started` is told of each."""
    tree = network.topology()

    def build(
        broker_id: str, incarnation: int, links: Mapping[str, bool], observers: Sequence[Observer]
    ) -> Broker:
        started(broker_id)
        return Broker(
            broker_id,
            incarnation,
            links,
            options=options,
            mechanisms=mechanisms(network.mechanisms),
            observers=observers,
            routing=network.routing,
            forwarding=network.forwarding,
            tree=tree,
        )

    return build


def run_scenario(
    script: Script,
    *,
    observers: Sequence[Observer] = (),
    options: BrokerOptions | None = None,
    service: ServiceModel | None = None,
    checks: bool = True,
    progress: Progress | None = None,
    started: Callable[[float], None] = lambda at_s: None,
) -> RunResult:
    """Execute `script` on a virtual clock; deterministic. `started` is told when the times of the
    script begin to count.

    Missing deliveries are judged against a run without faults; a script that disconnects
    subscribers or restarts their brokers may miss what was published meanwhile, and then only
    the checkers' violations count."""
    if options is None:
        beats = MEASURING if script.network.mechanisms else SIMULATED
        options = msgspec.structs.replace(script.network.options, heartbeat_s=beats.heartbeat_s)
    metrics = Metrics()
    violations = Violations()
    deliveries = DeliveryChecker(violations)
    loops = LoopChecker(violations)
    watching: list[Observer] = [metrics, *observers]
    if checks:
        watching += [deliveries, loops]
    world = World(
        script.network,
        broker_factory(script.network, options, loops.started),
        service=service or ServiceModel.of(script.service),
        observers=watching,
    )
    received: set[Delivery] = set()
    repeated = 0

    def on_received(client: Client, batch: Batch) -> None:
        nonlocal repeated
        assert isinstance(batch.bodies, PlainBodies)
        for event in batch.bodies.events:
            delivery = delivery_of(client.id, event.payload)
            if delivery in received:
                repeated += 1
            received.add(delivery)

    clients = connect_clients(world, script, on_received)
    origin_s = world.now
    started(origin_s)
    faults.schedule(world, script.faults, clients, origin_s)
    publish(world, script.publications, clients, origin_s)
    if progress is not None:
        for percent in range(101):
            at_s = origin_s + script.duration_s * percent / 100
            world.scheduler.at(at_s, progress, percent / 100)
    faults_end_s = max((fault.at_s + fault.for_s for fault in script.faults), default=0.0)
    world.run(origin_s + max(script.duration_s, faults_end_s))
    settle(world)
    if checks:
        deliveries.check_quiet(world.now)
        for sentence in check_tables(world):
            violations.add("tables", world.now, sentence)
        for client in clients.values():
            for sentence in client.violations:
                violations.add("client", world.now, sentence)
    outcome = judged(
        script,
        expected(script),
        received,
        max(repeated, violations.counts["duplicate"]),
        violations.counts["order"],
    )
    return RunResult(
        **msgspec.structs.asdict(outcome),
        violations=tuple(violations.sentences),
        steps=world.steps,
        started_at_s=origin_s,
        simulated_s=world.now,
        metrics=metrics.summary([b.id for b in script.network.brokers]),
        deliveries=frozenset(received),
    )


def connect_clients(
    world: World,
    script: Script,
    on_received: Callable[[Client, Batch], None] | None = None,
) -> dict[str, Client]:
    """Start the brokers and bring every client of the script to rest with its wishes."""
    world.start()
    settle(world)
    clients: dict[str, Client] = {}
    for spec in script.clients:
        client = Client(world, spec.id, spec.broker, follows=True, on_received=on_received)
        for condition in spec.advertisements:
            client.advertise(condition, parse(condition))
        for subscription in spec.subscriptions:
            client.subscribe(
                subscription.name or subscription.topic, subscription.filter(), subscription.qos
            )
        client.connect()
        clients[spec.id] = client
    settle(world)
    return clients


def publish(
    world: World,
    publications: Sequence[Publication],
    clients: Mapping[str, Client],
    origin_s: float,
) -> None:
    """Publish everything at its time, counted from `origin_s`."""
    pending: Iterator[Publication] = iter(publications)

    def step(publication: Publication) -> None:
        clients[publication.client].publish((publication.event,), publication.qos)
        following = next(pending, None)
        if following is not None:
            world.scheduler.at(origin_s + following.at_s, step, following)

    first = next(pending, None)
    if first is not None:
        world.scheduler.at(origin_s + first.at_s, step, first)


def settle(world: World) -> None:
    """Let the world go on until it is quiet: nothing under way but timers that change nothing."""
    ends_at = world.now + SETTLE_S_MAX
    while len(world.scheduler) and world.now < ends_at:
        said = world.said()
        world.run(world.now + QUIET_S)
        if world.said() == said:
            return
