"""Zipf interests, the data sets DT1 to DT5 and DT-C of the multipath mesh (paper 2).

A publisher publishes items of one feed on `feeds/F`, each with a `score` from 0 to 999,999. A
subscriber follows one feed, and of it the items whose score lies in an interval. Feeds are as
popular among subscribers as among publishers, by a Zipf law whose skew is searched until the
mean share of subscriptions that match a publication is the stated one.

The source gives numbers of subscriptions and that share, not how they lie on the brokers. It
matters: spread evenly, some of 55 subscriptions a broker would match nearly everything and
there would be no pure forwarders. The counts of deliveries tell: at 3,600 a minute for 5 minutes
a publication reaches 348,000 / 18,000 = 19 brokers of DT1 (16 %) and 57 of DT2 (48 %), about the
share of the subscriptions. So followers of a feed live together: brokers divide the same line of
positions as feeds, and `spread` is the share of all brokers that every feed has beyond its own.

With equally long intervals no subscription covers another unless they are the same; DT-C draws
lengths of every order, and its covering is measured.
"""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Annotated

import msgspec
import numpy as np
import pyarrow as pa

from gravitate.model.seeds import generator
from gravitate.pipeline.workloads import columns
from gravitate.pipeline.workloads.columns import Floats, Integers
from gravitate.pipeline.workloads.covering import covered_share
from gravitate.pipeline.workloads.definition import Definition, Made
from gravitate.pipeline.workloads.generate import ROWS_PER_BLOCK, Block, TablePlan
from gravitate.pipeline.workloads.popularity import calibrated, ranks_at, zipf

SCORES = 1_000_000
COVERING_SAMPLE = 10_000

Count = Annotated[int, msgspec.Meta(ge=1)]
Share = Annotated[float, msgspec.Meta(ge=0.0, le=1.0)]
Positive = Annotated[float, msgspec.Meta(gt=0.0)]


class ZipfInterests(msgspec.Struct, frozen=True):
    """Zipf interests: Figure 8(a) of the source gives subscriptions, brokers and share, its
    Section 7 the rates (per minute); the rest is chosen here."""

    subscribers: Count = 6552
    """Each has one subscription."""
    brokers: Count = 120
    publishers: Count = 120
    """Of equal rates, one a broker on average."""
    feeds: Count = 200
    matching_share: Share = 0.08
    """Of all subscriptions, those that match a publication, on average."""
    rate_msgs_per_min: Positive = 3600.0
    """Of all publishers together."""
    duration_s: Positive = 300.0
    interval_min: Share = 0.9
    interval_max: Share = 0.9
    """Length of the intervals of scores, as a share of all scores; drawn evenly on a
    logarithmic scale between the two."""
    spread: Share = 0.07
    """Share of all brokers that a feed's followers occupy beyond their own."""
    payload_bytes: Annotated[int, msgspec.Meta(ge=0)] = 0

    def __post_init__(self) -> None:
        if not 0.0 < self.interval_min <= self.interval_max:
            raise ValueError(
                f"interval_min {self.interval_min:g} is not accepted: "
                f"write a number above 0, at most interval_max ({self.interval_max:g})"
            )


class Dt1(ZipfInterests, frozen=True):
    """DT1 (sparse) on C1: Figure 8(a) of the source."""


class Dt2(ZipfInterests, frozen=True):
    """DT2 (dense) on C1: Figure 8(a) of the source."""

    subscribers: Count = 19_472
    matching_share: Share = 0.53
    spread: Share = 0.0


class Dt3(ZipfInterests, frozen=True):
    """DT3 (sparse) on C2: Figure 8(a) of the source."""

    subscribers: Count = 28_690
    brokers: Count = 250
    publishers: Count = 250
    matching_share: Share = 0.09


class Dt4(ZipfInterests, frozen=True):
    """DT4 (sparse) on CPL: Figure 8(a) of the source; rate and interval of Section 7."""

    subscribers: Count = 900
    brokers: Count = 21
    publishers: Count = 21
    matching_share: Share = 0.09
    rate_msgs_per_min: Positive = 3300.0


class Dt5(Dt4, frozen=True):
    """DT5 (dense) on CPL: Figure 8(a) of the source; rate and interval of Section 7."""

    subscribers: Count = 6000
    matching_share: Share = 0.54
    spread: Share = 0.0


class DtC(ZipfInterests, frozen=True):
    """DT-C (covering) on C3: Figure 8(a) of the source; sets are averaged over 120 s there."""

    subscribers: Count = 10_000
    brokers: Count = 500
    publishers: Count = 500
    matching_share: Share = 0.04
    duration_s: Positive = 120.0
    interval_min: Share = 0.05
    interval_max: Share = 1.0


class Interests(msgspec.Struct, frozen=True):
    """Subscriptions of a block as arrays."""

    positions: Floats
    """On the line that feeds and brokers divide."""
    places: Floats
    """The same, spread: decides the broker."""
    low: Integers
    high: Integers
    """Scores from `low` to `high`, both included."""

    @property
    def accepted(self) -> Floats:
        """Share of scores within the interval."""
        return np.asarray((self.high - self.low + 1) / SCORES)


def interests(parameters: ZipfInterests, block: Block) -> Interests:
    """Draw the subscriptions of a block; the skew has no part in it."""
    random = block.generator("interests")
    rows = len(block)
    positions = random.random(rows)
    low, high = intervals(random, rows, parameters.interval_min, parameters.interval_max)
    places = (positions + parameters.spread * random.random(rows)) % 1.0
    return Interests(positions, places, low, high)


def intervals(
    random: np.random.Generator, rows: int, shortest: float, longest: float
) -> tuple[Integers, Integers]:
    """Intervals of scores: first and last, both included."""
    share = shortest * (longest / shortest) ** random.random(rows)
    length = np.clip((share * SCORES).astype(np.int64), 1, SCORES)
    low = (random.random(rows) * (SCORES - length + 1)).astype(np.int64)
    return low, low + length - 1


def publisher_positions(parameters: ZipfInterests, seed: int) -> Floats:
    """Where on the line each publisher's feed lies: evenly, give or take."""
    jitter = generator(seed, "publishers", "positions").random(parameters.publishers)
    return np.asarray((np.arange(parameters.publishers) + jitter) / parameters.publishers)


def brokers_at(places: Floats, brokers: int, seed: int) -> Integers:
    """The broker at each place; brokers have equal pieces of the line, in a drawn order."""
    order = generator(seed, "brokers", "order").permutation(brokers)
    return order[pieces_at(places, brokers)]


def pieces_at(places: Floats, brokers: int) -> Integers:
    """Which of `brokers` equal pieces of the line holds each place; its end is in the last."""
    return np.minimum((places * brokers).astype(np.int64), brokers - 1)


def matching_share(subscribed: Interests, published: Floats, probabilities: Floats) -> float:
    """Mean share of the subscriptions that match a publication of the publishers at `published`,
    who publish equally often and items of every score."""
    accepted = np.bincount(
        ranks_at(subscribed.positions, probabilities),
        weights=subscribed.accepted,
        minlength=len(probabilities),
    )
    return float(accepted[ranks_at(published, probabilities)].mean() / len(subscribed.positions))


def matching_broker_share(
    subscribed: Interests, published: Floats, probabilities: Floats, brokers: int
) -> float:
    """Mean share of brokers with a matching subscription, over scores spaced evenly."""
    feeds = ranks_at(subscribed.positions, probabilities)
    at = pieces_at(subscribed.places, brokers)
    feed, times = np.unique(ranks_at(published, probabilities), return_counts=True)
    scores = (np.arange(8) + 0.5) / 8 * SCORES
    reached = 0.0
    for number, weight in zip(feed.tolist(), times.tolist(), strict=True):
        of_feed = feeds == number
        low, high, where = subscribed.low[of_feed], subscribed.high[of_feed], at[of_feed]
        for score in scores:
            wanted = where[(low <= score) & (score <= high)]
            reached += weight * len(np.unique(wanted)) / len(scores)
    return reached / (len(published) * brokers)


def make(parameters: ZipfInterests, seed: int, data: Path | None) -> Made:
    """Calibrate on the first block of subscriptions (262,144 of them at most)."""
    probe = Block(seed, "subscriptions", 0, 0, min(parameters.subscribers, ROWS_PER_BLOCK))
    sample = interests(parameters, probe)
    published = publisher_positions(parameters, seed)
    skew = calibrated(
        lambda skew: matching_share(sample, published, zipf(parameters.feeds, skew)),
        parameters.matching_share,
        "matching_share",
    )
    probabilities = zipf(parameters.feeds, skew)
    statistics = {
        "skew": skew,
        "matching_share": matching_share(sample, published, probabilities),
        "matching_broker_share": matching_broker_share(
            sample, published, probabilities, parameters.brokers
        ),
    }
    if parameters.interval_min < parameters.interval_max:
        topics = _topics(sample, parameters, skew)[:COVERING_SAMPLE].to_pylist()
        wanted = conditions(sample)[:COVERING_SAMPLE].to_pylist()
        statistics["covered_share"] = covered_share(list(zip(topics, wanted, strict=True)))
    made = functools.partial
    publications_expected = parameters.rate_msgs_per_min / 60 * parameters.duration_s
    return Made(
        plans=(
            columns.brokers_plan(parameters.brokers),
            TablePlan(
                "publishers",
                parameters.publishers,
                made(publishers, parameters=parameters, skew=skew),
            ),
            TablePlan(
                "publications",
                parameters.publishers,
                made(publications, parameters=parameters, skew=skew),
                columns.items_per_block(publications_expected / parameters.publishers),
            ),
            TablePlan(
                "subscriptions",
                parameters.subscribers,
                made(subscriptions, parameters=parameters, skew=skew),
            ),
        ),
        source="synthetic, Zipf interests calibrated to the stated share of matching subscriptions",
        statistics=statistics,
    )


def publishers(block: Block, parameters: ZipfInterests, skew: float) -> pa.Table:
    """Publishers at brokers drawn evenly, each advertising its feed."""
    rows = len(block)
    at = block.generator("brokers").integers(parameters.brokers, size=rows)
    feeds = _published_feeds(block, parameters, skew)
    return columns.table(
        "publishers",
        {
            "publisher": _publisher_names(np.arange(block.start, block.stop), parameters),
            "broker": columns.numbered("b", at, parameters.brokers),
            "advertisement": columns.joined(
                "topic = 'feeds/", columns.numbered("f", feeds, parameters.feeds), "'"
            ),
            "rate_msgs_per_s": parameters.rate_msgs_per_min / 60 / parameters.publishers,
        },
        rows,
    )


def publications(block: Block, parameters: ZipfInterests, skew: float) -> pa.Table:
    """What the publishers of a block publish: Poisson processes of one rate."""
    random = block.generator("items")
    publications_expected = parameters.rate_msgs_per_min / 60 * parameters.duration_s
    counts = random.poisson(publications_expected / parameters.publishers, len(block))
    owners, numbers, at_s = columns.occurrences(random, counts, parameters.duration_s)
    feeds = _published_feeds(block, parameters, skew)[owners]
    return columns.table(
        "publications",
        {
            "publisher": _publisher_names(owners + block.start, parameters),
            "number": numbers,
            "at_s": at_s,
            "topic": columns.joined("feeds/", columns.numbered("f", feeds, parameters.feeds)),
            "attributes": columns.joined(
                '{"score":', random.integers(SCORES, size=len(owners)), "}"
            ),
            "payload_bytes": parameters.payload_bytes,
            "broker": None,
        },
        len(owners),
    )


def subscriptions(block: Block, parameters: ZipfInterests, skew: float) -> pa.Table:
    """One subscription a subscriber, at the broker where its like are."""
    drawn = interests(parameters, block)
    at = brokers_at(drawn.places, parameters.brokers, block.seed)
    return columns.table(
        "subscriptions",
        {
            "subscriber": columns.numbered(
                "sub-", np.arange(block.start, block.stop), parameters.subscribers
            ),
            "subscription": "feed",
            "broker": columns.numbered("b", at, parameters.brokers),
            "topic": _topics(drawn, parameters, skew),
            "condition": conditions(drawn),
            "from_s": 0.0,
            "until_s": None,
        },
        len(block),
    )


def _topics(drawn: Interests, parameters: ZipfInterests, skew: float) -> pa.Array:
    feeds = ranks_at(drawn.positions, zipf(parameters.feeds, skew))
    return columns.joined("feeds/", columns.numbered("f", feeds, parameters.feeds))


def conditions(drawn: Interests) -> pa.Array:
    """The intervals in the language of conditions."""
    return columns.joined("score BETWEEN ", drawn.low, " AND ", drawn.high)


def _published_feeds(block: Block, parameters: ZipfInterests, skew: float) -> Integers:
    positions = publisher_positions(parameters, block.seed)[block.start : block.stop]
    return ranks_at(positions, zipf(parameters.feeds, skew))


def _publisher_names(indices: Integers, parameters: ZipfInterests) -> pa.Array:
    return columns.numbered("pub-", indices, parameters.publishers)


_SUMMARIES: tuple[tuple[str, str, type[ZipfInterests]], ...] = (
    ("dt1", "Zipf interests on 120 brokers, 8 % of the subscriptions match (sparse)", Dt1),
    ("dt2", "Zipf interests on 120 brokers, 53 % of the subscriptions match (dense)", Dt2),
    ("dt3", "Zipf interests on 250 brokers, 9 % of the subscriptions match (sparse)", Dt3),
    ("dt4", "Zipf interests on 21 brokers, 9 % of the subscriptions match (sparse)", Dt4),
    ("dt5", "Zipf interests on 21 brokers, 54 % of the subscriptions match (dense)", Dt5),
    ("dt-c", "Zipf interests on 500 brokers, 4 % match, subscriptions cover each other", DtC),
)
DEFINITIONS = tuple(
    Definition(name, summary, parameters, make) for name, summary, parameters in _SUMMARIES
)
