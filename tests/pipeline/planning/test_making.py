"""A plan made from a run: each publisher where GRAPE or POP would have it, and figures that the
network with the moves applied really has."""

from __future__ import annotations

import math
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from tests.pipeline.planning.worlds import (
    Recorded,
    assert_is_as_recorded,
    record,
    with_clients_at,
)

from gravitate.config.plan import Plan, digest_of
from gravitate.config.planning import PublisherOptions
from gravitate.config.script import Script
from gravitate.errors import InputError
from gravitate.model.moves import RelocatePublisher
from gravitate.overlay.tree import neighbours, path
from gravitate.pipeline.planning.making import make_plan, plan_rows
from gravitate.pipeline.planning.making_publishers import PublisherPlanner
from gravitate.pipeline.tables import schemas
from gravitate.plan.placement.grape import Answer, Measured, select
from gravitate.plan.placement.pop import next_hop
from gravitate.trace import reader

GRAPE = {
    "load": PublisherOptions(at_least=1),
    "delay": PublisherOptions(prioritise="delay", at_least=1),
}
POP = PublisherOptions(mechanism="pop", at_least=1)


@pytest.fixture(scope="module")
def plans(spark: Any, run: Recorded) -> dict[str, Plan]:
    made = {
        metric: make_plan(spark, run.folder, PublisherPlanner(how)) for metric, how in GRAPE.items()
    }
    return made | {"pop": make_plan(spark, run.folder, PublisherPlanner(POP))}


def targets(plan: Plan, script: Script) -> dict[str, str]:
    """Where each publisher is when the plan has been carried out."""
    homes = {client.id: client.broker for client in script.clients if client.advertisements}
    for move in plan.moves:
        assert isinstance(move, RelocatePublisher)
        assert homes[move.publisher] == move.source
        homes[move.publisher] = move.target
    return homes


def answers(script: Script, run: Recorded, publisher: str, at: str) -> list[Answer]:
    """What the brokers on the ways of a publisher's events would answer to a trace request, from
    the rows of the traces one by one."""
    links = {frozenset(link.between): link.latency_ms / 1000 for link in script.network.links}
    brokers = [broker.id for broker in script.network.brokers]
    near = neighbours(brokers, [tuple(sorted(ends)) for ends in links])  # type: ignore[misc]
    bits: dict[str, int] = defaultdict(int)
    deliveries: dict[str, int] = defaultdict(int)
    seen = {at}
    for row in reader.read(run.folder, "hops").to_pylist():
        if row["publisher"] == publisher:
            seen.add(row["broker"])
            if row["local_deliveries"]:
                bits[row["broker"]] |= 1 << row["counter"]
                deliveries[row["broker"]] += row["local_deliveries"]
    return [
        Answer.of(
            broker,
            bits[broker].to_bytes(64, "little"),
            Measured(
                deliveries[broker],
                dict.fromkeys(near[broker], 0.0),
                link_s={other: links[frozenset((broker, other))] for other in near[broker]},
            ),
        )
        for broker in sorted(seen)
    ]


@pytest.mark.parametrize("metric", ["load", "delay"])
def test_every_publisher_goes_where_grape_would_have_it_alone(
    script: Script, run: Recorded, plans: dict[str, Plan], metric: str
) -> None:
    found = targets(plans[metric], script)
    figures = {move.publisher: move.why.figures for move in plans[metric].moves}  # type: ignore[union-attr]
    for client in script.clients:
        if client.advertisements:
            choice = select(
                answers(script, run, client.id, client.broker), client.broker, GRAPE[metric].grape
            )
            assert found[client.id] == choice.target, client.id
            if client.id in figures:
                for broker, when in ((client.broker, "before"), (choice.target, "after")):
                    told = choice.figures(broker)
                    assert figures[client.id][f"delay_s_{when}"] == pytest.approx(told.delay_s)
    assert len(plans[metric].moves) >= 2


def test_every_publisher_goes_where_pops_request_would_end(
    script: Script, run: Recorded, plans: dict[str, Plan]
) -> None:
    brokers = [broker.id for broker in script.network.brokers]
    near = neighbours(brokers, [link.between for link in script.network.links])
    found = targets(plans["pop"], script)
    for client in script.clients:
        if not client.advertisements:
            continue
        wanted: dict[str, int] = defaultdict(int)
        for row in reader.read(run.folder, "hops").to_pylist():
            if row["publisher"] == client.id:
                wanted[row["broker"]] += row["local_deliveries"]

        def behind(here: str, other: str, wanted: dict[str, int] = wanted) -> float:
            ways = {broker: path(near, here, broker) or [] for broker in wanted}
            return float(sum(wanted[broker] for broker in ways if ways[broker][1:2] == [other]))

        here, sender, rest = client.broker, None, 0.0
        while True:
            downstream = {other: behind(here, other) for other in near[here]}
            hop = next_hop(downstream, wanted[here], sender, rest)
            if hop is None:
                break
            sender, here, rest = here, hop.neighbour, hop.behind
        assert found[client.id] == here, client.id
    assert plans["pop"].moves


def test_the_model_of_things_as_they_are_is_what_was_recorded(plans: dict[str, Plan]) -> None:
    assert_is_as_recorded(plans["load"])


@pytest.mark.parametrize("name", ["load", "delay", "pop"])
def test_a_prediction_is_what_the_network_with_the_moves_does(
    script: Script, plans: dict[str, Plan], tmp_path: Path, name: str
) -> None:
    plan = plans[name]
    moved = record(with_clients_at(script, targets(plan, script)), tmp_path / "moved").metrics
    after = plan.after
    assert after["published"] == moved.published
    assert after["delivered"] == moved.delivered
    assert after["arrivals"] == moved.arrivals
    assert after["pure_forwarders"] == moved.pure_forwarders
    for metric in ("hops_mean", "yield_share", "delay_ms_mean", "delay_ms_max"):
        assert after[metric] == pytest.approx(getattr(moved, metric)), metric
    for metric in ("broker_rate_msgs_per_s_mean", "broker_rate_msgs_per_s_max"):
        assert after[metric] == pytest.approx(getattr(moved, metric)), metric


def test_a_plan_is_better_where_it_says_so(plans: dict[str, Plan]) -> None:
    load, delay = plans["load"], plans["delay"]
    assert load.after["arrivals"] < load.before["arrivals"]  # type: ignore[operator]
    assert delay.after["delay_ms_mean"] < delay.before["delay_ms_mean"]  # type: ignore[operator]
    assert load.after["arrivals"] <= delay.after["arrivals"]  # type: ignore[operator]
    saved = sum(
        move.why.figures["messages_before"] - move.why.figures["messages_after"]
        for move in load.moves
    )
    assert saved == load.before["arrivals"] - load.after["arrivals"]  # type: ignore[operator]
    assert load.after["reconfiguration_cost"] == sum(move.why.cost for move in load.moves)


def test_moves_say_where_along_and_why(script: Script, plans: dict[str, Plan]) -> None:
    plan = plans["load"]
    assert plan.digest == digest_of(script.network)
    brokers = [broker.id for broker in script.network.brokers]
    near = neighbours(brokers, [link.between for link in script.network.links])
    for at, move in enumerate(plan.moves, start=1):
        assert isinstance(move, RelocatePublisher)
        assert move.id == f"{plan.id}-{at}"
        assert list(move.path) == path(near, move.source, move.target)
        assert move.why.cost == len(move.path) - 1
        assert move.why.gain > 0
        assert "GRAPE (load 100 %)" in move.why.reason
        assert f"{move.why.figures['messages_after']:,.0f} messages" in move.why.reason
    savings = [
        move.why.figures["messages_before"] - move.why.figures["messages_after"]
        for move in plan.moves
    ]
    assert savings == sorted(savings, reverse=True)


def test_rows_of_a_plan_have_their_schema(spark: Any, plans: dict[str, Plan]) -> None:
    rows = list(plan_rows(plans["load"]))
    frame = spark.createDataFrame(rows, schemas.PLANS)
    assert frame.count() == len(plans["load"].moves)
    assert rows[0][1:4] == (1, plans["load"].moves[0].id, "relocate-publisher")


def test_a_mechanism_that_does_not_exist_is_refused() -> None:
    with pytest.raises(InputError, match=r"unknown mechanism 'gravity'.*one of grape, pop"):
        PublisherOptions(mechanism="gravity")
    assert math.isclose(PublisherOptions().parameters()["margin_percent"], 5.0)  # type: ignore[arg-type]
