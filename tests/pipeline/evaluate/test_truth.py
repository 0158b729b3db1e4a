"""A run is judged by its workload: what is missing, unexpected or doubled is found; a run that
was measured has the figures of its simulation."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.support.scripts import check_agreement, modelled, quiet_world, tables_of, write_workload

from gravitate.config import network
from gravitate.config.script import Script, expected
from gravitate.config.workload_tables import BROKERS
from gravitate.errors import FileError
from gravitate.pipeline.evaluate.measured import evaluate_run
from gravitate.pipeline.evaluate.metrics import Terms
from gravitate.pipeline.evaluate.truth import Verdict, match
from gravitate.pipeline.ingest import ingest
from gravitate.pipeline.store.store import Store
from gravitate.pipeline.tables import schemas
from gravitate.simulate.run import run_scenario
from gravitate.trace import reader
from gravitate.trace.manifest import RunManifest
from gravitate.trace.metrics import Summary
from gravitate.trace.writer import TraceWriter

SEED = 7


def traced(folder: Path, script: Script, rate: float = 1.0) -> Summary:
    """Run a script with its traces below `folder`."""
    with TraceWriter(folder, "world", rate) as writer:
        result = run_scenario(script, observers=[writer], checks=False)
    manifest = RunManifest(
        network.render(script.network), "virtual", script.name, sampling_rate=rate
    )
    manifest.save(folder)
    return result.metrics


@pytest.fixture(scope="module")
def script() -> Script:
    return quiet_world(SEED)


@pytest.fixture(scope="module")
def workload(script: Script, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_workload(tables_of(script), tmp_path_factory.mktemp("truth") / "workload")


def test_deliveries_that_are_missing_unexpected_or_doubled_are_found(
    spark: Any, script: Script, workload: Path, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    traced(run, script)
    (path,) = reader.files(run, "deliveries")
    rows = reader.read(run, "deliveries")
    stranger = rows.slice(0, 1).set_column(
        rows.schema.get_field_index("session"), rows.schema.field("session"), pa.array(["nobody"])
    )
    tampered = pa.concat_tables([rows.slice(2), rows.slice(5, 1), stranger])
    pq.write_table(tampered, path)
    wanted = len(expected(script))
    assert rows.num_rows == wanted > 10
    counts, verdict = match(spark, workload, run, tmp_path / "out")
    assert verdict == Verdict(
        expected=wanted, delivered=wanted - 1, missing=2, unexpected=1, doubled=1
    )
    assert not verdict.is_sound()
    assert counts.deliveries == wanted
    assert counts.publications == len(script.publications)
    assert counts.subscriptions == sum(len(client.subscriptions) for client in script.clients)
    written = spark.read.parquet(str(tmp_path / "out" / "judged"))
    for file in (tmp_path / "out" / "judged").glob("*.parquet"):
        schemas.check_file(file, "judged", schemas.JUDGED)
    assert written.where("verdict = 'missing'").count() == 2
    assert spark.read.parquet(str(tmp_path / "out" / "matches")).count() == wanted


def test_of_a_sampled_run_only_what_was_traced_is_judged(
    spark: Any, script: Script, workload: Path, tmp_path: Path
) -> None:
    traced(tmp_path, script, rate=0.5)
    _, verdict = match(spark, workload, tmp_path)
    assert verdict is not None
    assert verdict.is_sound()
    kept = reader.read(tmp_path, "publications", ["publisher", "counter"]).to_pylist()
    known = {(row["publisher"], row["counter"]) for row in kept}
    assert 0 < len(known) < len(script.publications)
    assert verdict.expected == sum(pair[1:] in known for pair in expected(script))


def test_what_cannot_be_matched_is_refused_by_name(
    spark: Any, workload: Path, tmp_path: Path
) -> None:
    with pytest.raises(FileError, match="is neither the traces of a run nor a store"):
        match(spark, workload, tmp_path)
    places = write_workload({"brokers": BROKERS.empty_table()}, tmp_path / "places")
    with pytest.raises(FileError, match="has no table 'publications' to match"):
        match(spark, places)


def test_a_run_has_the_figures_of_its_simulation(
    spark: Any, script: Script, tmp_path: Path
) -> None:
    metrics = traced(tmp_path, script)
    ingest(spark, tmp_path)
    terms = Terms(script.service)
    found = evaluate_run(spark, Store.of_run(tmp_path), terms=terms)
    check_agreement(found, metrics, f"seed {SEED}")
    assert found.metrics["duration_s"] == pytest.approx(metrics.observed_s)
    model = modelled(script)
    found = evaluate_run(spark, Store.of_run(tmp_path), terms=terms, duration_s=script.duration_s)
    assert found.metrics["psoop_cost"] == pytest.approx(model.metrics["psoop_cost"])
    assert found.metrics["bandwidth_bytes_per_s"] == pytest.approx(
        model.metrics["bandwidth_bytes_per_s"]
    )
    assert found.metrics["input_utilisation_max"] == pytest.approx(
        model.metrics["input_utilisation_max"]
    )
    assert found.metrics["output_utilisation_max"] == pytest.approx(
        model.metrics["output_utilisation_max"]
    )
    with pytest.raises(FileError, match="has no tables of a run"):
        evaluate_run(spark, Store(tmp_path / "elsewhere"))
