"""What makes a page."""

from __future__ import annotations

import pytest
from starlette.datastructures import QueryParams

from gravitate.errors import InputError
from gravitate.serve.http.paging import PAGE_BYTES_MAX, page_of, page_size, parameters


@pytest.mark.parametrize(
    ("sizes", "limit", "taken"),
    [
        ([], 5, 0),
        ([1] * 5, 5, 5),
        ([1] * 6, 5, 5),
        ([PAGE_BYTES_MAX, 1], 5, 1),
        ([PAGE_BYTES_MAX - 1, 1], 5, 2),
        ([PAGE_BYTES_MAX + 1, 1], 5, 1),
        ([1, PAGE_BYTES_MAX, 1], 5, 1),
    ],
)
def test_a_page_ends_with_its_entries_or_its_bytes_but_has_one(
    sizes: list[int], limit: int, taken: int
) -> None:
    assert page_of(sizes, lambda size: size, limit) == (sizes[:taken], taken < len(sizes))


def test_of_what_follows_a_page_only_the_next_entry_is_looked_at() -> None:
    entries = iter(range(1000))
    page_of(entries, lambda entry: PAGE_BYTES_MAX // 4, 100)
    assert next(entries) == 5


def test_the_last_word_counts_and_what_is_not_known_is_named() -> None:
    said = parameters(QueryParams("limit=3&limit=4&after="), "limit", "after")
    assert dict(said) == {"limit": "4", "after": ""}
    with pytest.raises(InputError, match="parameter 'x' is not known: expected limit or after"):
        parameters(QueryParams("x=1&limit=3"), "limit", "after")


@pytest.mark.parametrize("text", ["0", "-1", "11", "1.0", " 1", "", "\u00b2", "1" * 5000])
def test_a_size_that_cannot_be_had_is_named_with_what_can(text: str) -> None:
    with pytest.raises(InputError, match="expected a whole number from 1 to 10") as refused:
        page_size({"limit": text}, 5, 10)
    assert repr(text) in str(refused.value)
