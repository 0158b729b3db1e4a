"""The covering frontier is a function of the live set."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gravitate.broker.routing.content.frontier import Frontier
from gravitate.model.covering import covers
from gravitate.model.filters import Filter
from gravitate.model.language import parse

CONDITIONS = [
    "x > 1",
    "x > 2",
    "x > 2 AND y = 'a'",
    "y = 'a'",
    "y = 'b'",
    "x = 10",
    "x = '10'",
    "x BETWEEN 3 AND 8",
    "x BETWEEN 3 AND 8 OR y = 'a'",
    "topic MATCHES 'a/#'",
    "topic = 'a/b'",
    "topic = 'a/b' AND x > 1",
    "topic MATCHES 'a/+' AND topic MATCHES 'a/b/#'",
    "x >= 10 AND x <= 10",
    "x > 10 AND x < 5",
    "x > 10 AND x < 5 OR y = 'a'",
    "y IN ('a', 'b')",
    "y LIKE 'a%'",
]


def maximal(members: dict[str, Filter]) -> list[str]:
    """Who is told, by the definition."""

    def left_out(id: str) -> bool:
        return any(
            other != id
            and covers(members[other], members[id])
            and (other < id or not covers(members[id], members[other]))
            for other in members
        )

    return sorted(id for id in members if not left_out(id))


@given(st.lists(st.tuples(st.integers(0, 30), st.sampled_from(CONDITIONS)), max_size=60))
def test_told_are_the_maximal_members_after_any_history(
    steps: list[tuple[int, str]],
) -> None:
    """Each step adds a member, or removes it when it is there."""
    frontier, members, told = Frontier(), dict[str, Filter](), set[str]()
    stood_for: dict[Filter, str] = {}
    for number, condition in steps:
        id = f"s{number:02}"
        if id in members:
            gained, lost, moved = frontier.remove(id, members.pop(id))
        else:
            members[id] = parse(condition)
            gained, lost, moved = frontier.add(id, members[id])
        assert not told & set(gained)
        assert set(lost) <= told
        told = (told | set(gained)) - set(lost)
        assert sorted(told) == maximal(members)
        for filter in members.values():
            assert covers(members[frontier.representative(filter)], filter)
            if filter not in moved:
                assert stood_for[filter] == frontier.representative(filter)
        stood_for = {filter: frontier.representative(filter) for filter in members.values()}


def test_the_smallest_id_stands_for_equal_filters() -> None:
    frontier, filter = Frontier(), parse("x > 1")
    assert frontier.add("b", filter)[:2] == (["b"], [])
    assert frontier.add("a", filter)[:2] == (["a"], ["b"])
    assert frontier.add("c", filter)[:2] == ([], [])
    assert frontier.remove("a", filter)[:2] == (["b"], ["a"])
