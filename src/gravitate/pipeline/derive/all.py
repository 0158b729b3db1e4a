"""Deriving every table of a store: read traces, transform, put periods in place.

    derive(spark, store)                  # everything
    derive(spark, store, {12, 13})        # what changes when rows of these periods came in

The steps themselves (`publisher_profiles`, `broker_load`, ...) are functions from DataFrames to
DataFrames and know nothing of stores; what they start from are summaries that tasks make of trace
files (`scanning`). Owns which table is made from which, and which periods of it
depend on the periods that changed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, Final

from gravitate.pipeline.derive import delays, interest, loads, profiles, rates
from gravitate.pipeline.derive.periods import is_one_of, widened
from gravitate.pipeline.derive.scanning import Summary, last_period, summarised, together
from gravitate.pipeline.derive.writing import finish, replace, replace_with
from gravitate.pipeline.store.store import Store
from gravitate.pipeline.tables import schemas

TASKS_MAX: Final = 1000

Periods = Collection[int] | None
"""Numbers of periods; None means all."""

_FROM_TRACES: Final[dict[str, tuple[Summary, Callable[[Any], Any]]]] = {
    "publisher_profiles": (profiles.PROFILES, profiles.publisher_profiles),
    "broker_load": (loads.BROKER_LOADS, loads.broker_load),
    "link_load": (loads.LINK_LOADS, loads.link_load),
    "delays": (delays.DELAYS, delays.delays),
    "yield": (loads.YIELDS, loads.yields),
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
    for known in schemas.DERIVED:
        finish(store, known)
    if table == "common_interest":
        _derive_interest(spark, store, periods)
    elif table == "topic_rates":
        _derive_rates(spark, store, periods)
    else:
        summary, step = _FROM_TRACES[table]
        replace(step(_summaries(spark, store, summary, periods)), store, table, periods)


def _derive_interest(spark: Any, store: Store, periods: Periods) -> None:
    period_s = store.manifest().period_s
    needed = None
    if periods is not None:
        # What came to a broker in one period may change what others had in common with it in
        # the periods around, and these depend on those around them.
        periods = widened(periods, interest.reach(period_s))
        needed = interest.needed(periods, period_s)
    shares = interest.dealt(store.derived_files("publisher_profiles", needed), period_s, periods)
    numbers = spark.range(0, len(shares), 1, min(max(len(shares), 1), TASKS_MAX))
    count = interest.counting(shares, period_s)
    if all(share.shares == 1 for share in shares):
        replace_with(numbers, count, store, "common_interest", periods)
    else:
        found = numbers.mapInArrow(count, schemas.COMMON_INTEREST)
        replace(interest.added_up(found), store, "common_interest", periods)


def _derive_rates(spark: Any, store: Store, periods: Periods) -> None:
    counts = _summaries(spark, store, rates.TOPIC_COUNTS, periods)
    if periods is not None:
        known = store.derived(spark, "topic_rates").where("publications > 0")
        others = known.where(~is_one_of(periods))
        counts = counts.unionByName(others.select("period", "topic", "publications"))
    last = last_period(store.files(rates.TOPIC_COUNTS.table))
    rows = rates.topic_rates(counts, last, store.manifest().period_s)
    replace(together(rows, "period"), store, "topic_rates", None)


def _summaries(spark: Any, store: Store, summary: Summary, periods: Periods) -> Any:
    """What tasks make of the trace rows of the given periods, a task a file."""
    files = [str(file.absolute()) for file in store.files(summary.table, periods)]
    tasks = min(max(len(files), 1), TASKS_MAX)
    wanted = None if periods is None else set(periods)
    return summarised(spark.range(0, len(files), 1, tasks), files, summary, wanted)
