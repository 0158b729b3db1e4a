"""Links that events cross, for subscribers here or there: what moving one of them changes.

    total, saved = crossings(tree, wanted, home, elsewhere)

`saved[j]` is by how many fewer links all events cross when subscriber j alone is at its other
broker. It is exact, by the paths of the flow model on primary links: each link is crossed once by
an event that somebody behind it wants. What several moves change together is another question,
answered by asking again with them done.

A link that is crossed is one message taken in and one sent. What brokers get from publishers and
hand to subscribers is the same wherever subscribers are, so fewer crossings are exactly a lower
message rate.

Owns nothing but the arrays around the kernel.
"""

from __future__ import annotations

import msgspec
import numpy as np
from numpy.typing import NDArray

from gravitate.plan.flow import crossing_kernels as kernels
from gravitate.plan.flow.flow import Flows, Tree, flows_of

Ints = NDArray[np.int32]
Longs = NDArray[np.int64]
Floats = NDArray[np.float64]


class Wanted(msgspec.Struct, frozen=True, eq=False):
    """Events by source and audience; entry k is `events[k]` events that are alike in both."""

    source: Ints
    events: Floats
    size_bytes: Floats
    first: Longs
    """Where the audience of each begins in `member`, and where that of the last ends."""
    member: Longs
    """Numbers of subscribers; each once for an entry."""

    def __len__(self) -> int:
        return len(self.source)


def crossings(tree: Tree, wanted: Wanted, home: Ints, elsewhere: Ints) -> tuple[float, Floats]:
    """Links crossed with subscribers at `home`, and what each saves by being `elsewhere`."""
    saved = np.zeros(len(home))
    total = kernels.crossings(
        tree.parent,
        tree.depth,
        wanted.source,
        wanted.events,
        wanted.first,
        wanted.member,
        home,
        elsewhere,
        saved,
    )
    return float(total), saved


def flows_at(wanted: Wanted, home: Ints, brokers: int) -> tuple[Flows, Longs]:
    """The same events as flows to the brokers where their audience is, and for every member which
    of the targets is its own."""
    entry = np.repeat(np.arange(len(wanted)), np.diff(wanted.first))
    key, own, sessions = np.unique(
        entry * brokers + home[wanted.member], return_inverse=True, return_counts=True
    )
    of, target = np.divmod(key, brokers)
    first = np.searchsorted(of, np.arange(len(wanted) + 1))
    flows = flows_of(wanted.source, first, target, sessions, wanted.events, wanted.size_bytes)
    return flows, own.astype(np.int64)
