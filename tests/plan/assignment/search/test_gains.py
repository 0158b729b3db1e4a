"""Moves are worth making by what recorded events do, whatever boxes promised."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gravitate.plan.assignment.search.gains import Candidates, Gains, Limits, worthwhile
from gravitate.plan.flow.crossings import Floats, Ints, Wanted, crossings
from gravitate.plan.flow.flow import Tree, rooted

LINE = rooted(4, [(0, 1), (1, 2), (2, 3)])


class Recording(msgspec.Struct):
    """`gains.Events` in this process."""

    tree: Tree
    wanted: Wanted

    def gains(self, home: Ints, target: Ints) -> Gains:
        before, alone = crossings(self.tree, self.wanted, home, target)
        after, back = crossings(self.tree, self.wanted, target, home)
        return Gains(before, after, alone, -back)

    def savings(self, home: Ints, candidates: Candidates) -> Floats:
        who = candidates.subscriber
        found = np.zeros(candidates.table.shape)
        for row, broker in np.argwhere(candidates.table):
            elsewhere = home.copy()
            elsewhere[who[row]] = broker
            found[row, broker] = crossings(self.tree, self.wanted, home, elsewhere)[1][who[row]]
        return found


def wanted_by(*audiences: tuple[int, set[int]]) -> Wanted:
    """One event each: where it is published, and who wants it."""
    return Wanted(
        np.array([source for source, _ in audiences], dtype=np.int32),
        np.ones(len(audiences)),
        np.zeros(len(audiences)),
        np.cumsum([0, *(len(members) for _, members in audiences)]).astype(np.int64),
        np.array([one for _, members in audiences for one in sorted(members)], dtype=np.int64),
    )


def brokers(*positions: int) -> np.ndarray:
    return np.array(positions, dtype=np.int32)


PLENTY = Limits(np.full(4, 100))


def test_moves_that_bring_nothing_are_left_out() -> None:
    events = Recording(LINE, wanted_by((0, {0}), (0, {0, 1}), (3, {2})))
    # The first comes to where its events are, the second and the third go away from theirs.
    after, gains = worthwhile(brokers(3, 0, 3), brokers(0, 1, 1), events, PLENTY)
    assert after.tolist() == [0, 0, 3]
    assert (gains.before, gains.after) == (6.0, 0.0)
    assert gains.joint.tolist() == [6.0, 0.0, 0.0]


def test_when_all_moves_together_are_worse_nobody_moves() -> None:
    events = Recording(LINE, wanted_by((0, {0}), (0, {1})))
    after, gains = worthwhile(brokers(0, 0), brokers(3, 2), events, PLENTY)
    assert after.tolist() == [0, 0]
    assert gains.before == gains.after == 0.0


def test_what_is_good_alone_is_kept_when_the_whole_is_not() -> None:
    # Two go together to where nothing is, so that neither alone is better off at home.
    events = Recording(LINE, wanted_by(*[(0, {0, 1})] * 5, (0, {2})))
    after, _ = worthwhile(brokers(1, 2, 3), brokers(3, 3, 0), events, PLENTY)
    assert after.tolist() == [1, 2, 0]


def test_nobody_stays_where_there_is_no_room() -> None:
    events = Recording(LINE, wanted_by((1, {0, 1, 2})))
    home, target = brokers(3, 1, 1), brokers(1, 2, 1)
    alone, _ = worthwhile(home, target, events, PLENTY)
    assert alone.tolist() == [1, 1, 1]
    # With room for two at broker 1, the one that goes to broker 2 makes some.
    tight, _ = worthwhile(home, target, events, Limits(np.array([2, 2, 2, 2])))
    assert tight.tolist() == [1, 2, 1]


def test_the_best_moves_are_made_first_and_only_where_there_is_room() -> None:
    events = Recording(LINE, wanted_by(*[(0, {0})] * 9, *[(0, {1})] * 5, *[(1, {2})] * 2))
    home, target = brokers(3, 3, 3), brokers(0, 0, 1)
    for limit, expected in ((1, [0, 3, 3]), (2, [0, 0, 3]), (3, [0, 0, 1])):
        after, _ = worthwhile(home, target, events, Limits(np.full(4, 100), moves_max=limit))
        assert after.tolist() == expected
    after, _ = worthwhile(home, target, events, Limits(np.array([1, 1, 1, 1]), moves_max=2))
    assert after.tolist() == [0, 3, 1]


def test_who_finds_a_better_broker_on_the_recorded_events_goes_there() -> None:
    events = Recording(LINE, wanted_by(*[(0, {0})] * 3, *[(3, {1})] * 3, (1, {2})))
    home = brokers(3, 0, 3)
    everywhere = Candidates(np.arange(3), np.ones((3, 4), dtype=np.bool_))
    after, gains = worthwhile(home, home, events, Limits(np.full(4, 9), everywhere))
    assert after.tolist() == [0, 3, 1]
    assert gains.after == 0.0
    # Only where it is near enough; places that others leave are taken in the next round.
    near = Candidates(np.arange(3), everywhere.table.copy())
    near.table[2, :2] = False
    after, _ = worthwhile(home, home, events, Limits(np.array([1, 0, 1, 2]), near))
    assert after.tolist() == [0, 3, 2]
    after, _ = worthwhile(home, home, events, Limits(np.full(4, 9), everywhere, rounds=0))
    assert after.tolist() == home.tolist()


def loads_at(places: Ints) -> list[int]:
    return np.bincount(places, minlength=4).tolist()


def test_a_broker_that_had_too_many_takes_nobody_in_until_it_is_below_its_bound() -> None:
    # Nine at broker 0 want what is published at 3, nine at 1 what is published at 0.
    events = Recording(LINE, wanted_by((3, set(range(9))), *((0, {who}) for who in range(9, 18))))
    home, target = brokers(*[0] * 9, *[1] * 9), brokers(*[3] * 9, *[0] * 9)
    everywhere = Candidates(np.arange(18), np.ones((18, 4), dtype=np.bool_))
    for candidates in (None, everywhere):
        limits = Limits(np.array([3, 20, 20, 20]), candidates)
        after, _ = worthwhile(home, target, events, limits)
        assert loads_at(after) == [3, 6, 0, 9]


def test_a_broker_that_has_too_many_is_relieved_even_where_that_costs_links() -> None:
    events = Recording(LINE, wanted_by(*((0, {who}) for who in (0, 1, 1, 2, 2, 2)), (3, {3})))
    home, target = brokers(0, 0, 0, 2), brokers(1, 1, 3, 3)
    capacity = np.array([2, 9, 9, 9])
    after, gains = worthwhile(home, target, events, Limits(capacity))
    # One goes, the one that costs least, and who is better off elsewhere too.
    assert after.tolist() == [1, 0, 0, 3]
    assert (gains.before, gains.after) == (1.0, 1.0)
    # The bound comes before what would be saved.
    after, gains = worthwhile(home, target, events, Limits(capacity, moves_max=1))
    assert after.tolist() == [1, 0, 0, 2]
    assert (gains.before, gains.after) == (1.0, 2.0)


def test_who_cannot_leave_a_broker_that_has_too_many_stays_and_the_others_go_on() -> None:
    events = Recording(LINE, wanted_by((0, {0}), (0, {1}), (3, {2})))
    after, gains = worthwhile(
        brokers(0, 0, 0), brokers(0, 0, 3), events, Limits(np.array([1, 9, 9, 9]))
    )
    assert after.tolist() == [0, 0, 3]
    assert (gains.before, gains.after) == (3.0, 0.0)


@pytest.mark.parametrize("moves_max", [None, 1, 3])
@given(data=st.data())
def test_no_bound_is_broken_and_never_more_links_are_crossed_for_anything_else(
    moves_max: int | None, data: st.DataObject
) -> None:
    count = 7
    places = st.lists(st.integers(0, 3), min_size=count, max_size=count)
    home, target = (np.array(data.draw(places), dtype=np.int32) for _ in range(2))
    audience = st.tuples(st.integers(0, 3), st.sets(st.integers(0, count - 1)))
    events = Recording(LINE, wanted_by(*data.draw(st.lists(audience, max_size=6))))
    capacity = np.array(data.draw(st.lists(st.integers(0, 4), min_size=4, max_size=4)))
    may = st.lists(st.booleans(), min_size=4 * count, max_size=4 * count)
    candidates = np.array(data.draw(may)).reshape(count, 4)
    some = np.flatnonzero(candidates.any(axis=1))
    limits = Limits(capacity, Candidates(some, candidates[some]), moves_max=moves_max)
    after, gains = worthwhile(home, target, events, limits)
    plain = worthwhile(home, target, events, msgspec.structs.replace(limits, rounds=0))[1]
    assert moves_max is not None or gains.after <= plain.after
    assert gains.before == events.gains(home, home).before
    assert gains.after == events.gains(home, after).after
    loads, had, chosen = (np.bincount(where, minlength=4) for where in (after, home, target))
    moved = after != home
    # Who comes finds room; what is too much is never more than it was.
    assert (loads <= capacity)[after[moved]].all()
    assert (loads <= np.maximum(capacity, had)).all()
    if (had <= capacity).all():
        assert gains.after <= gains.before
    if (chosen <= capacity).all() and moves_max is None:
        assert (loads <= capacity).all()
    at = np.arange(count)
    assert ((after == target) | candidates[at, after])[moved].all()
    assert moves_max is None or moved.sum() <= moves_max
