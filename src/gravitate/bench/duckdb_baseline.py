"""The derived tables in DuckDB: the baseline beside which the pipeline is measured.

The same aggregations over the same files on all cores, written as somebody would who has DuckDB
and one machine; results go to Parquet files by period as the pipeline's do. What `SUMS` adds up
must be equal on both sides, so that both did the same work.

Left out, in the baseline's favour: the Bloom estimates of `common_interest`.
"""

from __future__ import annotations

import math
import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import duckdb

from gravitate.trace.histogram import BUCKETS, DELAY_S_MIN, RATIO

_SIGN: Final = "(-9223372036854775808)::BIGINT"
"""DuckDB refuses to shift a bit into the place of the sign."""

_PROFILES: Final = f"""
    SELECT period, publisher, incarnation, broker, counter >> 6 AS word,
           bit_or(if(counter & 63 = 63, {_SIGN}, 1::BIGINT << (counter & 63))) AS bits,
           sum(local_deliveries)::BIGINT AS deliveries
    FROM hops WHERE local_deliveries > 0
    GROUP BY ALL"""

QUERIES: Final = {
    "publisher_profiles": _PROFILES,
    "common_interest": f"""
    WITH profiles AS MATERIALIZED ({_PROFILES}),
    anytime AS (
        SELECT publisher, incarnation, word, broker AS other, bit_or(bits) AS bits
        FROM profiles GROUP BY ALL)
    SELECT profiles.period, profiles.broker, anytime.other,
           sum(bit_count(profiles.bits & anytime.bits))::BIGINT AS events
    FROM profiles JOIN anytime USING (publisher, incarnation, word)
    WHERE profiles.broker <> anytime.other
    GROUP BY ALL HAVING events > 0""",
    "topic_rates": """
    WITH counts AS (
        SELECT period, coalesce(topic, '') AS topic, count(*) AS publications
        FROM publications GROUP BY ALL),
    span AS (
        SELECT topic, min(period) AS first, (SELECT max(period) FROM counts) AS last
        FROM counts GROUP BY topic),
    filled AS (
        SELECT topic, first, unnest(generate_series(first, last))::INTEGER AS period FROM span),
    rates AS (
        SELECT filled.period, topic, first, coalesce(publications, 0) AS publications,
               coalesce(publications, 0) / $period_s AS rate
        FROM filled LEFT JOIN counts USING (topic, period))
    SELECT period, topic, publications, rate AS rate_msgs_per_s,
           pow(0.7, period - first) * sum(
               rate * if(period = first, 1, 0.3) * pow(0.7, first - period)
           ) OVER (PARTITION BY topic ORDER BY period) AS rate_smoothed_msgs_per_s
    FROM rates""",
    "broker_load": """
    SELECT period, broker, count(came_from) AS in_links, count(*) - count(came_from) AS in_clients,
           sum(len(links))::BIGINT AS out_links, sum(local_deliveries)::BIGINT AS out_clients
    FROM hops GROUP BY ALL""",
    "link_load": """
    SELECT period, broker, peer, sum(events)::BIGINT AS events,
           sum(size_bytes)::BIGINT AS size_bytes, coalesce(sum(rtt_s), 0) AS rtt_s_sum,
           count(rtt_s) AS rtt_count
    FROM links GROUP BY ALL""",
    "delays": f"""
    SELECT period, broker, hops::INTEGER AS hops,
           (CASE WHEN delay_s < {DELAY_S_MIN} THEN 0 ELSE
            least(floor(ln(delay_s / {DELAY_S_MIN}) / {math.log(RATIO)!r}) + 1, {BUCKETS - 1})
            END)::INTEGER AS bucket,
           count(*) AS deliveries, sum(delay_s) AS delay_s_sum, max(delay_s) AS delay_s_max
    FROM deliveries GROUP BY ALL""",
    "yield": """
    SELECT period, broker, count(*) AS arrivals,
           count(*) FILTER (local_deliveries > 0) AS useful,
           count(*) FILTER (local_deliveries = 0) AS pure_forwarders
    FROM hops WHERE came_from IS NOT NULL GROUP BY ALL""",
}
"""Every derived table from views of the trace tables."""

SUMS: Final = {
    "publisher_profiles": ("count(*)", "sum(deliveries)", "sum(bit_count(bits))"),
    "common_interest": ("count(*) FILTER (events > 0)", "sum(events)"),
    "topic_rates": ("count(*)", "sum(publications)", "sum(rate_smoothed_msgs_per_s)"),
    "broker_load": ("count(*)", "sum(in_links)", "sum(in_clients)", "sum(out_links * in_links)"),
    "link_load": ("count(*)", "sum(events)", "sum(size_bytes)", "sum(rtt_s_sum)", "sum(rtt_count)"),
    "delays": ("sum(deliveries)", "sum(delay_s_sum)", "max(delay_s_max)"),
    "yield": ("count(*)", "sum(arrivals)", "sum(useful)", "sum(pure_forwarders)"),
}
"""What is compared; classes of delays are not, where two logarithms may round differently."""


class Baseline:
    """A DuckDB with views of the trace files of a store."""

    def __init__(self, scratch: Path, period_s: float) -> None:
        self._scratch = scratch
        self._period_s = period_s
        self._database = duckdb.connect()
        self._database.execute(f"SET threads = {os.cpu_count() or 2}")
        self._database.execute(f"SET temp_directory = '{scratch / 'spill'}'")
        self._database.execute("SET enable_progress_bar = false")

    def look_at(self, table: str, files: Sequence[Path]) -> None:
        """Let the view `table` be these files."""
        names = ", ".join(f"'{file}'" for file in files)
        self._database.execute(
            f"CREATE OR REPLACE VIEW {table} AS "
            f"SELECT * FROM read_parquet([{names}], hive_partitioning = false)"
        )

    def derive(self, table: str) -> Path:
        """Compute a derived table into Parquet files by period."""
        target = self._fresh(table)
        query = QUERIES[table].replace("$period_s", repr(self._period_s))
        self._database.execute(
            f"COPY ({query}) TO '{target}' "
            "(FORMAT parquet, COMPRESSION zstd, PARTITION_BY (period))"
        )
        return target

    def copy(self, table: str) -> int:
        """Copy a trace table as ingest does, each row with its period; the number of rows."""
        target = self._fresh(f"copy-{table}")
        target.mkdir()
        (rows,) = self._database.execute(
            f"COPY (SELECT *, floor(at_s / {self._period_s})::INTEGER AS period FROM {table}) "
            f"TO '{target}' (FORMAT parquet, COMPRESSION zstd, PER_THREAD_OUTPUT)"
        ).fetchone()
        shutil.rmtree(target)
        return int(rows)

    def sums(self, table: str, folder: Path) -> tuple[Any, ...]:
        """What the files of a derived table add up to."""
        found = self._database.execute(
            f"SELECT {', '.join(SUMS[table])} "
            f"FROM read_parquet('{folder}/*/*.parquet', hive_partitioning = true)"
        ).fetchone()
        return tuple(found)

    def close(self) -> None:
        self._database.close()

    def _fresh(self, name: str) -> Path:
        target = self._scratch / name
        shutil.rmtree(target, ignore_errors=True)
        return target
