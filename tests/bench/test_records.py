"""Records: the ratio says how far ahead we are, and tools read what people see."""

from __future__ import annotations

import json

import pytest

from gravitate.bench.records import in_turn, measured, silent
from gravitate.cli import output
from gravitate.cli.bench import show


def test_the_ratio_is_above_one_when_we_are_ahead() -> None:
    assert measured("b", "c", 200.0, "events/s", 100.0).ratio == pytest.approx(2.0)
    assert measured("b", "c", 1.0, "s", 3.0, less_is_better=True).ratio == pytest.approx(3.0)


def test_without_a_baseline_there_is_no_ratio() -> None:
    record = measured("b", "c", 1.0, "s")
    assert record.baseline is None
    assert record.ratio is None


def test_json_has_the_agreed_fields_and_the_table_names_case_value_and_ratio(
    capsys: pytest.CaptureFixture[str],
) -> None:
    records = [measured("b", "case-1", 1234.0, "events/s", 617.0)]
    output.answer(records, True, show)
    (record,) = json.loads(capsys.readouterr().out)
    assert list(record) == ["bench", "case", "value", "unit", "baseline", "ratio"]
    output.answer(records, False, show)
    (row,) = [line for line in capsys.readouterr().out.splitlines() if "case-1" in line]
    assert ("1,234" in row, "617" in row, "2" in row.split()) == (True, True, True)


def test_sides_take_turns() -> None:
    order: list[str] = []
    assert in_turn("c", 2, silent, "ab", lambda side: order.append(side) or side) == [
        ["a", "a"],
        ["b", "b"],
    ]
    assert order == ["a", "b", "a", "b"]
