"""Random worlds end with every checker silent."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from gravitate.broker.interface.effects import Deliver, Effect
from gravitate.broker.sessions.backlog import Kept, Source
from gravitate.model.events import Batch
from gravitate.model.moves import ReassignSubscriber, RelocatePublisher
from gravitate.simulate.random_worlds import RandomWorld, WorldOutcome, run_world, run_worlds
from gravitate.simulate.switches import Switches


@pytest.mark.parametrize("seed", [*range(1, 25), 37, 78])
def test_a_random_world_keeps_every_promise(seed: int) -> None:
    outcome = run_world(seed)
    assert not outcome.violations, outcome.report()


@pytest.mark.parametrize("seed", range(2000, 2010))
def test_without_faults_too(seed: int) -> None:
    outcome = run_world(seed, Switches(faults=False))
    assert not outcome.violations, outcome.report()
    assert outcome.faults == 0


RARE = (237, 523, 860, 1288, 1357, 1641, 1900, 6146, 6148, 6396, 77879)
"""Worlds with something that seldom happens: a link that a tether no longer needs, events of a
publisher that has left behind a link that is down, a client that comes back before these, a
publisher that goes back to where it was and is heard to end elsewhere before it is heard of, an
advertisement that ends while it is told the other way, a broker that stops right after it has
published something for a client of another, a broker that restarts where the publisher of what is
queued for it was a moment ago."""


RARE_FOR_SUBSCRIBERS = (28, 36, 44, 47, 59, 151, 252, 274, 454, 1243, 1353)
"""The same for subscribers: one that falls behind over its tether, that comes anew where it is
still served from elsewhere, whose place stops while it is handed something, that leaves while it
arrives, that is given up while it is under way, that comes back before it has been missed, that
falls behind what it publishes itself, that is sent to a broker which still keeps something for
it, that has just left a broker which stops."""


AROUND_OUTAGES = (
    74, 104, 190, 198, 208, 225, 492, 1036, 1224, 2305, 2376, 2434, 6150, 77786, 920187, 920188,
    960531,
)  # fmt: skip
"""Clients that are moved while links are cut for long: recalled from a place that comes back
meanwhile, or twice; whose queues are full at both places; that change what they want on the way;
whom a subscription stood for that ends."""


@pytest.mark.parametrize("seed", [*range(1, 9), *RARE, *RARE_FOR_SUBSCRIBERS, *AROUND_OUTAGES])
def test_clients_that_are_moved_meanwhile_change_nothing(seed: int) -> None:
    outcome = run_world(seed, Switches(migrations=True))
    assert not outcome.violations, outcome.report()


CALM = Switches(faults=False, migrations=True)


@pytest.mark.parametrize("seed", [950005, 950145])
def test_nor_where_nothing_goes_wrong(seed: int) -> None:
    outcome = run_world(seed, CALM)
    assert not outcome.violations, outcome.report()


KILLED = (1012, 1112, 1128)
"""A link that is given up at one end alone, or while it is greeted; a client that connects anew in
the very step in which its broker is killed."""
KILLED_WHILE_CLIENTS_MOVE = (11, 12, 34, 65, 99, 109, 118, 124, 146, 243, 313, 363, 1291, 500059)
"""A tether's link that is given up; neighbours that are killed together, or one twice; an
advertisement that ends while an outdated one of it comes; a publisher that comes back to its broker
while what it has handed over has got nowhere; one that gives something up as it arrives; one
that is closed before what it published is on stable storage; a place that is killed before its
neighbours have heard what a subscriber wants there."""


@pytest.mark.parametrize("seed", [*range(1, 9), *KILLED])
def test_a_broker_that_is_killed_takes_what_it_had_and_nothing_else(seed: int) -> None:
    outcome = run_world(seed, Switches(crashes=True))
    assert not outcome.violations, outcome.report()


@pytest.mark.parametrize("seed", [*range(1, 5), *KILLED_WHILE_CLIENTS_MOVE])
def test_nor_while_clients_move(seed: int) -> None:
    outcome = run_world(seed, Switches(crashes=True, migrations=True))
    assert not outcome.violations, outcome.report()


def test_brokers_are_really_killed_and_take_something() -> None:
    outcomes = [run_world(seed, Switches(crashes=True)) for seed in range(1, 5)]
    assert sum(outcome.crashes for outcome in outcomes) > 10
    assert sum(outcome.taken for outcome in outcomes) > 0


def test_publishers_and_subscribers_really_move() -> None:
    worlds = [RandomWorld(seed, Switches(migrations=True)) for seed in (1, 2, 3)]
    assert sum(world.run().moves for world in worlds) > 20
    done = [move for world in worlds for move in world._moves.done]
    assert sum(isinstance(move, RelocatePublisher) for move in done) > 5
    assert sum(isinstance(move, ReassignSubscriber) for move in done) > 5


def test_a_cut_that_is_not_heeded_does_not_go_unnoticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The harness itself: what a subscriber has had before it moved may not come again."""
    monkeypatch.setattr(Kept, "cut", lambda self, seen, backlog, source=None: None)
    found = [v for seed in range(1, 6) for v in run_world(seed, CALM).violations]
    assert any("duplicate" in sentence or "order" in sentence for sentence in found)


def test_what_is_kept_and_forgotten_does_not_go_unnoticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def forget(self: Kept, is_taken: object = None) -> list[tuple[Batch, int, Source]]:
        self._items.clear()
        return []

    monkeypatch.setattr(Kept, "take", forget)
    found = [v for seed in range(1, 6) for v in run_world(seed, CALM).violations]
    assert any("loss" in sentence or "gap" in sentence for sentence in found)


def test_a_world_is_a_function_of_its_seed() -> None:
    assert run_world(5) == run_world(5)
    assert run_world(5) != run_world(6)


def test_worlds_have_something_going_on() -> None:
    outcomes = [run_world(seed) for seed in range(40, 46)]
    assert all(5 <= outcome.brokers <= 30 for outcome in outcomes)
    assert sum(outcome.delivered for outcome in outcomes) > 500
    assert sum(outcome.faults for outcome in outcomes) > 5


def test_many_worlds_run_in_processes_and_report_in_order() -> None:
    seen: list[int] = []
    outcomes = run_worlds(4, 60, processes=2, progress=lambda outcome: seen.append(outcome.seed))
    assert seen == [outcome.seed for outcome in outcomes] == [60, 61, 62, 63]
    assert outcomes == run_worlds(4, 60, processes=1)


def test_a_failure_prints_its_seed_and_how_to_replay_it() -> None:
    outcome = WorldOutcome(7, 5, 4, 100, 10, 20, 3, ("1.0 s: loss: something",))
    assert "1.0 s: loss: something" in outcome.report()
    assert "gravitate simulate --random 1 --seed 7" in outcome.report()


def test_a_checker_that_is_robbed_of_a_delivery_speaks() -> None:
    """The harness itself: an event that vanishes on the way to a client does not go unnoticed."""
    world = RandomWorld(5)
    step, robbed = world.deliveries.on_step, list[int]()

    def rob(broker: str, inputs: object, effects: Sequence[Effect], now: float) -> None:
        if len(robbed) < 5 and any(isinstance(effect, Deliver) for effect in effects):
            robbed.append(1)
            effects = [effect for effect in effects if not isinstance(effect, Deliver)]
        step(broker, inputs, effects, now)  # type: ignore[arg-type]

    world.deliveries.on_step = rob  # type: ignore[method-assign]
    assert any("loss" in violation for violation in world.run().violations)


def test_what_a_mechanism_has_tagged_and_is_never_routed_does_not_stay() -> None:
    outcome = run_world(510047, Switches(migrations=True, mechanisms=True))
    assert not outcome.violations, outcome.report()


def test_a_publisher_leaves_while_what_it_was_before_is_still_leaving() -> None:
    outcome = run_world(215, Switches(migrations=True, mechanisms=True))
    assert not outcome.violations, outcome.report()


def test_what_several_keep_for_one_subscriber_is_bounded() -> None:
    outcome = run_world(
        910050, Switches(crashes=True, migrations=True, mechanisms=True, pings=True)
    )
    assert not outcome.violations, outcome.report()
