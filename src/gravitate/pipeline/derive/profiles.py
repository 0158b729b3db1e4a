"""Publisher profiles: at which brokers a publisher's events are wanted, as bit vectors.

One bit an event, in words of 64 counters: what two brokers, or a broker and a set of them, have
in common is then a matter of `&`, `|` and counting bits.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as F

from gravitate.pipeline.derive.grouping import Groups, codes, numbers, texts
from gravitate.pipeline.derive.scanning import Summary, together
from gravitate.pipeline.tables import schemas

WORD_SHIFT: Final = schemas.BITS_PER_WORD.bit_length() - 1

_KEYS: Final = ("period", "publisher", "incarnation", "broker", "word")


def publisher_profiles(summaries: Any) -> Any:
    """`schemas.PUBLISHER_PROFILES` from `PROFILES`."""
    return (
        together(summaries, "period")
        .groupBy(*_KEYS)
        .agg(F.bit_or("bits").alias("bits"), F.sum("deliveries").alias("deliveries"))
        .select(*schemas.PUBLISHER_PROFILES.names)
    )


def _profiles(rows: pa.Table) -> pa.Table:
    """Rows of brokers where an event matched a local session."""
    rows = rows.filter(pc.greater(rows["local_deliveries"], 0))
    (brokers, broker), (publishers, publisher) = codes(rows["broker"]), codes(rows["publisher"])
    incarnation, counter = numbers(rows["incarnation"]), numbers(rows["counter"])
    word = counter >> WORD_SHIFT
    groups = Groups(numbers(rows["period"]), broker, publisher, incarnation, word)
    bit = (counter & (schemas.BITS_PER_WORD - 1)).astype(np.uint64)
    bits = groups.disjunctions(np.uint64(1) << bit)
    return pa.table(
        {
            "period": groups.keys[0],
            "publisher": texts(publishers, groups.keys[2]),
            "incarnation": groups.keys[3],
            "broker": texts(brokers, groups.keys[1]),
            "word": groups.keys[4],
            "bits": bits.view(np.int64),
            "deliveries": groups.int_sums(numbers(rows["local_deliveries"])),
        }
    )


PROFILES: Final = Summary(
    "hops",
    ("publisher", "incarnation", "counter", "broker", "local_deliveries"),
    _profiles,
    "period int, publisher string, incarnation long, broker string, word long, bits long, "
    "deliveries long",
)
