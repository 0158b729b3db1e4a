"""The same jobs on a real cluster, a master and two workers that have never seen the package, and
on a Spark Connect server."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.pipeline.spark.cluster import bare_python, cluster, connect_server
from tests.support.runs import derived, taken

from gravitate.config import network as network_file
from gravitate.config import scenario
from gravitate.pipeline.evaluate.evaluation import evaluate
from gravitate.pipeline.ingest import ingest
from gravitate.pipeline.store.store import Store
from gravitate.pipeline.workloads.making import make_workload
from gravitate.simulate.run import run_scenario
from gravitate.trace.manifest import RunManifest
from gravitate.trace.writer import TraceWriter

JOB = """
import json, sys
from pathlib import Path
import msgspec
from gravitate.config import network
from gravitate.pipeline.evaluate.evaluation import evaluate
from gravitate.pipeline.ingest import ingest
from gravitate.pipeline.spark.session import SparkOptions, session, stop
from gravitate.pipeline.workloads.making import make_workload

where, run, store, workload, network_path, again, parameters = sys.argv[1:]
place = {"remote" if where.startswith("sc:") else "master": where}
spark = session(SparkOptions(**place, memory_gib=1.0, partitions=4))
make_workload(spark, "stocks", again, json.loads(parameters))
ingest(spark, run, store, period_s=1.0)
found = evaluate(spark, network.load(network_path), workload)
print(json.dumps(msgspec.to_builtins(found.told())))
stop()
"""


PARAMETERS = {
    "publishers": 4,
    "subscribers": 60,
    "brokers": 5,
    "duration_s": 3.0,
    "rate_msgs_per_s": 10.0,
}


@pytest.fixture(scope="module")
def workload(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Quotes for the brokers of the scenario `small`."""
    folder = tmp_path_factory.mktemp("quotes") / "workload"
    make_workload(spark, "stocks", folder, PARAMETERS)
    return folder


@pytest.fixture(scope="module")
def run(workload: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The traces of a simulated run of that workload."""
    folder = tmp_path_factory.mktemp("run")
    script = scenario.load("small", workload=workload)
    with TraceWriter(folder, "world", rows_per_file=500) as writer:
        assert run_scenario(script, observers=[writer]).is_sound()
    RunManifest(network=network_file.render(script.network), clock="virtual").save(folder)
    return folder


@pytest.fixture(scope="module")
def embedded(spark: Any, run: Path, tmp_path_factory: pytest.TempPathFactory) -> Store:
    folder = tmp_path_factory.mktemp("embedded") / "tables"
    ingest(spark, run, folder, period_s=1.0)
    return Store(folder)


@pytest.fixture(scope="module")
def figures(spark: Any, workload: Path) -> Any:
    found = evaluate(spark, scenario.load("small").network, workload)
    return rounded(json.loads(msgspec.json.encode(found.told())))


@pytest.mark.processor_time(600)
@pytest.mark.parametrize(
    "kind",
    [
        pytest.param(cluster, id="standalone"),
        pytest.param(connect_server, id="connect", marks=pytest.mark.slow),
    ],
)
def test_a_cluster_makes_the_tables_and_figures_of_embedded_mode(
    kind: Any, run: Path, workload: Path, embedded: Store, figures: Any, tmp_path: Path
) -> None:
    network_file.save(scenario.load("small").network, tmp_path / "network.toml")
    with kind(tmp_path / "cluster") as address:
        arguments = (
            *(address, run, tmp_path / "far", workload, tmp_path / "network.toml"),
            *(tmp_path / "again", json.dumps(PARAMETERS)),
        )
        done = subprocess.run(
            [sys.executable, "-c", JOB, *map(str, arguments)],
            env=os.environ | {"PYSPARK_PYTHON": str(bare_python(tmp_path))},
            capture_output=True,
            text=True,
            timeout=400,
        )
    assert done.returncode == 0, done.stderr
    assert rounded(json.loads(done.stdout)) == figures
    far = Store(tmp_path / "far")
    assert taken(far) == taken(embedded)
    assert derived(far) == derived(embedded)
    assert all(derived(far).values()), "a table is empty, so that nothing was compared"
    assert written(tmp_path / "again") == written(workload)


def written(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.glob("*/*.parquet")}


def rounded(value: Any) -> Any:
    """Sums of the same numbers in another order are the same."""
    match value:
        case float():
            return float(f"{value:.9g}")
        case dict():
            return {name: rounded(part) for name, part in value.items()}
        case list() | tuple():
            return [rounded(part) for part in value]
        case _:
            return value
