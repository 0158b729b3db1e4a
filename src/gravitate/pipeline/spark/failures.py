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
from collections.abc import Callable, Iterator
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
    for pattern, sentence in _LACKS:
        found = pattern.search(report)
        if found is not None and (lack := sentence(found, embedded)) is not None:
            return lack
    return None


def _out_of_memory(found: re.Match[str], embedded: bool) -> GravitateError:
    if embedded:
        return EnvironmentLack(
            "Spark ran out of memory: give it more with --memory GIB, or less to do"
        )
    return EnvironmentLack(
        "Spark ran out of memory, or lost a worker: --memory GIB is for this process; the "
        "cluster's executors get what SPARK_EXECUTOR_MEMORY says here (such as 4g), or the "
        "configuration of the cluster"
    )


def _worker_ended(found: re.Match[str], embedded: bool) -> GravitateError:
    helps = "end something, or use fewer workers with --master 'local[1]'"
    return EnvironmentLack(
        "a Python worker of Spark was killed, mostly because its machine ran out of memory: "
        + (helps if embedded else "end something there, or give the cluster less to do at once")
    )


def _no_space(found: re.Match[str], embedded: bool) -> GravitateError:
    place = tempfile.gettempdir() if embedded else "those of the cluster"
    return EnvironmentLack(
        "no space is left on a disk that Spark writes to: that of the folder to be written, or "
        f"of its temporary files, {place} (TMPDIR names another)"
    )


def _no_master(found: re.Match[str], embedded: bool) -> GravitateError | None:
    if embedded:
        return None
    return EnvironmentLack(
        "what answers at the address of the cluster is no Spark master or Spark Connect server of "
        "this version, or has ended: look at its address, port and log"
    )


def _no_java(found: re.Match[str], embedded: bool) -> GravitateError:
    return EnvironmentLack(
        "Java ended as soon as it was started: it has said why on standard error; give less with "
        "--memory GIB, or name another Java, 17 or newer, with JAVA_HOME"
    )


def _other_python(found: re.Match[str], embedded: bool) -> GravitateError:
    return EnvironmentLack(
        f"the workers have Python {found[1]} and this command runs on {found[2]}, which do not "
        "work together: name one of the same minor version with PYSPARK_PYTHON"
    )


def _no_module(found: re.Match[str], embedded: bool) -> GravitateError:
    return EnvironmentLack(
        f"the workers' Python has no module '{found[1]}': install the dependencies of "
        "'gravitate[pipeline]' where the workers run, or name another Python with PYSPARK_PYTHON"
    )


def _bad_file(found: re.Match[str], embedded: bool) -> GravitateError:
    path = unquote(re.sub("^file:/*", "/", found[1]))
    return FileError("cannot be read as Parquet: it is damaged or gone; make it anew", path)


_Sentence = Callable[[re.Match[str], bool], GravitateError | None]

_LACKS: Final[tuple[tuple[re.Pattern[str], _Sentence], ...]] = tuple(
    (re.compile(pattern), sentence)
    for pattern, sentence in (
        (r"different version: (\S+) than that in driver: (\S+?),", _other_python),
        (r"ModuleNotFoundError: No module named '([^']+)'", _no_module),
        (r"FAILED_READ_FILE\S* Encountered error while reading file (.+?)\.? +SQLSTATE", _bad_file),
        (r"No space left on device", _no_space),
        (r"JAVA_GATEWAY_EXITED", _no_java),
        (r"OutOfMemoryError|ExecutorLostFailure", _out_of_memory),
        (r"Python worker exited unexpectedly", _worker_ended),
        (
            r"[Mm]asters are unresponsive|stopped SparkContext|StatusCode\.UNAVAILABLE"
            r"|RETRIES_EXCEEDED",
            _no_master,
        ),
    )
)
