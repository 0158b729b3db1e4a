"""Deriving every table of a store: read traces, transform, put periods in place.

    derive(spark, store)                  # everything
    derive(spark, store, {12, 13})        # what changes when rows of these periods came in

The steps themselves (`publisher_profiles`, `broker_load`, ...) are functions from DataFrames to
DataFrames and know nothing of stores. Owns which table is made from which, and `derived/`: a
table's periods are written aside and moved into place one by one, so a period is there as a whole
or not at all, and one that has lost all its rows disappears.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any, Final

from pyspark.sql import functions as F

from gravitate.pipeline import schemas
from gravitate.pipeline.derive import delays, interest, loads, profiles, rates
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

_WRITING: Final = {
    "partitionOverwriteMode": "static",
    # What is written aside needs no second round of renames, and no marker.
    "mapreduce.fileoutputcommitter.algorithm.version": "2",
    "mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",
}


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
        _replace(step(_traces(spark, store, source, periods)), store, table, periods)


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
    _replace(rows, store, "common_interest", periods)


def _derive_rates(spark: Any, store: Store, periods: Periods) -> None:
    counts = rates.topic_counts(_traces(spark, store, "publications", periods))
    if periods is not None:
        known = store.derived(spark, "topic_rates").where("publications > 0")
        others = known.where(~F.col("period").isin(*periods))
        counts = counts.unionByName(others.select("period", "topic", "publications"))
    rows = rates.topic_rates(counts, store.manifest().period_s)
    _replace(rows, store, "topic_rates", None)


def _traces(spark: Any, store: Store, table: str, periods: Periods) -> Any:
    """The rows of a trace table in the given periods."""
    rows = store.traces(spark, table)
    return rows if periods is None else rows.where(F.col("period").isin(*periods))


def _replace(rows: Any, store: Store, table: str, periods: Periods) -> None:
    """Make `rows` all there is of `periods` in a derived table."""
    expected = schemas.DERIVED[table]
    folder = store.directory / "derived" / table
    aside = store.directory / "derived" / f".{table}.writing"
    shutil.rmtree(aside, ignore_errors=True)
    (
        rows.select(*(F.col(field.name).cast(field.dataType) for field in expected.fields))
        .repartition("period")
        .write.mode("overwrite")
        .options(**_WRITING)
        .partitionBy("period")
        .parquet(str(aside))
    )
    folder.mkdir(parents=True, exist_ok=True)
    made = {path.name for path in aside.glob("period=*")}
    old = {path.name for path in folder.glob("period=*")}
    outdated = old if periods is None else old & {f"period={period}" for period in periods}
    for name in sorted(made | outdated):
        _swap(aside / name, folder / name)
    shutil.rmtree(aside, ignore_errors=True)


def _swap(new: Path, place: Path) -> None:
    """Put the folder `new` into its place, or leave the place empty when there is none."""
    if place.exists():
        shutil.rmtree(place)
    if new.exists():
        new.rename(place)
