"""Numbers and outside text as a reader sees them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gravitate.pipeline.report.words import escaped, figure, plain, plot_text, signed, with_unit


@pytest.mark.parametrize(
    ("value", "unit", "shown"),
    [
        (None, "ms", "–"),
        (3000.0, "", "3,000"),
        (66.129, "ms", "66.1 ms"),
        (149.3, "ms", "149 ms"),
        (3.0371, "", "3.04"),
        (0.01234, "", "0.0123"),
        (0.6261, "%", "62.6 %"),
        (173090.0, "B/s", "173 kB/s"),
        (2.5e9, "B/s", "2.50 GB/s"),
        (2.047, "x", "2.05 ×"),
        (49.9, "/s", "49.9/s"),
    ],
)
def test_numbers_are_short_and_have_their_unit(value: float | None, unit: str, shown: str) -> None:
    assert with_unit(value, unit) == shown


def test_signs() -> None:
    assert (signed("2", 2), signed("2", -2), signed("0", 0)) == ("+2", "−2", "0")


@given(st.text())
def test_outside_text_has_no_markup_and_nothing_invisible(text: str) -> None:
    for made in (escaped(text), plot_text(text)):
        assert not set("<>") & set(made)
        assert made.isprintable()


def test_long_names_are_cut() -> None:
    assert plain("x" * 50, 10) == "x" * 9 + "…"
    assert plain("short", 10) == "short"


def test_whole_numbers_stay_whole() -> None:
    assert figure(12.0) == "12"
