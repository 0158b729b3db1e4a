"""What a neighbour might say that is out of its mind: any message, about anybody, at any time."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any, Final

from gravitate.broker.messages import frames as m
from gravitate.broker.messages import guests as g
from gravitate.broker.messages import tether as t
from gravitate.model.events import Batch, Event
from gravitate.model.language import parse
from gravitate.wire.mqtt.bodies import FrameBodies

CLIENTS: Final = ("c1", "c2", "stranger")
MOVES: Final = ("m1", "m2", "m3", "home:a:1:2")
FILTERS: Final = tuple(map(parse, ("v > 1", "v = 2", "topic = 't'", "w = 'x' OR v < 3", "v >= 0")))


def message(draw: random.Random, brokers: Sequence[str]) -> m.Message:
    """Any message; names and numbers are such that some of them are known to the receiver, which
    is the first of the brokers. The third says it, and is a neighbour as the second is."""
    kinds = (
        _routing,
        _routing,
        _mechanism,
        _move,
        _tether,
        _tether,
        _deposit,
        _carrying,
        _carrying,
    )
    return draw.choice(kinds)(draw, brokers)


def _number(draw: random.Random) -> int:
    return draw.choice((0, 1, 2, 3, 5, 10, draw.randrange(50), 2**40))


def _token(draw: random.Random) -> int:
    return draw.randrange(60)


def _path(draw: random.Random, brokers: Sequence[str], *, back: bool = False) -> tuple[str, ...]:
    """Mostly one from the sender by way of the receiver; or the other way, for answers."""
    if draw.random() < 0.95:
        way = (brokers[2], brokers[0], brokers[1])[: draw.randint(2, 3)]
        return way[::-1] if back else way
    return tuple(draw.choice(brokers) for _ in range(draw.randrange(4)))


def _wanted(draw: random.Random) -> tuple[g.Wanted, ...]:
    return tuple(
        g.Wanted(draw.choice(("s1", "s2")), draw.choice(FILTERS), draw.randint(0, 2))
        for _ in range(draw.randrange(3))
    )


def _routing(draw: random.Random, brokers: Sequence[str]) -> m.Message:
    client = draw.choice(CLIENTS)
    life, filter = f"{client}#{draw.randint(1, 2)}", draw.choice(FILTERS)
    known = (f"{life}/topic:t", f"{life}/client:n", f"{life}@{draw.choice(brokers)}/1", "z")
    match draw.randrange(7):
        case 0:
            return m.Advertise(
                draw.choice(known), client, draw.randint(1, 2), filter, _token(draw),
                _number(draw),
            )  # fmt: skip
        case 1:
            return m.Unadvertise(draw.choice(known), _token(draw))
        case 2:
            return m.Subscribe(draw.choice(known), filter, _token(draw))
        case 3:
            return m.Unsubscribe(draw.choice(known), _token(draw))
        case 4:
            return m.Settled(_token(draw), _open(draw, brokers))
        case 5:
            phase = draw.choice(("advertisements", "subscriptions"))
            return m.SyncEnd(phase, _open(draw, brokers))
    link = (draw.choice(brokers), draw.choice(brokers))
    if draw.random() < 0.5:
        return m.Drained(link)
    return m.Congested(link, ((draw.choice((*CLIENTS, *brokers)), 1),))


def _open(draw: random.Random, brokers: Sequence[str]) -> tuple[str, ...]:
    return tuple(draw.choice((*brokers, "x")) for _ in range(draw.choice((0, 0, 0, 1, 2))))


def _deposit(draw: random.Random, brokers: Sequence[str]) -> m.Message:
    about = (_number(draw), _number(draw), draw.choice(brokers), draw.choice(CLIENTS), 1)
    entrusted = g.Entrusted(*about, _wanted(draw), _number(draw))
    return draw.choice((entrusted, g.Reminder(entrusted)))


def _mechanism(draw: random.Random, brokers: Sequence[str]) -> m.Message:
    return m.MechanismMessage(draw.choice(("grape", "pop", "none")), draw.randbytes(4))


def _move(draw: random.Random, brokers: Sequence[str]) -> m.Message:
    move, path, way_back = draw.choice(MOVES), _path(draw, brokers), _path(draw, brokers, back=True)
    match draw.randrange(7):
        case 0:
            tether = draw.choice(("", *brokers))
            return m.PrepareMove(move, path, draw.choice((0.0, 5.0, -1.0)), tether)
        case 1:
            return m.MoveAnswer(move, way_back, draw.random() < 0.5, "why")
        case 2:
            return m.EndMove(move, path)
        case 3:
            origin = draw.choice(("", *brokers))
            return g.TakeGuest(
                move, path, draw.choice(CLIENTS), _number(draw), _wanted(draw),
                draw.choice((0.0, 5.0)), origin, _number(draw),
            )  # fmt: skip
        case 4:
            step = draw.choice(list(g.GuestStep))
            origin = draw.choice(("", *brokers))
            return g.GuestAnswer(
                move, way_back, step, "why", origin, _number(draw), draw.choice(CLIENTS),
                _wanted(draw), _number(draw), _number(draw),
            )  # fmt: skip
        case 5:
            return g.StagingPoll(move, path)
    batches = tuple(_batch(draw, brokers) for _ in range(draw.randrange(3)))
    seen = tuple(
        (draw.choice(CLIENTS), draw.randint(1, 2), _number(draw)) for _ in range(draw.randrange(3))
    )
    qos = tuple(draw.randint(0, 1) for _ in batches)
    return g.GuestCut(
        move, path, seen, qos, batches, draw.randrange(3), draw.random() < 0.3,
        _open(draw, brokers), draw.random() < 0.8, _number(draw),
    )  # fmt: skip


def _tether(draw: random.Random, brokers: Sequence[str]) -> m.Message:
    number = draw.choice((0, 1, 2, 3))
    attachment = draw.choice((0, 1, 2, 3, 1 << 20, (1 << 20) + 1))
    about = (number, attachment)
    key = draw.choice(("topic:t", "client:n"))
    match draw.randrange(12):
        case 0:
            return t.TetherAttach(
                *about, draw.choice(CLIENTS), draw.randint(1, 2), _role(draw, brokers, key)
            )
        case 1:
            return t.TetherAdvertise(*about, draw.randint(0, 9), key, draw.choice(FILTERS))
        case 2:
            return t.TetherAdvertise(*about, draw.randint(0, 9), key, None)
        case 3:
            return t.TetherPaused(*about)
        case 4:
            return t.TetherDetach(*about)
        case 5:
            return t.TetherAttached(*about)
        case 6:
            return t.TetherSettled(*about, draw.choice(("n", "s1")), _number(draw))
        case 7:
            return t.TetherHold(*about, draw.random() < 0.5)
        case 8:
            return t.TetherRedirect(*about, draw.choice(brokers))
        case 9:
            return t.TetherRedirect(*about, None)
        case 10:
            return t.TetherWants(*about, _wanted(draw), _number(draw))
    reason = draw.choice(
        (
            "moved",
            "overloaded",
            "stopping",
            "unheard",
            "ended",
            "taken-over",
            "not-here",
            "nonsense",
        )
    )
    return t.TetherClosed(
        *about, reason, draw.choice((None, *brokers)), draw.choice((None, *MOVES))
    )


def _role(draw: random.Random, brokers: Sequence[str], key: str) -> t.Publishing | t.Serving:
    if draw.random() < 0.5:
        return t.Serving(draw.choice((None, *MOVES)))
    lost = draw.choice((None, *brokers))
    return t.Publishing({key: draw.choice(FILTERS)}, _path(draw, brokers), lost)


def _carrying(draw: random.Random, brokers: Sequence[str]) -> m.Message:
    batches = [_batch(draw, brokers) for _ in range(draw.randrange(3))]
    if draw.random() < 0.6:
        return m.Publications(batches)
    attachment = draw.choice((0, 1, 2, 3, 1 << 20, (1 << 20) + 1))
    about = (draw.randrange(4), attachment)
    if draw.random() < 0.5:
        return t.HandedOver(*about, draw.randint(0, 9), tuple(batches))
    return t.Deliveries(*about, draw.randint(0, 9), draw.randint(0, 1), tuple(batches))


def _batch(draw: random.Random, brokers: Sequence[str]) -> Batch:
    first, count = draw.randint(1, 6), draw.randint(1, 3)
    events = [Event({"topic": "t", "v": str(n)}, b"x") for n in range(count)]
    return Batch(
        draw.choice(CLIENTS),
        draw.randint(1, 2),
        range(first, first + count),
        FrameBodies.from_events(events),
        draw.randint(0, 1),
        0.0,
        draw.random() < 0.3,
        _path(draw, brokers),
        draw.choice((0, 0, 1, 2**63)),
    )


def frame(draw: random.Random, brokers: Sequence[str], sequence: int) -> tuple[Any, int]:
    """A frame that is in its place, and the number that follows it; rarely one that is not."""
    kind = draw.random()
    if kind < 0.9:
        messages = [message(draw, brokers) for _ in range(draw.randint(1, 3))]
        return m.Data(
            sequence,
            0 if draw.random() < 0.95 else _number(draw),
            messages,
            0 if draw.random() < 0.95 else _number(draw),
        ), sequence + len(messages)
    if kind < 0.95:
        return m.Acknowledge(_number(draw), draw.choice((0, _number(draw)))), sequence
    return draw.choice(
        (m.Ping(1.0), m.Pong(-5.0), m.Draining(), m.Refusal("no", "why"), m.Data(99, 0, []))
    ), sequence
