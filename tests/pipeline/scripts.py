"""Scripts as the tables of a workload, and small random worlds at low load."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

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
from gravitate.model.events import Event


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
