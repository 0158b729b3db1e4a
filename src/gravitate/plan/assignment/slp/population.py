"""Subscribers in blocks, and what is asked of all of them at once.

    population = ArrayPopulation(blocks_of(locations, interests, candidates), seed)
    some = population.sample(1_000, "load")
    found = population.coverage(level, filters)

What SLP1 asks of a million subscribers is asked block by block, and the answers are put together:
samples, coverage, weights, who could be served where. A block is a fixed number of consecutive
subscribers, and what is drawn for it follows from the seed and its number; so an answer depends
neither on how many blocks are looked at together nor where. `ArrayPopulation` has them in memory;
others may have them elsewhere (`Population` is all that algorithms know).

Owns the answers of a block and how they are put together. Weights are powers of two: what is kept
is how often each was doubled, and they are added up exactly.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, Protocol

import msgspec
import numpy as np
from numpy.typing import NDArray

from gravitate.model.seeds import generator
from gravitate.plan.assignment.greedy.balance import Groups, Spread, grouped
from gravitate.plan.assignment.problem.problem import Floats, Ints, Longs, Words
from gravitate.plan.assignment.problem.solution import Filters
from gravitate.plan.assignment.slp import population_kernels as kernels
from gravitate.plan.assignment.slp.level import Level

BLOCK: Final = 16_384
"""Subscribers in a block."""
DOUBLINGS_MAX: Final = 63

Doublings = NDArray[np.uint8]


class Block(msgspec.Struct, frozen=True, eq=False):
    """Consecutive subscribers."""

    number: int
    locations: Floats
    interests: Floats
    candidates: Words

    def __len__(self) -> int:
        return len(self.interests)

    def some(self, members: Longs) -> tuple[Floats, Floats, Words]:
        """Locations, interests and candidates of some of them."""
        return self.locations[members], self.interests[members], self.candidates[members]


class Drawn(msgspec.Struct, frozen=True, eq=False):
    """Subscribers that were drawn, the first drawn first."""

    key: Floats
    """What they were drawn by, ascending."""
    number: Longs
    """Of each subscriber in the population."""
    locations: Floats
    interests: Floats
    candidates: Words

    def __len__(self) -> int:
        return len(self.key)


class Coverage(msgspec.Struct, frozen=True, eq=False):
    """Of how many subscribers the weight was doubled how often: all, and those covered by none."""

    everybody: Longs
    uncovered: Longs

    @property
    def uncovered_count(self) -> int:
        return int(self.uncovered.sum())

    @property
    def uncovered_share(self) -> float:
        """The weight of those who are covered by none, as a share of all weight."""
        powers = 2.0 ** np.arange(len(self.everybody))
        return float((self.uncovered * powers).sum() / (self.everybody * powers).sum())


class Choices(msgspec.Struct, frozen=True, eq=False):
    """How many of a population could be served by which leaves."""

    masks: Words
    sizes: Longs
    uncovered: int


class Population(Protocol):
    """Subscribers, wherever they are."""

    def __len__(self) -> int: ...

    def sample(self, size: int, about: str, by_weight: bool = False) -> Drawn:
        """Different subscribers, drawn evenly or by weight; the same for the same `about`."""
        ...

    def coverage(self, level: Level, filters: Filters) -> Coverage: ...

    def double_uncovered(self, level: Level, filters: Filters) -> None:
        """Double the weight of those whom no filter covers."""
        ...

    def forget_weights(self) -> None: ...

    def choices(self, level: Level, filters: Filters, short: Words) -> Choices:
        """See `population_kernels.covering_leaves`."""
        ...

    def assign(
        self, level: Level, filters: Filters, short: Words, choices: Choices, spread: Spread
    ) -> Ints:
        """A leaf for each subscriber, as `spread` says; those of a group in their order."""
        ...


# --- one block ------------------------------------------------------------------------------------


def drawn_from(
    block: Block, doublings: Doublings, size: int, seed: int, about: str, by_weight: bool
) -> Drawn:
    """The `size` subscribers of the block with the least keys.

    A key is exponentially distributed and divided by the weight, so that the least of all are a
    sample by weight without putting back (Efraimidis and Spirakis)."""
    key = generator(seed, "assignment", "sample", about, block.number).standard_exponential(
        len(block)
    )
    if by_weight:
        key = np.ldexp(key, -doublings.astype(np.int32))
    at = np.argsort(key, kind="stable")[:size]
    start = block.number * BLOCK
    return Drawn(
        key[at], start + at, block.locations[at], block.interests[at], block.candidates[at]
    )


def covered(block: Block, level: Level, filters: Filters) -> NDArray[np.bool_]:
    """Whether a child of the level covers each subscriber of the block."""
    found = np.empty(len(block), dtype=np.bool_)
    kernels.mark_covered(
        block.candidates, block.interests, level.child, filters.boxes, filters.first, found
    )
    return found


def coverage_of(block: Block, doublings: Doublings, level: Level, filters: Filters) -> Coverage:
    is_covered = covered(block, level, filters)
    return Coverage(
        np.bincount(doublings, minlength=DOUBLINGS_MAX + 1),
        np.bincount(doublings[~is_covered], minlength=DOUBLINGS_MAX + 1),
    )


def doubled(block: Block, doublings: Doublings, level: Level, filters: Filters) -> Doublings:
    """The doublings with one more for everybody who is covered by none."""
    more = (~covered(block, level, filters)).astype(np.uint8)
    found: Doublings = np.minimum(doublings + more, DOUBLINGS_MAX)
    return found


def groups_of(block: Block, level: Level, filters: Filters, short: Words) -> tuple[Groups, int]:
    """The subscribers of the block by the leaves that could serve them, and how many are covered
    by none."""
    masks = np.empty_like(block.candidates)
    uncovered = kernels.covering_leaves(
        block.candidates,
        block.interests,
        level.child,
        filters.boxes,
        filters.first,
        short,
        masks,
    )
    return grouped(masks), int(uncovered)


# --- several together -----------------------------------------------------------------------------


def first_drawn(parts: Sequence[Drawn], size: int) -> Drawn:
    """The `size` least of the least of each."""
    key = np.concatenate([part.key for part in parts])
    number = np.concatenate([part.number for part in parts])
    at = np.lexsort((number, key))[:size]
    return Drawn(
        key[at],
        number[at],
        np.concatenate([part.locations for part in parts])[at],
        np.concatenate([part.interests for part in parts])[at],
        np.concatenate([part.candidates for part in parts])[at],
    )


def coverage_together(parts: Iterable[Coverage]) -> Coverage:
    everybody, uncovered = zip(*((part.everybody, part.uncovered) for part in parts), strict=True)
    return Coverage(np.sum(everybody, axis=0), np.sum(uncovered, axis=0))


def choices_together(parts: Sequence[tuple[Words, Longs, int]]) -> Choices:
    """Choices from the masks, sizes and uncovered of blocks."""
    groups = grouped(np.concatenate([part[0] for part in parts]))
    sizes = np.zeros(len(groups.masks), dtype=np.int64)
    np.add.at(sizes, groups.group, np.concatenate([part[1] for part in parts]))
    return Choices(groups.masks, sizes, sum(part[2] for part in parts))


# --- in memory ------------------------------------------------------------------------------------


class ArrayPopulation:
    """A population in memory."""

    def __init__(self, blocks: Sequence[Block], seed: int) -> None:
        self._blocks = blocks
        self._seed = seed
        self._doublings = [np.zeros(len(block), dtype=np.uint8) for block in blocks]

    def __len__(self) -> int:
        return sum(map(len, self._blocks))

    def sample(self, size: int, about: str, by_weight: bool = False) -> Drawn:
        return first_drawn(
            [
                drawn_from(block, doublings, size, self._seed, about, by_weight)
                for block, doublings in zip(self._blocks, self._doublings, strict=True)
            ],
            size,
        )

    def coverage(self, level: Level, filters: Filters) -> Coverage:
        return coverage_together(
            coverage_of(block, doublings, level, filters)
            for block, doublings in zip(self._blocks, self._doublings, strict=True)
        )

    def double_uncovered(self, level: Level, filters: Filters) -> None:
        self._doublings = [
            doubled(block, doublings, level, filters)
            for block, doublings in zip(self._blocks, self._doublings, strict=True)
        ]

    def forget_weights(self) -> None:
        self._doublings = [np.zeros(len(block), dtype=np.uint8) for block in self._blocks]

    def choices(self, level: Level, filters: Filters, short: Words) -> Choices:
        parts = []
        for block in self._blocks:
            groups, uncovered = groups_of(block, level, filters, short)
            parts.append((groups.masks, groups.sizes, uncovered))
        return choices_together(parts)

    def assign(
        self, level: Level, filters: Filters, short: Words, choices: Choices, spread: Spread
    ) -> Ints:
        found = []
        taken = np.zeros(len(choices.sizes), dtype=np.int64)
        for block in self._blocks:
            groups, _ = groups_of(block, level, filters, short)
            found.append(leaves_in_turn(groups, choices, spread, taken))
        return np.concatenate(found)


def leaves_in_turn(groups: Groups, choices: Choices, spread: Spread, taken: Longs) -> Ints:
    """A leaf for each subscriber of a block. `taken` says how many of each group came in blocks
    before, and is carried on."""
    which = positions(choices.masks, groups.masks)
    ends = np.cumsum(spread.carried)
    first_edge = np.searchsorted(spread.group, np.arange(len(choices.sizes)))
    before = np.concatenate([[0], ends])[first_edge]
    order = np.argsort(groups.group, kind="stable")
    starts = np.cumsum(groups.sizes) - groups.sizes
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = np.arange(len(order)) - np.repeat(starts, groups.sizes)
    group = which[groups.group]
    # The n-th of a group goes along the edge behind which n of the group have gone.
    place = before[group] + taken[group] + rank
    taken[which] += groups.sizes
    return spread.leaf[np.searchsorted(ends, place, side="right")]


def positions(masks: Words, wanted: Words) -> Longs:
    """Where each row of `wanted` is in `masks`, which has all of them in the order of `grouped`."""
    return grouped(np.concatenate([masks, wanted])).group[len(masks) :]


def joined(blocks: Sequence[Block]) -> Block:
    """Several blocks as one, numbered 0."""
    return Block(
        0,
        np.concatenate([block.locations for block in blocks]),
        np.concatenate([block.interests for block in blocks]),
        np.concatenate([block.candidates for block in blocks]),
    )


def blocks_of(locations: Floats, interests: Floats, candidates: Words) -> list[Block]:
    """Subscribers cut into blocks."""
    return [
        Block(
            number,
            locations[start : start + BLOCK],
            interests[start : start + BLOCK],
            candidates[start : start + BLOCK],
        )
        for number, start in enumerate(range(0, max(1, len(interests)), BLOCK))
    ]
