"""A recorded network as an assignment problem: root, tree, latencies, who may move."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gravitate.config.network import BrokerSpec, LinkSpec, Network
from gravitate.config.planning import SubscriberOptions
from gravitate.overlay.tree import neighbours, path
from gravitate.pipeline.planning import subscribers
from gravitate.pipeline.planning.listeners import Listeners, Vocabulary
from gravitate.pipeline.planning.publishers import Overlay
from gravitate.pipeline.planning.scene import Scene, tree_distances
from gravitate.pipeline.planning.subscribers import Posed
from gravitate.plan.assignment.problem.event_space import Density
from gravitate.plan.assignment.problem.problem import PUBLISHER, candidate_lists

LINE = Network(
    "line",
    tuple(map(BrokerSpec, "abcd")),
    (LinkSpec(("a", "b"), 10.0), LinkSpec(("b", "c"), 20.0), LinkSpec(("c", "d"), 5.0)),
)


def scene(published: tuple[float, ...], network: Network = LINE) -> Scene:
    return Scene.of(network, Overlay.of(network), np.array(published))


@pytest.mark.parametrize(
    ("published", "root"),
    [
        ((1.0, 0.0, 0.0, 0.0), "a"),
        ((3.0, 0.0, 0.0, 2.0), "a"),
        ((1.0, 1.0, 0.0, 3.0), "d"),
        ((2.0, 2.0, 2.0, 0.0), "b"),
    ],
)
def test_the_root_is_nearest_to_where_events_are_published(
    published: tuple[float, ...], root: str
) -> None:
    found = scene(published)
    assert found.overlay.brokers[found.root] == root


def test_a_broker_with_others_below_it_is_an_inner_node_and_a_leaf_at_the_same_place() -> None:
    found = scene((0.0, 1.0, 0.0, 0.0))
    posed = found.network
    # a and d are leaves themselves; b and c are inner, with a leaf each behind the others.
    assert posed.parent.tolist() == [1, PUBLISHER, 1, 2, 1, 2]
    assert posed.leaves.tolist() == [0, 3, 4, 5]
    assert found.broker.tolist() == [0, 3, 1, 2]
    assert found.leaf.tolist() == [0, 2, 3, 1]
    assert posed.tree_ms.tolist() == pytest.approx([10.0, 0.0, 20.0, 25.0, 0.0, 20.0])
    assert found.near_ms[0].tolist() == pytest.approx([0.0, 35.0, 10.0, 30.0])


def test_a_single_broker_is_a_leaf() -> None:
    found = scene((1.0,), Network("one", (BrokerSpec("a"),)))
    assert found.network.leaves.tolist() == [0]
    assert found.network.tree_ms.tolist() == [0.0]


def test_coordinates_of_the_file_tell_how_far_brokers_are_from_clients() -> None:
    brokers = tuple(
        BrokerSpec(name, coordinates=(x, 0.0)) for name, x in zip("abcd", (0, 3, 4, 9), strict=True)
    )
    found = scene((1.0, 0.0, 0.0, 0.0), Network("placed", brokers, LINE.links))
    assert found.near_ms[0, found.leaf].tolist() == pytest.approx([0.0, 3.0, 4.0, 9.0])
    assert found.network.leaf_ms[found.leaf].tolist() == pytest.approx([0.0, 10.0, 30.0, 35.0])


@given(st.data())
def test_distances_are_those_along_the_tree(data: st.DataObject) -> None:
    count = data.draw(st.integers(1, 7))
    names = [f"b{number}" for number in range(count)]
    links = tuple(
        LinkSpec((names[data.draw(st.integers(0, at - 1))], names[at]), float(at))
        for at in range(1, count)
    )
    network = Network("tree", tuple(map(BrokerSpec, names)), links)
    far_ms, hops = tree_distances(Overlay.of(network))
    near = neighbours(names, [link.between for link in links])
    latency_ms = {frozenset(link.between): link.latency_ms for link in links}
    for one in range(count):
        for other in range(count):
            way = path(near, names[one], names[other]) or []
            steps = [frozenset(pair) for pair in pairwise(way)]
            assert far_ms[one, other] == pytest.approx(sum(latency_ms[step] for step in steps))
            assert hops[one, other] == len(steps)


def listeners(homes: tuple[int, ...], deliveries: tuple[float, ...]) -> Listeners:
    count = len(homes)
    wanted = np.array(deliveries) > 0
    return Listeners(
        names=[f"s{number}" for number in range(count)],
        home=np.array(homes, dtype=np.int32),
        deliveries=np.array(deliveries),
        lows=np.where(wanted, 1.0, np.nan)[:, None],
        highs=np.where(wanted, 2.0, np.nan)[:, None],
        is_subscribed=np.ones(count, dtype=np.bool_),
        is_interested=wanted,
    )


DENSITY = Density.of([0.0, 1.0, 2.0, 3.0], [1.0, 2.0])


def test_interests_are_shares_of_the_events_and_who_got_nothing_is_not_in_it() -> None:
    people = listeners((3, 0, 2, 3), (20.0, 0.0, 20.0, 3.0))
    posed = Posed.of(scene((0.0, 1.0, 0.0, 0.0)), people, [DENSITY], SubscriberOptions())
    assert posed is not None
    assert posed.subscriber.tolist() == [0, 2, 3]
    assert posed.problem.interests[:, :, 0].tolist() == [[0.25, 0.75]] * 3
    brokers = posed.scene.broker
    candidates = [
        sorted(brokers[leaf] for leaf in row)
        for row in candidate_lists(posed.problem.reach.candidates, 4)
    ]
    # Brokers on the way cost no detour; the last got too little to be moved.
    assert candidates == [[1, 2, 3], [1, 2], [3]]
    target, _ = posed.targets()
    assert target[1] == 0
    assert target[3] == 3
    # Three subscribers on four brokers: each broker may have one at least.
    limits = posed.limits(people.deliveries)
    assert limits.capacity.tolist() == [1, 1, 1, 1]
    assert limits.is_counted is not None
    assert limits.is_counted.tolist() == [True, False, True, True]
    assert limits.candidates is not None
    assert limits.candidates.subscriber.tolist() == [0, 2, 3]
    allowed = [np.flatnonzero(row).tolist() for row in limits.candidates.table]
    assert allowed == [[1, 2, 3], [1, 2], [3]]


def test_with_too_many_subscribers_those_with_the_most_deliveries_are_looked_at(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(subscribers, "REFINED_MAX", 9)
    people = listeners((3, 0, 2, 3), (20.0, 0.0, 30.0, 40.0))
    posed = Posed.of(scene((0.0, 1.0, 0.0, 0.0)), people, [DENSITY], SubscriberOptions())
    assert posed is not None
    candidates = posed.limits(people.deliveries).candidates
    assert candidates is not None
    assert candidates.subscriber.tolist() == [2, 3]


def test_algorithms_that_ignore_latency_still_leave_alone_who_is_to_stay() -> None:
    people = listeners((3, 0, 0, 0), (3.0, 3.0, 3.0, 3.0))
    posed = Posed.of(
        scene((0.0, 1.0, 0.0, 0.0)), people, [DENSITY], SubscriberOptions(algorithm="Balance")
    )
    assert posed is not None
    assert posed.targets()[0].tolist() == [3, 0, 0, 0]
    ((times, sentence),) = posed.broken(posed.home).values()
    assert (round(times, 9), sentence) == (
        3.0,
        "a has 3 times its share of subscribers, 1.8 allowed",
    )


@pytest.mark.parametrize("algorithm", ["Closest-b", "Gr", "best"])
def test_whatever_chose_the_places_no_broker_has_too_many_that_could_be_relieved(
    algorithm: str,
) -> None:
    people = listeners((0,) * 8, (20.0,) * 7 + (3.0,))
    choice = SubscriberOptions(algorithm=algorithm, delay_max=9.0, delay_ms_max=90.0)
    posed = Posed.of(scene((1.0, 0.0, 0.0, 0.0)), people, [DENSITY], choice)
    assert posed is not None
    target, _ = posed.targets()
    loads = np.bincount(target, minlength=4)
    assert (loads <= posed.limits(people.deliveries).capacity).all()
    assert target[7] == 0


def test_there_is_no_problem_when_nobody_got_anything() -> None:
    people = listeners((3, 0), (0.0, 0.0))
    assert Posed.of(scene((1.0, 0.0, 0.0, 0.0)), people, [DENSITY], SubscriberOptions()) is None


def test_topics_that_are_all_alike_are_no_axis_unless_there_is_none_else() -> None:
    assert Vocabulary(("a",), ("x",)).space().names == ("x",)
    assert Vocabulary(("a",), ()).space().names == ("topic",)
    assert Vocabulary(("a", "b"), ("x", "y")).space(("y",)).names == ("topic", "y")
