"""What Spark says when a job fails, as one sentence: whose fault it was, and what helps.

A worker's exception reaches the driver as text: a traceback within a report. Errors of this
project are recognised in it by their names and come out as themselves (`of_worker`). Messages of
errors that are raised in workers are one line; what follows it cannot be told from the report.

What machine, cluster and files lack is recognised by what Spark calls it (`of_machine`). A text
that neither knows is a defect of this program.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final
from urllib.parse import unquote

from gravitate.errors import EnvironmentLack, FileError, GravitateError, InputError

_KINDS: Final[dict[str, type[GravitateError]]] = {
    kind.__name__: kind for kind in (InputError, FileError, EnvironmentLack)
}
_RAISED: Final = re.compile(rf"^gravitate\.errors\.({'|'.join(_KINDS)}): (.+)$", re.MULTILINE)


def of_worker(report: str) -> GravitateError | None:
    """The error that a worker raised on purpose, found in what Spark says; None if it is none."""
    found = _RAISED.search(report)
    return None if found is None else _KINDS[found[1]](found[2].strip())


@contextmanager
def writing(target: Path) -> Iterator[None]:
    """Where a task writes a file of a user's: what is wrong with its place is told by its name."""
    try:
        yield
    except OSError as problem:
        raise FileError(
            f"cannot be written: {problem.strerror or problem}", str(target)
        ) from problem


def of_machine(report: str, embedded: bool = True) -> GravitateError | None:
    """What machine, cluster or files lack, by what Spark says; None if it is nothing known.

    `embedded` tells whether Spark runs in this process or on a cluster."""
    if damaged := _DAMAGED.search(report):
        path = unquote(re.sub("^file:/*", "/", damaged[1]))
        return FileError("cannot be read as Parquet: it is damaged or gone; make it anew", path)
    for pattern, here, there in _LACKS:
        found = re.search(pattern, report)
        sentence = here if embedded else there
        if found is not None and sentence:
            return EnvironmentLack(sentence.format(*found.groups(), tmp=tempfile.gettempdir()))
    return None


_DAMAGED: Final = re.compile(
    r"FAILED_READ_FILE\S* Encountered error while reading file (.+?)\.? +SQLSTATE"
)
_KILLED: Final = (
    "a Python worker of Spark was killed, mostly because its machine ran out of memory: end "
    "something"
)
_NO_SPACE: Final = (
    "no space is left on a disk that Spark writes to: that of the folder to be written, or of its "
    "temporary files, "
)
_OTHER_PYTHON: Final = (
    "the workers have Python {} and this command runs on {}, which do not work together: name one "
    "of the same minor version with PYSPARK_PYTHON"
)
_NO_MODULE: Final = (
    "the workers' Python has no module '{}': install the dependencies of 'gravitate[pipeline]' "
    "where the workers run, or name another Python with PYSPARK_PYTHON"
)
_NO_JAVA: Final = (
    "Java ended as soon as it was started: it has said why on standard error; give less with "
    "--memory GIB, or name another Java, 17 or newer, with JAVA_HOME"
)

_LACKS: Final = (
    (r"different version: (\S+) than that in driver: (\S+?),", _OTHER_PYTHON, _OTHER_PYTHON),
    (r"ModuleNotFoundError: No module named '([^']+)'", _NO_MODULE, _NO_MODULE),
    (
        r"No space left on device",
        _NO_SPACE + "{tmp} (TMPDIR names another)",
        _NO_SPACE + "those of the cluster (TMPDIR names another)",
    ),
    (r"JAVA_GATEWAY_EXITED", _NO_JAVA, _NO_JAVA),
    (
        r"OutOfMemoryError|ExecutorLostFailure",
        "Spark ran out of memory: give it more with --memory GIB, or less to do",
        "Spark ran out of memory, or lost a worker: --memory GIB is for this process; the "
        "cluster's executors get what SPARK_EXECUTOR_MEMORY says here (such as 4g), or the "
        "configuration of the cluster",
    ),
    (
        r"Python worker exited unexpectedly",
        _KILLED + ", or use fewer workers with --master 'local[1]'",
        _KILLED + " there, or give the cluster less to do at once",
    ),
    (
        r"[Mm]asters are unresponsive|stopped SparkContext|StatusCode\.UNAVAILABLE"
        r"|RETRIES_EXCEEDED",
        "",
        "what answers at the address of the cluster is no Spark master or Spark Connect server of "
        "this version, or has ended: look at its address, port and log",
    ),
)
"""What Spark says, and what that means where it runs in this process and where on a cluster."""
