"""Links that events cross, against the flow model, for every single move."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from gravitate.plan.flow.crossings import Wanted, crossings, flows_at
from gravitate.plan.flow.flow import Tree, flow, rooted

SUBSCRIBERS = 6


@st.composite
def trees(draw: st.DrawFn) -> Tree:
    count = draw(st.integers(1, 8))
    return rooted(count, [(draw(st.integers(0, at - 1)), at) for at in range(1, count)])


@st.composite
def traffic(draw: st.DrawFn, brokers: int) -> Wanted:
    audiences = draw(st.lists(st.sets(st.integers(0, SUBSCRIBERS - 1)), max_size=5))
    source = [draw(st.integers(0, brokers - 1)) for _ in audiences]
    return Wanted(
        np.array(source, dtype=np.int32),
        np.array([draw(st.integers(1, 3)) for _ in audiences], dtype=np.float64),
        np.full(len(audiences), 10.0),
        np.cumsum([0, *map(len, audiences)]).astype(np.int64),
        np.array([one for audience in audiences for one in sorted(audience)], dtype=np.int64),
    )


def crossed(tree: Tree, wanted: Wanted, home: np.ndarray) -> float:
    loads, _ = flow(tree, flows_at(wanted, home, len(tree))[0])
    return float(loads["in_links"].sum())


@given(st.data())
def test_what_one_subscriber_saves_is_what_the_flow_model_says_with_it_elsewhere(
    data: st.DataObject,
) -> None:
    tree = data.draw(trees())
    wanted = data.draw(traffic(len(tree)))
    places = st.lists(
        st.integers(0, len(tree) - 1), min_size=SUBSCRIBERS, max_size=SUBSCRIBERS
    ).map(lambda brokers: np.array(brokers, dtype=np.int32))
    home, elsewhere = data.draw(places), data.draw(places)
    total, saved = crossings(tree, wanted, home, elsewhere)
    assert total == crossed(tree, wanted, home)
    for subscriber in range(SUBSCRIBERS):
        moved = home.copy()
        moved[subscriber] = elsewhere[subscriber]
        assert saved[subscriber] == total - crossed(tree, wanted, moved)


def test_sessions_at_one_broker_are_one_target() -> None:
    wanted = Wanted(
        np.array([0, 1], dtype=np.int32),
        np.array([2.0, 1.0]),
        np.array([10.0, 10.0]),
        np.array([0, 3, 3], dtype=np.int64),
        np.array([0, 1, 2], dtype=np.int64),
    )
    flows, own = flows_at(wanted, np.array([1, 0, 1], dtype=np.int32), 2)
    assert flows.first.tolist() == [0, 2, 2]
    assert flows.target.tolist() == [0, 1]
    assert flows.sessions.tolist() == [1.0, 2.0]
    assert own.tolist() == [1, 0, 1]
