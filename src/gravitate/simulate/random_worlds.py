"""Random worlds: networks, clients and faults drawn from a seed, and every checker watching.

A world runs in phases. In each, clients subscribe, unsubscribe, advertise, publish, leave and
come back at random while links are cut and delayed and brokers restarted; then everything heals
and comes to rest, and nothing may be owed, unsettled, unaccepted or out of place. The last phase
has no faults. What a world is depends on its seed alone: `gravitate simulate --random 1 --seed N`
plays world N again.

With crashes brokers are killed, between any two effects of a step, and come back without memory:
only what they held may be lost. In half of the worlds brokers talk in bytes, as on sockets.

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

from gravitate.broker.moves.reassignment import SOURCE
from gravitate.model.events import Event
from gravitate.simulate import random_clients as draw
from gravitate.simulate import random_networks
from gravitate.simulate.checkers.bounds import exceeded
from gravitate.simulate.checkers.crashes import LossWatcher, crosses
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
from gravitate.simulate.random_migrations import RandomMigrations
from gravitate.simulate.run import broker_factory, settle
from gravitate.simulate.scheduler import FIRST
from gravitate.simulate.switches import Switches
from gravitate.simulate.world import World
from gravitate.trace.metrics import MovesSeen

PHASES = 4
PHASE_S = 4.0
LOOK_EVERY_S = 0.25
"""Between looks at the bounds, while something is going on."""
LONG_CUT_SHARE = 0.15
"""Of the phases that end with a link cut."""
CRASHES_MAX = 4
"""Brokers that are killed in one phase, at most."""
DOOMED_S = 0.05
"""Within this a broker is killed that is to be."""
LEASES_S = 2 * SOURCE.lease_s
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
    crashes: int = 0
    """Brokers that were killed."""
    taken: int = 0
    """Deliveries that went with them, or with links that were given up."""
    switches: Switches = Switches()

    def report(self) -> str:
        """What to print about a world that failed."""
        lines = "\n".join(f"  {violation}" for violation in self.violations[:20])
        return (
            f"world {self.seed} ({self.brokers} brokers, {self.clients} clients, "
            f"{self.faults} faults) failed:\n{lines}\n"
            f"replay: gravitate simulate --random 1 --seed {self.seed}{self.switches.words()}"
        )


class RandomWorld:
    """One world. `run` plays it to its end."""

    def __init__(self, seed: int, switches: Switches | None = None) -> None:
        self.seed = seed
        self.switches = switches = switches or Switches()
        self._moves = MovesSeen()
        self._generator = generator = random.Random(f"world/{seed}")
        self._crashing = random.Random(f"crashes/{seed}")
        self.network = random_networks.network(generator)
        if self._with_mechanisms:
            among = MEASURING if switches.pings else MECHANISMS
            chosen = among[seed % len(among)]
            self.network = msgspec.structs.replace(self.network, mechanisms=chosen)
        self._near = self.network.topology().near()
        self.violations = Violations()
        self._no_local: set[str] = set()
        self.deliveries = DeliveryChecker(self.violations, ScanOracle(), self._no_local)
        self.entries = EntryChecker()
        self.losses = LossWatcher(self._near, switches.moves(), self.deliveries, self.entries)
        loops = LoopChecker(self.violations)
        self._options = random_networks.options(
            random.Random(generator.getrandbits(64)), switches.faults
        )
        self.world = World(
            self.network,
            broker_factory(self.network, self._options, loops.started),
            service=random_networks.service(generator),
            observers=(self.losses, self.deliveries, self.entries, loops, self._moves),
            as_bytes=generator.random() < 0.5,
        )
        self._migrations = RandomMigrations(seed, self.world)
        self.faults = 0
        self._cut: set[frozenset[str]] = set()
        """Links that stay cut beyond a phase."""
        self._names = 0
        self._active = True
        self.clients = [self._client(number) for number in range(generator.randint(4, 24))]
        self._migrations.clients = self.clients

    @property
    def _with_mechanisms(self) -> bool:
        return self.switches.mechanisms or self.switches.pings

    def run(self) -> WorldOutcome:
        world = self.world
        world.start()
        self._look(None)
        for phase in range(PHASES):
            goes_wrong = phase < PHASES - 1
            self._act(goes_wrong)
            world.run(world.now + PHASE_S)
            self._heal()
            self._look_at_rest()
            if goes_wrong and self.switches.faults and self._generator.random() < LONG_CUT_SHARE:
                self._look_while_cut()
            if self.violations:
                return self.outcome()
        self._active = False
        self._leave()
        return self.outcome()

    def _look_at_rest(self) -> None:
        """All is up: nothing may be owed or under way."""
        settle(self.world)
        if any(departing(self.world)):
            # Clients that left for good when they were told to go elsewhere.
            self.world.run(self.world.now + SOURCE.lease_s)
            settle(self.world)
        self._check()

    def _look_while_cut(self) -> None:
        """A link is cut, for long: who can reach each other is served, the others are made up for
        when it is back."""
        world, generator = self.world, self._generator
        a, b = generator.choice(self.network.links).between
        self._cut = {frozenset((a, b))}
        self.faults += 1
        world.cut(a, b)
        settle(world)
        self.deliveries.is_served = self._is_joined
        for client in self.clients:
            if draw.publishes(client.id) and client.connection is not None:
                self._publisher_acts(client)
        settle(world)
        self.deliveries.is_served = None
        self.deliveries.check_quiet(world.now, self._may_be_lost, self._is_deferred)
        world.scheduler.after(generator.uniform(0.0, PHASE_S), self._mend, (a, b), FIRST)

    def _mend(self, link: tuple[str, str]) -> None:
        self._cut.clear()
        self.world.heal(*link)

    def _is_joined(self, entered_at: str, broker: str, session: str) -> bool:
        """Whether a client can be reached. What one that was moved depends on is not known here; of
        one that is held not even its acknowledgements are read."""
        connection = next(one.connection for one in self.clients if one.id == session)
        return not (
            self.switches.moves()
            or connection is None
            or connection.broker != broker
            or connection.attachment.held
            or crosses(self._near, entered_at, broker, self._cut)
        )

    def _is_deferred(self, entered_at: str, broker: str, session: str) -> bool:
        return not self._is_joined(entered_at, broker, session)

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
            crashes=self.losses.crashes,
            taken=self.deliveries.taken,
            switches=self.switches,
            violations=tuple(self.violations.sentences),
        )

    def _client(self, number: int) -> Client:
        generator = self._generator
        moves = self.switches.moves()
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
        if self.switches.migrations and not draw.publishes(client.id):
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

    def _act(self, goes_wrong: bool) -> None:
        """Schedule what clients do, and perhaps what goes wrong, in the coming phase."""
        generator, scheduler = self._generator, self.world.scheduler
        for client in self.clients:
            for _ in range(generator.randint(1, 25)):
                at_s = self.world.now + generator.uniform(0.0, PHASE_S)
                scheduler.at(at_s, self._client_acts, client)
        if self.switches.migrations:
            self._migrations.act(generator, PHASE_S)
        if goes_wrong and self.switches.faults:
            for _ in range(generator.randint(0, 8)):
                at_s = self.world.now + generator.uniform(0.0, PHASE_S)
                scheduler.at(at_s, self._goes_wrong, None, FIRST)
        if goes_wrong and self.switches.crashes:
            for _ in range(self._crashing.randint(0, CRASHES_MAX)):
                at_s = self.world.now + self._crashing.uniform(0.0, PHASE_S)
                scheduler.at(at_s, self._crashes, None, FIRST)

    def _client_acts(self, client: Client) -> None:
        generator = self._generator
        if client.connection is None:
            if not client.wants_connection:
                elsewhere = not draw.publishes(client.id)
                client.connect(generator.choice(self.network.brokers).id if elsewhere else None)
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
            filters = [
                item.filter for item in client.advertisements.values() if item.filter is not None
            ]
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
            world.hosts[broker].stop()
            world.scheduler.after(for_s, partial(start_when_down, world), broker, FIRST)

    def _crashes(self, _: None) -> None:
        """A broker is killed somewhere within its next step, and starts again."""
        drawn, world = self._crashing, self.world
        broker = drawn.choice(self.network.brokers).id
        late_s = (None, 0.0, 0.1, 5.0) if self._options.heartbeat_s else (None, 0.0, 0.1)
        world.hosts[broker].kill(
            after=lambda effects: drawn.randint(0, effects),
            noticed_after_s=lambda: drawn.choice(late_s),
            within_s=DOOMED_S,
        )
        away_s = drawn.choice((0.001, 0.02, 0.2, 1.0, 3.0)) * drawn.uniform(0.5, 1.5)
        world.scheduler.after(DOOMED_S + away_s, partial(start_when_down, world), broker, FIRST)

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

    def _may_be_lost(self, entered_at: str, broker: str, session: str) -> bool:
        if self.switches.moves():
            return self.losses.has_parted()
        return self.losses.is_parted(entered_at, broker)

    def _check(self) -> None:
        world, violations = self.world, self.violations
        self.deliveries.check_quiet(world.now, self._may_be_lost)
        self.losses.forgiven()
        for sentence in self.entries.missing():
            violations.add("unpublished", world.now, sentence)
        for sentence in unfinished(world, self.clients):
            violations.add("unfinished", world.now, sentence)
        for sentence in check_tables(world):
            violations.add("tables", world.now, sentence)


def run_world(seed: int, switches: Switches | None = None) -> WorldOutcome:
    """Play the world of `seed`. A broker that raises is a violation like any other."""
    world = RandomWorld(seed, switches)
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
    switches: Switches | None = None,
) -> list[WorldOutcome]:
    """Play the worlds `seed` .. `seed + count - 1`; `progress` is called after each, in order."""
    seeds = range(seed, seed + count)
    play = partial(run_world, switches=switches)
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
