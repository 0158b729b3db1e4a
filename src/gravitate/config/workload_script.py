"""A workload's folder as a script: its publishers, subscriptions and publications on a network.

Owns reading the three tables and every check that a driver relies on. What does not fit is a
`FileError` that names the file and the row: a broker that the network lacks, a client that is
not placed, a time outside the run, numbers with a gap, a condition that does not parse.

A script has no subscriptions that come and go, so only those held from the start to the end are
accepted; and a publisher stays at its broker.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from pathlib import Path
from typing import Any, Final, Literal

import msgspec
import pyarrow as pa

from gravitate.config.network import Network
from gravitate.config.script import Publication, Script, ScriptClient, Subscription, payload_of
from gravitate.config.workload_tables import TABLES, load_manifest, read_file, table_files
from gravitate.errors import FileError, FilterError, InputError
from gravitate.model.events import TOPIC, Event, Value
from gravitate.model.language import parse as parse_condition

Qos = Literal[0, 1]
NEEDED: Final = ("publishers", "publications", "subscriptions")
"""The tables of a workload whose events are routed."""


def load(
    directory: str | Path, network: Network, duration_s: float | None = None, qos: Qos = 1
) -> Script:
    """The workload in `directory` on `network`.

    Without a duration, the workload's own: the parameter it was made with, or else until its last
    publication."""
    manifest = load_manifest(directory)
    brokers = [broker.id for broker in network.brokers]
    if duration_s is None:
        duration_s = manifest.parameters.get("duration_s", math.inf)
    clients, publications = read(directory, brokers, float(duration_s), qos)
    if duration_s == math.inf:
        duration_s = publications[-1].at_s if publications else 0.0
    return Script(
        name=manifest.workload,
        seed=manifest.seed,
        duration_s=float(duration_s),
        network=network,
        clients=tuple(clients),
        publications=tuple(publications),
    )


def read(
    directory: str | Path, brokers: Iterable[str], duration_s: float, qos: Qos = 1
) -> tuple[list[ScriptClient], list[Publication]]:
    """The clients of the workload in `directory`, and what they publish, in time order."""
    manifest = load_manifest(directory)
    for table in NEEDED:
        if table not in manifest.rows:
            raise FileError(
                f"workload '{manifest.workload}' has no table '{table}' and cannot be run: "
                f"one with {', '.join(NEEDED)} can",
                str(directory),
            )
    known, rows = frozenset(brokers), manifest.rows

    def read_table(table: str, problems: Problems) -> pa.Table:
        return _rows(directory, table, rows[table], problems)

    publishers = read_table("publishers", lambda part: _publisher_problems(part, known))
    subscriptions = read_table(
        "subscriptions", lambda part: _subscription_problems(part, known, duration_s)
    )
    homes = dict(
        zip(publishers["publisher"].to_pylist(), publishers["broker"].to_pylist(), strict=True)
    )
    published = read_table(
        "publications", lambda part: _publication_problems(part, homes, duration_s)
    )
    try:
        return as_clients(publishers, subscriptions, qos), as_publications(published, qos)
    except InputError as problem:
        raise FileError(str(problem), str(directory)) from None


def as_clients(publishers: pa.Table, subscriptions: pa.Table, qos: Qos = 1) -> list[ScriptClient]:
    """Publishers and then subscribers, in the order of their rows; who is both comes once."""
    homes: dict[str, str] = {}
    advertised: dict[str, tuple[str, ...]] = {}
    wanted: dict[str, dict[str, Subscription]] = {}
    for row in publishers.select(["publisher", "broker", "advertisement"]).to_pylist():
        client, broker, advertisement = row.values()
        if client in homes:
            raise InputError(f"there are two publishers '{client}': give each another name")
        homes[client] = broker
        advertised[client] = (advertisement,)
    columns = ("subscriber", "broker", "topic", "condition", "subscription")
    for client, broker, topic, condition, name in zip(
        *(subscriptions[column].to_pylist() for column in columns), strict=True
    ):
        if homes.setdefault(client, broker) != broker:
            raise InputError(
                f"client '{client}' is on brokers '{homes[client]}' and '{broker}': give it one"
            )
        own = wanted.setdefault(client, {})
        if name in own:
            raise InputError(
                f"client '{client}' has two subscriptions '{name}': give each another name"
            )
        own[name] = Subscription(topic, condition, name, qos)
    return [
        ScriptClient(
            client, broker, tuple(wanted.get(client, {}).values()), advertised.get(client, ())
        )
        for client, broker in homes.items()
    ]


def as_publications(rows: pa.Table, qos: Qos = 1) -> list[Publication]:
    """What is published, in the order of time; each publisher's numbers must be in that order
    too, from 1 without a gap."""
    attributes = msgspec.json.Decoder(dict[str, Value]).decode
    columns = ["at_s", "publisher", "number", "topic", "attributes", "payload_bytes"]
    ordered = rows.select(columns).sort_by(
        [("at_s", "ascending"), ("publisher", "ascending"), ("number", "ascending")]
    )
    counted: dict[str, int] = {}
    found = []
    for at_s, client, number, topic, encoded, size_bytes in zip(
        *(ordered[column].to_pylist() for column in columns), strict=True
    ):
        expected = counted.get(client, 0) + 1
        if number != expected:
            raise InputError(
                f"publication {number} of '{client}' follows after {expected - 1}: "
                "number them from 1 in the order of time, without a gap"
            )
        counted[client] = number
        event = Event({TOPIC: topic, **attributes(encoded)}, payload_of(client, number, size_bytes))
        found.append(Publication(at_s, client, number, event, qos))
    return found


# --- rows of files --------------------------------------------------------------------------------

Problems = Callable[[pa.Table], Iterator[tuple[int, str]]]
"""What is wrong with rows: their places in the table, from 0, and a sentence each."""


def _rows(directory: str | Path, table: str, rows: int, problems: Problems) -> pa.Table:
    """A table of the folder, every row of it checked."""
    parts = []
    for path in table_files(directory, table):
        part = read_file(path, table)
        for place, sentence in problems(part):
            raise FileError(f"row {place + 1}: {sentence}", str(path))
        parts.append(part)
    found = sum(part.num_rows for part in parts)
    if found != rows:
        raise FileError(
            f"has {found} rows and its manifest says {rows}: the workload is not complete",
            str(Path(directory) / table),
        )
    return pa.concat_tables(parts) if parts else TABLES[table].empty_table()


def _publisher_problems(rows: pa.Table, brokers: Set[str]) -> Iterator[tuple[int, str]]:
    columns = ("publisher", "broker", "advertisement")
    for place, (client, broker, advertisement) in _numbered(rows, columns):
        if sentence := _misplaced(client, broker, brokers):
            yield place, sentence
        try:
            parse_condition(advertisement)
        except FilterError as problem:
            yield place, f"advertisement of '{client}':\n{problem.pointed()}"


def _subscription_problems(
    rows: pa.Table, brokers: Set[str], duration_s: float
) -> Iterator[tuple[int, str]]:
    columns = ("subscriber", "broker", "topic", "condition", "from_s", "until_s")
    for place, (client, broker, topic, condition, from_s, until_s) in _numbered(rows, columns):
        if sentence := _misplaced(client, broker, brokers):
            yield place, sentence
        if from_s > 0 or (until_s is not None and until_s < duration_s):
            until = "the end" if until_s is None else f"{until_s:g} s"
            yield (
                place,
                f"subscription of '{client}' is held from {from_s:g} s to {until}: a script takes "
                f"only those held from the start to the end, at {duration_s:g} s",
            )
        try:
            Subscription(topic, condition).filter()
        except FilterError as problem:
            yield place, f"subscription of '{client}':\n{problem.pointed()}"


def _publication_problems(
    rows: pa.Table, homes: Mapping[str, str], duration_s: float
) -> Iterator[tuple[int, str]]:
    attributes = msgspec.json.Decoder(dict[str, Value])
    columns = ("publisher", "number", "at_s", "attributes", "payload_bytes", "broker")
    for place, (client, number, at_s, encoded, size_bytes, broker) in _numbered(rows, columns):
        what = f"publication {number} of '{client}'"
        if client not in homes:
            yield place, f"{what}: table 'publishers' has no '{client}'"
        elif broker is not None and broker != homes[client]:
            yield (
                place,
                f"{what} is at broker '{broker}' and its publisher at '{homes[client]}': "
                "in a script a publisher stays where it is",
            )
        if not 0 <= at_s <= duration_s or at_s == math.inf:
            yield place, f"{what} is at {at_s:g} s: the run is from 0 to {duration_s:g} s"
        if size_bytes < 0:
            yield place, f"{what} has a payload of {size_bytes} bytes: write a number from 0"
        try:
            if TOPIC in attributes.decode(encoded):
                yield place, f"{what} has an attribute '{TOPIC}': the column says it already"
        except msgspec.MsgspecError as problem:
            yield place, f"attributes of {what} are no JSON object of plain values: {problem}"


def _misplaced(client: str, broker: str | None, brokers: Set[str]) -> str:
    if broker is None:
        return f"client '{client}' is on no broker: only a workload that is placed can be run"
    if broker not in brokers:
        return f"client '{client}' is on broker '{broker}', which the network lacks"
    return ""


def _numbered(rows: pa.Table, columns: Sequence[str]) -> Iterator[tuple[int, tuple[Any, ...]]]:
    return enumerate(zip(*(rows[column].to_pylist() for column in columns), strict=True))
