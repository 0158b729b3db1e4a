"""Evaluations: the flow model agrees with the simulator, Spark with the model in one process, and
what a run measured with what its model says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pytest
from tests.support.scripts import (
    Spread,
    check_agreement,
    modelled,
    quiet_world,
    tables_of,
    write_workload,
)

from gravitate.config.network import BrokerSpec, LinkSpec, Network
from gravitate.config.script import Script, ServiceTimes
from gravitate.config.workload_tables import BROKERS, LINKS, NOTIFICATIONS
from gravitate.errors import FileError, InputError
from gravitate.model.moves import Rationale, ReassignSubscriber, RelocatePublisher
from gravitate.pipeline.evaluate.evaluation import (
    Placement,
    evaluate,
    placement_of,
)
from gravitate.pipeline.evaluate.matches import Cut
from gravitate.pipeline.evaluate.metrics import Carried, Terms, assessed
from gravitate.pipeline.spark.session import told_plainly
from gravitate.pipeline.tables import schemas
from gravitate.simulate.run import run_scenario

WORLDS = 20


@pytest.mark.parametrize("seed", range(1, WORLDS + 1))
def test_model_and_simulator_agree_at_low_load(seed: int) -> None:
    script = quiet_world(seed)
    spread = Spread()
    result = run_scenario(script, observers=[spread])
    assert result.is_sound(), f"seed {seed}: {result.violations}"
    model = modelled(script)
    check_agreement(model, result.metrics, f"seed {seed}")
    assert model.hops == spread.hops, f"seed {seed}"
    pure_forwarders = {broker: told["pure_forwarders"] for broker, told in model.brokers.items()}
    assert pure_forwarders == {name: spread.pure_forwarders[name] for name in pure_forwarders}


def test_the_worlds_compared_are_worth_it() -> None:
    models = [modelled(quiet_world(seed)) for seed in range(1, WORLDS + 1)]
    assert sum(model.metrics["delivered"] for model in models) > 1000
    assert sum(model.metrics["pure_forwarders"] for model in models) > 300
    assert max(model.metrics["hops_max"] for model in models) >= 5
    assert sum(model.metrics["input_utilisation_mean"] is not None for model in models) >= 4
    assert sum(model.metrics["output_utilisation_mean"] is not None for model in models) >= 4


# --- on Spark -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def script() -> Script:
    return quiet_world(9)


@pytest.fixture(scope="module")
def workload(script: Script, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("evaluation") / "workload"
    return write_workload(tables_of(script), folder, duration_s=script.duration_s)


def test_spark_gives_what_one_process_gives(spark: Any, script: Script, workload: Path) -> None:
    terms = Terms(script.service)
    found = evaluate(spark, script.network, workload, terms=terms, cut=Cut(2, 2))
    model = modelled(script)
    for metric, value in found.metrics.items():
        assert value == pytest.approx(model.metrics[metric]), metric
    assert found.links == model.links
    assert found.hops == model.hops
    assert found.metrics["reconfiguration_cost"] is None
    homes = [client.broker for client in script.clients if client.subscriptions]
    fullest = max(homes.count(broker) for broker in homes)
    expected = fullest * len(script.network.brokers) / len(homes)
    assert found.metrics["load_balance_factor"] == pytest.approx(expected)


def test_clients_that_move_are_evaluated_where_they_go(
    spark: Any, script: Script, workload: Path
) -> None:
    publisher = script.publications[0].client
    subscriber = next(client.id for client in script.clients if client.subscriptions)
    target = script.network.brokers[0].id
    why = Rationale("to see what it brings", cost=1.5)
    placement = placement_of(
        spark,
        [
            RelocatePublisher("m1", publisher, "anywhere", target, why),
            ReassignSubscriber("m2", subscriber, "anywhere", target, why),
        ],
    )
    found = evaluate(
        spark, script.network, workload, placement, terms=Terms(script.service), cut=Cut()
    )
    moved = msgspec.structs.replace(
        script,
        clients=tuple(
            msgspec.structs.replace(client, broker=target)
            if client.id in {publisher, subscriber}
            else client
            for client in script.clients
        ),
    )
    assert found.metrics["reconfiguration_cost"] == 3.0
    check_agreement(found, run_scenario(moved, checks=False).metrics, "moved")
    assert found.metrics["hops_mean"] != pytest.approx(modelled(script).metrics["hops_mean"])


def test_rows_of_an_evaluation_have_their_schema(spark: Any, script: Script) -> None:
    rows = list(modelled(script).rows())
    frame = spark.createDataFrame(rows, schemas.EVALUATIONS)
    by_scope = {row[0]: row[1] for row in frame.groupBy("scope").count().collect()}
    assert by_scope["broker"] == 10 * len(script.network.brokers)
    assert by_scope["link"] == 5 * 2 * len(script.network.links)
    assert ("model", "network", "", "published", 30.0) in rows


CHAIN = Network(
    "chain", tuple(map(BrokerSpec, "abc")), (LinkSpec(("a", "b"), 5.0), LinkSpec(("b", "c"), 7.0))
)


def test_notification_types_are_priced_with_the_workloads_costs(spark: Any, tmp_path: Path) -> None:
    types = [(0, "a", ["c"], 0.5), (1, "b", ["a", "b"], 2.0)]
    names, location = ("a", "b", "c"), [0.0]
    tables = {
        "notifications": pa.Table.from_pylist(
            [dict(zip(NOTIFICATIONS.names, row, strict=True)) for row in types], NOTIFICATIONS
        ),
        "brokers": pa.Table.from_pylist(
            [
                dict(zip(BROKERS.names, (name, location, 1.0, 10.0**index), strict=True))
                for index, name in enumerate(names)
            ],
            BROKERS,
        ),
        "links": pa.Table.from_pylist(
            [
                {"broker": "a", "peer": "b", "cost": 2000.0},
                {"broker": "a", "peer": "c", "cost": 7.0},
                {"broker": "b", "peer": "c", "cost": 3000.0},
            ],
            LINKS,
        ),
    }
    found = evaluate(spark, CHAIN, write_workload(tables, tmp_path / "types"))
    assert found.metrics["psoop_cost"] == 0.5 * (111 + 5000) + 2.0 * (11 + 2000)
    assert found.metrics["published"] == 2.5
    assert found.metrics["delivered"] == 0.5 + 2 * 2.0
    assert found.metrics["pure_forwarders"] == 0.5
    assert found.metrics["delay_ms_mean"] == pytest.approx((0.5 * 12 + 2.0 * 5) / 4.5)


def test_what_cannot_be_evaluated_is_refused_by_name(
    spark: Any, script: Script, workload: Path, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match="which the network lacks: it has a, b, c"), told_plainly():
        evaluate(spark, CHAIN, workload)
    with pytest.raises(FileError, match=r"has no workload\.json"):
        evaluate(spark, CHAIN, tmp_path)
    places = write_workload({"brokers": BROKERS.empty_table()}, tmp_path / "places")
    with pytest.raises(FileError, match="has neither publications and subscriptions nor"):
        evaluate(spark, CHAIN, places)
    with pytest.raises(InputError, match="unknown forwarding strategy 'S7': write one of S0"):
        evaluate(spark, CHAIN, workload, forwarding="S7")
    with pytest.raises(InputError, match="a duration of 0 s is not accepted"):
        evaluate(spark, CHAIN, workload, duration_s=0.0)
    homeless = tables_of(script)
    column = homeless["publications"].schema.get_field_index("broker")
    nulls = pa.nulls(homeless["publications"].num_rows, pa.string())
    homeless["publications"] = homeless["publications"].set_column(column, "broker", nulls)
    folder = write_workload(homeless, tmp_path / "homeless")
    with pytest.raises(InputError, match=r"publisher 'p\d' is on no broker"), told_plainly():
        evaluate(spark, script.network, folder, Placement(), cut=Cut())


# --- the arithmetic -------------------------------------------------------------------------------


def carried(**replaced: Any) -> Carried:
    """Ten events from a client of `a` to a session on `c`."""
    known: dict[str, Any] = {
        "duration_s": 2.0,
        "in_links": np.array([0.0, 10.0, 10.0]),
        "in_clients": np.array([10.0, 0.0, 0.0]),
        "out_links": np.array([10.0, 10.0, 0.0]),
        "out_clients": np.array([0.0, 0.0, 10.0]),
        "useful": np.array([0.0, 0.0, 10.0]),
        "links": {("a", "b"): (10.0, 5000.0), ("b", "c"): (10.0, 5000.0)},
        "hops": {2: 10.0},
        "delay_buckets": np.zeros(1),
        "delay_s_sum": 0.12,
        "delay_s_max": 0.012,
        "subscribers": {"a": 1, "b": 0, "c": 3},
    }
    return Carried(**known | replaced)


def test_utilisation_follows_from_service_times_and_bandwidths() -> None:
    limited = msgspec.structs.replace(
        CHAIN, links=(LinkSpec(("a", "b"), 5.0, 6280.0), CHAIN.links[1])
    )
    found = assessed("x", limited, carried(), Terms(ServiceTimes(1.0, 2.0, 3.0)))
    by_broker = found.brokers
    assert by_broker["a"]["input_utilisation"] == pytest.approx(5 * 0.006)
    assert by_broker["a"]["output_utilisation"] == pytest.approx((5000 + 10 * 128) / 2 / 6280)
    assert by_broker["b"]["output_utilisation"] == 0.0
    assert by_broker["c"]["output_utilisation"] is None
    assert found.metrics["input_utilisation_max"] == pytest.approx(0.03)
    assert found.metrics["output_utilisation_mean"] == pytest.approx(0.25)
    assert found.metrics["bandwidth_bytes_per_s"] == 5000.0
    unknown = assessed("x", CHAIN, carried())
    assert unknown.metrics["input_utilisation_max"] is None
    assert unknown.metrics["output_utilisation_max"] is None


def test_the_load_balance_factor_weighs_subscribers_with_capacity() -> None:
    assert assessed("x", CHAIN, carried()).metrics["load_balance_factor"] == pytest.approx(
        3 / (4 / 3)
    )
    roomy = Terms(capacities={"a": 1.0, "b": 1.0, "c": 6.0})
    assert assessed("x", CHAIN, carried(), roomy).metrics["load_balance_factor"] == pytest.approx(
        2.0
    )
    nobody = carried(subscribers={})
    assert assessed("x", CHAIN, nobody).metrics["load_balance_factor"] is None


def test_costs_default_to_milliseconds_and_are_null_where_unknown() -> None:
    terms = Terms(ServiceTimes(event_ms=1.0))
    assert assessed("x", CHAIN, carried(), terms).metrics["psoop_cost"] == 10 * (5 + 7) + 30
    elsewhere = carried(links={("a", "c"): (10.0, 0.0)})
    assert assessed("x", CHAIN, elsewhere).metrics["psoop_cost"] is None
    assert assessed("x", CHAIN, carried()).metrics["control_overhead_share"] is None


def test_a_network_that_did_nothing_has_figures_too() -> None:
    nothing = {name: np.zeros(3) for name in ("in_links", "in_clients", "out_links")}
    silent = carried(
        **nothing,
        out_clients=np.zeros(3),
        useful=np.zeros(3),
        links={},
        hops={},
        delay_s_sum=0.0,
        delay_s_max=0.0,
        duration_s=0.0,
        subscribers=None,
    )
    found = assessed("x", CHAIN, silent)
    assert found.metrics["duration_s"] == 1.0, "what rates were taken over"
    assert found.metrics["delivered"] == found.metrics["delay_ms_mean"] == 0.0
    assert found.metrics["yield_share"] == 1.0
    assert found.metrics["psoop_cost_per_publication"] is None
