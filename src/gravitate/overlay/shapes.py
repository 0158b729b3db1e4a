"""Shapes of primary overlays: trees over brokers that are numbered from 0.

A shape is a list of links (parent, child) with the parent's number smaller than the child's, in
the order of the children; what brokers are called and where they stand is not known here. All
shapes are trees: `brokers - 1` links, no cycle.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Final

from gravitate.errors import InputError

Links = list[tuple[int, int]]


def balanced_tree(brokers: int, fanout: int = 2) -> Links:
    """Every broker has `fanout` children until the brokers run out; the last level may lack some.

    With fan-out 2, 63 brokers make a complete tree of 6 levels."""
    _require(brokers)
    if fanout < 1:
        raise InputError(f"fan-out {fanout} is not accepted: write a whole number from 1")
    return [((child - 1) // fanout, child) for child in range(1, brokers)]


def line(brokers: int) -> Links:
    """One after the other."""
    return balanced_tree(brokers, fanout=1)


def star(brokers: int) -> Links:
    """All around broker 0."""
    _require(brokers)
    return [(0, child) for child in range(1, brokers)]


def random_tree(brokers: int, seed: int, degree_max: int = 0) -> Links:
    """Each broker joins one that is already there, drawn uniformly (a random recursive tree).

    `degree_max` bounds the links of a broker (0: no bound; at least 2, or it could not grow)."""
    _require(brokers)
    if degree_max == 1 or degree_max < 0:
        raise InputError(f"degree {degree_max} is not accepted: write 0 (no bound) or at least 2")
    generator = random.Random(seed)
    degrees = [0] * brokers
    open_brokers = [0]
    links = []
    for child in range(1, brokers):
        slot = generator.randrange(len(open_brokers))
        parent = open_brokers[slot]
        links.append((parent, child))
        degrees[parent] += 1
        degrees[child] += 1
        if degrees[parent] == degree_max:
            open_brokers[slot] = open_brokers[-1]
            open_brokers.pop()
        open_brokers.append(child)
    return links


SHAPES: Final[dict[str, Callable[[int, int, int], Links]]] = {
    "balanced-tree": lambda brokers, fanout, seed: balanced_tree(brokers, fanout),
    "line": lambda brokers, fanout, seed: line(brokers),
    "star": lambda brokers, fanout, seed: star(brokers),
    "random-tree": lambda brokers, fanout, seed: random_tree(brokers, seed),
}
"""Shapes by name; each takes the number of brokers, the fan-out and a seed."""


def shape(name: str, brokers: int, fanout: int = 2, seed: int = 0) -> Links:
    """The links of the shape called `name`."""
    if name not in SHAPES:
        raise InputError(f"unknown shape '{name}': write one of {', '.join(SHAPES)}")
    return SHAPES[name](brokers, fanout, seed)


def _require(brokers: int) -> None:
    if brokers < 1:
        raise InputError(f"{brokers} brokers are not a network: write a whole number from 1")
