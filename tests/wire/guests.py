"""Messages about subscribers that move, drawn from the names, numbers and batches given."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from gravitate.broker.messages.guests import (
    Deliveries,
    GuestAnswer,
    GuestAttach,
    GuestAttached,
    GuestClosed,
    GuestCut,
    GuestDetach,
    GuestPaused,
    GuestRedirect,
    GuestSettled,
    GuestStep,
    GuestWants,
    TakeGuest,
    Wanted,
)
from gravitate.model.events import Batch

Drawn = st.SearchStrategy[Any]


def guest_messages(
    names: Drawn, numbers: Drawn, filters: Drawn, paths: Drawn, batches: st.SearchStrategy[Batch]
) -> Drawn:
    """One of every kind."""
    wanted = st.lists(
        st.builds(Wanted, names, filters, st.integers(0, 2), st.booleans()), max_size=2
    ).map(tuple)
    seen = st.lists(st.tuples(names, numbers, numbers), max_size=3).map(tuple)
    origins = st.just("") | names
    about = (numbers, numbers)

    def cut(carried: list[Batch]) -> Drawn:
        qos = st.just(tuple(batch.qos for batch in carried))
        carry = st.just(tuple(carried))
        return st.builds(GuestCut, names, paths, seen, qos, carry, st.integers(0, 2), st.booleans())

    return st.one_of(
        st.builds(TakeGuest, names, paths, names, numbers, wanted, st.floats(0, 60), origins),
        st.builds(GuestAnswer, names, paths, st.sampled_from(GuestStep), names, origins, numbers),
        st.lists(batches, max_size=2).flatmap(cut),
        st.builds(GuestAttach, *about, names, names),
        st.builds(GuestWants, *about, wanted),
        st.builds(GuestPaused, *about),
        st.builds(GuestDetach, *about),
        st.builds(GuestAttached, *about),
        st.builds(GuestSettled, *about, names),
        st.builds(GuestRedirect, *about, names),
        st.builds(GuestClosed, *about, names, names, names, paths),
        st.builds(Deliveries, *about, st.integers(0, 1), st.lists(batches, max_size=3).map(tuple)),
    )
