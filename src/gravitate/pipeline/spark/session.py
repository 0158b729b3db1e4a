"""The one place that makes a Spark session: embedded by default, on a cluster by its address.

    spark = session()                                          # in this process, on all cores
    spark = session(SparkOptions(master="spark://host:7077"))
    spark = session(SparkOptions(remote="sc://host:15002"))

Owns everything that has to be set before the Java virtual machine starts, and the sentences for
what can be wrong with the machine. A session costs seconds, so there is one per process: the
first call decides, later ones with the same options get the same. Jobs take a session and do not
know which kind it is; they use DataFrames alone, which Spark Connect has too.
"""

from __future__ import annotations

import atexit
import contextlib
import logging
import os
import shutil
import signal
import socket
import sys
import tempfile
import threading
import zipfile
from collections.abc import Iterator
from importlib import resources
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec
import psutil

from gravitate.errors import EnvironmentLack, InputError

LOCAL = "local[*]"
LOOPBACK = "127.0.0.1"
MEMORY_GIB_MAX = 4.0
"""What an embedded session takes by default, unless a quarter of the machine is less."""
MEMORY_GIB_MIN = 0.5
ANSWER_S_MAX = 5.0
"""How long a master may take to accept a connection."""
SOCKET_FOLDER_MAX = 60
"""Paths of sockets are limited to some hundred characters, of which Spark's name takes 43."""


class SparkOptions(msgspec.Struct, frozen=True):
    """How Spark is to be had."""

    master: str = LOCAL
    """`local[N]`, `local[*]` or `spark://host:port`."""
    remote: str = ""
    """`sc://host:port` of a Spark Connect server; takes the place of a master."""
    memory_gib: float = 0.0
    """Of the Java virtual machine in this process; 0: a quarter of the machine, at most 4."""
    partitions: int = 0
    """Of shuffles; 0: twice the cores, at least 4."""

    @property
    def embedded(self) -> bool:
        return not self.remote and self.master.startswith("local")


_current: tuple[SparkOptions, Any] | None = None
_wanted = SparkOptions()
"""What was asked for last: a session may fail before there is one."""


def session(options: SparkOptions | None = None) -> Any:
    """The session of this process; started when there is none."""
    global _current, _wanted
    if _current is not None:
        if options is not None and options != _current[0]:
            raise InputError(f"this process has a Spark session already: {_current[0]}")
        return _current[1]
    _wanted = options = options or SparkOptions()
    _check(options)
    spark = _connected(options) if options.remote else _started(options)
    if not options.embedded:
        _ship_package(spark)
    _current = (options, spark)
    return spark


def stop() -> None:
    """End the session of this process, if there is one."""
    global _current
    if _current is not None:
        _current[1].stop()
        _current = None


@contextlib.contextmanager
def told_plainly() -> Iterator[None]:
    """Turns what Spark says about the machine, the cluster and files, and what a worker refused,
    into one sentence."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    from gravitate.pipeline.spark import failures

    try:
        yield
    except (Py4JError, PySparkException) as problem:
        said = str(problem)
        if (refused := failures.of_worker(said)) is not None:
            raise refused from None
        options = _wanted if _current is None else _current[0]
        if (lack := failures.of_machine(said, options.embedded)) is not None:
            raise lack from problem
        raise


# --- before anything starts -----------------------------------------------------------------------


def _check(options: SparkOptions) -> None:
    try:
        import pyspark  # noqa: F401
    except ImportError:
        raise EnvironmentLack(
            "the slow loop needs Spark, which is not installed: `pip install 'gravitate[pipeline]'`"
        ) from None
    if options.remote:
        _check_answers(options.remote, "sc", 15002)
        _check_speaks_grpc(options.remote)
    elif options.master.startswith("spark://"):
        _check_answers(options.master, "spark", 7077)
    elif not options.embedded:
        raise InputError(
            f"master '{options.master}' is not accepted: write local[N], local[*] or "
            "spark://host:port, or a Spark Connect server as remote sc://host:port"
        )
    if not options.remote:
        _check_memory(_memory_gib(options))


def _check_answers(address: str, scheme: str, usual_port: int) -> None:
    """At least one of the hosts in `address` accepts a connection."""
    problems = []
    for part in address.removeprefix(f"{scheme}://").split(","):
        try:
            parsed = urlsplit(f"//{part}")
            host, port = parsed.hostname, parsed.port or usual_port
        except ValueError:
            host = None
        if not address.startswith(f"{scheme}://") or not host:
            raise InputError(f"'{address}' is no address: write {scheme}://host:{usual_port}")
        try:
            socket.create_connection((host, port), ANSWER_S_MAX).close()
            return
        except OSError as problem:
            problems.append(f"{host}:{port}: {problem.strerror or problem}")
    raise EnvironmentLack(f"nobody answers at {address} ({'; '.join(problems)})")


def _check_speaks_grpc(address: str) -> None:
    """Refuse what is no Spark Connect server; Spark itself would try again for minutes."""
    import grpc

    host, _, parameters = address.removeprefix("sc://").partition("/")
    if parameters.strip(";"):
        return  # With a token or a certificate: it is for Spark to find out.
    host = host if urlsplit(f"//{host}").port else f"{host}:15002"
    with grpc.insecure_channel(host) as channel:
        try:
            grpc.channel_ready_future(channel).result(ANSWER_S_MAX)
        except grpc.FutureTimeoutError:
            raise EnvironmentLack(f"what answers at {address} is no Spark Connect server") from None


def _check_memory(wanted_gib: float) -> None:
    free_gib = psutil.virtual_memory().available / 2**30
    if not wanted_gib >= MEMORY_GIB_MIN:
        raise InputError(
            f"{wanted_gib:g} GiB are not accepted for Spark: write a number of at least "
            f"{MEMORY_GIB_MIN}"
        )
    if wanted_gib > free_gib:
        raise EnvironmentLack(
            f"Spark is to get {wanted_gib:.1f} GiB and {free_gib:.1f} are free: "
            "end something, or give less with --memory GIB"
        )


def _memory_gib(options: SparkOptions) -> float:
    total_gib = psutil.virtual_memory().total / 2**30
    return options.memory_gib or min(MEMORY_GIB_MAX, max(total_gib / 4, 1.0))


# --- starting -------------------------------------------------------------------------------------


def _started(options: SparkOptions) -> Any:
    from pyspark.sql import SparkSession

    from gravitate.pipeline.spark.java import java_home

    os.environ["JAVA_HOME"] = str(java_home())
    loopback = options.embedded or urlsplit(options.master).hostname in {LOOPBACK, "localhost"}
    if loopback:
        os.environ["SPARK_LOCAL_IP"] = LOOPBACK
    # Workers elsewhere have a Python of their own, which PYSPARK_PYTHON may name.
    if options.embedded or "PYSPARK_PYTHON" not in os.environ:
        os.environ["PYSPARK_PYTHON"] = sys.executable if loopback else "python3"
    scratch = Path(tempfile.mkdtemp(prefix="gravitate-spark-"))
    atexit.register(shutil.rmtree, scratch, ignore_errors=True)
    builder = SparkSession.builder.appName("gravitate").master(options.master)
    for name, value in _settings(options, scratch, loopback).items():
        builder = builder.config(name, value)
    interrupted = signal.getsignal(signal.SIGINT)
    spark = builder.getOrCreate()
    # Spark would cancel its jobs from within the signal, over a connection that is in use then.
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, interrupted)
    logging.getLogger().addFilter(_is_worth_saying)
    return spark


def _is_worth_saying(record: logging.LogRecord) -> bool:
    """Not what the bridge to Java writes when Ctrl-C comes between question and answer."""
    return "while sending command" not in record.getMessage()


def _connected(options: SparkOptions) -> Any:
    from pyspark.sql import SparkSession

    spark = SparkSession.builder.appName("gravitate").remote(options.remote).getOrCreate()
    for name, value in _job_settings(options).items():
        spark.conf.set(name, value)
    return spark


def _settings(options: SparkOptions, scratch: Path, loopback: bool) -> dict[str, str]:
    """Everything a session of our own is started with."""
    log_settings = resources.files("gravitate.pipeline.spark") / "log4j2.properties"
    memory_mib = int(_memory_gib(options) * 1024)
    settings = {
        "spark.driver.memory": f"{memory_mib}m",
        # On few cores the parallel collector leaves more of them to the work than the usual one.
        "spark.driver.extraJavaOptions": (
            f"-Dlog4j2.configurationFile={log_settings} -XX:+UseParallelGC"
        ),
        "spark.local.dir": str(scratch / "local"),
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        **_job_settings(options),
    }
    if loopback:
        settings["spark.driver.host"] = settings["spark.driver.bindAddress"] = LOOPBACK
    if options.embedded:
        settings["spark.python.daemon.module"] = "gravitate.pipeline.spark.daemon"
        if len(str(scratch)) <= SOCKET_FOLDER_MAX:
            # Without the pauses that TCP makes between small messages, a task takes half the time.
            settings["spark.python.unix.domain.socket.enabled"] = "true"
            settings["spark.python.unix.domain.socket.dir"] = str(scratch)
    return settings


def _job_settings(options: SparkOptions) -> dict[str, str]:
    """What shapes jobs; can be set on a session that is there already."""
    partitions = options.partitions or max(4, 2 * (os.cpu_count() or 2))
    return {
        "spark.sql.shuffle.partitions": str(partitions),
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
        "spark.sql.parquet.compression.codec": "zstd",
        # Folders with a few hundred files are listed sooner than a job that lists them starts.
        "spark.sql.sources.parallelPartitionDiscovery.threshold": "2000",
    }


def _ship_package(spark: Any) -> None:
    """Give the workers of a cluster this package, as it is here."""
    folder = Path(tempfile.mkdtemp(prefix="gravitate-package-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    archive = folder / "gravitate.zip"
    source = Path(str(resources.files("gravitate")))
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as packed:
        for path in sorted(source.rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                packed.write(path, Path("gravitate") / path.relative_to(source))
    spark.addArtifacts(str(archive), pyfile=True)
