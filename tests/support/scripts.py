"""Scripts as the tables of a workload, small random worlds at low load, and what the flow model
says of them."""

from __future__ import annotations

import json
import math
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gravitate.broker.observers import Matched, Observer
from gravitate.config.network import BrokerSpec, LinkSpec, Network
from gravitate.config.script import (
    Publication,
    Script,
    ScriptClient,
    ServiceTimes,
    Subscription,
    payload_of,
)
from gravitate.config.workload_tables import TABLES, WorkloadManifest
from gravitate.model.events import Batch, Event
from gravitate.pipeline.evaluate.metrics import Evaluation, Terms
from gravitate.trace.metrics import Summary
from tests.support.in_process import evaluate_tables


def tables_of(script: Script) -> dict[str, pa.Table]:
    """A script's publications and subscriptions as the tables of a workload."""
    home = {client.id: client.broker for client in script.clients}
    publications = [
        {
            "publisher": one.client,
            "number": one.number,
            "at_s": one.at_s,
            "topic": one.event.attributes["topic"],
            "attributes": json.dumps(
                {name: v for name, v in one.event.attributes.items() if name != "topic"}
            ),
            "payload_bytes": len(one.event.payload),
            "broker": home[one.client],
        }
        for one in script.publications
    ]
    subscriptions = [
        {
            "subscriber": client.id,
            "subscription": one.name or f"{number}",
            "broker": client.broker,
            "topic": one.topic,
            "condition": one.where,
            "from_s": 0.0,
            "until_s": None,
        }
        for client in script.clients
        for number, one in enumerate(client.subscriptions)
    ]
    rows: dict[str, list[dict[str, Any]]] = {
        "publications": publications,
        "subscriptions": subscriptions,
    }
    return {name: pa.Table.from_pylist(rows[name], TABLES[name]) for name in rows}


def write_workload(tables: dict[str, pa.Table], folder: Path, **parameters: Any) -> Path:
    """A workload's folder with these tables."""
    for name, table in tables.items():
        (folder / name).mkdir(parents=True)
        pq.write_table(table, folder / name / "part-00000.parquet")
    WorkloadManifest(
        workload="made-by-hand",
        seed=0,
        parameters=parameters,
        source="synthetic, for a test",
        rows={name: table.num_rows for name, table in tables.items()},
    ).save(folder)
    return folder


def quiet_world(seed: int) -> Script:
    """A random tree with random clients whose publications never meet: one every second."""
    draw = random.Random(f"quiet-world/{seed}")
    names = [f"b{number}" for number in range(1, draw.randrange(1, 16) + 1)]
    draw.shuffle(names)
    limited = draw.random() < 0.4
    links = []
    for index in range(1, len(names)):
        ends = [names[index], names[draw.randrange(index)]]
        draw.shuffle(ends)
        bandwidth = draw.choice((0.0, 20_000.0, 1e6)) if limited else 0.0
        latency_ms = draw.choice((0.0, 1.0, draw.uniform(1.0, 60.0)))
        links.append(LinkSpec((ends[0], ends[1]), latency_ms, bandwidth))
    service = draw.choice(
        (ServiceTimes(), ServiceTimes(*(draw.choice((0.0, 0.3, 1.7)) for _ in range(3))))
    )
    topics = ("t/a", "t/b", "u")
    publishers = [
        ScriptClient(f"p{number}", draw.choice(names), advertisements=("topic MATCHES '#'",))
        for number in range(draw.randrange(1, 5))
    ]
    conditions = ("", "x > 7", "x < 3 AND word = 'a'", "word <> 'b'", "x > 100")
    subscribers = [
        ScriptClient(
            f"s{number}",
            draw.choice(names),
            tuple(
                Subscription(draw.choice(("#", "t/+", "u", "t/b")), draw.choice(conditions), f"{n}")
                for n in range(draw.choice((1, 1, 2)))
            ),
        )
        for number in range(draw.randrange(0, 20))
    ]
    counts = dict.fromkeys((client.id for client in publishers), 0)
    publications = []
    for second in range(30):
        client = draw.choice(publishers).id
        counts[client] += 1
        event = Event(
            {"topic": draw.choice(topics), "x": draw.randrange(10), "word": draw.choice("abc")},
            payload_of(client, counts[client], draw.choice((0, 300))),
        )
        publications.append(Publication(float(second), client, counts[client], event))
    return Script(
        name=f"quiet-{seed}",
        seed=seed,
        duration_s=30.0,
        network=Network("quiet", tuple(map(BrokerSpec, sorted(names))), tuple(links)),
        clients=(*publishers, *subscribers),
        publications=tuple(publications),
        service=service,
    )


def modelled(script: Script) -> Evaluation:
    """A script evaluated in this process, by what the tasks run."""
    return evaluate_tables(
        script.network,
        **tables_of(script),
        duration_s=script.duration_s,
        terms=Terms(script.service),
    )


class Spread(Observer):
    """Counts deliveries by hops, and pure forwarding by broker."""

    def __init__(self) -> None:
        self.hops: Counter[int] = Counter()
        self.pure_forwarders: Counter[str] = Counter()

    def on_hop(self, hop: Matched, now: float) -> None:
        if hop.came_from is not None:
            self.pure_forwarders[hop.broker] += sum(not sessions for sessions in hop.local)

    def on_delivered(self, broker: str, session: str, batch: Batch, qos: int, now: float) -> None:
        self.hops[batch.hops_at(broker)] += len(batch.counters)


def check_agreement(model: Evaluation, world: Summary, what: str) -> None:
    told = {name: value or 0.0 for name, value in model.metrics.items()}
    assert told["published"] == world.published, what
    assert told["delivered"] == world.delivered, what
    assert math.isclose(told["hops_mean"], world.hops_mean, rel_tol=1e-12), what
    assert told["arrivals"] == world.arrivals, what
    assert told["pure_forwarders"] == world.pure_forwarders, what
    assert math.isclose(told["yield_share"], world.yield_share), what
    for name in ("mean", "p50", "p95", "p99", "max"):
        one, other = told[f"delay_ms_{name}"], getattr(world, f"delay_ms_{name}")
        assert math.isclose(one, other, rel_tol=0.01, abs_tol=0.001), (what, name, one, other)
    # Rates are over the time that a workload says, and over that which a run was observed.
    counts = {
        broker: (figures["rate_msgs_per_s"] or 0.0) * told["duration_s"]
        for broker, figures in model.brokers.items()
    }
    assert counts == pytest.approx(
        {broker: rate * world.observed_s for broker, rate in world.broker_rates_msgs_per_s.items()}
    ), what
