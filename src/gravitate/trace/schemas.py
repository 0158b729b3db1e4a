"""The six tables in which brokers, simulated or real, write down what happened.

These Arrow schemas are the one place where their columns are defined; the pipeline takes its
own from here. Each column carries its meaning as field metadata (`description`).

An event's id is the three columns `publisher, incarnation, counter`. Times (`at_s`) are seconds
on the clock of the run: virtual from 0 in a simulated world, Unix time on nodes; the manifest
says which. Names of units come last.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa


def _column(name: str, kind: pa.DataType, description: str, nullable: bool = False) -> pa.Field:
    return pa.field(name, kind, nullable=nullable, metadata={"description": description})


_EVENT_ID: Final = [
    _column("publisher", pa.string(), "client id of the publisher"),
    _column("incarnation", pa.int64(), "which life of the publisher; grows with every connect"),
    _column("counter", pa.int64(), "consecutive per publisher and incarnation"),
]
_BROKER: Final = _column("broker", pa.string(), "broker that wrote the row")
_AT: Final = _column("at_s", pa.float64(), "when, in seconds on the clock of the run")

PUBLICATIONS: Final = pa.schema(
    [
        *_EVENT_ID,
        _BROKER,
        _AT,
        _column("topic", pa.string(), "the event's topic; null when it has none", nullable=True),
        _column("qos", pa.int8(), "quality of service asked for by the publisher"),
        _column("size_bytes", pa.int32(), "weight of the body on a link, averaged over its batch"),
        _column("attributes", pa.string(), "beside the topic, as JSON; null: none", nullable=True),
    ]
)
"""One row an event, written by the broker that first took it in."""

HOPS: Final = pa.schema(
    [
        *_EVENT_ID,
        _BROKER,
        _column("came_from", pa.string(), "previous broker; null at the first", nullable=True),
        _AT,
        _column("hops", pa.int16(), "links behind it: 0 at the first broker"),
        _column("local_deliveries", pa.int32(), "sessions here that it matches"),
        _column("links", pa.list_(pa.field("element", pa.string(), False)), "brokers it goes to"),
    ]
)
"""One row for every broker that an event passes. `local_deliveries = 0` marks a pure forwarder."""

DELIVERIES: Final = pa.schema(
    [
        *_EVENT_ID,
        _BROKER,
        _column("session", pa.string(), "client id of the subscriber"),
        _AT,
        _column("delay_s", pa.float64(), "since the first broker took it in"),
        _column("hops", pa.int16(), "links it has passed"),
        _column("qos", pa.int8(), "quality of service of the delivery"),
    ]
)
"""One row for every event handed to a session."""

SUBSCRIPTIONS: Final = pa.schema(
    [
        _BROKER,
        _column("session", pa.string(), "client id of the subscriber"),
        _column("subscription", pa.string(), "name of the subscription within its session"),
        _AT,
        _column("change", pa.string(), "subscribed, settled or unsubscribed"),
        _column("filter", pa.string(), "the condition; null unless subscribed", nullable=True),
    ]
)
"""One row for every change of a local client's subscription."""

LINKS: Final = pa.schema(
    [
        _BROKER,
        _column("peer", pa.string(), "broker at the other end"),
        _AT,
        _column("state", pa.string(), "resumed, reset, down, given up; null if periodic", True),
        _column("events", pa.int64(), "events sent to the peer since the row before"),
        _column("size_bytes", pa.int64(), "their weight"),
        _column("rtt_s", pa.float64(), "latest round trip; null while unknown", nullable=True),
    ]
)
"""One row a link and period in which it carried something, and one for every change of state.

Counted before sampling: these are all events, not those of the sample."""

MOVES: Final = pa.schema(
    [
        _column("move", pa.string(), "id of the move"),
        _column("kind", pa.string(), "relocate-publisher, exchange-link, ..."),
        _BROKER,
        _AT,
        _column("outcome", pa.string(), "done, refused or rolled back"),
        _column("reason", pa.string(), "why it was proposed"),
        _column("gain", pa.float64(), "predicted gain"),
        _column("cost", pa.float64(), "predicted cost"),
        _column("details", pa.string(), "the whole move as JSON"),
    ]
)
"""One row for every move that ended."""

TABLES: Final[dict[str, pa.Schema]] = {
    "publications": PUBLICATIONS,
    "hops": HOPS,
    "deliveries": DELIVERIES,
    "subscriptions": SUBSCRIPTIONS,
    "links": LINKS,
    "moves": MOVES,
}
"""Every table by name; a trace directory has one folder for each."""
