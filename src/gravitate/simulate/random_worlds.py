"""Random worlds: networks, clients and faults drawn from a seed, and every checker watching.

A world runs in phases. In each, clients subscribe, unsubscribe, advertise, publish, leave and
come back at random while links are cut and delayed and brokers restarted; then everything heals
and comes to rest, and nothing may be owed, unsettled, unaccepted or out of place. The last phase
has no faults. What a world is depends on its seed alone: `gravitate simulate --random 1 --seed N`
plays world N again.

With migrations, publishers and subscribers are sent to other brokers while all this goes on, some
by following and some by a tether; with mechanisms,
brokers do so themselves, on what they trace, with thresholds so low that they do it all the time
(`MECHANISMS`), and with pings after their publishers have measured (`MEASURING`). None changes its
broker by itself, because nothing promises that to go well. A publisher publishes only what it
advertised, or leaves advertising to its broker.
"""

from __future__ import annotations

import random
import traceback
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from gravitate.broker.options import BrokerOptions
from gravitate.broker.reassignment import LEASE_S
from gravitate.config.network import BrokerSpec, LinkSpec, Network
from gravitate.model.events import Event
from gravitate.overlay import shapes
from gravitate.overlay.tree import neighbours
from gravitate.simulate import random_clients as draw
from gravitate.simulate.checkers.bounds import exceeded
from gravitate.simulate.checkers.deliveries import DeliveryChecker
from gravitate.simulate.checkers.entries import EntryChecker
from gravitate.simulate.checkers.leaks import left_behind
from gravitate.simulate.checkers.loops import LoopChecker
from gravitate.simulate.checkers.oracle import ScanOracle
from gravitate.simulate.checkers.rest import departing, unfinished
from gravitate.simulate.checkers.tables import check_tables
from gravitate.simulate.checkers.violations import Violations
from gravitate.simulate.clients import Client
from gravitate.simulate.faults import start_when_down
from gravitate.simulate.models import ServiceModel
from gravitate.simulate.random_migrations import RandomMigrations
from gravitate.simulate.run import broker_factory, settle
from gravitate.simulate.scheduler import FIRST
from gravitate.simulate.world import World
from gravitate.trace.metrics import MovesSeen

PHASES = 4
PHASE_S = 4.0
LOOK_EVERY_S = 0.25
"""Between looks at the bounds, while something is going on."""
LEASES_S = 2 * LEASE_S
"""After this long nobody is waited for any more who has left."""

MECHANISMS: tuple[dict[str, dict[str, Any]], ...] = (
    {
        "grape": {
            "prioritised": "load",
            "session_publications": 3,
            "session_s_max": 2.0,
            "answer_s_max": 1.0,
            "confirmations": 1,
            "pause_s": 0.1,
        }
    },
    {
        "grape": {
            "session_publications": 2,
            "margin_percent": 0.0,
            "session_s_max": 2.0,
            "answer_s_max": 0.3,
        }
    },
    {
        "pop": {
            "traces_min": 2,
            "answer_s_max": 1.0,
            "profile_s_max": 3.0,
            "confirmations": 1,
            "pause_s": 0.1,
        }
    },
    {"pop": {"traces_min": 1, "answer_s_max": 0.2, "profile_s_max": 3.0, "pause_s": 0.0}},
)
"""What is switched on, one of these in each world; all is over soon, as checkers demand."""

MEASURING: tuple[dict[str, dict[str, Any]], ...] = (
    {"grape": {**MECHANISMS[0]["grape"], "weight_percent": 50.0, "pings": True}},
    {"grape": {**MECHANISMS[1]["grape"], "pings": True}},
)
"""The same where publishers measure their way to candidates."""


SMALL_BYTES: dict[str, int] = {
    "session_queue_bytes_max": 600,
    "session_window_bytes_max": 150,
    "link_queue_bytes_max": 500,
    "link_control_bytes_max": 3_000,
    "hold_bytes_max": 200,
}
"""Bounds in bytes that are reached at once, each in some worlds; an event has about 60."""


class WorldOutcome(msgspec.Struct, frozen=True):
    """How one random world ended; no violations means that every checker was silent."""

    seed: int
    brokers: int
    clients: int
    steps: int
    published: int
    delivered: int
    faults: int
    violations: tuple[str, ...] = ()
    moves: int = 0
    """Publishers and subscribers that were sent elsewhere."""
    options: str = ""
    """What the world was made with, as the command line has it."""

    def report(self) -> str:
        """What to print about a world that failed."""
        lines = "\n".join(f"  {violation}" for violation in self.violations[:20])
        return (
            f"world {self.seed} ({self.brokers} brokers, {self.clients} clients, "
            f"{self.faults} faults) failed:\n{lines}\n"
            f"replay: gravitate simulate --random 1 --seed {self.seed}{self.options}"
        )


class RandomWorld:
    """One world. `run` plays it to its end."""

    def __init__(
        self,
        seed: int,
        faults: bool = True,
        migrations: bool = False,
        mechanisms: bool = False,
        pings: bool = False,
    ) -> None:
        self.seed = seed
        self._with_faults = faults
        self._with_migrations = migrations
        self._with_mechanisms = mechanisms or pings
        self._with_pings = pings
        self._moves = MovesSeen()
        self._generator = generator = random.Random(f"world/{seed}")
        self.network = _network(generator)
        if self._with_mechanisms:
            among = MEASURING if pings else MECHANISMS
            chosen = among[seed % len(among)]
            self.network = msgspec.structs.replace(self.network, mechanisms=chosen)
        self._near = neighbours(
            [broker.id for broker in self.network.brokers],
            [link.between for link in self.network.links],
        )
        self.violations = Violations()
        self._no_local: set[str] = set()
        self.deliveries = DeliveryChecker(self.violations, ScanOracle(), self._no_local)
        self.entries = EntryChecker()
        loops = LoopChecker(self.violations)
        self._options = _options(generator)
        self.world = World(
            self.network,
            broker_factory(self.network, self._options, loops.started),
            service=_service(generator),
            observers=(self.deliveries, self.entries, loops, self._moves),
        )
        self._migrations = RandomMigrations(seed, self.world, self._near)
        self.faults = 0
        self._names = 0
        self._active = True
        self.clients = [self._client(number) for number in range(generator.randint(4, 24))]
        self._migrations.clients = self.clients

    def run(self) -> WorldOutcome:
        world = self.world
        world.start()
        self._look(None)
        for phase in range(PHASES):
            self._act(faults=self._with_faults and phase < PHASES - 1)
            world.run(world.now + PHASE_S)
            self._heal()
            settle(world)
            if any(departing(self.world)):
                # Clients that left for good when they were told to go elsewhere.
                world.run(world.now + LEASE_S)
                settle(world)
            self._check()
            if self.violations:
                return self.outcome()
        self._active = False
        self._leave()
        return self.outcome()

    def outcome(self) -> WorldOutcome:
        """How the world stands now."""
        return WorldOutcome(
            seed=self.seed,
            brokers=len(self.network.brokers),
            clients=len(self.clients),
            steps=self.world.steps,
            published=self.deliveries.entered,
            delivered=self.deliveries.delivered,
            faults=self.faults,
            moves=len(self._moves.done),
            options=" --migrations" * self._with_migrations
            + " --mechanisms" * (self._with_mechanisms and not self._with_pings)
            + " --pings" * self._with_pings
            + " --no-faults" * (not self._with_faults),
            violations=tuple(self.violations.sentences),
        )

    def _client(self, number: int) -> Client:
        generator = self._generator
        moves = self._with_migrations or self._with_mechanisms
        client = Client(
            self.world,
            f"c{number:02}",
            generator.choice(self.network.brokers).id,
            counts=generator.random() < 0.7,
            latency_s=generator.choice((0.0, 0.0, 0.005, 0.03)),
            window=generator.choice((65535, 65535, 1, 3)),
            acknowledge_after_s=generator.choice((0.0, 0.01, 0.2)),
            reconnect_s=generator.choice((0.01, 0.3)),
            follows=moves and number % 2 == 0 and generator.random() < 0.8,
            arrive_s_max=generator.choice((5.0, 0.3)) if moves else 5.0,
            on_accepted=self._accepted,
        )
        if self._with_migrations and not draw.publishes(client.id):
            self._migrations.make_mobile(client)
        if client.counts:
            self.entries.counts(client.id, client.incarnation)
        if generator.random() < 0.1:
            self._no_local.add(client.id)
        return client

    def _accepted(self, client: Client, counter: int) -> None:
        if client.counts:
            self.entries.accepted(client.id, client.incarnation, counter)

    # What happens

    def _act(self, faults: bool) -> None:
        """Schedule what clients do, and what goes wrong, in the coming phase."""
        generator, scheduler = self._generator, self.world.scheduler
        for client in self.clients:
            for _ in range(generator.randint(1, 25)):
                at_s = self.world.now + generator.uniform(0.0, PHASE_S)
                scheduler.at(at_s, self._client_acts, client)
        if self._with_migrations:
            self._migrations.act(generator, PHASE_S)
        if faults:
            for _ in range(generator.randint(0, 8)):
                at_s = self.world.now + generator.uniform(0.0, PHASE_S)
                scheduler.at(at_s, self._goes_wrong, None, FIRST)

    def _client_acts(self, client: Client) -> None:
        generator = self._generator
        if client.connection is None:
            if not client.wants_connection:
                if not draw.publishes(client.id):
                    client.broker = generator.choice(self.network.brokers).id
                client.connect()
            return
        drawn = generator.random()
        if client.follows and drawn < 0.37 and not self._subscribes(client):
            self._publisher_acts(client)
        elif drawn < 0.20 and len(client.subscriptions) < 6:
            self._names += 1
            self._subscribe(client, f"s{self._names}")
        elif drawn < 0.25 and client.subscriptions:
            self._subscribe(client, generator.choice(list(client.subscriptions)))
        elif drawn < 0.37 and client.subscriptions:
            client.unsubscribe(generator.choice(list(client.subscriptions)))
        elif drawn < 0.42:
            client.disconnect()
        elif drawn < 0.44:
            client.connect()
        elif draw.publishes(client.id):
            self._publisher_acts(client)

    def _subscribes(self, client: Client) -> bool:
        """Whether a client subscribes; a publisher that does stays where it is."""
        return not draw.publishes(client.id) or int(client.id[1:]) % 6 == 0

    def _advertises(self, client: Client) -> bool:
        return int(client.id[1:]) % 4 == 0

    def _subscribe(self, client: Client, name: str) -> None:
        client.subscribe(
            name,
            draw.filter(self._generator),
            qos=self._generator.choice((0, 1, 1)),
            no_local=client.id in self._no_local,
        )

    def _publisher_acts(self, client: Client) -> None:
        generator = self._generator
        if not self._advertises(client):
            self._publish(client, [draw.event(generator) for _ in range(self._burst())])
            return
        drawn = generator.random()
        if drawn < 0.1 or not client.advertisements:
            self._names += 1
            client.advertise(f"a{self._names}", draw.advertisement(generator))
        elif drawn < 0.15:
            client.unadvertise(generator.choice(list(client.advertisements)))
        else:
            filters = [item.filter for item in client.advertisements.values()]
            events = (draw.event_within(generator, filters) for _ in range(self._burst()))
            self._publish(client, [event for event in events if event is not None])

    def _burst(self) -> int:
        return self._generator.choice((1, 1, 1, 2, 5))

    def _publish(self, client: Client, events: list[Event]) -> None:
        if events:
            client.publish(events, qos=self._generator.choice((0, 1, 1)))

    # What goes wrong

    def _goes_wrong(self, _: None) -> None:
        generator, world = self._generator, self.world
        self.faults += 1
        for_s = generator.choice((0.001, 0.02, 0.2, 1.0, 3.0)) * generator.uniform(0.5, 1.5)
        drawn = generator.random()
        if drawn < 0.45:
            a, b = generator.choice(self._lines())
            late_s = (0.0, 0.0, 0.1, 5.0) if self._options.heartbeat_s else (0.0, 0.0, 0.1)
            noticed = (generator.choice(late_s), generator.choice(late_s))
            world.cut(a, b, noticed)
            world.scheduler.after(for_s, lambda link: world.heal(*link), (a, b), FIRST)
        elif drawn < 0.65:
            a, b = generator.choice(self._lines())
            world.delay(a, b, generator.uniform(0.001, 0.5))
            world.scheduler.after(
                for_s, lambda link: world.delay(link[0], link[1], 0.0), (a, b), FIRST
            )
        else:
            broker = generator.choice(self.network.brokers).id
            world.stop_broker(broker)
            world.scheduler.after(for_s, partial(start_when_down, world), broker, FIRST)

    def _lines(self) -> list[tuple[str, str]]:
        """Those of the network, then those opened for tethers."""
        return list({id(line): (line.a, line.b) for line in self.world.lines.values()}.values())

    def _heal(self) -> None:
        world = self.world
        for a, b in self._lines():
            world.heal(a, b)
            world.delay(a, b, 0.0)
        for broker in self.network.brokers:
            start_when_down(world, broker.id)

    # What must hold

    def _look(self, _: None) -> None:
        """Look at the bounds, again and again while something is going on."""
        for sentence in exceeded(self.world, self._options):
            self.violations.add("bound", self.world.now, sentence)
        if self._active:
            self.world.scheduler.after(LOOK_EVERY_S, self._look, None)

    def _leave(self) -> None:
        """All clients leave for good; nothing of them may stay."""
        world = self.world
        for client in self.clients:
            client.disconnect()
        settle(world)
        world.run(world.now + LEASES_S)
        settle(world)
        for sentence in left_behind(world):
            self.violations.add("leak", world.now, sentence)

    def _check(self) -> None:
        world, violations = self.world, self.violations
        self.deliveries.check_quiet(world.now)
        for sentence in self.entries.missing():
            violations.add("unpublished", world.now, sentence)
        for sentence in unfinished(world, self.clients):
            violations.add("unfinished", world.now, sentence)
        for sentence in check_tables(world):
            violations.add("tables", world.now, sentence)


def _network(generator: random.Random) -> Network:
    count = generator.randint(5, 30)
    kind = generator.random()
    if kind < 0.8:
        links = shapes.random_tree(count, generator.randrange(2**31), generator.choice((0, 3, 5)))
    else:
        links = shapes.line(count) if kind < 0.9 else shapes.star(count)
    spread_ms = generator.choice(((0.0, 0.0), (10.0, 10.0), (0.1, 60.0)))
    bandwidth = generator.choice((0.0, 0.0, 0.0, 20_000.0, 1_000_000.0))
    names = [f"b{number:02}" for number in range(count)]
    ends = [link if generator.random() < 0.5 else link[::-1] for link in links]
    return Network(
        name="random",
        brokers=tuple(BrokerSpec(name) for name in names),
        links=tuple(
            LinkSpec((names[a], names[b]), round(generator.uniform(*spread_ms), 2), bandwidth)
            for a, b in ends
        ),
    )


def _options(generator: random.Random) -> BrokerOptions:
    rare = random.Random(generator.getrandbits(64))
    options = BrokerOptions(
        heartbeat_s=0.4 if rare.random() < 0.2 else 0.0,
        session_queue_events_max=5 if rare.random() < 0.15 else 100_000,
        durable=rare.random() < 0.2,
        acknowledge_after_s=generator.choice((0.001, 0.02, 0.3)),
        acknowledge_every=generator.choice((1, 4, 64)),
        link_queue_events_max=generator.choice((200_000, 10)),
        link_grace_s=0.0,
        advertise_topics_max=generator.choice((1, 2, 8)),
        hold_s_max=generator.choice((5.0, 0.05)),
        hold_events_max=generator.choice((1000, 3)),
        stop_s_max=0.0,
    )
    small = {name: size for name, size in SMALL_BYTES.items() if rare.random() < 0.15}
    portion = 1 if rare.random() < 0.2 else 256
    return msgspec.structs.replace(options, portion_max=portion, **small)


def _service(generator: random.Random) -> ServiceModel | None:
    return generator.choice(
        (None, None, ServiceModel(batch_s=1e-4, event_s=5e-5), ServiceModel(batch_s=0.02))
    )


def run_world(
    seed: int,
    faults: bool = True,
    migrations: bool = False,
    mechanisms: bool = False,
    pings: bool = False,
) -> WorldOutcome:
    """Play the world of `seed`. A broker that raises is a violation like any other."""
    world = RandomWorld(seed, faults, migrations, mechanisms, pings)
    try:
        return world.run()
    except Exception as error:
        frames = traceback.extract_tb(error.__traceback__)
        place = f"{Path(frames[-1].filename).name}:{frames[-1].lineno}"
        world.violations.add("raised", world.world.now, f"{error!r} at {place}")
        return world.outcome()


def run_worlds(
    count: int,
    seed: int,
    processes: int = 2,
    progress: Callable[[WorldOutcome], None] = lambda outcome: None,
    *,
    faults: bool = True,
    migrations: bool = False,
    mechanisms: bool = False,
    pings: bool = False,
) -> list[WorldOutcome]:
    """Play the worlds `seed` .. `seed + count - 1`; `progress` is called after each, in order."""
    seeds = range(seed, seed + count)
    play = partial(
        run_world, faults=faults, migrations=migrations, mechanisms=mechanisms, pings=pings
    )
    outcomes: list[WorldOutcome] = []
    if processes <= 1 or count == 1:
        for number in seeds:
            outcomes.append(play(number))
            progress(outcomes[-1])
        return outcomes
    with ProcessPoolExecutor(processes) as pool:
        for outcome in pool.map(play, seeds, chunksize=4):
            outcomes.append(outcome)
            progress(outcome)
    return outcomes
