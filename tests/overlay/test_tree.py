from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gravitate.overlay import shapes, tree


def named(links: list[tuple[int, int]]) -> list[tuple[str, str]]:
    return [(f"b{one}", f"b{other}") for one, other in links]


@st.composite
def random_trees(draw: st.DrawFn) -> tuple[list[str], list[tuple[str, str]]]:
    count = draw(st.integers(1, 40))
    links = named(shapes.random_tree(count, draw(st.integers(0, 10**6))))
    return [f"b{number}" for number in range(count)], links


@given(random_trees())
def test_a_random_tree_is_a_tree(made: tuple[list[str], list[tuple[str, str]]]) -> None:
    brokers, links = made
    assert tree.first_cycle(links) is None
    assert tree.parts(brokers, links) == [brokers]


@given(random_trees(), st.data())
def test_one_more_link_makes_a_cycle_that_is_named(
    made: tuple[list[str], list[tuple[str, str]]], data: st.DataObject
) -> None:
    brokers, links = made
    extra = data.draw(st.tuples(st.sampled_from(brokers), st.sampled_from(brokers)))
    found = tree.first_cycle([*links, extra])
    assert found is not None
    position, way = found
    assert position == len(links)
    assert way[0] == way[-1] == extra[0]
    joined = {frozenset(link) for link in [*links, extra]}
    assert all(frozenset(pair) in joined for pair in pairwise(way))


@given(random_trees(), st.data())
def test_without_a_link_a_tree_falls_into_two_parts(
    made: tuple[list[str], list[tuple[str, str]]], data: st.DataObject
) -> None:
    brokers, links = made
    if not links:
        return
    cut = data.draw(st.integers(0, len(links) - 1))
    parts = tree.parts(brokers, [*links[:cut], *links[cut + 1 :]])
    assert len(parts) == 2
    assert sorted(parts[0] + parts[1]) == sorted(brokers)
    one, other = links[cut]
    assert (one in parts[0]) != (other in parts[0])


@given(random_trees(), st.data())
def test_the_way_back_is_the_way_there_reversed(
    made: tuple[list[str], list[tuple[str, str]]], data: st.DataObject
) -> None:
    brokers, links = made
    near = tree.neighbours(brokers, links)
    start, end = data.draw(st.tuples(st.sampled_from(brokers), st.sampled_from(brokers)))
    way = tree.path(near, start, end)
    assert way is not None
    assert way[0] == start
    assert way[-1] == end
    assert tree.path(near, end, start) == way[::-1]
    assert len(way) - 1 == tree.reach(near, start)[end]


@given(random_trees())
def test_the_diameter_is_the_longest_of_all_ways(
    made: tuple[list[str], list[tuple[str, str]]],
) -> None:
    brokers, links = made
    near = tree.neighbours(brokers, links)
    longest = max(max(tree.reach(near, broker).values()) for broker in brokers)
    assert tree.diameter_hops(near) == longest


def test_no_way_leads_between_parts() -> None:
    near = tree.neighbours("abc", [("a", "b")])
    assert tree.path(near, "a", "c") is None


def test_neighbours_come_sorted_whatever_the_order_of_the_links() -> None:
    assert tree.neighbours("abc", [("c", "b"), ("b", "a")])["b"] == ("a", "c")


@pytest.mark.parametrize(
    ("links", "way"),
    [
        ([("a", "a")], ["a", "a"]),
        ([("a", "b"), ("b", "a")], ["b", "a", "b"]),
        ([("a", "b"), ("b", "c"), ("c", "a")], ["c", "a", "b", "c"]),
    ],
)
def test_small_cycles_are_named(links: list[tuple[str, str]], way: list[str]) -> None:
    found = tree.first_cycle(links)
    assert found is not None
    assert found[1] == way or found[1] == [way[0], *way[1:-1][::-1], way[-1]]
