"""The share of subscriptions that others cover."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gravitate.model.covering import covers
from gravitate.pipeline.workloads.covering import covered_share, subscription_filter

INTERVALS = st.tuples(
    st.sampled_from(["a", "b"]), st.integers(0, 12), st.integers(0, 12), st.booleans()
).map(
    lambda drawn: (
        drawn[0],
        "" if drawn[3] else f"x BETWEEN {min(drawn[1:3])} AND {max(drawn[1:3])}",
    )
)


@given(st.lists(INTERVALS, max_size=15))
def test_it_is_what_comparing_all_pairs_gives(rows: list[tuple[str, str]]) -> None:
    filters = [subscription_filter(*row) for row in rows]
    covered = 0
    for index, narrow in enumerate(filters):
        for other, wide in enumerate(filters):
            if other == index or not covers(wide, narrow):
                continue
            if not covers(narrow, wide) or other < index:  # of equal ones the first stays
                covered += 1
                break
    assert (
        covered_share(rows) == (covered / len(rows) if rows else 0.0)
        or abs(covered_share(rows) - covered / len(rows)) < 1e-9
    )
