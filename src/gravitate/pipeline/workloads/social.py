"""Who interacts with whom: measured or drawn, and laid out on a line where friends are near.

Owns the fit to measured wall posts and the order of users. Knows nothing of subscriptions.
"""

from __future__ import annotations

from collections import deque

import msgspec
import numpy as np

from gravitate.pipeline.workloads.columns import Floats, Integers


class Social(msgspec.Struct, frozen=True):
    """Who posted how often on whose wall, and where on the line each owner is."""

    author: Integers
    owner: Integers
    """Of each pair, ascending by author."""
    posts: Floats
    """Of each pair, measured or expected; only proportions matter."""
    positions: Floats
    """Of each user: the middle of its piece of the line."""

    @property
    def users(self) -> int:
        return len(self.positions)

    @property
    def authors(self) -> Integers:
        """The users who post."""
        return np.unique(self.author)


def social(author: Integers, owner: Integers, posts: Floats, users: int) -> Social:
    """Order the users and lay their walls out on the line."""
    order = nearby_order(author, owner, users)
    on_wall = np.bincount(owner, weights=posts, minlength=users)[order]
    positions = np.empty(users)
    positions[order] = (np.cumsum(on_wall) - on_wall / 2) / on_wall.sum()
    by_author = np.lexsort((owner, author))
    return Social(author[by_author], owner[by_author], posts[by_author], positions)


def nearby_order(author: Integers, owner: Integers, users: int) -> Integers:
    """Users breadth first over their interactions, lowest numbers first: friends are near."""
    friends: list[list[int]] = [[] for _ in range(users)]
    for one, other in sorted(set(zip(author.tolist(), owner.tolist(), strict=True))):
        friends[one].append(other)
        friends[other].append(one)
    found: list[int] = []
    seen = [False] * users
    for start in range(users):
        waiting = deque([] if seen[start] else [start])
        seen[start] = True
        while waiting:
            found.append(waiting.popleft())
            for friend in sorted(friends[found[-1]]):
                if not seen[friend]:
                    seen[friend] = True
                    waiting.append(friend)
    return np.array(found, dtype=np.int64)


def drawn_interactions(users: int, pairs: int, random: np.random.Generator) -> Social:
    """Interactions like those of the Facebook wall subset (2,245 users, 4,976 pairs).

    Fitted to it: the numbers of partners are spread log-normally (median 2, deviation 0.67 of
    the logarithm) and so are the posts of a pair (median 3, 1.03). Partners are near on a
    circle, distances evenly on a logarithmic scale; a pair is not drawn twice, so there may be
    fewer than asked for where users are few."""
    sociable = np.cumsum(random.lognormal(0.0, 0.67, users))
    found: dict[tuple[int, int], None] = {}
    for _ in range(20):
        one = np.searchsorted(sociable, random.random(pairs) * sociable[-1], side="right")
        apart = np.exp(random.random(pairs) * np.log(max(users / 2, 1.0))).astype(np.int64)
        other = (one + np.where(random.random(pairs) < 0.5, apart, -apart)) % users
        drawn = zip(one.tolist(), other.tolist(), strict=True)
        found.update(dict.fromkeys(pair for pair in drawn if pair[0] != pair[1]))
        if len(found) >= pairs:
            break
    chosen = np.array(list(found)[:pairs] or [(0, 0)], dtype=np.int64)
    posts = random.lognormal(np.log(3.0), 1.03, len(chosen))
    return social(chosen[:, 0], chosen[:, 1], posts, users)
