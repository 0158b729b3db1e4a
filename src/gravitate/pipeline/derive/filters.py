"""What brokers have in common, event by event: exact, and as their Bloom filters would tell.

Plain numpy and a kernel over the words of one group of events; knows nothing of Spark or periods.

A broker tells others what it wants with a Bloom filter of event ids (spec/3: 100,000 bits, 5
hashes, of at most 8,192 ids it has cached); another estimates what they share by counting its own
ids found in it. Here the filters of all brokers lie across: for each bit position a mask of the
brokers whose filter has it set. An id is then looked up in every filter at once, with as many
reads as there are hashes. A filter object per broker would be asked once for each id and broker.

The hash of an event is `trace.sampling.event_hash`, the same everywhere; its two halves give the
positions `h1 + k * h2`.
"""

from __future__ import annotations

from typing import Final

import msgspec
import numpy as np
import numpy.typing as npt

from gravitate.matching.jit import kernel
from gravitate.trace.sampling import event_hashes, publisher_hash

Ints = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]

WORD_BITS: Final = 64


class FilterShape(msgspec.Struct, frozen=True):
    """The Bloom filters that brokers exchange (spec/3)."""

    bits: int = 100_000
    hashes: int = 5
    ids_max: int = 8_192
    """Ids in one filter; a broker with more sends several, each of a share of its ids."""


class Marks(msgspec.Struct, frozen=True):
    """Words of bit vectors as columns: a row says which events of a word a broker has.

    `own` rows are to be counted; the others only tell that the broker has these events too."""

    publishers: list[str]
    """Client ids; `publisher` are positions in it."""
    publisher: Ints
    incarnation: Ints
    word: Ints
    broker: Ints
    bits: Words
    own: npt.NDArray[np.bool_]


def shared_events(marks: Marks, brokers: int, shape: FilterShape) -> tuple[Ints, Ints]:
    """For each pair of brokers (i, j) the events of i that j has too, and those of i that are
    found in the Bloom filter of j; i = j is left 0."""
    if not len(marks.bits):
        nothing = np.zeros((brokers, brokers), dtype=np.int64)
        return nothing, nothing.copy()
    order = np.lexsort((marks.broker, marks.word, marks.incarnation, marks.publisher))
    publisher, incarnation = marks.publisher[order], marks.incarnation[order]
    word, broker = marks.word[order], marks.broker[order]
    new_word = _changes(publisher, incarnation, word)
    rows = np.flatnonzero(new_word | _changes(broker))
    bits = marks.bits[order]
    has = np.bitwise_or.reduceat(bits, rows)
    owns = np.bitwise_or.reduceat(np.where(marks.own[order], bits, np.uint64(0)), rows)
    word_rows = np.flatnonzero(new_word[rows])
    first = rows[word_rows]
    present = np.bitwise_or.reduceat(has, word_rows)
    event_word, event_bit = _set_bits(present)
    hashes = _hashes(
        marks.publishers,
        publisher[first][event_word],
        incarnation[first][event_word],
        word[first][event_word] * WORD_BITS + event_bit,
    )
    return _count(
        np.append(word_rows, len(rows)).astype(np.int64),
        broker[rows],
        has,
        owns,
        event_word,
        event_bit.astype(np.uint64),
        hashes,
        brokers,
        shape.bits,
        shape.hashes,
    )


def _changes(*columns: Ints) -> npt.NDArray[np.bool_]:
    """Where a row differs from the one before; the first always does."""
    changed = np.ones(len(columns[0]), dtype=np.bool_)
    changed[1:] = False
    for column in columns:
        changed[1:] |= column[1:] != column[:-1]
    return changed


def _set_bits(words: Words) -> tuple[Ints, Ints]:
    """Positions in `words` and in each word of all bits that are set."""
    octets = words.astype("<u8").view(np.uint8).reshape(len(words), 8)
    at_word, at_bit = np.nonzero(np.unpackbits(octets, axis=1, bitorder="little"))
    return at_word, at_bit


def _hashes(publishers: list[str], publisher: Ints, incarnation: Ints, counter: Ints) -> Words:
    """The hashes of events that are sorted by publisher and incarnation."""
    hashes = np.empty(len(counter), dtype=np.uint64)
    bounds = np.append(np.flatnonzero(_changes(publisher, incarnation)), len(counter))
    for start, stop in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
        base = publisher_hash(publishers[int(publisher[start])], int(incarnation[start]))
        hashes[start:stop] = event_hashes(base, counter[start:stop])  # type: ignore[arg-type]
    return hashes


@kernel
def _count(
    word_starts: Ints,
    row_broker: Ints,
    has: Words,
    owns: Words,
    event_word: Ints,
    event_bit: Words,
    hashes: Words,
    brokers: int,
    filter_bits: int,
    filter_hashes: int,
) -> tuple[Ints, Ints]:
    width = (brokers + 63) // 64
    one = np.uint64(1)
    low = np.uint64(0xFFFFFFFF)
    size = np.uint64(filter_bits)
    filters = np.zeros((filter_bits, width), np.uint64)
    holders = np.zeros((len(event_word), width), np.uint64)
    events = np.zeros((brokers, brokers), np.int64)
    found = np.zeros((brokers, brokers), np.int64)
    for e in range(len(event_word)):
        for row in range(word_starts[event_word[e]], word_starts[event_word[e] + 1]):
            if (has[row] >> event_bit[e]) & one:
                broker = row_broker[row]
                holders[e, broker >> 6] |= one << np.uint64(broker & 63)
        position, step = hashes[e] & low, (hashes[e] >> np.uint64(32)) | one
        for _ in range(filter_hashes):
            at = np.int64(position % size)
            for w in range(width):
                filters[at, w] |= holders[e, w]
            position += step
    likely = np.zeros(width, np.uint64)
    for e in range(len(event_word)):
        position, step = hashes[e] & low, (hashes[e] >> np.uint64(32)) | one
        likely[:] = filters[np.int64(position % size)]
        for _ in range(1, filter_hashes):
            position += step
            at = np.int64(position % size)
            for w in range(width):
                likely[w] &= filters[at, w]
        for row in range(word_starts[event_word[e]], word_starts[event_word[e] + 1]):
            if (owns[row] >> event_bit[e]) & one:
                own = row_broker[row]
                for other in range(brokers):
                    bit = np.uint64(other & 63)
                    events[own, other] += np.int64((holders[e, other >> 6] >> bit) & one)
                    found[own, other] += np.int64((likely[other >> 6] >> bit) & one)
    for broker in range(brokers):
        events[broker, broker] = found[broker, broker] = 0
    return events, found
