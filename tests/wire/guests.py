"""Messages about clients that move, drawn from the names, numbers and batches given."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from gravitate.broker.messages.guests import (
    Entrusted,
    GuestAnswer,
    GuestCut,
    GuestStep,
    Reminder,
    StagingPoll,
    TakeGuest,
    Wanted,
)
from gravitate.broker.messages.tether import (
    Deliveries,
    HandedOver,
    Publishing,
    Serving,
    TetherAdvertise,
    TetherAttach,
    TetherAttached,
    TetherClosed,
    TetherDetach,
    TetherHold,
    TetherPaused,
    TetherRedirect,
    TetherSettled,
    TetherWants,
)
from gravitate.model.events import Batch

Drawn = st.SearchStrategy[Any]


def _wanted(names: Drawn, filters: Drawn) -> Drawn:
    one = st.builds(Wanted, names, filters, st.integers(0, 2), st.booleans())
    return st.lists(one, max_size=2).map(tuple)


def guest_messages(
    names: Drawn, numbers: Drawn, filters: Drawn, paths: Drawn, batches: st.SearchStrategy[Batch]
) -> Drawn:
    """One of every kind."""
    wanted = _wanted(names, filters)
    seen = st.lists(st.tuples(names, numbers, numbers), max_size=3).map(tuple)
    origins = st.just("") | names
    served = (numbers, numbers, names, names, numbers, wanted, numbers)

    def cut(carried: list[Batch]) -> Drawn:
        qos = st.just(tuple(batch.qos for batch in carried))
        carry = st.just(tuple(carried))
        return st.builds(GuestCut, names, paths, seen, qos, carry, st.integers(0, 2), st.booleans())

    return st.one_of(
        st.builds(TakeGuest, names, paths, names, numbers, wanted, st.floats(0, 60), origins),
        st.builds(GuestAnswer, names, paths, st.sampled_from(GuestStep), names, origins, numbers),
        st.builds(StagingPoll, names, paths),
        st.lists(batches, max_size=2).flatmap(cut),
        st.builds(Entrusted, *served),
        st.builds(Reminder, st.builds(Entrusted, *served)),
    )


def tether_messages(
    names: Drawn, numbers: Drawn, filters: Drawn, paths: Drawn, batches: st.SearchStrategy[Batch]
) -> Drawn:
    """One of every kind."""
    wanted = _wanted(names, filters)
    carried = st.lists(batches, max_size=3).map(tuple)
    moves = st.none() | names
    advertisements = st.dictionaries(names, filters, max_size=2)
    roles = st.builds(Publishing, advertisements, paths, moves) | st.builds(Serving, moves)
    about = (numbers, numbers)
    return st.one_of(
        st.builds(TetherAttach, *about, names, numbers, roles),
        st.builds(TetherAttached, *about),
        st.builds(TetherPaused, *about),
        st.builds(TetherSettled, *about, names, numbers),
        st.builds(TetherRedirect, *about, moves),
        st.builds(TetherClosed, *about, names, moves, moves),
        st.builds(TetherDetach, *about),
        st.builds(TetherHold, *about, st.booleans()),
        st.builds(TetherAdvertise, *about, numbers, names, st.none() | filters),
        st.builds(HandedOver, *about, numbers, carried),
        st.builds(TetherWants, *about, wanted, numbers),
        st.builds(Deliveries, *about, numbers, st.integers(0, 1), carried, numbers),
    )
