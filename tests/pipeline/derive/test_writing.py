"""Rows of whole periods become one file a period, wherever batches are cut."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import given
from hypothesis import strategies as st

from gravitate.pipeline.derive.writing import write_periods


@given(st.lists(st.integers(-3, 6), max_size=30).map(sorted), st.integers(1, 7))
def test_a_file_has_the_rows_of_its_period(periods: list[int], rows_per_batch: int) -> None:
    rows = pa.table({"period": pa.array(periods, pa.int32()), "number": list(range(len(periods)))})
    with tempfile.TemporaryDirectory() as folder:
        told = list(write_periods(iter(rows.to_batches(rows_per_batch)), folder))
        found = {
            int(path.parent.name.partition("=")[2]): pq.read_table(path, partitioning=None)
            for path in Path(folder).glob("period=*/*.parquet")
        }
    assert [batch["period"][0].as_py() for batch in told] == sorted(set(periods))
    assert {period: table["number"].to_pylist() for period, table in found.items()} == {
        period: [i for i, p in enumerate(periods) if p == period] for period in set(periods)
    }
