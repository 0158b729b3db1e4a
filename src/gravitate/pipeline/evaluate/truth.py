"""What a run delivered, held against what its workload says it had to.

A publication of a workload and an event in a trace are the same when publisher and number are:
clients count their publications from 1, whatever incarnation they have. Of a sampled run only
the publications that it traced are looked at.

Owns the comparison and where the workload's and the run's rows are read from.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import msgspec
from pyspark.sql import functions as F

from gravitate.config.workload_tables import load_manifest
from gravitate.errors import FileError
from gravitate.pipeline.evaluate.matches import Cut, matches, subscription_matches
from gravitate.pipeline.store.store import Store
from gravitate.pipeline.tables import schemas
from gravitate.pipeline.tables.workload_frames import read, tasks
from gravitate.trace import manifest as run_manifest
from gravitate.trace import reader

PAIR: Final = ("publisher", "number", "subscriber")
RIGHT, MISSING, UNEXPECTED, DOUBLED = "right", "missing", "unexpected", "doubled"
_WRITTEN: Final = {
    "judged": schemas.JUDGED,
    "subscription_matches": schemas.SUBSCRIPTION_MATCHES,
}


class Counts(msgspec.Struct, frozen=True, kw_only=True):
    """What a workload amounts to."""

    workload: str
    publications: int
    subscriptions: int
    matches: int
    """Pairs of a publication and a subscription that it matches."""
    deliveries: int
    """Pairs of a publication and a subscriber that must get it."""
    matches_per_subscription_mean: float
    matches_per_subscription_max: int
    subscriptions_without_matches: int


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """How a run compares with the truth."""

    expected: int
    delivered: int
    missing: int
    unexpected: int
    doubled: int
    """Pairs delivered more than once."""

    def is_sound(self) -> bool:
        return not (self.missing or self.unexpected or self.doubled)


def match(
    spark: Any, workload: str | Path, run: str | Path | None = None, out: Path | None = None
) -> tuple[Counts, Verdict | None]:
    """Match a workload, and judge a run by it if one is given.

    Below `out` are written `matches`, `subscription_matches` and, for a run, `judged`: every
    pair that was expected or delivered, with its verdict."""
    rows = load_manifest(workload).rows
    for table in ("publications", "subscriptions"):
        if table not in rows:
            raise FileError(
                f"has no table '{table}' to match; its tables are {', '.join(rows)}", str(workload)
            )
    publications = read(spark, workload, "publications")
    subscriptions = read(spark, workload, "subscriptions")
    cut = Cut.of(rows["subscriptions"], tasks(spark))
    tables = {}
    if run is not None:
        deliveries, traced = run_tables(spark, run)
        looked_at = publications if traced is None else of_sample(publications, traced)
        tables["judged"] = judged(matches(looked_at, subscriptions, cut), deliveries)
    tables["subscription_matches"] = subscription_matches(publications, subscriptions, cut)
    if out is not None:
        matches(publications, subscriptions, cut).write.parquet(str(out / "matches"))
        for name, table in tables.items():
            table.write.parquet(str(out / name))
            tables[name] = spark.read.schema(_WRITTEN[name]).parquet(str(out / name))
    counts = counts_of(
        load_manifest(workload).workload, rows["publications"], tables["subscription_matches"]
    )
    return counts, verdict_of(tables["judged"]) if run is not None else None


def counts_of(name: str, publications: int, per_subscription: Any) -> Counts:
    """The counts of `subscription_matches`."""
    row = per_subscription.agg(
        F.count(F.lit(1)),
        F.sum("matches"),
        F.sum("deliveries"),
        F.max("matches"),
        F.count(F.when(F.col("matches") == 0, 1)),
    ).collect()[0]
    return Counts(
        workload=name,
        publications=publications,
        subscriptions=row[0],
        matches=row[1] or 0,
        deliveries=row[2] or 0,
        matches_per_subscription_mean=(row[1] or 0) / (row[0] or 1),
        matches_per_subscription_max=row[3] or 0,
        subscriptions_without_matches=row[4],
    )


def of_sample(publications: Any, traced: Any) -> Any:
    """The publications of a workload that a run has traced."""
    known = traced.select("publisher", F.col("counter").alias("number")).distinct()
    return publications.join(known, ["publisher", "number"], "left_semi")


def run_tables(spark: Any, run: str | Path) -> tuple[Any, Any]:
    """The deliveries of a run, and the publications it traced, None when it traced all."""
    folder = Path(run)
    if (folder / run_manifest.NAME).exists():
        rate = run_manifest.load(folder).sampling_rate

        def table(name: str) -> Any:
            files: list[str | Path] = list(reader.files(folder, name))
            return schemas.read(spark, files, name, schemas.TRACES[name])
    else:
        store = Store.of_run(folder)
        if not store.exists():
            raise FileError("is neither the traces of a run nor a store of them", str(folder))
        rate = store.manifest().sampling_rate

        def table(name: str) -> Any:
            return store.traces(spark, name)

    return table("deliveries"), None if rate >= 1.0 else table("publications")


def judged(expected: Any, deliveries: Any) -> Any:
    """`schemas.JUDGED` from the pairs of a publication and a subscriber that were expected, and
    what was delivered."""
    came = deliveries.groupBy(
        "publisher", F.col("counter").alias("number"), F.col("session").alias("subscriber")
    ).agg(F.count(F.lit(1)).alias("times"))
    asked = expected.select(*PAIR, F.lit(True).alias("wanted"))
    times = F.coalesce("times", F.lit(0))
    verdict = (
        F.when(F.col("wanted").isNull(), UNEXPECTED)
        .when(times == 0, MISSING)
        .when(times > 1, DOUBLED)
        .otherwise(RIGHT)
    )
    found = asked.join(came, list(PAIR), "full_outer")
    found = found.withColumns({"times": times, "verdict": verdict})
    return found.select(
        *(F.col(field.name).cast(field.dataType) for field in schemas.JUDGED.fields)
    )


def verdict_of(pairs: Any) -> Verdict:
    """The counts of judged pairs; a pair that was not expected and came twice is unexpected."""
    found = {row[0]: row[1] for row in pairs.groupBy("verdict").count().collect()}
    right, missing, unexpected, doubled = (
        found.get(verdict, 0) for verdict in (RIGHT, MISSING, UNEXPECTED, DOUBLED)
    )
    return Verdict(
        expected=right + missing + doubled,
        delivered=right + doubled + unexpected,
        missing=missing,
        unexpected=unexpected,
        doubled=doubled,
    )
