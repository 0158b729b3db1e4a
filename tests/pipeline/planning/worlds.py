"""Stock quotes on a random tree of brokers: deterministic worlds to plan on, and their runs."""

from __future__ import annotations

import random
from collections.abc import Mapping
from pathlib import Path

import msgspec
import pytest

from gravitate.config import network
from gravitate.config.network import BrokerSpec, LinkSpec, Network
from gravitate.config.plan import Plan
from gravitate.config.script import Publication, Script, ScriptClient, Subscription, payload_of
from gravitate.model.events import Event
from gravitate.simulate.run import run_scenario
from gravitate.trace.manifest import RunManifest
from gravitate.trace.metrics import Summary
from gravitate.trace.writer import TraceWriter

SYMBOLS = ("ABB", "IBM", "MSFT", "SUNW", "YHOO")


class Recorded(msgspec.Struct, frozen=True):
    """A run: what the simulator says of it, and where its traces are."""

    folder: Path
    metrics: Summary


def stock_world(seed: int, brokers: int = 9, quotes: int = 150, every_s: float = 0.25) -> Script:
    """A publisher for each symbol; subscribers want all of one, or its large trades. The last
    publisher has no audience at all."""
    draw = random.Random(f"stock-world/{seed}")
    # Ids whose order is not that of the file.
    names = [f"b{number}" for number in range(1, brokers + 1)]
    draw.shuffle(names)
    links = tuple(
        LinkSpec((names[draw.randrange(at)], names[at]), float(draw.randrange(1, 30)))
        for at in range(1, brokers)
    )
    publishers = [
        ScriptClient(
            f"pub-{symbol}", draw.choice(names), advertisements=(f"topic = 'quotes/{symbol}'",)
        )
        for symbol in SYMBOLS
    ]
    subscribers = [
        ScriptClient(
            f"sub-{number}",
            draw.choice(names),
            (
                Subscription(
                    f"quotes/{draw.choice(SYMBOLS[:-1])}",
                    draw.choice(("", "volume > 500", "volume > 900")),
                    "quotes",
                ),
            ),
        )
        for number in range(14)
    ]
    counts = dict.fromkeys((client.id for client in publishers), 0)
    publications = []
    for number in range(quotes):
        symbol = SYMBOLS[number % len(SYMBOLS)]
        client = f"pub-{symbol}"
        counts[client] += 1
        event = Event(
            {"topic": f"quotes/{symbol}", "volume": draw.randrange(1000)},
            payload_of(client, counts[client], 100),
        )
        publications.append(Publication(every_s * number, client, counts[client], event))
    return Script(
        name=f"stocks-{seed}",
        seed=seed,
        duration_s=every_s * (quotes - 1),
        network=Network("stocks", tuple(map(BrokerSpec, names)), links),
        clients=(*publishers, *subscribers),
        publications=tuple(publications),
    )


def with_clients_at(script: Script, places: Mapping[str, str]) -> Script:
    """The same script with some clients elsewhere from the start."""
    clients = tuple(
        msgspec.structs.replace(client, broker=places.get(client.id, client.broker))
        for client in script.clients
    )
    return msgspec.structs.replace(script, clients=clients)


def record(script: Script, folder: Path) -> Recorded:
    """Run the script; its traces go into the folder."""
    with TraceWriter(folder, "world", link_period_s=1.0) as writer:
        result = run_scenario(script, observers=[writer], checks=False)
    assert result.is_sound()
    RunManifest(network.render(script.network), "virtual", scenario=script.name).save(folder)
    return Recorded(folder, result.metrics)


def assert_is_as_recorded(plan: Plan) -> None:
    """What the model has of things as they are is what the run measured."""
    for metric, known in plan.recorded.items():
        value = plan.before[metric]
        if known is None:
            assert value is None, metric
        else:
            # Percentiles come from classes 2 % wide.
            close = 0.02 if metric.startswith("delay_ms_p") else 1e-9
            assert value == pytest.approx(known, rel=close, abs=1e-9), metric
