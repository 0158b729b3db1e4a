"""Subscriptions from social interactions, the data set DT-FB of the multipath mesh (paper 2).

People post on each other's walls. Users are put in an order that keeps those who interact near
each other, and divide a line by how much is posted on their walls; *circles* divide the same
line by a Zipf law. A post goes to `walls/CIRCLE/OWNER`, with a `score` from 0 to 999,999. A
subscription is taken out by somebody who interacts with an owner: for the walls of that owner's
circle, and scores in an interval. The skew of circles is searched until the mean share of
subscriptions that match a post is the stated one; what the source did to get its 6.5 % is not
printed there.

Interactions are posts of measured users or drawn like them; see `drawn_interactions`.
"""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Annotated, Any

import msgspec
import numpy as np
import pyarrow as pa

from gravitate.model.seeds import generator
from gravitate.pipeline.workloads import columns, data, zipf
from gravitate.pipeline.workloads.columns import Floats, Integers
from gravitate.pipeline.workloads.definition import Definition, Made
from gravitate.pipeline.workloads.generate import ROWS_PER_BLOCK, Block, TablePlan
from gravitate.pipeline.workloads.popularity import calibrated, ranks_at
from gravitate.pipeline.workloads.popularity import zipf as probabilities_of
from gravitate.pipeline.workloads.social import Social, drawn_interactions, social
from gravitate.pipeline.workloads.zipf import Count, Interests, Positive, Share

POSTS_SAMPLE = 1000
"""Posts whose brokers are counted for the statistics."""


class Interactions(msgspec.Struct, frozen=True):
    """Figure 8(a) and Section 7 of the source: 120,000 subscriptions on C1, 6.5 % of them
    matching, 3,600 publications a minute; users and pairs are those of the Facebook wall subset,
    the rest is chosen here."""

    subscribers: Count = 120_000
    """Each has one subscription."""
    brokers: Count = 120
    circles: Count = 200
    matching_share: Share = 0.065
    rate_msgs_per_min: Positive = 3600.0
    """Of all users together."""
    duration_s: Positive = 300.0
    """Measured posts keep their order and proportions of time and are replayed at the rate;
    there may be fewer than the duration could take."""
    interval: Positive = 0.9
    """Length of the intervals of scores, as a share of all scores."""
    spread: Share = 0.07
    """As in the other data sets: see `zipf`."""
    users: Count = 2245
    pairs: Count = 4976
    """Who interacts with whom; of the synthetic interactions."""
    payload_bytes: Annotated[int, msgspec.Meta(ge=0)] = 0


def make(parameters: Interactions, seed: int, folder: Path | None) -> Made:
    """Lay out the interactions and calibrate on the first block of subscriptions."""
    rate_per_s = parameters.rate_msgs_per_min / 60
    if folder is None:
        ties = drawn_interactions(
            parameters.users, parameters.pairs, generator(seed, "interactions")
        )
        published, shares = ties.positions[ties.owner], ties.posts / ties.posts.sum()
        posts_plan = _drawn_plan
        source = "synthetic, interactions fitted to the Facebook wall subset (2,245 users)"
    else:
        replay = data.wall_posts(folder)
        pairs, times = np.unique(
            np.stack([replay.author, replay.owner]), axis=1, return_counts=True
        )
        ties = social(pairs[0], pairs[1], times.astype(np.float64), replay.users)
        replay = _first(replay, max(1, int(rate_per_s * parameters.duration_s)))
        published = ties.positions[replay.owner]
        shares = np.full(len(published), 1.0 / len(published))
        posts_plan = functools.partial(_measured_plan, replay=replay)
        source = "Facebook wall subset (New Orleans, 2,245 users)"
    first = Block(seed, "subscriptions", 0, 0, min(parameters.subscribers, ROWS_PER_BLOCK))
    sample = interests(first, parameters, ties)

    def share_at(skew: float) -> float:
        return matching_share(sample, published, shares, probabilities_of(parameters.circles, skew))

    skew = calibrated(share_at, parameters.matching_share, "matching_share")
    made = functools.partial
    what: dict[str, Any] = {"parameters": parameters, "ties": ties, "skew": skew}
    return Made(
        plans=(
            columns.brokers_plan(parameters.brokers),
            TablePlan("publishers", len(ties.authors), made(publishers, **what)),
            posts_plan(what),
            TablePlan("subscriptions", parameters.subscribers, made(subscriptions, **what)),
        ),
        source=source,
        statistics={
            "skew": skew,
            "matching_share": share_at(skew),
            "matching_broker_share": zipf.matching_broker_share(
                sample,
                generator(seed, "posts", "sample").choice(published, POSTS_SAMPLE, p=shares),
                probabilities_of(parameters.circles, skew),
                parameters.brokers,
            ),
            "pairs": float(len(ties.author)),
            "partners_per_user_mean": 2.0 * len(ties.author) / ties.users,
            "posts_log_sigma": float(np.log(ties.posts).std()),
        },
    )


def _drawn_plan(what: dict[str, Any]) -> TablePlan:
    parameters, ties = what["parameters"], what["ties"]
    posts_each = parameters.rate_msgs_per_min / 60 * parameters.duration_s / ties.users
    make_posts = functools.partial(drawn_posts, **what)
    return TablePlan("publications", ties.users, make_posts, columns.items_per_block(posts_each))


def _measured_plan(what: dict[str, Any], replay: data.WallPosts) -> TablePlan:
    make_posts = functools.partial(measured_posts, replay=replay, **what)
    return TablePlan("publications", len(replay.author), make_posts)


def matching_share(
    sample: Interests, published: Floats, shares: Floats, probabilities: Floats
) -> float:
    """Mean share of the subscriptions that match a post; posts fall on `published` by `shares`."""
    accepted = np.bincount(
        ranks_at(sample.positions, probabilities),
        weights=sample.accepted,
        minlength=len(probabilities),
    )
    matched = accepted[ranks_at(published, probabilities)] @ shares
    return float(matched / len(sample.positions))


def interests(block: Block, parameters: Interactions, ties: Social) -> Interests:
    """Subscriptions of a block: users in turn, each for a partner by how much they post."""
    random = block.generator("interests")
    rows = len(block)
    either = np.concatenate([ties.author, ties.owner])
    partner = np.concatenate([ties.owner, ties.author])
    order = np.argsort(either, kind="stable")
    weights = np.concatenate([ties.posts, ties.posts])[order]
    active, first = np.unique(either[order], return_index=True)
    ends = np.cumsum(weights)
    before = np.append(0.0, ends)[first]
    after = np.append(before[1:], ends[-1])
    who = np.arange(block.start, block.stop) % len(active)
    aim = before[who] + random.random(rows) * (after - before)[who]
    pair = np.minimum(np.searchsorted(ends, aim, side="right"), len(ends) - 1)
    positions = ties.positions[partner[order][pair]]
    low, high = zipf.intervals(random, rows, parameters.interval, parameters.interval)
    places = (positions + parameters.spread * random.random(rows)) % 1.0
    return Interests(positions, places, low, high)


def publishers(block: Block, parameters: Interactions, ties: Social, skew: float) -> pa.Table:
    """Every user who posts, at the broker where its like are."""
    posts = np.bincount(ties.author, weights=ties.posts, minlength=ties.users)
    users = ties.authors[block.start : block.stop]
    names = columns.numbered("user-", users, ties.users)
    at = zipf.brokers_at(ties.positions[users], parameters.brokers, block.seed)
    return columns.table(
        "publishers",
        {
            "publisher": names,
            "broker": columns.numbered("b", at, parameters.brokers),
            "advertisement": columns.joined("topic MATCHES 'walls/+/+' AND author = '", names, "'"),
            "rate_msgs_per_s": (posts / posts.sum())[users] * parameters.rate_msgs_per_min / 60,
        },
        len(block),
    )


def drawn_posts(block: Block, parameters: Interactions, ties: Social, skew: float) -> pa.Table:
    """What the users of a block post: Poisson processes, on walls by the weight of the pair."""
    random = block.generator("posts")
    total = parameters.rate_msgs_per_min / 60 * parameters.duration_s
    expected = ties.posts / ties.posts.sum() * total
    mine = slice(*np.searchsorted(ties.author, [block.start, block.stop]))
    counts = random.poisson(expected[mine])
    owner = np.repeat(ties.owner[mine], counts)
    author = np.repeat(ties.author[mine], counts)
    at_s = random.random(len(owner)) * parameters.duration_s
    order = np.lexsort((at_s, author))
    return _posts(author[order], owner[order], at_s[order], random, parameters, ties, skew)


def measured_posts(
    block: Block, parameters: Interactions, ties: Social, skew: float, replay: data.WallPosts
) -> pa.Table:
    """Posts of the data, by author and time."""
    wanted = slice(block.start, block.stop)
    return _posts(
        replay.author[wanted],
        replay.owner[wanted],
        replay.at_s[wanted] / parameters.rate_msgs_per_min * 60,
        block.generator("posts"),
        parameters,
        ties,
        skew,
        before=np.bincount(replay.author[: block.start], minlength=ties.users),
    )


def _first(replay: data.WallPosts, wanted: int) -> data.WallPosts:
    """The first posts of all, sorted by author; times as if one a second on average."""
    author, at_s = replay.author[:wanted], replay.at_s[:wanted]
    order = np.lexsort((at_s, author))
    scale = len(at_s) / at_s[-1] if at_s[-1] else 0.0
    return data.WallPosts(
        author[order], replay.owner[:wanted][order], at_s[order] * scale, replay.users
    )


def _posts(
    author: Integers,
    owner: Integers,
    at_s: Floats,
    random: np.random.Generator,
    parameters: Interactions,
    ties: Social,
    skew: float,
    before: Integers | None = None,
) -> pa.Table:
    """Rows of posts sorted by author and time; `before` counts those of earlier blocks."""
    counts = np.bincount(author, minlength=ties.users)
    numbers = np.arange(len(author)) - (np.cumsum(counts) - counts)[author] + 1
    if before is not None:
        numbers = numbers + before[author]
    names = columns.numbered("user-", author, ties.users)
    scores = random.integers(zipf.SCORES, size=len(author))
    walls = columns.numbered("user-", owner, ties.users)
    return columns.table(
        "publications",
        {
            "publisher": names,
            "number": numbers,
            "at_s": at_s,
            "topic": columns.joined(
                "walls/", _circles(ties.positions[owner], parameters, skew), "/", walls
            ),
            "attributes": columns.joined('{"author":"', names, '","score":', scores, "}"),
            "payload_bytes": parameters.payload_bytes,
            "broker": None,
        },
        len(author),
    )


def subscriptions(block: Block, parameters: Interactions, ties: Social, skew: float) -> pa.Table:
    """One subscription a subscriber, at the broker where its like are."""
    drawn = interests(block, parameters, ties)
    at = zipf.brokers_at(drawn.places, parameters.brokers, block.seed)
    return columns.table(
        "subscriptions",
        {
            "subscriber": columns.numbered(
                "sub-", np.arange(block.start, block.stop), parameters.subscribers
            ),
            "subscription": "circle",
            "broker": columns.numbered("b", at, parameters.brokers),
            "topic": columns.joined("walls/", _circles(drawn.positions, parameters, skew), "/+"),
            "condition": zipf.conditions(drawn),
            "from_s": 0.0,
            "until_s": None,
        },
        len(block),
    )


def _circles(positions: Floats, parameters: Interactions, skew: float) -> pa.Array:
    ranks = ranks_at(positions, probabilities_of(parameters.circles, skew))
    return columns.numbered("c", ranks, parameters.circles)


DEFINITION = Definition(
    "dt-fb",
    "subscriptions from social interactions on 120 brokers, 6.5 % match",
    Interactions,
    make,
)
