"""The net itself: what is broken on purpose is found, by a checker or by a test."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest

from gravitate.broker.forwarding.handovers import Handovers
from gravitate.broker.links.link import Mark
from gravitate.broker.links.table import LinkTable
from gravitate.broker.measure import Measure
from gravitate.broker.moves.salvage import Salvage
from gravitate.broker.moves.tether.deposits import Deposits
from gravitate.broker.moves.tether.served import TetheredSubscriber, TetheredSubscribers
from gravitate.broker.routing.content.table import RoutingTable
from gravitate.broker.routing.settlement import Settlement
from gravitate.broker.sessions.outbound import LocalOutbound, Outbound
from gravitate.client.core import Core, Effect
from gravitate.client.outgoing import Outgoing
from gravitate.matching.candidates import Candidates, Found
from gravitate.model.events import Batch
from gravitate.model.filters import Filter
from gravitate.simulate.random_worlds import run_world
from gravitate.simulate.switches import Switches
from tests.broker.moves.tether import test_second_broker as second_broker


def is_found(kinds: set[str], seeds: Iterable[int], faults: bool = True) -> bool:
    """Whether a checker speaks of one of these in one of the worlds."""
    return any(
        sentence.split(": ")[1] in kinds
        for seed in seeds
        for sentence in run_world(seed, Switches(faults=faults)).violations
    )


def test_an_index_that_forgets_a_filter_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    find = Candidates.may_intersect

    def forgetful(self: Candidates, filter: Filter) -> Found:
        found = find(self, filter)
        if len(found) > 3:
            found.pop(next(iter(found)))
        return found

    monkeypatch.setattr(Candidates, "may_intersect", forgetful)
    assert is_found({"tables", "loss", "raised"}, range(1, 5), faults=False)


def test_subscriptions_that_settle_and_are_not_forgotten_are_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(RoutingTable, "note_subscription_settled", lambda self, entry: None)
    assert is_found({"leak"}, [1], faults=False)


def test_tokens_that_are_not_forgotten_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    token = Settlement.token

    def leaking(self: Settlement, peer: str) -> int:
        token(self, peer)
        return token(self, peer)

    monkeypatch.setattr(Settlement, "token", leaking)
    assert is_found({"leak"}, [1], faults=False)


def test_queues_without_a_bound_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Measure, "exceeds", lambda self, events_max, bytes_max: False)
    assert is_found({"bound"}, range(1, 25))


def test_a_window_without_a_bound_in_bytes_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LocalOutbound, "_room", lambda self, batch: len(batch))
    assert is_found({"bound"}, range(1, 25))


def test_a_tail_without_a_bound_in_bytes_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LinkTable, "forget_overflow", lambda self, link: None)
    assert is_found({"bound"}, range(1, 25))


# What keeps clients from losing anything with brokers that cannot be reached ------------------

MOVED = Switches(migrations=True)


def test_what_is_kept_beyond_its_bound_and_dropped_in_silence_is_a_loss(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def drop(self: TetheredSubscribers, session: Outbound) -> None:
        self.guests.left(session)
        if isinstance(session, TetheredSubscriber):
            session.discard()

    monkeypatch.setattr(TetheredSubscribers, "overloaded", drop)
    outcomes = (run_world(seed, MOVED) for seed in range(1, 10))
    assert any(": loss: " in one for outcome in outcomes for one in outcome.violations)


def test_neighbours_that_let_go_of_what_a_place_has_for_others_are_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(LinkTable, "retain", lambda self, mark: None)
    with pytest.raises(AssertionError):
        second_broker.test_what_the_place_has_handed_over_in_vain_is_with_its_neighbour_too()


def test_a_place_that_is_not_reminded_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    reset = Deposits.reset

    def forgetful(self: Deposits, peer: str) -> None:
        self._remote.links[peer].has_forgotten = False
        reset(self, peer)

    monkeypatch.setattr(Deposits, "reset", forgetful)
    with pytest.raises(AssertionError):
        second_broker.test_a_place_that_is_back_at_once_is_reminded_of_whom_it_served("d")


def test_a_place_that_nobody_answers_for_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Salvage, "answer_for", lambda self, answer, place: [])
    with pytest.raises(AssertionError):
        second_broker.test_a_subscriber_is_served_at_home_soon_after_its_place_is_killed("d")


def test_handing_over_without_waiting_for_neighbours_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def route(self: Handovers, batch: Batch, mark: Mark) -> None:
        self._links.let_go(mark)
        self._dispatch.route(batch, None)

    monkeypatch.setattr(Handovers, "route", route)
    case = second_broker.test_what_was_handed_over_and_passed_on_to_nobody_is_published_at_home
    with pytest.raises(AssertionError):
        case("d")


# What the client does when it is to move, or has lost its broker ---------------------------------


def renews_all_but(wishes: str) -> Callable[..., list[Effect]]:
    say_all = Core._say_all

    def renew(self: Core[Any, Any, Any, Any]) -> list[Effect]:
        kept = getattr(self, wishes)
        setattr(self, wishes, {})
        effects = say_all(self)
        setattr(self, wishes, kept)
        return effects

    return renew


def arrives_in_silence(self: Core[Any, Any, Any, Any]) -> list[Effect]:
    self._continues = ""
    self.outgoing.release()
    return []


@pytest.mark.parametrize(
    ("part", "method", "broken"),
    [
        (Core, "_say_all", renews_all_but("subscriptions")),
        (Core, "_say_all", renews_all_but("advertisements")),
        (Core, "due", lambda self: self.outgoing.due()),
        (Core, "_arrive", arrives_in_silence),
        (Outgoing, "renew", lambda self: None),
        (Outgoing, "hold", lambda self: None),
    ],
    ids=[
        "renews no subscription",
        "renews no advertisement",
        "goes on while it has paused",
        "does not say that it has arrived",
        "sends nothing again",
        "keeps nothing on its way",
    ],
)
def test_a_client_that_is_broken_is_found(
    monkeypatch: pytest.MonkeyPatch, part: type[Any], method: str, broken: Callable[..., Any]
) -> None:
    monkeypatch.setattr(part, method, broken)
    outcomes = (run_world(seed, MOVED) for seed in range(1, 9))
    assert any(": unfinished: " in one for outcome in outcomes for one in outcome.violations)
