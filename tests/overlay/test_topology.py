from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gravitate.overlay import shapes, tree
from gravitate.overlay.topology import Neighbourhood, Topology


def told(**neighbours: str) -> Topology:
    """Each broker, and the neighbours it names, a letter each."""
    return Topology.of({name: Neighbourhood(1, tuple(near)) for name, near in neighbours.items()})


@given(st.integers(1, 30), st.integers(0, 10**6), st.data())
def test_what_brokers_of_a_tree_say_is_the_tree(count: int, seed: int, data: st.DataObject) -> None:
    brokers = [f"b{number}" for number in range(count)]
    links = [(f"b{one}", f"b{other}") for one, other in shapes.random_tree(count, seed)]
    topology = Topology.started_as(brokers, links)
    assert (topology.is_tree, topology.differences, topology.version) == (True, (), 0)
    near = tree.neighbours(brokers, links)
    assert topology.near() == near
    start, end = data.draw(st.sampled_from(brokers)), data.draw(st.sampled_from(brokers))
    assert list(topology.path(start, end) or ()) == tree.path(near, start, end)


def test_a_link_that_one_end_names_alone_is_said() -> None:
    topology = told(a="b", b="ac", c="")
    assert topology.differences == (("b", "c"),)
    assert (topology.is_tree, topology.silent) == (False, ())


def test_a_broker_that_said_nothing_is_said_and_can_be_reached() -> None:
    topology = told(a="b", b="ac")
    assert (topology.is_tree, topology.silent, topology.differences) == (False, ("c",), ())
    assert topology.path("a", "c") == ("a", "b", "c")
    assert topology.path("c", "a") is None


def test_cycles_and_parts_are_no_trees() -> None:
    assert not told(a="bc", b="ac", c="ab").is_tree
    assert not told(a="b", b="a", c="d", d="c").is_tree
    assert not told(a="bc", b="ac", c="ab", d="").is_tree
    assert told(a="").is_tree


def test_there_is_no_way_to_who_is_unknown() -> None:
    topology = told(a="b", b="a")
    assert topology.path("a", "z") is None
    assert topology.path("z", "a") is None
    assert topology.version == 2
