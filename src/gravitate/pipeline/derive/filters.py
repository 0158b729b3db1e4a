"""What brokers have in common, event by event: exact, and as their Bloom filters would tell.

Plain numpy and a kernel over the words of bit vectors; knows nothing of Spark or periods.

A broker tells others what it wants with a Bloom filter of event ids (paper 3: 100,000 bits, 5
hashes, of at most 8,192 ids that it has cached); another estimates what they share by counting its
own ids found in it. Here the filters of all brokers lie across: for each bit position a mask of
the brokers whose filter has it set. An id is then looked up in every filter at once, with as many
reads as there are hashes. A filter object per broker would be asked once for each id and broker.

The hash of an event is `trace.sampling.event_hash`, the same everywhere; its two halves give the
positions `h1 + k * h2`.
"""

from __future__ import annotations

from typing import Final

import msgspec
import numpy as np
import numpy.typing as npt

from gravitate.matching.jit import kernel, trailing_zeros
from gravitate.trace.sampling import event_hashes

Ints = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]

WORD_BITS: Final = 64


class FilterShape(msgspec.Struct, frozen=True):
    """The Bloom filters that brokers exchange (paper 3)."""

    bits: int = 100_000
    hashes: int = 5
    ids_max: int = 8_192
    """Ids in one filter; a broker with more sends several, each of a share of its ids."""

    def share(self, shares: int) -> FilterShape:
        """A filter for one of so many shares of the ids; it errs as often as the whole one."""
        return FilterShape(-(-self.bits // shares), self.hashes, -(-self.ids_max // shares))


class Vectors(msgspec.Struct, frozen=True):
    """Words of bit vectors: `base` and `number` describe each word, the other columns are rows
    that say which events of a word a broker has."""

    base: Words
    """`publisher_hash` of the word's publisher and incarnation."""
    number: Ints
    """Counter of the word's first event / 64."""
    word: Ints
    """Position in `base` and `number`."""
    broker: Ints
    bits: Words
    own: npt.NDArray[np.bool_]
    """Rows to be counted; the others only tell that the broker has these events too."""

    def select(self, rows: npt.NDArray[np.bool_]) -> Vectors:
        return Vectors(
            self.base,
            self.number,
            self.word[rows],
            self.broker[rows],
            self.bits[rows],
            self.own[rows],
        )


def shared_events(vectors: Vectors, brokers: int, shape: FilterShape) -> tuple[Ints, Ints]:
    """For each pair of brokers (i, j) the events of i that j has too, and those of i that are
    found in the Bloom filter of j; i = j is left 0.

    When a broker has more ids than go into one filter, all brokers send several filters, and the
    words are dealt out to them by a hash."""
    events, found = np.zeros((2, brokers, brokers), dtype=np.int64)
    ids = np.bincount(vectors.broker[vectors.own], np.bitwise_count(vectors.bits[vectors.own]))
    rounds = int(np.ceil(ids.max(initial=0) / shape.ids_max))
    if rounds == 1:
        _count_round(vectors, events, found, shape)
    elif rounds > 1:
        round_of_word = event_hashes(vectors.base, vectors.number) % np.uint64(rounds)
        round_of_row = round_of_word[vectors.word]
        for number in range(rounds):
            _count_round(vectors.select(round_of_row == number), events, found, shape)
    np.fill_diagonal(events, 0)
    np.fill_diagonal(found, 0)
    return events, found


def _count_round(vectors: Vectors, events: Ints, found: Ints, shape: FilterShape) -> None:
    """Add what one filter of each broker tells."""
    if not len(vectors.word):
        return
    order = np.lexsort((vectors.broker, vectors.word))
    word, broker, bits = vectors.word[order], vectors.broker[order], vectors.bits[order]
    new_word = np.append(True, word[1:] != word[:-1])
    rows = np.flatnonzero(new_word | np.append(True, broker[1:] != broker[:-1]))
    has = np.bitwise_or.reduceat(bits, rows)
    owns = np.bitwise_or.reduceat(np.where(vectors.own[order], bits, np.uint64(0)), rows)
    word_rows = np.flatnonzero(new_word[rows])
    word = word[rows][word_rows]
    at_word, at_bit = _set_bits(np.bitwise_or.reduceat(has, word_rows))
    hashes = event_hashes(
        vectors.base[word][at_word], vectors.number[word][at_word] * WORD_BITS + at_bit
    )
    _count(
        np.append(word_rows, len(rows)),
        broker[rows],
        has,
        owns,
        at_word,
        at_bit.astype(np.uint64),
        hashes,
        shape.bits,
        shape.hashes,
        events,
        found,
    )


def _set_bits(words: Words) -> tuple[Ints, Ints]:
    """Positions in `words` and in each word of all bits that are set."""
    octets = words.astype("<u8").view(np.uint8).reshape(len(words), 8)
    at_word, at_bit = np.nonzero(np.unpackbits(octets, axis=1, bitorder="little"))
    return at_word, at_bit


@kernel
def _count(
    word_starts: Ints,
    row_broker: Ints,
    has: Words,
    owns: Words,
    event_word: Ints,
    event_bit: Words,
    hashes: Words,
    filter_bits: int,
    filter_hashes: int,
    events: Ints,
    found: Ints,
) -> None:
    """Fill the filters with all events, then look all events up and add to `events` and `found`."""
    width = (len(events) + 63) // 64
    one = np.uint64(1)
    low = np.uint64(0xFFFFFFFF)
    size = np.uint64(filter_bits)
    filters = np.zeros((filter_bits, width), np.uint64)
    holders = np.zeros((len(event_word), width), np.uint64)
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
    for e in range(len(event_word)):
        position, step = hashes[e] & low, (hashes[e] >> np.uint64(32)) | one
        first = np.int64(position % size)
        for w in range(width):
            likely = filters[first, w]
            at_position = position
            for _ in range(1, filter_hashes):
                at_position += step
                likely &= filters[np.int64(at_position % size), w]
            certain = holders[e, w]
            for row in range(word_starts[event_word[e]], word_starts[event_word[e] + 1]):
                if (owns[row] >> event_bit[e]) & one:
                    own = row_broker[row]
                    left = certain
                    while left:
                        events[own, (w << 6) + np.int64(trailing_zeros(left))] += 1
                        left &= left - one
                    left = likely
                    while left:
                        found[own, (w << 6) + np.int64(trailing_zeros(left))] += 1
                        left &= left - one
