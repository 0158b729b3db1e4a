"""The net itself: what is broken on purpose is found, by a checker or by a test."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from gravitate.broker.links import LinkTable
from gravitate.broker.measure import Measure
from gravitate.broker.routing.candidates import Candidates, Found
from gravitate.broker.routing.table import RoutingTable
from gravitate.broker.sessions import Session
from gravitate.broker.settlement import Settlement
from gravitate.model.filters import Filter
from gravitate.simulate.random_worlds import run_world


def is_found(kinds: set[str], seeds: Iterable[int], faults: bool = True) -> bool:
    """Whether a checker speaks of one of these in one of the worlds."""
    return any(
        sentence.split(": ")[1] in kinds
        for seed in seeds
        for sentence in run_world(seed, faults).violations
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
    monkeypatch.setattr(Session, "_room", lambda self, batch: len(batch))
    assert is_found({"bound"}, range(1, 25))


def test_a_tail_without_a_bound_in_bytes_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LinkTable, "_forget_overflow", lambda self, link: None)
    assert is_found({"bound"}, range(1, 25))
