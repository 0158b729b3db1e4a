"""Where all publishers of one network should be, from what was recorded.

    network = network_of(rooted(3, [(0, 1), (1, 2)], latency_s=0.02))
    profiles = profiles_of(current, publisher, broker, word, bits, deliveries)
    placements = best_brokers(network, profiles, GrapeParameters("load", 100))
    closest = closest_brokers(network, profiles)

The same selections as `grape` and `pop`, for a batch of publishers on arrays: one call serves as
many publishers as a task has. A publisher's candidates are the brokers of its delivery tree,
which are those that would have answered a trace.

Owns the arrays and what makes them. Brokers are numbers here; ties go to the lowest, so number
them in the order of their ids. Publishers are numbers too, from 0 in each batch.
"""

from __future__ import annotations

import msgspec
import numpy as np
from numpy.typing import ArrayLike

from gravitate.errors import InputError
from gravitate.plan.flow.flow import FRAME_BYTES, Tree
from gravitate.plan.placement import placement_kernels as kernels
from gravitate.plan.placement.grape import DEFAULTS, GrapeParameters
from gravitate.plan.placement.placement_kernels import Floats, Longs, Network, Profiles


def network_of(
    tree: Tree,
    inside_s: ArrayLike | None = None,
    clients_s: ArrayLike = 0.0,
    down_queue_s: ArrayLike = 0.0,
    up_queue_s: ArrayLike = 0.0,
) -> Network:
    """A tree with delays; a single number serves for all brokers.

    Without `inside_s` brokers take their service time. Links take their latency and what the
    frame of an event weighs, beside the output queueing delays given here."""
    bandwidth = tree.bandwidth_bytes_per_s
    frame_s = np.divide(FRAME_BYTES, bandwidth, out=np.zeros(len(tree)), where=bandwidth > 0)
    links_s = tree.latency_s + frame_s

    def delays(name: str, values: ArrayLike) -> Floats:
        given = np.array(np.broadcast_to(np.asarray(values, dtype=np.float64), len(tree)))
        if not (given >= 0).all() or np.isinf(given).any():
            wrong = given[~((given >= 0) & np.isfinite(given))][0]
            raise InputError(f"{wrong} in {name} is not accepted: write seconds from 0")
        return given

    return Network(
        tree.parent,
        tree.depth,
        inside_s=delays("inside_s", tree.service_s if inside_s is None else inside_s),
        clients_s=delays("clients_s", clients_s),
        down_s=delays("down_queue_s", down_queue_s) + links_s,
        up_s=delays("up_queue_s", up_queue_s) + links_s,
    )


def profiles_of(
    current: ArrayLike,
    publisher: ArrayLike,
    broker: ArrayLike,
    word: ArrayLike,
    bits: ArrayLike,
    deliveries: ArrayLike,
) -> Profiles:
    """Profiles from rows as tables have them: one for each word of a bit vector that is not 0.

    `current` has an entry for each publisher; the others one for each row, in any order: which
    publisher, at which broker, which word of the bit vector (any number), the word (signed or
    not), and deliveries that belong to it. Rows of the same word are joined."""
    here = np.ascontiguousarray(current, dtype=np.int64)
    owner, where, word_number = (np.asarray(a, dtype=np.int64) for a in (publisher, broker, word))
    if owner.size and not (owner.min() >= 0 and owner.max() < len(here)):
        raise InputError(f"rows name publishers beyond the {len(here)} that are given")
    # Numbers of words are only there to be told apart: each publisher's own are counted from 0.
    word_owners, _, word_at = _numbered(owner, word_number)
    entry_owners, entry_brokers, entry_at = _numbered(owner, where)
    words = np.bincount(word_owners, minlength=len(here))
    entries = np.bincount(entry_owners, minlength=len(here))
    first = _starts(entries)
    first_word = _starts(entries * words)
    place = (
        first_word[owner]
        + (entry_at - first[owner]) * words[owner]
        + (word_at - _starts(words)[owner])
    )
    delivered = np.zeros(len(entry_brokers))
    np.add.at(delivered, entry_at, np.asarray(deliveries, dtype=np.float64))
    joined = np.zeros(int(first_word[-1]), dtype=np.uint64)
    np.bitwise_or.at(joined, place, np.asarray(bits).astype(np.uint64, casting="unsafe"))
    return Profiles(
        current=here,
        first=first,
        broker=entry_brokers,
        deliveries=delivered,
        words=words,
        first_word=first_word[:-1],
        bits=joined,
    )


class Placements(msgspec.Struct, frozen=True, eq=False):
    """Where publishers should be; an entry for each."""

    best: Longs
    """The best candidate by metric and weight."""
    target: Longs
    """`best` where it is worth a move, or else the current broker."""
    delay_s: Floats
    """Average delivery delay: row 0 at the current broker, row 1 at `best`."""
    messages: Floats
    """Events that brokers take in all told, likewise."""


def best_brokers(
    network: Network,
    profiles: Profiles,
    parameters: GrapeParameters = DEFAULTS,
    to_publisher_s: ArrayLike | None = None,
) -> Placements:
    """GRAPE's choice for every publisher.

    `to_publisher_s` has a row for each publisher and a column for each broker; NaN where the
    publisher cannot connect to."""
    _require_within(network, profiles)
    count, brokers = len(profiles.current), len(network.parent)
    latencies = np.empty((0, brokers))
    if to_publisher_s is not None:
        latencies = np.ascontiguousarray(to_publisher_s, dtype=np.float64)
        if latencies.shape != (count, brokers):
            raise InputError(
                f"latencies of shape {latencies.shape} are not accepted: write a row for each of "
                f"{count} publishers and a column for each of {brokers} brokers"
            )
    by_delay = parameters.prioritised == "delay"
    best, delay_s, messages = kernels.grape_of_all(
        network, profiles, latencies, by_delay, float(parameters.weight_percent)
    )
    before, after = delay_s if by_delay else messages
    is_worth_it = before - after > before * parameters.margin_percent / 100
    return Placements(best, np.where(is_worth_it, best, profiles.current), delay_s, messages)


def closest_brokers(network: Network, profiles: Profiles) -> Longs:
    """For every publisher the broker where POP's relocation request ends.

    Deliveries stand for subscribers: their average over publications differs by a factor only."""
    _require_within(network, profiles)
    closest: Longs = kernels.pop_of_all(network, profiles)
    return closest


def _require_within(network: Network, profiles: Profiles) -> None:
    brokers = len(network.parent)
    for numbers in (profiles.current, profiles.broker):
        if numbers.size and not (numbers.min() >= 0 and numbers.max() < brokers):
            wrong = numbers[(numbers < 0) | (numbers >= brokers)][0]
            raise InputError(f"broker {wrong} is not in the network: write 0 to {brokers - 1}")


def _numbered(owner: Longs, value: Longs) -> tuple[Longs, Longs, Longs]:
    """All different pairs, by owner and then by value, as two columns; and the number of the pair
    of each row."""
    order = np.lexsort((value, owner))
    owners, values = owner[order], value[order]
    is_new = np.ones(len(order), dtype=np.bool_)
    is_new[1:] = (owners[1:] != owners[:-1]) | (values[1:] != values[:-1])
    at = np.empty(len(order), dtype=np.int64)
    at[order] = np.cumsum(is_new) - 1
    return owners[is_new], values[is_new], at


def _starts(sizes: Longs) -> Longs:
    starts = np.zeros(len(sizes) + 1, dtype=np.int64)
    np.cumsum(sizes, out=starts[1:])
    return starts
