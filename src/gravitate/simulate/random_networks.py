"""What a random world is made of: its network, its brokers' options, how long things take."""

from __future__ import annotations

import random

import msgspec

from gravitate.broker.options import BrokerOptions
from gravitate.config.network import BrokerSpec, LinkSpec, Network
from gravitate.overlay import shapes
from gravitate.simulate.models import ServiceModel

SMALL_SHARE = 1 / 3
"""Of the worlds in which a bound is so small that it is reached at once."""
SMALL: dict[str, tuple[int, ...]] = {
    "session_queue_events_max": (5,),
    "session_queue_bytes_max": (600,),
    "session_window_bytes_max": (150,),
    "session_seen_bytes_max": (300,),
    "link_queue_events_max": (10,),
    "link_queue_bytes_max": (500,),
    "link_control_bytes_max": (3_000,),
    "frame_events_max": (1, 3),
    "frame_bytes_max": (200,),
    "hold_events_max": (3,),
    "hold_bytes_max": (200,),
    "portion_max": (1,),
    "advertise_topics_max": (1, 2),
}
"""Bounds that are reached at once; an event has about 60 bytes."""
GRACE_S = 2.5
"""Links are given up after this long, in some worlds."""
STOP_S_MAX = 0.5
"""Brokers stop within this, emptied or not, in some worlds."""


def network(generator: random.Random) -> Network:
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


def options(generator: random.Random, faults: bool) -> BrokerOptions:
    """Some that hold for every world, and small bounds; what only loses something if it is reached
    comes with faults."""
    drawn = BrokerOptions(
        heartbeat_s=0.4 if generator.random() < 0.2 else 0.0,
        durable=generator.random() < 0.2,
        acknowledge_after_s=generator.choice((0.001, 0.02, 0.3)),
        acknowledge_every=generator.choice((1, 4, 64)),
        link_grace_s=GRACE_S if faults and generator.random() < SMALL_SHARE else 0.0,
        hold_s_max=generator.choice((5.0, 0.05)),
        stop_s_max=STOP_S_MAX if faults and generator.random() < SMALL_SHARE else 0.0,
    )
    small = {
        name: generator.choice(sizes)
        for name, sizes in SMALL.items()
        if generator.random() < SMALL_SHARE
    }
    return msgspec.structs.replace(drawn, **small)


def service(generator: random.Random) -> ServiceModel | None:
    """How long steps take; None: no time."""
    return generator.choice(
        (None, None, ServiceModel(batch_s=1e-4, event_s=5e-5), ServiceModel(batch_s=0.02))
    )
