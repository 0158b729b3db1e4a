"""Faults: what goes wrong when, done to a world.

Every fault ends: a cut heals, a broker that stopped starts again, a client comes back. Nothing
here knows what faults should lead to; that is for the checkers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from gravitate.config.script import (
    CutLink,
    DelayLink,
    DisconnectClient,
    Fault,
    RestartBroker,
)
from gravitate.simulate.clients import Client
from gravitate.simulate.scheduler import FIRST
from gravitate.simulate.world import World

START_AGAIN_S = 0.05
"""How often it is looked whether a broker that was asked to stop has done so."""


def schedule(
    world: World, faults: Sequence[Fault], clients: Mapping[str, Client], origin_s: float = 0.0
) -> None:
    """Let `faults` happen, their times counted from `origin_s`."""
    for fault in faults:
        start_s = origin_s + fault.at_s
        world.scheduler.at(start_s, partial(_begin, world, clients), fault, FIRST)
        world.scheduler.at(start_s + fault.for_s, partial(_end, world, clients), fault, FIRST)


def _begin(world: World, clients: Mapping[str, Client], fault: Fault) -> None:
    match fault:
        case CutLink(between=(a, b)):
            world.cut(a, b)
        case DelayLink(between=(a, b), extra_ms=extra_ms):
            world.delay(a, b, extra_ms / 1000.0)
        case RestartBroker(broker=broker):
            world.hosts[broker].stop()
        case DisconnectClient(client=client):
            clients[client].disconnect()


def _end(world: World, clients: Mapping[str, Client], fault: Fault) -> None:
    match fault:
        case CutLink(between=(a, b)):
            world.heal(a, b)
        case DelayLink(between=(a, b)):
            world.delay(a, b, 0.0)
        case RestartBroker(broker=broker):
            start_when_down(world, broker)
        case DisconnectClient(client=client):
            if clients[client].connection is None:
                clients[client].connect()


def start_when_down(world: World, broker: str) -> None:
    """Start a broker as soon as it has stopped; it may still be emptying its links."""
    if world.is_up(broker) and world.hosts[broker].stopping:
        world.scheduler.after(START_AGAIN_S, partial(start_when_down, world), broker, FIRST)
    else:
        world.hosts[broker].start()
