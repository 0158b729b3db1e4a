"""Rounding as kernels: the load sample placed on leaves, and options taken back.

`incidence` is an `Incidence`, `covers` says how many of the taken options serve each of its pairs.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np

from gravitate.matching.jit import kernel

NOWHERE: Final = -1
UNSEEN: Final = -2


class Places(NamedTuple):
    """Where the load sample is."""

    is_load: Any
    """Whether a subscriber is of it."""
    room: Any
    """How many each leaf may have."""
    load: Any
    """How many it has."""
    leaf: Any
    """Of each subscriber, or `NOWHERE`."""
    first_on: Any
    next_on: Any
    """These two chain the subscribers of each leaf."""
    from_leaf: Any
    from_subscriber: Any
    queue: Any
    """From here on room to work in, one for each leaf."""


@kernel
def count_covers(is_taken: Any, incidence: Any, covers: Any) -> None:
    """How many of the taken options serve each pair."""
    for pair in range(len(covers)):
        count = 0
        for at in range(incidence.first_option[pair], incidence.first_option[pair + 1]):
            count += is_taken[incidence.option[at]]
        covers[pair] = count


@kernel
def _is_covered(subscriber: Any, incidence: Any, covers: Any) -> Any:
    """Whether any taken option serves a subscriber."""
    for pair in range(incidence.first_pair[subscriber], incidence.first_pair[subscriber + 1]):
        if covers[pair] > 0:
            return True
    return False


@kernel
def _queue_ways(
    subscriber: Any, source: Any, incidence: Any, covers: Any, places: Any, tail: Any
) -> Any:
    """Queue the leaves not seen yet where a subscriber on `source` may be; the new tail."""
    for way in range(incidence.first_way[subscriber], incidence.first_way[subscriber + 1]):
        at = incidence.way_leaf[way]
        if places.from_leaf[at] == UNSEEN and covers[incidence.way_pair[way]] > 0:
            places.from_leaf[at], places.from_subscriber[at] = source, subscriber
            places.queue[tail] = at
            tail += 1
    return tail


@kernel
def _place(subscriber: Any, incidence: Any, covers: Any, places: Any) -> Any:
    """Place a subscriber of the load sample on a leaf with room, moving others on where that makes
    room. Returns whether it could be done; if not, nothing has changed."""
    places.from_leaf[:] = UNSEEN
    head, end = 0, NOWHERE
    tail = _queue_ways(subscriber, NOWHERE, incidence, covers, places, 0)
    while head < tail:
        here = places.queue[head]
        head += 1
        if places.load[here] < places.room[here]:
            end = here
            break
        other = places.first_on[here]
        while other >= 0:
            tail = _queue_ways(other, here, incidence, covers, places, tail)
            other = places.next_on[other]
    if end < 0:
        return False
    places.load[end] += 1
    while True:
        moved, source = places.from_subscriber[end], places.from_leaf[end]
        if source >= 0:
            _take_off(moved, source, places)
        places.leaf[moved] = end
        places.next_on[moved] = places.first_on[end]
        places.first_on[end] = moved
        if source < 0:
            return True
        end = source


@kernel
def _take_off(subscriber: Any, leaf: Any, places: Any) -> None:
    """Take a subscriber out of the chain of its leaf."""
    at = places.first_on[leaf]
    if at == subscriber:
        places.first_on[leaf] = places.next_on[subscriber]
        return
    while places.next_on[at] != subscriber:
        at = places.next_on[at]
    places.next_on[at] = places.next_on[subscriber]


@kernel
def prune(
    order: Any,
    spared: Any,
    taken_by: Any,
    is_taken: Any,
    served: Any,
    first: Any,
    incidence: Any,
    covers: Any,
    places: Any,
) -> None:
    """Take back options in the given order, as long as everybody stays covered and the load sample
    keeps its places. A child with no more than `spared` options loses none.

    `served[first[k] : first[k + 1]]` are the pairs that option k serves. The places of the load
    sample are kept up to date."""
    homeless = np.empty(len(places.is_load), dtype=np.int32)
    for option in order:
        child = incidence.child[option]
        if not is_taken[option] or taken_by[child] <= spared[child]:
            continue
        pairs = served[first[option] : first[option + 1]]
        is_needed = False
        for pair in pairs:
            covers[pair] -= 1
        count = 0
        for pair in pairs:
            subscriber = incidence.pair_subscriber[pair]
            if covers[pair] > 0:
                continue
            if not _is_covered(subscriber, incidence, covers):
                is_needed = True
                break
            if places.is_load[subscriber] and _is_place_lost(subscriber, incidence, covers, places):
                homeless[count] = subscriber
                count += 1
        if is_needed or not _rehoused(homeless[:count], incidence, covers, places):
            for pair in pairs:
                covers[pair] += 1
        else:
            is_taken[option] = False
            taken_by[child] -= 1


@kernel
def _is_place_lost(subscriber: Any, incidence: Any, covers: Any, places: Any) -> Any:
    """Whether no taken option serves a subscriber on its leaf any more."""
    for way in range(incidence.first_way[subscriber], incidence.first_way[subscriber + 1]):
        if incidence.way_leaf[way] == places.leaf[subscriber]:
            return covers[incidence.way_pair[way]] == 0
    return True


@kernel
def _rehoused(homeless: Any, incidence: Any, covers: Any, places: Any) -> Any:
    """Find other places for some of the load sample. Returns whether all got one; if not, all are
    where they were."""
    if len(homeless) == 0:
        return True
    old_leaf, old_next = places.leaf.copy(), places.next_on.copy()
    old_first, old_load = places.first_on.copy(), places.load.copy()
    for subscriber in homeless:
        _take_off(subscriber, places.leaf[subscriber], places)
        places.load[places.leaf[subscriber]] -= 1
    for subscriber in homeless:
        if not _place(subscriber, incidence, covers, places):
            places.leaf[:], places.next_on[:] = old_leaf, old_next
            places.first_on[:], places.load[:] = old_first, old_load
            return False
    return True


@kernel
def place_all(incidence: Any, covers: Any, places: Any) -> None:
    """Place the load sample. Where there is no room, a leaf gets room for one more: of those that
    serve the subscriber the one with the most."""
    for subscriber in range(len(places.is_load)):
        if not places.is_load[subscriber] or not _is_covered(subscriber, incidence, covers):
            continue
        if _place(subscriber, incidence, covers, places):
            continue
        largest = NOWHERE
        for way in range(incidence.first_way[subscriber], incidence.first_way[subscriber + 1]):
            at, is_served = incidence.way_leaf[way], covers[incidence.way_pair[way]] > 0
            if is_served and (largest < 0 or places.room[at] > places.room[largest]):
                largest = at
        places.room[largest] += 1
        _place(subscriber, incidence, covers, places)
