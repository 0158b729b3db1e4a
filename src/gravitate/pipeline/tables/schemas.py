"""Every table of the slow loop as a `StructType`, each column with its description.

Trace tables and workload tables are defined as Arrow schemas where they are written
(`trace.schemas`, `config.workload_tables`) and taken over from there. Derived tables, plans and
evaluations are defined here.

Derived tables have a row for each *period* (`period_s` of the store, 60 s by default) and key,
and counts and sums of them merge: a total is the sum over periods, for `bits` the disjunction,
for a `_max` the maximum. Rates are of their own period and do not merge.

What arrives late changes its own period alone, with two exceptions: in `topic_rates` the smoothed
rates of all later periods, in `common_interest` the periods within an event's longest travel
(`derive.interest.reach`). Counts are of traced events; the store's sampling rate tells how many
there really were.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql.pandas.types import from_arrow_type
from pyspark.sql.types import (
    ArrayType,
    DataType,
    DoubleType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
)

from gravitate.config import workload_tables
from gravitate.errors import FileError
from gravitate.trace import schemas as trace_schemas

BITS_PER_WORD: Final = 64


def _column(name: str, kind: DataType, description: str, nullable: bool = False) -> StructField:
    return StructField(name, kind, nullable, {"comment": description})


def struct_of(schema: pa.Schema) -> StructType:
    """The Spark schema of an Arrow schema, descriptions included."""
    return StructType(
        [
            _column(
                field.name,
                from_arrow_type(field.type),
                (field.metadata or {}).get(b"description", b"").decode(),
                field.nullable,
            )
            for field in schema
        ]
    )


TRACES: Final[dict[str, StructType]] = {
    name: struct_of(schema) for name, schema in trace_schemas.TABLES.items()
}
WORKLOADS: Final[dict[str, StructType]] = {
    name: struct_of(schema) for name, schema in workload_tables.TABLES.items()
}

_PERIOD: Final = _column("period", IntegerType(), "number of the period, floor(at_s / period_s)")
_BROKER: Final = _column("broker", StringType(), "broker id")

PUBLISHER_PROFILES: Final = StructType(
    [
        _PERIOD,
        _column("publisher", StringType(), "client id of the publisher"),
        _column("incarnation", LongType(), "which life of the publisher"),
        _column("broker", StringType(), "broker with local subscribers of these events"),
        _column("word", LongType(), "counter / 64: which piece of the bit vector"),
        _column("bits", LongType(), "bit counter % 64 is set when the event was delivered here"),
        _column("deliveries", LongType(), "events handed to local sessions"),
    ]
)
"""Who listens to a publisher where: GRAPE's bit vectors, in words of 64 counters."""

COMMON_INTEREST: Final = StructType(
    [
        _PERIOD,
        _BROKER,
        _column("other", StringType(), "another broker"),
        _column("events", LongType(), "events wanted at both: exact"),
        _column("events_bloom", LongType(), "events of `broker` found in the filter of `other`"),
    ]
)
"""What two brokers have in common, in both directions; pairs without anything have no row."""

TOPIC_RATES: Final = StructType(
    [
        _PERIOD,
        _column("topic", StringType(), "topic of the events; empty: none"),
        _column("publications", LongType(), "events published"),
        _column("rate_msgs_per_s", DoubleType(), "of this period"),
        _column("rate_smoothed_msgs_per_s", DoubleType(), "exponential filter over the periods"),
    ]
)
"""How often topics are published to; a topic has rows from its first period to the last of all,
but for periods in which nothing is left of its rate (`derive.rates`)."""

BROKER_LOAD: Final = StructType(
    [
        _PERIOD,
        _BROKER,
        _column("in_links", LongType(), "events that came over links"),
        _column("in_clients", LongType(), "events that came from local publishers"),
        _column("out_links", LongType(), "events sent over links"),
        _column("out_clients", LongType(), "events handed to local sessions"),
    ]
)
"""What brokers carry; a broker's message rate is the sum of the four over time."""

LINK_LOAD: Final = StructType(
    [
        _PERIOD,
        _column("broker", StringType(), "sending broker"),
        _column("peer", StringType(), "receiving broker"),
        _column("events", LongType(), "events sent; all, not those of the sample"),
        _column("size_bytes", LongType(), "their weight"),
        _column("rtt_s_sum", DoubleType(), "measured round trips summed"),
        _column("rtt_count", LongType(), "how many were measured"),
    ]
)
"""What links carry, one row a direction."""

DELAYS: Final = StructType(
    [
        _PERIOD,
        _column("broker", StringType(), "delivering broker"),
        _column("hops", IntegerType(), "links between publisher's and subscriber's broker"),
        _column("bucket", IntegerType(), "delay class; see `trace.histogram`"),
        _column("deliveries", LongType(), "deliveries in it"),
        _column("delay_s_sum", DoubleType(), "their delays summed"),
        _column("delay_s_max", DoubleType(), "the longest of them"),
    ]
)
"""Histogram of delivery delays; percentiles over any set of rows within 1 %."""

YIELD: Final = StructType(
    [
        _PERIOD,
        _BROKER,
        _column("arrivals", LongType(), "events that came over links"),
        _column("useful", LongType(), "those with a local subscriber"),
        _column("pure_forwarders", LongType(), "those without"),
    ]
)
"""How much of what brokers get is wanted there; yield = useful / arrivals."""

DERIVED: Final[dict[str, StructType]] = {
    "publisher_profiles": PUBLISHER_PROFILES,
    "common_interest": COMMON_INTEREST,
    "topic_rates": TOPIC_RATES,
    "broker_load": BROKER_LOAD,
    "link_load": LINK_LOAD,
    "delays": DELAYS,
    "yield": YIELD,
}

_PUBLICATION: Final = [
    _column("publisher", StringType(), "client id of the publisher"),
    _column("number", LongType(), "counts the publications of one publisher from 1"),
]

MATCHES: Final = StructType(
    [*_PUBLICATION, _column("subscriber", StringType(), "client id of a subscriber it matches")]
)
"""Who must get which publication of a workload; each pair once."""

JUDGED: Final = StructType(
    [
        *MATCHES.fields,
        _column("times", LongType(), "how often it was delivered to the subscriber"),
        _column("verdict", StringType(), "right, missing, unexpected or doubled"),
    ]
)
"""What became of each pair that had to be delivered or was."""

SUBSCRIPTION_MATCHES: Final = StructType(
    [
        _column("subscriber", StringType(), "client id"),
        _column("subscription", StringType(), "name within its subscriber"),
        _column("matches", LongType(), "publications that it matches"),
        _column("deliveries", LongType(), "those its subscriber gets by it, not by another"),
    ]
)
"""How much each subscription of a workload lets through."""

AUDIENCES: Final = StructType(
    [
        *_PUBLICATION,
        _column("source", StringType(), "broker where it is published; null: not placed", True),
        _column("size_bytes", LongType(), "its weight on a link"),
        _column(
            "audience",
            ArrayType(
                StructType(
                    [
                        _column("broker", StringType(), "where somebody wants it"),
                        _column("sessions", LongType(), "how many"),
                    ]
                ),
                containsNull=False,
            ),
            "brokers whose clients it matches, sorted",
        ),
    ]
)
"""Where the publications of a workload go; one row each, also those that nobody wants."""

PLANS: Final = StructType(
    [
        _column("plan", StringType(), "id of the plan"),
        _column("number", IntegerType(), "order in which moves are carried out"),
        _column("move", StringType(), "id of the move"),
        _column("kind", StringType(), "relocate-publisher, exchange-link, ..."),
        _column("reason", StringType(), "why it is proposed"),
        _column("gain", DoubleType(), "predicted gain"),
        _column("cost", DoubleType(), "predicted cost"),
        _column("details", StringType(), "the whole move as JSON"),
    ]
)
"""One row a proposed move."""

EVALUATIONS: Final = StructType(
    [
        _column("evaluation", StringType(), "what was evaluated: a run, a plan, a what-if"),
        _column("scope", StringType(), "network, broker or link"),
        _column("subject", StringType(), "broker id, `broker>peer`, or empty for the network"),
        _column("metric", StringType(), "name, unit last"),
        _column("value", DoubleType(), "null when the metric does not apply", True),
    ]
)
"""Every metric of every evaluation, one row each."""


def read(spark: Any, files: list[str | Path], table: str, expected: StructType) -> Any:
    """The rows of Parquet files as a DataFrame; each must have exactly the columns expected.

    The error names file and column. An empty list gives no rows."""
    for file in files:
        check_file(Path(file), table, expected)
    if not files:
        return spark.createDataFrame([], expected)
    return spark.read.schema(expected).parquet(*map(str, files))


def check_file(path: Path, table: str, expected: StructType) -> None:
    """Refuse a Parquet file whose columns are not those of `expected`."""
    try:
        found = pq.read_schema(path)
    except (pa.ArrowException, OSError) as problem:
        reason = str(problem).splitlines()[0]
        raise FileError(f"cannot be read as Parquet: {reason}", str(path)) from None
    check_columns(found, path, table, expected)


def check_columns(found: pa.Schema, path: Path, table: str, expected: StructType) -> None:
    """Refuse the columns of a file that are not those of `expected`."""
    for field in expected.fields:
        if field.name not in found.names:
            raise FileError(f"column '{field.name}' of table '{table}' is missing", str(path))
        kind = from_arrow_type(found.field(field.name).type)
        if not _same(kind, field.dataType):
            raise FileError(
                f"column '{field.name}' of table '{table}' is {kind.simpleString()}, "
                f"expected {field.dataType.simpleString()}",
                str(path),
            )
    for name in found.names:
        if name not in expected.names:
            raise FileError(f"column '{name}' is not part of table '{table}'", str(path))


def _same(one: DataType, other: DataType) -> bool:
    """Equal types, whatever they say about nulls within lists."""
    return bool(one.simpleString() == other.simpleString())
