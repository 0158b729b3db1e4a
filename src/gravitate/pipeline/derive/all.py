"""Deriving every table of a store: read traces, transform, put periods in place.

    derive(spark, store)                  # everything
    derive(spark, store, {12, 13})        # what changes when rows of these periods came in

The steps themselves (`publisher_profiles`, `broker_load`, ...) are functions from DataFrames to
DataFrames and know nothing of stores. Owns which table is made from which, and which periods of it
depend on the periods that changed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, Final

from pyspark.sql import functions as F

from gravitate.pipeline import schemas
from gravitate.pipeline.derive import delays, interest, loads, profiles, rates
from gravitate.pipeline.derive.periods import is_one_of
from gravitate.pipeline.derive.writing import replace
from gravitate.pipeline.store import Store

Periods = Collection[int] | None
"""Numbers of periods; None means all."""

_FROM_TRACES: Final[dict[str, tuple[str, Callable[[Any], Any]]]] = {
    "publisher_profiles": ("hops", profiles.publisher_profiles),
    "broker_load": ("hops", loads.broker_load),
    "link_load": ("links", loads.link_load),
    "delays": ("deliveries", delays.delays),
    "yield": ("hops", loads.yields),
}
"""Tables whose rows of a period follow from the trace rows of that period."""


def derive(spark: Any, store: Store, periods: Periods = None) -> None:
    """Bring all derived tables of `store` up to its traces.

    `periods` are those with new trace rows; other periods are taken to be up to date, and are
    rewritten only where they depend on these."""
    if periods is not None and not periods:
        return
    for table in schemas.DERIVED:
        derive_table(spark, store, table, periods)


def derive_table(spark: Any, store: Store, table: str, periods: Periods = None) -> None:
    """Bring one table up to date; `common_interest` is made from `publisher_profiles`."""
    if table == "common_interest":
        _derive_interest(spark, store, periods)
    elif table == "topic_rates":
        _derive_rates(spark, store, periods)
    else:
        source, step = _FROM_TRACES[table]
        replace(step(_traces(spark, store, source, periods)), store, table, periods)


def _derive_interest(spark: Any, store: Store, periods: Periods) -> None:
    period_s = store.manifest().period_s
    known = store.derived(spark, "publisher_profiles")
    if periods is not None:
        around = interest.travel_periods(period_s)
        nearby = known.where(F.col("period").between(min(periods) - around, max(periods) + around))
        sharing = interest.periods_sharing(nearby, periods, period_s).collect()
        periods = {*periods, *(row["period"] for row in sharing)}
        known = known.where(F.col("period").between(min(periods) - around, max(periods) + around))
    rows = interest.common_interest(known, period_s, periods)
    replace(rows, store, "common_interest", periods)


def _derive_rates(spark: Any, store: Store, periods: Periods) -> None:
    counts = rates.topic_counts(_traces(spark, store, "publications", periods))
    if periods is not None:
        known = store.derived(spark, "topic_rates").where("publications > 0")
        others = known.where(~is_one_of(periods))
        counts = counts.unionByName(others.select("period", "topic", "publications"))
    rows = rates.topic_rates(counts, store.manifest().period_s)
    replace(rows, store, "topic_rates", None)


def _traces(spark: Any, store: Store, table: str, periods: Periods) -> Any:
    """The rows of a trace table in the given periods."""
    rows = store.traces(spark, table)
    return rows if periods is None else rows.where(is_one_of(periods))
