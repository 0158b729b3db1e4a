"""Where brokers stand in the drawing."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from gravitate.overlay import tree
from gravitate.pipeline.report.layout import middle, positions

CHAIN = [("a", "b"), ("b", "c"), ("c", "d"), ("d", "e")]


def unplaced(names: str) -> dict[str, tuple[float, ...]]:
    return dict.fromkeys(names, ())


def test_coordinates_decide_when_all_brokers_have_them() -> None:
    brokers: dict[str, tuple[float, ...]] = {"a": (1.0, 2.0, 9.0), "b": (3.0, 4.0, 9.0)}
    assert positions(brokers, [("a", "b")]) == {"a": (1.0, 2.0), "b": (3.0, 4.0)}
    brokers["b"] = ()
    assert positions(brokers, [("a", "b")])["a"] != (1.0, 2.0)


def test_the_middle_of_a_chain_is_its_middle() -> None:
    near = tree.neighbours("abcde", CHAIN)
    assert {middle(start, near) for start in "abcde"} == {"c"}


def test_a_chain_lies_flat() -> None:
    places = positions(unplaced("abcde"), CHAIN)
    assert len({round(y, 6) for _, y in places.values()}) == 1
    assert sorted(places, key=lambda broker: places[broker][0]) in (list("abcde"), list("edcba"))


def test_parts_stand_beside_each_other() -> None:
    places = positions(unplaced("abxyz"), [("a", "b"), ("x", "y")])
    assert max(places[broker][0] for broker in "ab") < min(places[broker][0] for broker in "xy")
    assert max(places[broker][0] for broker in "xy") < places["z"][0]


def test_one_broker_has_a_place() -> None:
    assert positions(unplaced("a"), []) == {"a": (0.0, 0.0)}


@given(st.lists(st.integers(0, 1000), min_size=1, max_size=40))
def test_brokers_of_a_tree_keep_apart(parents: list[int]) -> None:
    """Each broker after the first hangs on an earlier one."""
    links = [(f"b{draw % (i + 1)}", f"b{i + 1}") for i, draw in enumerate(parents)]
    brokers = {f"b{i}": () for i in range(len(parents) + 1)}
    places = positions(brokers, links)
    assert places.keys() == brokers.keys()
    for one, other in links:
        assert math.dist(places[one], places[other]) >= 0.9
    assert len({(round(x, 6), round(y, 6)) for x, y in places.values()}) == len(brokers)
