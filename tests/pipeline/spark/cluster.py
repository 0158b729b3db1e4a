"""Spark elsewhere, on loopback: a standalone cluster of a master and two workers, or a Spark
Connect server, in processes of their own."""

from __future__ import annotations

import contextlib
import os
import re
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

from pyspark.find_spark_home import _find_spark_home

from gravitate.pipeline.spark.java import java_home

HOST = "127.0.0.1"
START_S_MAX = 60.0
DAEMON = ("--host", HOST, "--webui-port", "0")
CONNECT_SERVER = "org.apache.spark.sql.connect.service.SparkConnectServer"


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind((HOST, 0))
        return int(taken.getsockname()[1])


@contextlib.contextmanager
def cluster(folder: Path, workers: int = 2) -> Iterator[str]:
    """The master's address, while the cluster runs; its files are below `folder`."""
    port = free_port()
    with contextlib.ExitStack() as stack:
        stack.enter_context(
            _running("master.Master", folder, [*DAEMON, "--port", str(port)], r"New state: ALIVE")
        )
        address = f"spark://{HOST}:{port}"
        for number in range(workers):
            options = ["--cores", "1", "--memory", "1g", "--work-dir", str(folder / f"w{number}")]
            stack.enter_context(
                _running(
                    "worker.Worker",
                    folder,
                    [*DAEMON, *options, address],
                    r"Successfully registered",
                )
            )
        yield address


@contextlib.contextmanager
def connect_server(folder: Path) -> Iterator[str]:
    """The address of a Spark Connect server, while it runs."""
    port = free_port()
    settings = {
        "spark.connect.grpc.binding.address": HOST,
        "spark.connect.grpc.binding.port": port,
        "spark.ui.enabled": "false",
        "spark.sql.warehouse.dir": folder / "warehouse",
    }
    options = ["--master", "local[2]", "--class", CONNECT_SERVER]
    for name, value in settings.items():
        options += ["--conf", f"{name}={value}"]
    options.append("spark-internal")
    with _running("SparkSubmit", folder, options, r"server started at", memory="1g"):
        yield f"sc://{HOST}:{port}"


def bare_python(folder: Path) -> Path:
    """An interpreter with our dependencies and without our package: what a worker elsewhere has.

    It skips the start-up files in which an installed package is announced."""
    site = Path(sys.prefix) / "lib" / f"python{sys.version_info[0]}.{sys.version_info[1]}"
    program = folder / "bare-python"
    program.write_text(
        "#!/bin/sh\n"
        f'export PYTHONPATH="$PYTHONPATH:{site / "site-packages"}"\n'
        f'exec {sys.executable} -S "$@"\n'
    )
    program.chmod(0o755)
    return program


@contextlib.contextmanager
def _running(
    role: str, folder: Path, options: list[str], ready: str, memory: str = "256m"
) -> Iterator[None]:
    """A daemon of the cluster; on entry it has said that it is ready."""
    home = Path(_find_spark_home())
    environment = os.environ | {
        "JAVA_HOME": str(java_home()),
        "SPARK_HOME": str(home),
        "SPARK_LOCAL_IP": HOST,
        "SPARK_LOCAL_DIRS": str(folder / "local"),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_DAEMON_MEMORY": memory,
    }
    command = [
        str(home / "bin" / "spark-class"),
        f"org.apache.spark.deploy.{role}",
        *options,
    ]
    process = subprocess.Popen(
        command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    assert process.stderr is not None
    overdue = threading.Timer(START_S_MAX, process.kill)
    overdue.start()
    said = []
    try:
        for line in process.stderr:
            said.append(line)
            if re.search(ready, line):
                break
        else:
            raise AssertionError(f"{role} did not start:\n{''.join(said)}")
        overdue.cancel()
        threading.Thread(target=process.stderr.read, daemon=True).start()
        yield
    finally:
        overdue.cancel()
        process.terminate()
        process.wait(30)
