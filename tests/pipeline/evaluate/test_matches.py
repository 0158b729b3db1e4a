"""Matching at scale gives what asking each subscription about each event gives."""

from __future__ import annotations

import json
import random
from collections import Counter
from typing import Any

import pyarrow as pa
import pytest
from tests.support.in_process import in_process
from tests.support.scripts import tables_of

from gravitate.config import scenario
from gravitate.config.script import expected
from gravitate.config.workload_tables import PUBLICATIONS, SUBSCRIPTIONS
from gravitate.errors import InputError
from gravitate.model.language import wanted_filter
from gravitate.model.semantics import matches as holds
from gravitate.pipeline.evaluate import interests
from gravitate.pipeline.evaluate.matches import (
    Cut,
    audience_lists,
    audience_rows,
    count_rows,
    match_rows,
    matches,
    subscription_matches,
)
from gravitate.pipeline.spark.failures import of_worker
from gravitate.pipeline.spark.session import told_plainly
from gravitate.pipeline.tables import schemas

SEVERAL = Cut(buckets=3, chunks=2)


class Workload:
    """Rows of random publications and subscriptions, with windows, repeated subscribers and
    equal conditions among them."""

    def __init__(self, seed: int, publications: int = 60, subscribers: int = 40) -> None:
        draw = random.Random(seed)
        self.publications = []
        numbers: Counter[str] = Counter()
        for _ in range(publications):
            publisher = f"p{draw.randrange(4)}"
            numbers[publisher] += 1
            attributes: dict[str, Any] = {"x": draw.randrange(10), "word": draw.choice("abc")}
            if draw.random() < 0.5:
                attributes["flag"] = draw.random() < 0.5
            self.publications.append(
                {
                    "publisher": publisher,
                    "number": numbers[publisher],
                    "at_s": draw.randrange(100) / 10,
                    "topic": draw.choice(("t/a", "t/b", "u")),
                    "attributes": json.dumps(attributes),
                    "payload_bytes": draw.choice((0, 50)),
                    "broker": draw.choice(("b1", "b2")),
                }
            )
        self.subscriptions = []
        for number in range(subscribers):
            broker = draw.choice(("b1", "b2", "b3"))
            for name in range(draw.choice((1, 1, 3))):
                starts_s = draw.choice((0.0, 0.0, 4.0))
                self.subscriptions.append(
                    {
                        "subscriber": f"s{number}",
                        "subscription": f"n{name}",
                        "broker": broker,
                        "topic": draw.choice(("#", "t/+", "u", "t/b")),
                        "condition": draw.choice(
                            ("", "x > 7", "word = 'a' AND x < 5", "flag = TRUE", "x IN (1, 2)")
                        ),
                        "from_s": starts_s,
                        "until_s": draw.choice((None, None, starts_s + 3.0)),
                    }
                )

    def frames(self, spark: Any) -> tuple[Any, Any]:
        return (
            _frame(spark, self.publications, PUBLICATIONS, "publications"),
            _frame(spark, self.subscriptions, SUBSCRIPTIONS, "subscriptions"),
        )

    def tables(self) -> tuple[pa.Table, pa.Table]:
        return (
            pa.Table.from_pylist(self.publications, PUBLICATIONS),
            pa.Table.from_pylist(self.subscriptions, SUBSCRIPTIONS),
        )

    def pairs(self) -> list[tuple[dict[str, Any], dict[str, Any]]]:
        """Brute force: every publication with every subscription that it matches."""
        filters = [wanted_filter(s["topic"], s["condition"] or None) for s in self.subscriptions]
        return [
            (event, subscription)
            for event in self.publications
            for subscription, filter in zip(self.subscriptions, filters, strict=True)
            if subscription["from_s"] <= event["at_s"]
            and (subscription["until_s"] is None or event["at_s"] < subscription["until_s"])
            and holds(filter, {**json.loads(event["attributes"]), "topic": event["topic"]})
        ]


def _frame(spark: Any, rows: list[dict[str, Any]], schema: pa.Schema, table: str) -> Any:
    arrow = pa.Table.from_pylist(rows, schema)
    return spark.createDataFrame(arrow.to_pandas(), schemas.WORKLOADS[table])


def _rows(frame: Any) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in frame.collect()]


def test_every_matching_subscriber_is_found_once(spark: Any) -> None:
    workload = Workload(seed=1)
    found = _rows(matches(*workload.frames(spark), SEVERAL))
    truth = {(p["publisher"], p["number"], s["subscriber"]) for p, s in workload.pairs()}
    assert len(found) == len(set(found))
    assert set(found) == truth
    assert truth


@pytest.mark.parametrize("cut", [Cut(), SEVERAL])
def test_an_audience_counts_the_sessions_of_each_broker(spark: Any, cut: Cut) -> None:
    workload = Workload(seed=2)
    sessions = {
        (p["publisher"], p["number"], s["broker"], s["subscriber"]) for p, s in workload.pairs()
    }
    truth = Counter((publisher, number, broker) for publisher, number, broker, _ in sessions)
    lists = audience_lists(*workload.frames(spark), cut).collect()
    assert len(lists) == len(workload.publications)
    for row in lists:
        wanted_at = [at.broker for at in row.audience]
        assert wanted_at == sorted(wanted_at)
        assert {(row.publisher, row.number, b): n for b, n in row.audience} == {
            key: count for key, count in truth.items() if key[:2] == (row.publisher, row.number)
        }


def test_matches_are_counted_for_each_subscription(spark: Any) -> None:
    workload = Workload(seed=3)
    truth = Counter((s["subscriber"], s["subscription"]) for _, s in workload.pairs())
    found = {
        row[:2]: row[2:] for row in _rows(subscription_matches(*workload.frames(spark), SEVERAL))
    }
    assert {key: counts[0] for key, counts in found.items() if counts[0]} == truth
    assert len(found) == len(workload.subscriptions)
    assert {key: counts[1] for key, counts in found.items() if counts[1]} == first_by_name(workload)


def first_by_name(workload: Workload) -> Counter[tuple[str, str]]:
    """Each delivery at the first subscription of its subscriber that matches."""
    first: dict[tuple[str, int, str], str] = {}
    for event, held in workload.pairs():
        key = (event["publisher"], event["number"], held["subscriber"])
        first[key] = min(held["subscription"], first.get(key, held["subscription"]))
    return Counter((subscriber, name) for (_, _, subscriber), name in first.items())


@pytest.mark.parametrize("seed", range(5))
def test_deliveries_are_counted_at_the_first_name_whatever_order_rows_come_in(seed: int) -> None:
    workload = Workload(seed)
    truth = first_by_name(workload)
    random.Random(seed).shuffle(workload.subscriptions)
    rows = pa.Table.from_batches(in_process(count_rows, *workload.tables())).to_pylist()
    found = {(row["subscriber"], row["subscription"]): row["deliveries"] for row in rows}
    assert {key: count for key, count in found.items() if count} == truth


def test_large_answers_are_cut_without_losing_a_pair(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interests, "PAIRS_AT_ONCE", 7)
    monkeypatch.setattr(interests, "EVENTS_AT_ONCE", 11)
    workload = Workload(seed=4)
    found = pa.Table.from_batches(in_process(match_rows, *workload.tables())).to_pylist()
    truth = {(p["publisher"], p["number"], s["subscriber"]) for p, s in workload.pairs()}
    assert Counter(tuple(row.values()) for row in found) == Counter(truth)


def test_the_truth_of_a_scenario_is_what_its_script_expects(spark: Any) -> None:
    script = scenario.load("small", duration_s=5.0)
    tables = tables_of(script)
    frames = (
        spark.createDataFrame(table.to_pandas(), schemas.WORKLOADS[name])
        for name, table in tables.items()
    )
    found = _rows(matches(*frames))
    truth = expected(script)
    assert {(subscriber, publisher, number) for publisher, number, subscriber in found} == truth
    assert len(found) == len(truth) > 0


def test_a_bad_row_comes_out_of_a_worker_as_a_sentence(spark: Any) -> None:
    workload = Workload(seed=5, publications=3, subscribers=2)
    workload.subscriptions[0]["condition"] = "x >"
    with (
        pytest.raises(
            InputError, match=r"subscriber 's0' wants .* where x >, which does not parse"
        ),
        told_plainly(),
    ):
        matches(*workload.frames(spark)).count()


@pytest.mark.parametrize(
    ("table", "column", "value", "sentence"),
    [
        ("subscriptions", "topic", "a/#/b", "subscriber 's0' wants 'a/#/b'"),
        ("subscriptions", "broker", None, "subscriber 's0' is on no broker"),
        ("publications", "attributes", "{", "publication 1 of 'p.' has attributes '{'"),
        ("publications", "attributes", '{"x": [1]}', "publication 1 of 'p.' has attributes"),
    ],
)
def test_bad_rows_are_refused_by_name(table: str, column: str, value: Any, sentence: str) -> None:
    workload = Workload(seed=5, publications=3, subscribers=2)
    getattr(workload, table)[0][column] = value
    with pytest.raises(InputError, match=sentence) as refused:
        list(in_process(audience_rows, *workload.tables()))
    assert of_worker(f"...\ngravitate.errors.InputError: {refused.value}\n\n at ...") is not None
    assert "\n" not in str(refused.value)
