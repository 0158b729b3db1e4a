"""A poset of topics: who is more general than whom, how popular each is, and its rectangle.

The poset is a forest of three levels: categories, their subcategories, and in these the topics
that people name. A topic's rectangle lies within that of its parent, so the order of the poset is
containment in the event space, as covering needs it. Parents come before children in all arrays.

Owns the two adjustments of the subscriber-assignment paper (section 6): interest diffusion
(`diffused`) and interest generalisation (`generalised`). Small, and made on the driver; knows
nothing of subscribers and places.

Decided here, because the paper leaves it to an earlier one:

- topics are dealt out evenly to subcategories at random; popularity says nothing of the place;
- a category or subcategory has no popularity of its own before generalisation;
- diffusion scales the deviations of siblings' popularities (their subtrees included) from their
  mean by `sqrt(1 - cut)`, so that their variance falls by the share `cut`;
- generalisation takes from the subtopic what it gives to its parent: the sum stays 1;
- rectangles are cut out of the parent's by halving the longer side in proportion to the number
  of topics on both sides, then stretched around their centres by a random factor and clipped by
  the parent's: siblings overlap somewhat and leave gaps.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from gravitate.overlay.embedding import Matrix

Vector = NDArray[np.float64]

STRETCH: Final = (0.8, 1.4)
"""Range of the factor by which a rectangle's side differs from that of its cell."""


@dataclass(frozen=True)
class Topics:
    """All topics; row i of every array is topic i."""

    parents: NDArray[np.int64]
    """Number of the parent, -1 for a category; always smaller than the own number."""
    popularity: Vector
    """Shares of subscribers; they add up to 1."""
    low: Matrix
    high: Matrix
    """Corners of the rectangles in the event space."""

    def __len__(self) -> int:
        return len(self.parents)

    @property
    def broad(self) -> NDArray[np.bool_]:
        """Which topics have subtopics."""
        inner = np.zeros(len(self), dtype=bool)
        inner[self.parents[self.parents >= 0]] = True
        return inner


def grown(
    sizes: Vector,
    categories: int,
    subcategories: int,
    extent: float,
    dimensions: int,
    random: np.random.Generator,
) -> Topics:
    """A forest over topics with these sizes, in an event space of `[0, extent]` on each axis.

    There are at most `categories * subcategories` subcategories, each with at least a topic."""
    groups = min(categories * subcategories, len(sizes))
    heads = min(categories, groups)
    parents = np.concatenate(
        [
            np.full(heads, -1),
            np.arange(groups) % heads,
            heads + random.permutation(np.arange(len(sizes)) % groups),
        ]
    )
    popularity = np.concatenate([np.zeros(heads + groups), sizes / sizes.sum()])
    low, high = _laid_out(parents, extent, dimensions, random)
    return Topics(parents, popularity, low, high)


def diffused(topics: Topics, variance_cut: float) -> Topics:
    """Popularities balanced between siblings from the top down: their variance falls by the
    share `variance_cut` (0: as they are, 1: equal). The sum under a parent stays."""
    own = topics.popularity
    subtree = subtree_sums(topics.parents, own)
    target = np.zeros(len(topics))
    balanced = np.zeros(len(topics))
    keep = np.sqrt(1.0 - variance_cut)
    families = _children(topics.parents)
    for parent in [-1, *range(len(topics))]:
        children = families.get(parent)
        if parent >= 0:
            kept = own[parent] / subtree[parent] if subtree[parent] > 0.0 else 0.0
            balanced[parent] = target[parent] * (kept if children is not None else 1.0)
        if children is None:
            continue
        total = target[parent] - balanced[parent] if parent >= 0 else 1.0
        sums = subtree[children]
        shares = sums / sums.sum() if sums.sum() > 0.0 else np.full(len(sums), 1.0 / len(sums))
        target[children] = total * (shares.mean() + keep * (shares - shares.mean()))
    return replace(topics, popularity=balanced)


def generalised(topics: Topics, fraction: float) -> Topics:
    """Popularities passed upward from the bottom: every topic with a parent gives it the share
    `fraction` of its own, what it got from its subtopics included."""
    popularity = topics.popularity.copy()
    for topic in range(len(topics) - 1, -1, -1):
        parent = topics.parents[topic]
        if parent >= 0:
            passed = fraction * popularity[topic]
            popularity[topic] -= passed
            popularity[parent] += passed
    return replace(topics, popularity=popularity)


def regional(topics: Topics, shares: Vector, spread: float, random: np.random.Generator) -> Matrix:
    """How likely a subscriber is of region r and wants topic t: rows are regions.

    Topics differ by region: a region's liking for a topic is that for its parent times a
    lognormal factor of `spread`. The rows are then scaled to the regions' shares and the columns
    to the topics' popularities in turn, until both hold."""
    liking = np.zeros((len(shares), len(topics)))
    steps = spread * random.standard_normal(liking.shape)
    for topic, parent in enumerate(topics.parents):
        liking[:, topic] = steps[:, topic] + (liking[:, parent] if parent >= 0 else 0.0)
    joint = np.exp(liking) * topics.popularity
    rows = np.asarray(shares, dtype=np.float64) / np.sum(shares)
    for _ in range(_SCALINGS):
        columns = joint.sum(axis=0)
        joint *= np.divide(
            topics.popularity, columns, out=np.zeros_like(columns), where=columns > 0
        )
        joint *= (rows / joint.sum(axis=1))[:, None]
    return joint


_SCALINGS: Final = 100


def subtree_sums(parents: NDArray[np.int64], values: Vector) -> Vector:
    """For each topic the sum over it and everything below it."""
    sums = values.astype(np.float64)
    for topic in range(len(parents) - 1, -1, -1):
        if parents[topic] >= 0:
            sums[parents[topic]] += sums[topic]
    return sums


def _children(parents: NDArray[np.int64]) -> dict[int, NDArray[np.int64]]:
    """The topics below each parent; -1 has the categories."""
    order = np.argsort(parents, kind="stable")
    found, starts = np.unique(parents[order], return_index=True)
    return dict(zip(found.tolist(), np.split(order, starts[1:]), strict=True))


def _laid_out(
    parents: NDArray[np.int64], extent: float, dimensions: int, random: np.random.Generator
) -> tuple[Matrix, Matrix]:
    """A rectangle for each topic, within its parent's."""
    low = np.zeros((len(parents), dimensions))
    high = np.zeros((len(parents), dimensions))
    families = _children(parents)
    weights = subtree_sums(
        parents, np.array([topic not in families for topic in range(len(parents))], dtype=float)
    )
    for parent, children in sorted(families.items()):
        bottom = low[parent] if parent >= 0 else np.zeros(dimensions)
        top = high[parent] if parent >= 0 else np.full(dimensions, extent)
        _cut(random.permutation(children), weights, bottom, top, low, high)
        centre, half = (low[children] + high[children]) / 2, (high[children] - low[children]) / 2
        half *= random.uniform(*STRETCH, half.shape)
        low[children] = np.maximum(centre - half, bottom)
        high[children] = np.minimum(centre + half, top)
    return low, high


def _cut(
    members: NDArray[np.int64],
    weights: Vector,
    bottom: Vector,
    top: Vector,
    low: Matrix,
    high: Matrix,
) -> None:
    """Give the members cells of `[bottom, top]` as large as their weights, into `low`, `high`."""
    if len(members) == 1:
        low[members[0]], high[members[0]] = bottom, top
        return
    half = len(members) // 2
    share = weights[members[:half]].sum() / weights[members].sum()
    axis = int((top - bottom).argmax())
    middle = bottom[axis] + share * (top[axis] - bottom[axis])
    until, since = top.copy(), bottom.copy()
    until[axis] = since[axis] = middle
    _cut(members[:half], weights, bottom, until, low, high)
    _cut(members[half:], weights, since, top, low, high)
