"""The primary overlay as its brokers tell it, each for its own neighbours.

Nobody keeps the whole: who needs it asks the brokers and puts it together, as a value. Where two
ends do not say the same, or one was not asked, that is said; so is whether it is a tree.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import msgspec

from gravitate.overlay import tree


class Neighbourhood(msgspec.Struct, frozen=True):
    """What a broker says of itself."""

    version: int
    """How often its neighbours have changed."""
    neighbours: tuple[str, ...]
    """Sorted."""


@dataclass(frozen=True)
class Topology:
    """By broker, what it has said. Made by `of`, or from links by `started_as`."""

    told: Mapping[str, Neighbourhood]
    differences: tuple[tree.Link, ...]
    """Links that the first broker names, and the second does not."""
    silent: tuple[str, ...]
    """Brokers that others name, and that have said nothing."""
    is_tree: bool
    """Whether all have spoken, and the links that both ends name join them without a cycle."""

    @classmethod
    def of(cls, answers: Mapping[str, Neighbourhood]) -> Topology:
        told = dict(sorted(answers.items()))
        named = [(broker, peer) for broker, own in told.items() for peer in own.neighbours]
        silent = sorted({peer for _, peer in named} - told.keys())
        heard = [(a, b) for a, b in named if b in told]
        differences = [(a, b) for a, b in heard if a not in told[b].neighbours]
        links = [(a, b) for a, b in heard if a < b and a in told[b].neighbours]
        joined = len(links) == len(told) - 1 and len(tree.parts(told, links)) == 1
        return cls(told, tuple(differences), tuple(silent), joined and not silent)

    @classmethod
    def started_as(cls, brokers: Iterable[str], links: Iterable[tree.Link]) -> Topology:
        """What brokers will say that start with these links."""
        near = tree.neighbours(brokers, links)
        return cls.of({broker: Neighbourhood(0, others) for broker, others in near.items()})

    @property
    def version(self) -> int:
        """How often it has changed."""
        return sum(one.version for one in self.told.values())

    def near(self) -> dict[str, tuple[str, ...]]:
        """Every broker's neighbours as it names them itself; who said nothing has none."""
        named = {peer: () for one in self.told.values() for peer in one.neighbours}
        return named | {broker: one.neighbours for broker, one in self.told.items()}

    def path(self, start: str, end: str) -> tuple[str, ...] | None:
        """The way from one broker to another, both included; None when none is known."""
        near = self.near()
        way = tree.path(near, start, end) if start in near else None
        return None if way is None else tuple(way)
