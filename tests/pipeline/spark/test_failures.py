"""What Spark says of a failure becomes a sentence with what helps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gravitate.errors import EnvironmentLack, FileError
from gravitate.pipeline.spark.failures import of_machine
from gravitate.pipeline.spark.session import told_plainly


@pytest.mark.parametrize(
    ("said", "embedded", "sentence"),
    [
        ("java.lang.OutOfMemoryError: Java heap space", True, "give it more with --memory GIB"),
        ("ExecutorLostFailure (executor 1 exited)", False, "SPARK_EXECUTOR_MEMORY says here"),
        ("Python worker exited unexpectedly (crashed)", True, r"with --master 'local\[1\]'"),
        ("Python worker exited unexpectedly (crashed)", False, "end something there"),
        ("java.io.IOException: No space left on device", True, "that of the folder .* or of its"),
        ("[JAVA_GATEWAY_EXITED] Java gateway process exited", True, "Java ended as soon as"),
        (
            "[PYTHON_VERSION_MISMATCH] Python in worker has different version: 3.12 than that in "
            "driver: 3.11, PySpark cannot run",
            False,
            "the workers have Python 3.12 and this command runs on 3.11",
        ),
        ("ModuleNotFoundError: No module named 'numba'", False, "workers' Python has no module 'n"),
        ("Cannot call methods on a stopped SparkContext.", False, "is no Spark master"),
        ("status = StatusCode.UNAVAILABLE details = ...", False, "is no Spark master or Spark C"),
    ],
)
def test_lacks_of_machine_and_cluster_are_told_with_what_helps(
    said: str, embedded: bool, sentence: str
) -> None:
    report = f"An error occurred while calling o45.collectToPython.\n: {said}\n\tat org.apache..."
    with pytest.raises(EnvironmentLack, match=sentence):
        raise of_machine(report, embedded) or AssertionError(said)


@pytest.mark.parametrize(
    "said", ["java.lang.NullPointerException", "Cannot call methods on a stopped SparkContext."]
)
def test_what_is_not_known_stays_what_it_is(said: str) -> None:
    assert of_machine(said) is None


def test_a_damaged_page_is_told_with_its_file(spark: Any, tmp_path: Path) -> None:
    folder = tmp_path / "a folder"
    folder.mkdir()
    path = folder / "part-00000.parquet"
    pq.write_table(pa.table({"at_s": [float(number) for number in range(1000)]}), path)
    chunk = pq.read_metadata(path).row_group(0).column(0)
    begins = chunk.dictionary_page_offset or chunk.data_page_offset
    content = bytearray(path.read_bytes())
    content[begins : begins + chunk.total_compressed_size] = bytes(chunk.total_compressed_size)
    path.write_bytes(content)
    rows = spark.read.parquet(str(path))
    with (
        pytest.raises(FileError, match=rf"^{path}: cannot be read as Parquet: it is damaged"),
        told_plainly(),
    ):
        rows.selectExpr("sum(at_s)").collect()
