"""The flow model gives what a walk over the tree, broker by broker, gives."""

from __future__ import annotations

import itertools
import math
from collections import Counter, deque

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gravitate.errors import InputError
from gravitate.plan.flow.flow import COUNTERS, FRAME_BYTES, flow, flows_of, psoop_cost, rooted

Link = tuple[int, int]


class Case:
    """A tree, its figures and some flows, as plain lists."""

    def __init__(self, data: st.DataObject) -> None:
        small = st.integers(0, 9)
        self.brokers = data.draw(st.integers(1, 9))
        names = data.draw(st.permutations(range(self.brokers)))
        self.links: list[Link] = []
        for index in range(1, self.brokers):
            ends = (names[index], names[data.draw(st.integers(0, index - 1))])
            self.links.append(ends if data.draw(st.booleans()) else ends[::-1])
        self.latency_s = [data.draw(small) / 10 for _ in self.links]
        self.bandwidth = [data.draw(st.sampled_from((0.0, 100.0, 1000.0))) for _ in self.links]
        self.service_s = [data.draw(small) / 100 for _ in range(self.brokers)]
        self.flows: list[tuple[int, dict[int, int], int, int]] = []
        for _ in range(data.draw(st.integers(0, 5))):
            wanted = st.dictionaries(st.integers(0, self.brokers - 1), st.integers(0, 3))
            self.flows.append(
                (
                    data.draw(st.integers(0, self.brokers - 1)),
                    data.draw(wanted),
                    data.draw(st.integers(1, 4)),
                    data.draw(st.sampled_from((0, 50, 200))),
                )
            )

    def tree(self):  # type: ignore[no-untyped-def]
        return rooted(self.brokers, self.links, self.latency_s, self.bandwidth, self.service_s)

    def arrays(self):  # type: ignore[no-untyped-def]
        return flows_of(
            [source for source, *_ in self.flows],
            np.cumsum([0, *(len(wanted) for _, wanted, *_ in self.flows)]),
            [broker for _, wanted, *_ in self.flows for broker in wanted],
            [count for _, wanted, *_ in self.flows for count in wanted.values()],
            [events for *_, events, _ in self.flows],
            [size for *_, size in self.flows],
        )

    def path(self, start: int, end: int) -> list[int]:
        near: dict[int, list[int]] = {broker: [] for broker in range(self.brokers)}
        for one, other in self.links:
            near[one].append(other)
            near[other].append(one)
        came_from = {start: start}
        queue = deque([start])
        while queue:
            broker = queue.popleft()
            for other in near[broker]:
                if other not in came_from:
                    came_from[other] = broker
                    queue.append(other)
        way = [end]
        while way[-1] != start:
            way.append(came_from[way[-1]])
        return way[::-1]

    def link_s(self, one: int, other: int, size: int) -> float:
        number = next(n for n, ends in enumerate(self.links) if set(ends) == {one, other})
        bandwidth = self.bandwidth[number]
        sending_s = (size + FRAME_BYTES) / bandwidth if bandwidth else 0.0
        return self.latency_s[number] + sending_s + self.service_s[other]


@given(st.data())
def test_brokers_and_links_carry_what_a_walk_over_the_delivery_trees_counts(
    data: st.DataObject,
) -> None:
    case = Case(data)
    tree = case.tree()
    loads, _ = flow(tree, case.arrays())
    brokers: dict[str, Counter[int]] = {name: Counter() for name in COUNTERS}
    crossed: Counter[Link] = Counter()
    crossed_bytes: Counter[Link] = Counter()
    for source, wanted, events, size in case.flows:
        steps = {
            step
            for target in wanted
            for way in [case.path(source, target)]
            for step in itertools.pairwise(way)
        }
        brokers["in_clients"][source] += events
        for one, other in steps:
            brokers["out_links"][one] += events
            brokers["in_links"][other] += events
            crossed[one, other] += events
            crossed_bytes[one, other] += events * size
        for target, sessions in wanted.items():
            brokers["out_clients"][target] += events * sessions
            brokers["useful"][target] += events * (sessions > 0 and target != source)
    for name in ("in_links", "in_clients", "out_links", "out_clients", "useful"):
        assert loads[name].tolist() == [brokers[name][b] for b in range(case.brokers)], name
    for child, parent in enumerate(tree.parent.tolist()):
        assert loads["events_up"][child] == crossed[child, parent]
        assert loads["events_down"][child] == crossed[parent, child]
        assert loads["bytes_up"][child] == crossed_bytes[child, parent]
        assert loads["bytes_down"][child] == crossed_bytes[parent, child]


@given(st.data())
def test_targets_are_as_far_and_as_late_as_the_path_to_them(data: st.DataObject) -> None:
    case = Case(data)
    _, reached = flow(case.tree(), case.arrays())
    entry = 0
    for source, wanted, _, size in case.flows:
        for target in wanted:
            way = case.path(source, target)
            late_s = sum(case.link_s(*step, size) for step in itertools.pairwise(way))
            assert reached.hops[entry] == len(way) - 1
            assert math.isclose(reached.delay_s[entry], late_s, abs_tol=1e-12)
            entry += 1


@given(st.data())
def test_the_psoop_cost_prices_the_smallest_subtree_of_each_event(data: st.DataObject) -> None:
    case = Case(data)
    tree = case.tree()
    p = [data.draw(st.integers(0, 9)) for _ in range(case.brokers)]
    c = {frozenset(ends): data.draw(st.integers(0, 9)) for ends in case.links}
    expected = 0
    for source, wanted, events, _ in case.flows:
        brokers, links = {source}, set()
        for target in wanted:
            way = case.path(source, target)
            brokers |= set(way)
            links |= {frozenset(step) for step in itertools.pairwise(way)}
        expected += events * (sum(p[b] for b in brokers) + sum(c[ends] for ends in links))
    by_child = [c.get(frozenset((i, parent)), 0) for i, parent in enumerate(tree.parent.tolist())]
    loads, _ = flow(tree, case.arrays())
    passed = loads["in_links"] + loads["in_clients"]
    crossed = loads["events_up"] + loads["events_down"]
    assert psoop_cost(passed, p, crossed, by_child) == expected


@given(st.data())
def test_loads_of_parts_add_up(data: st.DataObject) -> None:
    case = Case(data)
    tree = case.tree()
    whole, _ = flow(tree, case.arrays())
    flows = case.flows
    cut = data.draw(st.integers(0, len(flows)))
    parts = []
    for case.flows in (flows[:cut], flows[cut:]):
        parts.append(flow(tree, case.arrays())[0])
    assert np.array_equal((parts[0] + parts[1]).counts, whole.counts)


def test_what_is_no_tree_is_refused() -> None:
    for brokers, links in ((3, [(0, 1)]), (3, [(0, 1), (0, 1)]), (4, [(0, 1), (1, 2), (2, 0)])):
        with pytest.raises(InputError, match=f"do not make a tree of {brokers} brokers"):
            rooted(brokers, links)
