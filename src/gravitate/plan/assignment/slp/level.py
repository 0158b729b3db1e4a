"""A level of the tree: one broker decides which of its children serves whom.

    level = level_of(network, PUBLISHER)      # the brokers linked to the publisher
    level = flat(network)                     # all leaves, as if linked to the publisher

Children are told apart by their positions in `brokers`. The leaves below stay in the decision: a
subscriber may only go to a child below which one of its candidates lies, and every leaf has its own
capacity (`problem.Problem.leaf_capacities`), counted against all subscribers.
"""

from __future__ import annotations

from typing import Final

import msgspec
import numpy as np

from gravitate.plan.assignment.problem.problem import PUBLISHER, Ints, Network, Words, leaf_bits

ELSEWHERE: Final = -1
"""The child of leaves that are not below the level."""


class Level(msgspec.Struct, frozen=True, eq=False):
    """The children of a broker, and the leaves below them."""

    brokers: Ints
    """Of each child."""
    child: Ints
    """The child above each leaf of the network, or `ELSEWHERE`."""
    complexity: Ints
    """How many boxes the filter of each child may have."""

    def __len__(self) -> int:
        return len(self.brokers)

    def leaves_mask(self) -> Words:
        """One row of candidates: all leaves below the level."""
        return leaf_bits(self.child != ELSEWHERE)


def level_of(network: Network, broker: int) -> Level:
    """The children of a broker, or of the publisher."""
    brokers = np.flatnonzero(network.parent == broker).astype(np.int32)
    above = np.full(len(network), ELSEWHERE, dtype=np.int32)
    above[brokers] = np.arange(len(brokers), dtype=np.int32)
    for below in network.order:
        parent = network.parent[below]
        if parent not in (PUBLISHER, broker):
            above[below] = above[parent]
    return Level(brokers, above[network.leaves], network.complexity[brokers])


def flat(network: Network) -> Level:
    """All leaves as children of the publisher."""
    leaves = network.leaves
    return Level(leaves, np.arange(len(leaves), dtype=np.int32), network.complexity[leaves])
