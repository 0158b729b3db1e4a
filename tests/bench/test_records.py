"""Records: the ratio says how far ahead we are, and tools read what people see."""

from __future__ import annotations

import io
import json

import pytest
from rich.console import Console

from gravitate.bench.records import measured, show


def test_the_ratio_is_above_one_when_we_are_ahead() -> None:
    assert measured("b", "c", 200.0, "events/s", 100.0).ratio == pytest.approx(2.0)
    assert measured("b", "c", 1.0, "s", 3.0, less_is_better=True).ratio == pytest.approx(3.0)


def test_without_a_baseline_there_is_no_ratio() -> None:
    record = measured("b", "c", 1.0, "s")
    assert record.baseline is None
    assert record.ratio is None


def test_json_is_a_list_of_objects_with_the_agreed_fields() -> None:
    text = io.StringIO()
    show([measured("b", "c", 1.0, "s", 2.0)], json=True, console=Console(file=text, width=20))
    (record,) = json.loads(text.getvalue())
    assert list(record) == ["bench", "case", "value", "unit", "baseline", "ratio"]


def test_the_table_names_case_value_and_ratio() -> None:
    text = io.StringIO()
    show([measured("b", "case-1", 1234.0, "events/s", 617.0)], console=Console(file=text, width=99))
    assert "case-1" in text.getvalue()
    assert "1,234" in text.getvalue()
    assert "2" in text.getvalue()
