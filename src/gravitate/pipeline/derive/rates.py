"""How often topics are published to, smoothed by an exponential filter (paper 5, Eq. 8).

    smoothed_k = (1 - w) * smoothed_(k-1) + w * rate_k

with `w = 0.3`; a topic's first period starts the filter with its own rate. The smoothed rate of a
period is the estimate for the next one. Periods without a publication count as rate 0, so a topic
has a row in every period from its first to the last of all, as long as anything is left of it:
after `FORGOTTEN_PERIODS` silent ones its smoothed rate is 0 and it has no rows, until the period
before its next publication. So a row whose clock was wrong by years costs a few rows of each
topic, not a row a period.

A row that arrives late changes the smoothed rates of all later periods; that is why smoothing
starts from the counts of all periods. They are as many as topics times periods at most, whatever
the traffic was.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import functions as F

from gravitate.pipeline.derive.grouping import Groups, codes, numbers, texts
from gravitate.pipeline.derive.scanning import Summary, together
from gravitate.pipeline.tables import schemas

WEIGHT: Final = 0.3
FORGOTTEN_PERIODS: Final = 100
"""0.7 ** 100 is less than the rounding of a sum; so little is left of a rate."""
_ROWS_PER_BATCH: Final = 65_536


def topic_rates(summaries: Any, last: int, period_s: float, weight: float = WEIGHT) -> Any:
    """`schemas.TOPIC_RATES` from `TOPIC_COUNTS` of all periods, the last of which is `last`."""
    smooth = partial(_smoothed, last=last, period_s=period_s, weight=weight)
    return (
        together(summaries, "topic")
        .groupBy("period", "topic")
        .agg(F.sum("publications").alias("publications"))
        .sortWithinPartitions("topic", "period")
        .mapInArrow(smooth, schemas.TOPIC_RATES)
    )


def _smoothed(
    batches: Iterator[pa.RecordBatch], last: int, period_s: float, weight: float
) -> Iterator[pa.RecordBatch]:
    """Rows of whole topics, sorted by topic and period; out come these periods and those between.

    A series is a topic's periods without a silence in which it is forgotten. One after a silence
    starts with a period of rate 0."""
    found = list(batches)
    if not sum(batch.num_rows for batch in found):
        return
    rows = pa.Table.from_batches(found).combine_chunks()
    topics, topic = codes(rows.column("topic"))
    periods = rows.column("period").to_numpy().astype(np.int64)
    is_first = np.diff(topic, prepend=-1) != 0
    is_after_silence = ~is_first & (np.diff(periods, prepend=0) - 1 > FORGOTTEN_PERIODS)
    starts = np.flatnonzero(is_first | is_after_silence)
    firsts = periods[starts] - is_after_silence[starts]
    lasts = periods[np.append(starts[1:], len(periods)) - 1] + FORGOTTEN_PERIODS
    lengths = np.minimum(lasts, last) - firsts + 1
    offsets = np.cumsum(lengths) - lengths
    series = np.repeat(np.arange(len(starts)), lengths)
    row_series = np.cumsum(is_first | is_after_silence) - 1
    publications = np.zeros(int(lengths.sum()), dtype=np.int64)
    publications[offsets[row_series] + periods - firsts[row_series]] = rows.column("publications")
    rates = publications / period_s
    made = pa.table(
        [
            pa.array((np.arange(len(series)) - offsets[series] + firsts[series]).astype(np.int32)),
            texts(topics, topic[starts][series]),
            pa.array(publications),
            pa.array(rates),
            pa.array(exponential_filter(rates, offsets, lengths, weight)),
        ],
        names=schemas.TOPIC_RATES.names,
    )
    yield from made.to_batches(max_chunksize=_ROWS_PER_BATCH)


def _topic_counts(rows: pa.Table) -> pa.Table:
    topics, topic = codes(rows["topic"])
    groups = Groups(numbers(rows["period"]), topic)
    return pa.table(
        {
            "period": groups.keys[0],
            "topic": texts(topics, groups.keys[1]).fill_null(""),
            "publications": groups.counts(),
        }
    )


TOPIC_COUNTS: Final = Summary(
    "publications", ("topic",), _topic_counts, "period int, topic string, publications long"
)


def exponential_filter(
    values: NDArray[np.float64],
    offsets: NDArray[np.int64],
    lengths: NDArray[np.int64],
    weight: float = WEIGHT,
) -> NDArray[np.float64]:
    """Each series `values[offset : offset + length]` smoothed from its first value on."""
    smoothed = values.copy()
    longest_first = np.argsort(-lengths, kind="stable")
    at = offsets[longest_first]
    # Series that reach step k are a prefix of those sorted by length.
    reach = np.searchsorted(-lengths[longest_first], -np.arange(lengths.max(initial=0)), "left")
    for step in range(1, len(reach)):
        now = at[: reach[step]] + step
        smoothed[now] = (1 - weight) * smoothed[now - 1] + weight * values[now]
    return smoothed
