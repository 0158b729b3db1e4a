"""Zipf interests: as many subscriptions match as stated, and where they live."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from gravitate.errors import InputError
from gravitate.matching.matcher import Matcher
from gravitate.model.covering import covers
from gravitate.model.language import parse
from gravitate.pipeline.workloads import interactions, zipf
from gravitate.pipeline.workloads.covering import subscription_filter
from gravitate.pipeline.workloads.definition import Made
from gravitate.pipeline.workloads.generate import in_process
from gravitate.pipeline.workloads.making import parameters_of

DEFINITIONS = {definition.name: definition for definition in zipf.DEFINITIONS}
DEFINITIONS["dt-fb"] = interactions.DEFINITION


def made(name: str, **changes: Any) -> tuple[Made, dict[str, pa.Table]]:
    definition = DEFINITIONS[name]
    workload = definition.make(parameters_of(definition, changes), 1, None)
    return workload, {plan.table: in_process(plan, 1) for plan in workload.plans}


def matches(tables: dict[str, pa.Table], events: int) -> list[tuple[int, ...]]:
    """Rows of the matching subscriptions, by the project's own matcher, for events taken evenly."""
    matcher = Matcher()
    wanted = tables["subscriptions"].select(["topic", "condition"]).to_pylist()
    for row, subscription in enumerate(wanted):
        matcher.add(row, subscription_filter(**subscription), row)
    step = max(1, tables["publications"].num_rows // events)
    published = tables["publications"].take(
        pa.array(range(0, tables["publications"].num_rows, step))
    )
    return matcher.match(
        [
            {"topic": row["topic"], **json.loads(row["attributes"])}
            for row in published.select(["topic", "attributes"]).to_pylist()
        ]
    )


@pytest.mark.parametrize(
    ("name", "subscribers", "share"),
    [
        ("dt1", 4000, 0.08),
        ("dt2", 2000, 0.53),
        ("dt3", 4000, 0.09),
        ("dt4", 900, 0.09),
        ("dt5", 3000, 0.54),
        ("dt-c", 3000, 0.04),
        ("dt-fb", 4000, 0.065),
    ],
)
def test_the_matcher_finds_the_stated_share_of_subscriptions(
    name: str, subscribers: int, share: float
) -> None:
    workload, tables = made(name, subscribers=subscribers)
    found = matches(tables, 1500)
    measured = sum(map(len, found)) / (len(found) * subscribers)
    assert measured == pytest.approx(share, rel=0.06)
    assert workload.statistics["matching_share"] == pytest.approx(share, rel=0.02)


@pytest.mark.parametrize(("name", "share"), [("dt1", 0.16), ("dt2", 0.48)])
def test_about_as_many_brokers_match_as_the_papers_deliveries_tell(name: str, share: float) -> None:
    """348,000 and 1,034,000 deliveries of 18,000 publications on 120 brokers."""
    workload, tables = made(name, subscribers=5000)
    broker = tables["subscriptions"]["broker"].to_pylist()
    reached = [len({broker[row] for row in rows}) for rows in matches(tables, 400)]
    measured = float(np.mean(reached)) / 120
    assert measured == pytest.approx(share, abs=0.13)
    assert workload.statistics["matching_broker_share"] == pytest.approx(measured, rel=0.1)


@pytest.mark.parametrize(
    ("name", "subscribers", "brokers", "share"),
    [
        ("dt1", 6552, 120, 0.08),
        ("dt2", 19_472, 120, 0.53),
        ("dt3", 28_690, 250, 0.09),
        ("dt4", 900, 21, 0.09),
        ("dt5", 6000, 21, 0.54),
        ("dt-c", 10_000, 500, 0.04),
        ("dt-fb", 120_000, 120, 0.065),
    ],
)
def test_defaults_are_the_papers(name: str, subscribers: int, brokers: int, share: float) -> None:
    parameters = DEFINITIONS[name].parameters()
    assert (parameters.subscribers, parameters.brokers) == (subscribers, brokers)  # type: ignore[attr-defined]
    assert parameters.matching_share == share  # type: ignore[attr-defined]


def test_publications_count_from_one_in_time_and_meet_their_advertisement() -> None:
    for name in ("dt4", "dt-fb"):
        _, tables = made(name, subscribers=300)
        advertised = {
            row["publisher"]: parse(row["advertisement"])
            for row in tables["publishers"].to_pylist()
        }
        rows = tables["publications"].to_pylist()
        numbers: dict[str, list[int]] = {}
        times: dict[str, list[float]] = {}
        for row in rows:
            numbers.setdefault(row["publisher"], []).append(row["number"])
            times.setdefault(row["publisher"], []).append(row["at_s"])
        assert all(found == list(range(1, len(found) + 1)) for found in numbers.values())
        assert all(found == sorted(found) for found in times.values())
        matcher = Matcher()
        keys = {publisher: key for key, publisher in enumerate(advertised)}
        for publisher, key in keys.items():
            matcher.add(key, advertised[publisher], key)
        events = [{"topic": row["topic"], **json.loads(row["attributes"])} for row in rows[:300]]
        for row, found in zip(rows, matcher.match(events), strict=False):
            assert keys[row["publisher"]] in found


def test_rate_and_duration_are_kept() -> None:
    _, tables = made("dt4", subscribers=300, rate_msgs_per_min=1200.0, duration_s=120.0)
    rows = tables["publications"].num_rows
    assert rows == pytest.approx(2400, abs=5 * 2400**0.5)
    assert max(tables["publications"]["at_s"].to_pylist()) < 120.0
    assert sum(tables["publishers"]["rate_msgs_per_s"].to_pylist()) == pytest.approx(20.0)


def test_only_dt_c_has_subscriptions_that_cover_others() -> None:
    workload, tables = made("dt-c", subscribers=400, brokers=20, publishers=50)
    filters = [
        subscription_filter(**row)
        for row in tables["subscriptions"].select(["topic", "condition"]).to_pylist()
    ]
    covered = sum(
        any(covers(other, filter) for other in filters if other is not filter) for filter in filters
    )
    assert workload.statistics["covered_share"] == pytest.approx(covered / len(filters))
    assert workload.statistics["covered_share"] > 0.3
    _, plain = made("dt1", subscribers=300)
    rows = plain["subscriptions"].select(["topic", "condition"]).to_pylist()
    filters = [subscription_filter(**row) for row in rows]
    assert not any(covers(one, other) for one in filters for other in filters if one != other)


def test_a_share_that_cannot_be_reached_is_refused_with_what_can_be() -> None:
    definition = DEFINITIONS["dt4"]
    with pytest.raises(InputError, match=r"matching_share 0\.95 .* between 0\.0\d+ and 0\.8"):
        definition.make(parameters_of(definition, {"matching_share": 0.95}), 1, None)
    with pytest.raises(InputError, match="interval_min"):
        parameters_of(definition, {"interval_min": 0.95})
