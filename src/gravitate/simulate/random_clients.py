"""What random worlds are about: filters and events from a small domain, so that they meet often.

Filters cover, equal and overlap each other on purpose; events fall inside many of them. Nothing
here knows brokers or time.
"""

from __future__ import annotations

import random

from gravitate.model.canonical import all_of, any_of
from gravitate.model.events import TOPIC, Event
from gravitate.model.filters import EVERYTHING, Filter, Op, Predicate
from gravitate.model.semantics import matches
from gravitate.model.topics import topic_predicate

TOPICS = ("a", "a/b", "a/b/c", "a/d", "e", "e/f", "e/f/g")
PATTERNS = ("#", "a/#", "+", "+/b", "a/+", "a/b/#", "e/#", "+/+/+", "e/f")
SYMBOLS = ("ABC", "ABD", "XYZ", "10", "7")
NUMBER_MAX = 12


def publishes(client_id: str) -> bool:
    """Whether a client is one that publishes: every other one is."""
    return int(client_id[1:]) % 2 == 0


def event(generator: random.Random) -> Event:
    """An event on one of few topics; some attributes are missing at times."""
    attributes: dict[str, float | int | str | bool] = {TOPIC: generator.choice(TOPICS)}
    if generator.random() < 0.9:
        attributes["x"] = generator.randint(0, NUMBER_MAX)
    if generator.random() < 0.7:
        attributes["y"] = generator.randint(0, NUMBER_MAX) / 2
    if generator.random() < 0.7:
        attributes["symbol"] = generator.choice(SYMBOLS)
    return Event(attributes)


def event_within(generator: random.Random, advertised: list[Filter]) -> Event | None:
    """An event that one of `advertised` announced; None when none was found soon."""
    for _ in range(50):
        drawn = event(generator)
        if any(matches(filter, drawn.attributes) for filter in advertised):
            return drawn
    return None


def filter(generator: random.Random) -> Filter:
    """A filter: everything, a topic, a pattern, ranges, equality, or two of those either way."""
    kind = generator.random()
    if kind < 0.05:
        return EVERYTHING
    if kind < 0.15:
        return any_of(((_predicate(generator),), (_predicate(generator), _predicate(generator))))
    if kind < 0.55:
        return all_of(_predicate(generator))
    return all_of(_predicate(generator), _predicate(generator))


def advertisement(generator: random.Random) -> Filter:
    """A filter that is mostly wide, so that there is something to publish."""
    kind = generator.random()
    if kind < 0.1:
        return EVERYTHING
    if kind < 0.5:
        return all_of(topic_predicate(generator.choice(PATTERNS)))
    if kind < 0.8:
        return all_of(Predicate(TOPIC, Op.EQ, generator.choice(TOPICS)))
    return all_of(_range(generator, "x"))


def _predicate(generator: random.Random) -> Predicate:
    match generator.randrange(6):
        case 0:
            return Predicate(TOPIC, Op.EQ, generator.choice(TOPICS))
        case 1:
            return topic_predicate(generator.choice(PATTERNS))
        case 2:
            return Predicate("symbol", Op.EQ, generator.choice(SYMBOLS))
        case 3:
            return Predicate("symbol", Op.PREFIX, generator.choice(("A", "AB", "X")))
        case 4:
            return _range(generator, "x")
        case _:
            return _range(generator, "y")


def _range(generator: random.Random, attribute: str) -> Predicate:
    op = generator.choice((Op.LT, Op.LE, Op.GT, Op.GE, Op.EQ, Op.NE))
    return Predicate(attribute, op, float(generator.randint(0, NUMBER_MAX)))
