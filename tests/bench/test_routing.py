"""The benchmark of routing tables: both tables do the same, and every case is reported."""

from __future__ import annotations

import pytest

from gravitate.bench import routing
from gravitate.broker.routing.content.table import Neighbour


@pytest.mark.parametrize("neighbour", [Neighbour, routing.ScannedNeighbour])
def test_who_leaves_is_forgotten_with_what_was_told_for_it(neighbour: type[Neighbour]) -> None:
    scene = routing.Scene(neighbour)
    leave = routing.leave(scene, 30)
    there = scene.broker.router.table.neighbours[routing.THERE]  # type: ignore[attr-defined]
    assert len(there.told) == len(there.eligible) == len(there.advertised) == 30
    leave()
    assert [there.told, there.eligible, there.advertised] == [{}, {}, {}]
    assert len(scene.broker.router.table.subscriptions) == 30


def test_every_case_is_reported_with_its_longest_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(routing, "ROUNDS", 1)
    monkeypatch.setattr(routing, "LEAVING", {"leave-200": 20, "leave-2k": 30})
    growing = {name: (case, 40) for name, (case, _) in routing.GROWING.items()}
    monkeypatch.setattr(routing, "GROWING", growing)
    monkeypatch.setattr(routing, "CASES", ("leave-200", "leave-2k", *growing))
    records = {record.case: record for record in routing.run()}
    assert records["leave-200"].baseline is not None
    for name in routing.CASES:
        assert records[name].value >= records[f"{name}-longest"].value > 0
    assert all(records[f"{name}-growth"].unit == "times" for name in growing)
