"""A publisher's advertisements meet what any one of them intersects, few or many."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gravitate.broker.sessions.advertisements import INDEXED_FROM, Advertisements
from gravitate.model.covering import intersects
from gravitate.model.filters import Filter
from gravitate.model.topics import topic_filter
from tests.support.strategies import filters

STEPS = st.lists(
    st.tuples(st.integers(0, 2 * INDEXED_FROM), st.none() | filters), max_size=3 * INDEXED_FROM
)


@given(STEPS, st.lists(filters, max_size=5))
def test_they_meet_what_one_of_them_intersects(
    steps: list[tuple[int, Filter | None]], asked: list[Filter]
) -> None:
    """Each step advertises under a key, or ends what is advertised under it."""
    found, known = Advertisements(), dict[str, Filter]()
    for number, filter in steps:
        if filter is None:
            assert found.take(f"k{number}") == known.pop(f"k{number}", None)
        else:
            found.put(f"k{number}", filter)
            known[f"k{number}"] = filter
        for wanted in asked[:1]:
            assert found.meet(wanted) == any(intersects(f, wanted) for f in known.values())
    assert dict(found) == known
    for wanted in asked:
        assert found.meet(wanted) == any(intersects(f, wanted) for f in known.values())
    for key in known:
        found.take(key)
    assert not any(map(found.meet, asked))


def test_two_keys_with_the_same_filter_end_one_by_one() -> None:
    found = Advertisements({f"k{number}": topic_filter(f"t/{number}") for number in range(40)})
    found.put("again", topic_filter("t/7"))
    for key, left in (("k7", True), ("again", False)):
        found.take(key)
        assert found.meet(topic_filter("t/7")) is left
