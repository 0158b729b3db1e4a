"""Changing interest in topics, a Poisson process (paper 5; Section 6.1.2 there).

A user holds a fixed number of topics and swaps one of them for another at times of a Poisson
process, rounded down to the step of the source's clock. Which topics: all alike, by a Zipf law,
or from the user's own mode, a tenth of a hundred topics or the like. Users stay at the broker
they were given at first; where they should be is the question, not the workload.

The source says nothing of publications: here every topic has a publisher at a broker drawn
evenly, and all publish at one rate.
"""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Annotated, Literal

import msgspec
import numpy as np
import pyarrow as pa

from gravitate.pipeline.workloads import columns
from gravitate.pipeline.workloads.columns import Floats, Integers
from gravitate.pipeline.workloads.definition import Definition, Made
from gravitate.pipeline.workloads.generate import Block, TablePlan
from gravitate.pipeline.workloads.popularity import ranks_at, zipf

Count = Annotated[int, msgspec.Meta(ge=1)]
Positive = Annotated[float, msgspec.Meta(gt=0.0)]
USERS_PER_BLOCK_MAX = 10_000
REDRAWS_MAX = 100


class PoissonTopics(msgspec.Struct, frozen=True):
    """Section 6.1.2 of DYNATOPS gives sizes, patterns and the step, Figure 8 the rate of changes
    (0.1 an hour); skew and publication rate are chosen here."""

    subscribers: Count = 50_000
    brokers: Count = 100
    topics: Count = 1000
    topics_each: Count = 5
    pattern: Literal["uniform", "zipf", "multimodal"] = "multimodal"
    modes: Count = 100
    """Equal parts of the topics; a user has one. For the pattern `multimodal`."""
    skew: Annotated[float, msgspec.Meta(ge=0.0)] = 1.0
    """For the pattern `zipf`: topic i, from 1, has weight (i + 1) ** -skew."""
    changes_per_h: Annotated[float, msgspec.Meta(ge=0.0)] = 0.1
    """Of each user."""
    step_s: Positive = 3600.0
    duration_s: Positive = 360_000.0
    rate_msgs_per_h: Positive = 1.0
    """Publications on each topic."""
    payload_bytes: Annotated[int, msgspec.Meta(ge=0)] = 0

    def __post_init__(self) -> None:
        choice = self.topics // self.modes if self.pattern == "multimodal" else self.topics
        if self.topics_each >= choice:
            raise ValueError(
                f"topics_each {self.topics_each} is not accepted: a user chooses among {choice}, "
                f"write at most {choice - 1}"
            )


def make(parameters: PoissonTopics, seed: int, folder: Path | None) -> Made:
    """Nothing to calibrate: the model is given whole."""
    hours = parameters.duration_s / 3600
    changes = parameters.changes_per_h * hours
    users_per_block = min(
        USERS_PER_BLOCK_MAX, columns.items_per_block(parameters.topics_each + changes)
    )
    made = functools.partial
    return Made(
        plans=(
            columns.brokers_plan(parameters.brokers),
            TablePlan("publishers", parameters.topics, made(publishers, parameters=parameters)),
            TablePlan(
                "publications",
                parameters.topics,
                made(publications, parameters=parameters),
                columns.items_per_block(parameters.rate_msgs_per_h * hours),
            ),
            TablePlan(
                "subscriptions",
                parameters.subscribers,
                made(subscriptions, parameters=parameters),
                users_per_block,
            ),
        ),
        source="synthetic, Poisson changes of interest as the source describes them",
        statistics={"changes_per_subscriber_mean": changes},
    )


def publishers(block: Block, parameters: PoissonTopics) -> pa.Table:
    """One publisher a topic, anywhere."""
    topics = np.arange(block.start, block.stop)
    at = block.generator("brokers").integers(parameters.brokers, size=len(block))
    return columns.table(
        "publishers",
        {
            "publisher": columns.numbered("pub-", topics, parameters.topics),
            "broker": columns.numbered("b", at, parameters.brokers),
            "advertisement": columns.joined("topic = '", _topics(topics, parameters), "'"),
            "rate_msgs_per_s": parameters.rate_msgs_per_h / 3600,
        },
        len(block),
    )


def publications(block: Block, parameters: PoissonTopics) -> pa.Table:
    """Poisson processes of one rate on every topic."""
    random = block.generator("publications")
    expected = parameters.rate_msgs_per_h / 3600 * parameters.duration_s
    counts = random.poisson(expected, len(block))
    owners, numbers, at_s = columns.occurrences(random, counts, parameters.duration_s)
    topics = owners + block.start
    return columns.table(
        "publications",
        {
            "publisher": columns.numbered("pub-", topics, parameters.topics),
            "number": numbers,
            "at_s": at_s,
            "topic": _topics(topics, parameters),
            "attributes": "{}",
            "payload_bytes": parameters.payload_bytes,
            "broker": None,
        },
        len(owners),
    )


def subscriptions(block: Block, parameters: PoissonTopics) -> pa.Table:
    """What the users of a block hold from when until when; a user never holds a topic twice."""
    random = block.generator("interests")
    users, at_s, slots, topics = _changes(random, len(block), parameters)
    # One holding a row; those of one user and slot follow each other in time.
    order = np.lexsort((at_s, slots, users))
    users, at_s, slots, topics = users[order], at_s[order], slots[order], topics[order]
    followed = np.append((users[1:] == users[:-1]) & (slots[1:] == slots[:-1]), False)
    until_s = np.append(at_s[1:], 0.0)
    held = ~followed | (until_s > at_s)  # of several changes in one step the last counts
    home = random.integers(parameters.brokers, size=len(block))
    return columns.table(
        "subscriptions",
        {
            "subscriber": columns.numbered(
                "user-", users[held] + block.start, parameters.subscribers
            ),
            "subscription": columns.joined("topic-", slots[held] + 1),
            "broker": columns.numbered("b", home[users[held]], parameters.brokers),
            "topic": _topics(topics[held], parameters),
            "condition": "",
            "from_s": at_s[held],
            "until_s": pa.array(until_s[held], mask=~followed[held]),
        },
        int(held.sum()),
    )


def _changes(
    random: np.random.Generator, users: int, parameters: PoissonTopics
) -> tuple[Integers, Floats, Integers, Integers]:
    """User, time, slot and topic of every subscription taken up, the first ones included."""
    draw = _Topics(random, users, parameters)
    each = parameters.topics_each
    everyone = np.arange(users)
    held = np.full((users, each), -1, dtype=np.int64)
    for slot in range(each):
        held[:, slot] = draw(everyone, held)
    taken: list[tuple[Integers, Floats, Integers, Integers]] = [
        (
            np.repeat(everyone, each),
            np.zeros(users * each),
            np.tile(np.arange(each), users),
            held.ravel().copy(),
        )
    ]
    changes_per_s = parameters.changes_per_h / 3600
    counts = random.poisson(changes_per_s * parameters.duration_s, users)
    owners, numbers, at_s = columns.occurrences(random, counts, parameters.duration_s)
    at_s = np.floor(at_s / parameters.step_s) * parameters.step_s
    slots = random.integers(each, size=len(owners))
    for number in range(1, int(counts.max(initial=0)) + 1):  # a user's changes in their order
        rows = np.flatnonzero(numbers == number)
        who, where = owners[rows], slots[rows]
        held[who, where] = draw(who, held)
        taken.append((who, at_s[rows], where, held[who, where]))
    columns_of = [np.concatenate(parts) for parts in zip(*taken, strict=True)]
    return columns_of[0], columns_of[1], columns_of[2], columns_of[3]


class _Topics:
    """Draws topics for users by the pattern, other ones than they hold."""

    def __init__(self, random: np.random.Generator, users: int, parameters: PoissonTopics) -> None:
        self.random = random
        if parameters.pattern == "multimodal":
            self.choice = parameters.topics // parameters.modes
            self.offset = random.integers(parameters.modes, size=users) * self.choice
        else:
            self.choice = parameters.topics
            self.offset = np.zeros(users, dtype=np.int64)
        # (i + 1) ** -skew for i from 1 is a Zipf law without its first rank.
        skew = parameters.skew if parameters.pattern == "zipf" else 0.0
        weights = zipf(self.choice + 1, skew)[1:]
        self.probabilities = weights / weights.sum()

    def __call__(self, users: Integers, held: Integers) -> Integers:
        """A topic for each of `users` (no user twice) that it does not hold.

        The slot that is to change still counts as held: a change is to another topic."""
        drawn = self._drawn(users)
        for _ in range(REDRAWS_MAX):
            again = np.flatnonzero((held[users] == drawn[:, np.newaxis]).any(axis=1))
            if not len(again):
                return drawn
            drawn[again] = self._drawn(users[again])
        for row in again.tolist():  # where the law leaves next to nothing but what is held
            user = users[row]
            mine = set(held[user].tolist())
            drawn[row] = next(
                topic
                for topic in range(self.offset[user], self.offset[user] + self.choice)
                if topic not in mine
            )
        return drawn

    def _drawn(self, users: Integers) -> Integers:
        return self.offset[users] + ranks_at(self.random.random(len(users)), self.probabilities)


def _topics(topics: Integers, parameters: PoissonTopics) -> pa.Array:
    return columns.joined("topics/", columns.numbered("t", topics, parameters.topics))


DEFINITION = Definition(
    "poisson",
    "users of 1,000 topics who change their interests at random times",
    PoissonTopics,
    make,
)
