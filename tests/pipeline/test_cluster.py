"""The same jobs on a real cluster: a master and two workers that have never seen the package."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.pipeline.cluster import bare_python, cluster
from tests.pipeline.runs import derived, taken

from gravitate.config import network as network_file
from gravitate.config import scenario
from gravitate.pipeline.evaluation import evaluate
from gravitate.pipeline.ingest import ingest
from gravitate.pipeline.store import Store
from gravitate.pipeline.workloads.making import make_workload
from gravitate.simulate.run import run_scenario
from gravitate.trace.manifest import RunManifest
from gravitate.trace.writer import TraceWriter

JOB = """
import json, sys
from pathlib import Path
import msgspec
from gravitate.config import network
from gravitate.pipeline.evaluation import evaluate
from gravitate.pipeline.ingest import ingest
from gravitate.pipeline.session import SparkOptions, session, stop

master, run, store, workload, network_path = sys.argv[1:]
spark = session(SparkOptions(master=master, memory_gib=1.0, partitions=4))
ingest(spark, run, store, period_s=1.0)
found = evaluate(spark, network.load(network_path), workload)
print(json.dumps(msgspec.to_builtins(found)))
stop()
"""


@pytest.fixture(scope="module")
def workload(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Quotes for the brokers of the scenario `small`."""
    folder = tmp_path_factory.mktemp("quotes") / "workload"
    parameters = {"publishers": 4, "subscribers": 60, "brokers": 5, "duration_s": 3.0}
    make_workload(spark, "stocks", folder, parameters | {"rate_msgs_per_s": 10.0})
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


def test_a_cluster_makes_the_tables_and_figures_of_embedded_mode(
    spark: Any, run: Path, workload: Path, tmp_path: Path
) -> None:
    network = scenario.load("small").network
    network_file.save(network, tmp_path / "network.toml")
    ingest(spark, run, tmp_path / "embedded", period_s=1.0)
    here = rounded(msgspec.to_builtins(evaluate(spark, network, workload)))
    with cluster(tmp_path / "cluster") as master:
        arguments = (master, run, tmp_path / "far", workload, tmp_path / "network.toml")
        done = subprocess.run(
            [sys.executable, "-c", JOB, *map(str, arguments)],
            env=os.environ | {"PYSPARK_PYTHON": str(bare_python(tmp_path))},
            capture_output=True,
            text=True,
            timeout=200,
        )
    assert done.returncode == 0, done.stderr
    assert rounded(json.loads(done.stdout)) == here
    one, other = Store(tmp_path / "embedded"), Store(tmp_path / "far")
    assert taken(other) == taken(one)
    assert derived(other) == derived(one)
    assert all(derived(one).values()), "a table is empty, so that nothing was compared"


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
