"""The pipeline benchmark does the same work on both sides and reports in the common form."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.pipeline.conftest import spark  # noqa: F401

from gravitate.bench import pipeline
from gravitate.errors import InputError
from gravitate.trace import reader


def test_every_case_is_measured_beside_its_baseline(
    spark: Any,  # noqa: F811
) -> None:
    records = pipeline.run(hops=(20_000,), rounds=1, warm_up=False, spark=spark)
    assert [record.case for record in records] == [f"{case}-20000" for case in pipeline.CASES]
    for record in records:
        assert record.unit == "rows/s"
        assert record.baseline is not None
        assert record.ratio == record.value / record.baseline


def test_larger_runs_begin_with_the_smaller_and_are_found_again(
    spark: Any,  # noqa: F811
    tmp_path: Path,
) -> None:
    traffic = pipeline.Traffic(brokers=7, publishers=3)
    runs = pipeline.make_runs(spark, tmp_path, (1_000, 3_000), traffic)
    smaller, larger = (reader.read(runs[size], "hops") for size in (1_000, 3_000))
    assert smaller.num_rows >= 1_000
    assert larger.num_rows >= 3_000
    assert set(map(str, smaller.to_pylist())) < set(map(str, larger.to_pylist()))
    without_spark = pipeline.make_runs(None, tmp_path, (1_000, 3_000), traffic)
    assert without_spark == runs


def test_an_unknown_case_is_refused_by_name() -> None:
    with pytest.raises(InputError, match="no case 'yields' in bench pipeline"):
        pipeline.run(["yields"])
