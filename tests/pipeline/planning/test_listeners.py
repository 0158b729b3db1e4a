"""Who wants what, and how events are spread, as Spark reads it from the tables of a run."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from gravitate.config.network import BrokerSpec, LinkSpec, Network
from gravitate.errors import InputError
from gravitate.pipeline.planning.audiences import audiences, numbered, wanted_of
from gravitate.pipeline.planning.densities import densities
from gravitate.pipeline.planning.listeners import Listeners, Vocabulary, listeners, vocabulary
from gravitate.pipeline.planning.publishers import Overlay
from gravitate.pipeline.spark.failures import of_worker
from gravitate.pipeline.tables.schemas import TRACES
from gravitate.plan.assignment.problem.event_space import Density, marks_of

BROKERS = ("a", "b", "c")
OVERLAY = Overlay.of(
    Network(
        "line",
        tuple(map(BrokerSpec, BROKERS)),
        (LinkSpec(("a", "b"), 1.0), LinkSpec(("b", "c"), 1.0)),
    )
)
ABOVE_5 = math.nextafter(5, 6)

CHANGES = [
    ("a", "one", "s", 1.0, "subscribed", "topic = 'q/x' and volume > 5"),
    ("a", "one", "t", 2.0, "subscribed", "topic = 'q/z' and volume <= 9"),
    ("b", "moved", "s", 1.0, "subscribed", "volume > 5"),
    ("b", "moved", "s", 2.0, "unsubscribed", None),
    ("c", "moved", "s", 2.0, "subscribed", "topic matches 'q/#'"),
    ("a", "gone", "s", 1.0, "subscribed", "topic = 'q/x' and price > 1"),
    ("a", "gone", "s", 5.0, "unsubscribed", None),
    ("b", "deaf", "s", 1.0, "subscribed", "topic matches 'other/+' and payload.x < 3"),
]
PUBLICATIONS = [
    ("p", 1, "q/x", '{"volume":3.0}', "a", 10),
    ("p", 2, "q/x", '{"volume":"7","symbol":"IBM"}', "a", 10),
    ("p", 3, "q/y", None, "a", 40),
    ("r", 1, None, '{"volume":9,"price":null}', "c", 10),
]
DELIVERIES = [
    ("p", 2, "one", "a"),
    ("p", 2, "moved", "b"),
    ("p", 2, "moved", "b"),
    ("p", 3, "moved", "c"),
    ("p", 1, "gone", "a"),
    ("r", 1, "one", "a"),
]


def changes(spark: Any, rows: list[Any] = CHANGES) -> Any:
    return spark.createDataFrame(rows, "broker string, session string, subscription string, "
                                 "at_s double, change string, filter string")  # fmt: skip


def publications(spark: Any) -> Any:
    schema = TRACES["publications"]
    rows = [
        {
            "publisher": publisher,
            "incarnation": 1,
            "counter": counter,
            "broker": broker,
            "at_s": float(counter),
            "topic": topic,
            "qos": 0,
            "size_bytes": size,
            "attributes": attributes,
        }
        for publisher, counter, topic, attributes, broker, size in PUBLICATIONS
    ]
    return spark.createDataFrame([tuple(row[n] for n in schema.names) for row in rows], schema)


def deliveries(spark: Any) -> Any:
    return spark.createDataFrame(
        [(p, 1, n, s, b, 10.0 + at) for at, (p, n, s, b) in enumerate(DELIVERIES)],
        "publisher string, incarnation long, counter long, session string, broker string, "
        "at_s double",
    )


def test_topics_and_attributes_of_a_run_are_found(spark: Any) -> None:
    seen = vocabulary(publications(spark), changes(spark))
    assert seen.topics == ("q/x", "q/y", "q/z")
    # What nobody holds any more does not count; payloads may be asked for like attributes.
    assert seen.attributes == ("volume", "payload.x")


def test_a_subscriber_has_one_box_and_is_where_it_subscribed_last(spark: Any) -> None:
    space = Vocabulary(("q/x", "q/y", "q/z"), ("volume",)).space()
    rows = listeners(changes(spark), deliveries(spark), space)
    found = Listeners.of(rows, len(space), BROKERS)
    assert found.names == ["deaf", "gone", "moved", "one"]
    assert [BROKERS[at] for at in found.home] == ["b", "a", "c", "a"]
    assert found.deliveries.tolist() == [0.0, 1.0, 3.0, 2.0]
    assert found.is_subscribed.tolist() == [True, False, True, True]
    assert found.is_interested.tolist() == [False, False, True, True]
    assert found.lows[2].tolist() == [0.0, -math.inf]
    assert found.highs[2].tolist() == [2.0, math.inf]
    # From above 5 for one topic and up to 9 for the other: all of it, around both.
    assert found.lows[3].tolist() == [0.0, -math.inf]
    assert found.highs[3].tolist() == [2.0, math.inf]


def test_events_are_counted_between_the_bounds_of_interests(spark: Any) -> None:
    space = Vocabulary(("q/x", "q/y", "q/z"), ("volume", "payload.x")).space()
    marks = [marks_of([0.0, 2.0]), marks_of([ABOVE_5, 9.0]), marks_of([3.0])]
    topic, volume, payload = densities(publications(spark), space, marks)
    expected = Density.of([3.0, 7.0, math.nan, 9.0], [ABOVE_5, 9.0])
    assert topic.bins.tolist() == [0, 2, 1, 0, 0]
    assert (topic.missing, topic.events) == (1, 4)
    assert volume.bins.tolist() == expected.bins.tolist()
    assert volume.missing == 1
    assert payload.missing == payload.events == 4
    begins, ends = volume.interval([ABOVE_5], [math.inf])
    assert (ends - begins).tolist() == [0.5]


def test_events_alike_in_source_and_audience_are_one_row(spark: Any) -> None:
    names = ["deaf", "gone", "moved", "one"]
    rows = audiences(publications(spark), deliveries(spark), numbered(spark, names))
    batches = rows.toArrow().combine_chunks().to_batches()
    found = {}
    for batch in batches:
        wanted = wanted_of(batch, OVERLAY)
        for k in range(len(wanted)):
            members = wanted.member[wanted.first[k] : wanted.first[k + 1]]
            key = BROKERS[wanted.source[k]], tuple(names[one] for one in members)
            found[key] = (wanted.events[k], wanted.size_bytes[k])
    # A delivery that came twice is one; the sizes of what is alike are averaged.
    assert found == {
        ("a", ("gone",)): (1.0, 10.0),
        ("a", ("moved", "one")): (1.0, 10.0),
        ("a", ("moved",)): (1.0, 40.0),
        ("c", ("one",)): (1.0, 10.0),
    }


def test_a_filter_that_does_not_parse_is_named(spark: Any) -> None:
    wrong = [("a", "s", "s", 1.0, "subscribed", "volume >> 5")]
    with pytest.raises(Exception, match="volume >> 5") as caught:
        vocabulary(publications(spark), changes(spark, wrong))
    told = of_worker(str(caught.value))
    assert isinstance(told, InputError)
    assert "which does not parse" in str(told)


def test_attributes_that_are_no_json_are_named(spark: Any) -> None:
    space = Vocabulary((), ("volume",)).space()
    wrong = spark.createDataFrame([("t", "{volume}")], "topic string, attributes string")
    with pytest.raises(Exception, match="volume") as caught:
        densities(wrong, space, [np.array([1.0])])
    assert "attributes '{volume}'" in str(of_worker(str(caught.value)))


def test_a_subscriber_on_a_broker_that_the_network_lacks_is_named(spark: Any) -> None:
    stray = [("z", "s", "s", 1.0, "subscribed", "volume > 5")]
    space = Vocabulary((), ("volume",)).space()
    rows = listeners(changes(spark, stray), deliveries(spark).limit(0), space)
    with pytest.raises(InputError, match="clients on broker 'z', which its network lacks"):
        Listeners.of(rows, 1, BROKERS)


def test_a_run_without_subscribers_is_refused(spark: Any) -> None:
    space = Vocabulary((), ("volume",)).space()
    rows = listeners(changes(spark, CHANGES[:1]).limit(0), deliveries(spark).limit(0), space)
    with pytest.raises(InputError, match="has no subscribers to plan for"):
        Listeners.of(rows, 1, BROKERS)
