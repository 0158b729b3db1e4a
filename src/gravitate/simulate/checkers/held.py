"""What a broker holds at the moment when it is killed: that may be lost, by those it was held for.

Walks everything that a broker refers to and finds the events in it, as the checker of leaks finds
what stayed behind: a queue that is added later is seen without anybody thinking of it. Where an
event is found tells whom it may be for: in the tail of a link, those behind it; in a session, its
client; anywhere else, everybody.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from gravitate.broker.context import Context
from gravitate.broker.links.link import Link
from gravitate.broker.sessions.inbound import Inbound
from gravitate.broker.sessions.outbound import Outbound
from gravitate.model.events import Batch
from gravitate.simulate.checkers.walking import CONTAINERS, OWN, attributes

Behind = Callable[[str, str], bool]
"""Whether the first of two brokers is on the side of the second, as seen from the one killed."""


class Holding(NamedTuple):
    """Whom an event was held for: a client, or everybody behind a link, or everybody."""

    client: str = ""
    link: str = ""
    behind: Behind = lambda broker, peer: True

    def may_be_for(self, broker: str, client: str) -> bool:
        """Whether a client of a broker's may be among those."""
        if self.client:
            return client == self.client
        return not self.link or self.behind(broker, self.link)


def held(root: object, behind: Behind) -> Iterator[tuple[Batch, Holding]]:
    """Every batch below an object, with whom it is for."""
    seen: set[tuple[int, Holding]] = set()
    below: list[tuple[object, Holding]] = [(root, Holding(behind=behind))]
    while below:
        one, whose = below.pop()
        if isinstance(one, Batch):
            yield one, whose
            continue
        if isinstance(one, CONTAINERS):
            below += [(value, whose) for value in (one.values() if isinstance(one, dict) else one)]
            continue
        if not type(one).__module__.startswith(OWN) or (id(one), whose) in seen:
            continue
        seen.add((id(one), whose))
        for name, value in attributes(one):
            # What is in effects is in queues too; who takes what clients do owns more than theirs.
            if (type(one), name) != (Context, "effects") and name != "at":
                below.append((value, _narrowed(one, name, whose)))


def _narrowed(one: object, name: str, whose: Holding) -> Holding:
    if isinstance(one, Outbound):
        return whose._replace(client=one.id)
    if isinstance(one, Inbound):
        # What a client has published is for others.
        return Holding(behind=whose.behind)
    if isinstance(one, Link) and not one.tethers:
        return whose._replace(link=one.peer)
    return whose
