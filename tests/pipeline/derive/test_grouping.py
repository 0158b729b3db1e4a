"""Groups of rows and what they sum up to, against dictionaries."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gravitate.pipeline.derive.grouping import Groups, codes, texts

FAR = 2**40
KEYS = st.integers(-3, 3) | st.integers(-FAR, FAR)
ROWS = st.lists(st.tuples(KEYS, KEYS, KEYS, st.integers(0, 2**63)), max_size=50)


@given(ROWS)
def test_groups_are_those_of_a_dictionary(rows: list[tuple[int, int, int, int]]) -> None:
    expected: dict[Any, list[int]] = defaultdict(list)
    for *key, value in rows:
        expected[tuple(key)].append(value)
    columns = [np.array([row[i] for row in rows], dtype=np.int64) for i in range(3)]
    values = np.array([row[3] for row in rows], dtype=np.uint64)
    small = values % 1_000
    groups = Groups(*columns)
    keys = list(zip(*(key.tolist() for key in groups.keys), strict=True))
    assert sorted(keys) == sorted(expected)
    found = zip(
        groups.counts().tolist(),
        groups.counts(small > 500).tolist(),
        groups.int_sums(small).tolist(),
        groups.maxima(small.astype(np.float64)).tolist(),
        groups.disjunctions(values).tolist(),
        strict=True,
    )
    for key, answer in zip(keys, found, strict=True):
        of_key = expected[key]
        bits = 0
        for value in of_key:
            bits |= value
        rests = [value % 1_000 for value in of_key]
        over = sum(rest > 500 for rest in rests)
        assert answer == (len(of_key), over, sum(rests), max(rests), bits)


@pytest.mark.parametrize("encoded", [False, True])
@given(st.lists(st.sampled_from(["a", "b", "c", None]), max_size=20))
def test_codes_lead_back_to_the_texts(encoded: bool, words: list[str | None]) -> None:
    column = pa.chunked_array([pa.array(words[:5], pa.string()), pa.array(words[5:], pa.string())])
    names, positions = codes(column.dictionary_encode() if encoded else column)
    assert texts(names, positions).to_pylist() == words
