"""Publisher profiles: at which brokers a publisher's events are wanted, as bit vectors.

One bit an event, in words of 64 counters: what two brokers, or a broker and a set of them, have
in common is then a matter of `&`, `|` and counting bits.
"""

from __future__ import annotations

from typing import Any, Final

from pyspark.sql import functions as F

from gravitate.pipeline import schemas

WORD: Final = ("publisher", "incarnation", "word")
"""The columns that name one word of the bit vectors of a publisher."""

_SHIFT: Final = schemas.BITS_PER_WORD.bit_length() - 1


def publisher_profiles(hops: Any) -> Any:
    """`schemas.PUBLISHER_PROFILES` from hops: brokers where an event matched a local session."""
    position = F.col("counter").bitwiseAND(F.lit(schemas.BITS_PER_WORD - 1)).cast("int")
    bit = F.call_function("shiftleft", F.lit(1).cast("long"), position)
    return (
        hops.where(F.col("local_deliveries") > 0)
        .withColumn("word", F.shiftright("counter", _SHIFT))
        .groupBy("period", "broker", *WORD)
        .agg(
            F.bit_or(bit).alias("bits"),
            F.sum("local_deliveries").alias("deliveries"),
        )
        .select(*schemas.PUBLISHER_PROFILES.names)
    )
