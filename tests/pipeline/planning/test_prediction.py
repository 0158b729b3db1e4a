"""Recorded rows in a task: publishers stay whole, bit vectors become the events they stand for,
and what is chosen for many is what is best for each."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gravitate.config.network import BrokerSpec, LinkSpec, Network
from gravitate.config.planning import PublisherOptions
from gravitate.errors import InputError
from gravitate.overlay.tree import neighbours, path
from gravitate.pipeline.planning.prediction import flows_from
from gravitate.pipeline.planning.publishers import Overlay, chosen
from gravitate.pipeline.planning.recorded import Audience, whole_publishers
from gravitate.plan.flow.flow import flow

BROKERS = ("a", "b", "c", "d", "e")
TREE = Network(
    "tree",
    tuple(map(BrokerSpec, reversed(BROKERS))),
    (
        LinkSpec(("b", "a"), 1.0),
        LinkSpec(("b", "c"), 2.0),
        LinkSpec(("d", "c"), 4.0),
        LinkSpec(("b", "e"), 8.0),
    ),
)
NEAR = neighbours(BROKERS, [link.between for link in TREE.links])
OVERLAY = Overlay.of(TREE)

Event = tuple[str, int, int, dict[str, int]]
"""Publisher, incarnation, counter, and sessions by broker that wanted it."""


def rows_of(sources: dict[str, str], events: list[Event]) -> pa.Table:
    """What Spark would hand to a task: all rows of a publisher together."""
    published = Counter(event[0] for event in events)
    words: dict[tuple[str, int, int, str], list[int]] = {}
    for publisher, incarnation, counter, audience in events:
        for broker, sessions in audience.items():
            word = words.setdefault((publisher, incarnation, counter // 64, broker), [0, 0])
            word[0] |= 1 << counter % 64
            word[1] += sessions
    rows: list[dict[str, Any]] = []
    for publisher, source in sources.items():
        common = {
            "publisher": publisher,
            "source": source,
            "published": published[publisher],
            "size_bytes": 100.0,
        }
        heard = [
            common
            | {
                "incarnation": key[1],
                "word": key[2],
                "broker": key[3],
                "bits": int(np.array(bits, np.uint64).astype(np.int64)),
                "deliveries": deliveries,
            }
            for key, (bits, deliveries) in words.items()
            if key[0] == publisher
        ]
        nothing = dict.fromkeys(("incarnation", "word", "broker", "bits", "deliveries"))
        rows += heard or [common | nothing]
    schema = pa.schema(
        [
            ("publisher", pa.string()),
            ("source", pa.string()),
            ("published", pa.int64()),
            ("size_bytes", pa.float64()),
            ("incarnation", pa.int64()),
            ("word", pa.int64()),
            ("broker", pa.string()),
            ("bits", pa.int64()),
            ("deliveries", pa.int64()),
        ]
    )
    return pa.Table.from_pylist(rows, schema)


@st.composite
def traffic(draw: st.DrawFn) -> tuple[dict[str, str], list[Event]]:
    broker = st.sampled_from(BROKERS)
    sources = {f"p{at}": draw(broker) for at in range(draw(st.integers(1, 4)))}
    keys = draw(
        st.sets(
            st.tuples(
                st.sampled_from(sorted(sources)),
                st.sampled_from((1, 2**60)),
                st.sampled_from((0, 1, 63, 64, 130)),
            ),
            max_size=20,
        )
    )
    # Sessions are the same for all events of a publisher at a broker, so that spreading evenly
    # what a word's events had together is exact event by event.
    sessions = {
        (p, b): 1 + (at % 3) for at, (p, b) in enumerate((p, b) for p in sources for b in BROKERS)
    }
    events = [
        (key[0], key[1], key[2], {b: sessions[key[0], b] for b in draw(st.sets(broker))})
        for key in sorted(keys)
    ]
    return sources, events


@given(traffic())
def test_bit_vectors_become_the_events_they_were_made_from(
    case: tuple[dict[str, str], list[Event]],
) -> None:
    sources, events = case
    audience = Audience.of(rows_of(sources, events), BROKERS)
    flows, owner = flows_from(audience)
    found: Counter[Any] = Counter()
    for k in range(len(flows)):
        targets = range(flows.first[k], flows.first[k + 1])
        heard = frozenset((BROKERS[flows.target[t]], flows.sessions[t]) for t in targets)
        publisher = audience.publishers[owner[k]]
        assert BROKERS[flows.source[k]] == sources[publisher]
        found[publisher, heard] += flows.events[k]
    expected = Counter((p, frozenset(heard.items())) for p, _, _, heard in events)
    assert found == expected


@given(traffic())
def test_flows_load_brokers_as_events_would_one_by_one(
    case: tuple[dict[str, str], list[Event]],
) -> None:
    sources, events = case
    flows, _ = flows_from(Audience.of(rows_of(sources, events), BROKERS))
    loads, _ = flow(OVERLAY.tree, flows)
    arrivals: Counter[str] = Counter()
    for publisher, _, _, heard in events:
        ways = [path(NEAR, sources[publisher], broker) or [] for broker in heard]
        arrivals.update({broker for way in ways for broker in way[1:]})
    assert {b: n for b, n in zip(BROKERS, loads["in_links"], strict=True) if n} == arrivals
    assert loads["in_clients"].sum() == len(events)
    assert loads["out_clients"].sum() == sum(sum(heard.values()) for *_, heard in events)


@given(traffic(), st.sampled_from(("load", "delay")))
def test_the_choice_for_many_is_the_best_for_each(
    case: tuple[dict[str, str], list[Event]], metric: str
) -> None:
    sources, events = case
    mechanism = PublisherOptions(prioritise=metric, margin=0.0, at_least=1)
    rows = chosen(Audience.of(rows_of(sources, events), BROKERS), OVERLAY, mechanism).to_pylist()
    assert [row["publisher"] for row in rows] == list(sources)
    latency_ms = {frozenset(link.between): link.latency_ms for link in TREE.links}
    for row in rows:
        own = [heard for publisher, _, _, heard in events if publisher == row["publisher"]]

        def messages(at: str, own: list[dict[str, int]] = own) -> float:
            return sum(
                len({b for to in heard for b in path(NEAR, at, to) or []} | {at}) for heard in own
            )

        def delay_s(at: str, own: list[dict[str, int]] = own) -> float:
            ways = [(path(NEAR, at, to) or [], n) for heard in own for to, n in heard.items()]
            total = sum(
                n * latency_ms[frozenset(pair)] for way, n in ways for pair in pairwise(way)
            )
            return total / 1000 / sum(n for _, n in ways) if ways else 0.0

        assert row["messages_before"] == messages(row["source"])
        assert row["messages_after"] == messages(row["target"])
        assert row["delay_s_before"] == pytest.approx(delay_s(row["source"]))
        assert row["delay_s_after"] == pytest.approx(delay_s(row["target"]))
        best = min(map(messages if metric == "load" else delay_s, BROKERS))
        name = "messages_after" if metric == "load" else "delay_s_after"
        assert row[name] == pytest.approx(best)


@given(traffic(), st.integers(1, 6), st.integers(1, 8))
def test_publishers_are_never_cut(
    case: tuple[dict[str, str], list[Event]], batch_rows: int, chunk_rows: int
) -> None:
    rows = rows_of(*case)
    chunks = list(whole_publishers(iter(rows.to_batches(max_chunksize=batch_rows)), chunk_rows))
    assert pa.concat_tables(chunks).to_pylist() == rows.to_pylist()
    publishers = [set(chunk.column("publisher").to_pylist()) for chunk in chunks]
    assert sum(map(len, publishers)) == len(set().union(*publishers))


def test_a_task_without_rows_has_no_chunks() -> None:
    empty = rows_of({}, [])
    assert list(whole_publishers(iter(empty.to_batches()))) == []


def test_too_little_evidence_moves_nobody() -> None:
    events: list[Event] = [("p", 1, counter, {"d": 1}) for counter in range(9)]
    audience = Audience.of(rows_of({"p": "a"}, events), BROKERS)
    targets = {
        least: chosen(audience, OVERLAY, PublisherOptions(at_least=least)).to_pylist()[0]["target"]
        for least in (9, 10)
    }
    assert targets == {9: "d", 10: "a"}


def test_links_of_the_overlay_are_those_of_the_network() -> None:
    assert OVERLAY.neighbours() == NEAR


def test_measured_latencies_take_the_place_of_the_files() -> None:
    measured = Overlay.of(TREE, latency_s={frozenset("ab"): 0.5})
    assert sorted(measured.tree.latency_s) == [0.0, 0.002, 0.004, 0.008, 0.5]


def test_a_broker_that_the_network_lacks_is_named() -> None:
    with pytest.raises(InputError, match="clients on broker 'z', which its network lacks"):
        Audience.of(rows_of({"p": "z"}, [("p", 1, 0, {})]), BROKERS)
