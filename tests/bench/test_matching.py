"""The matching benchmark reports every case, checked against the scan it is compared with."""

from __future__ import annotations

import pytest

from gravitate.bench import matching
from gravitate.errors import InputError


def test_a_small_run_reports_every_case_beside_its_baseline() -> None:
    records = matching.run(scale=0.002)
    assert [record.case for record in records] == list(matching.CASES)
    for record in records:
        assert record.bench == "matching"
        assert record.baseline is not None
        if record.case != "memory-1m":
            assert record.value > 0


def test_only_named_cases_are_run() -> None:
    assert [record.case for record in matching.run(["single-50"])] == ["single-50"]


def test_an_unknown_case_is_refused_by_name() -> None:
    with pytest.raises(InputError, match="ranges-9k"):
        matching.run(["ranges-9k"])
