"""Reading traces back, with a check that they are what the schemas say.

A file that is not Parquet, or whose columns differ, is refused with its name and the column;
files under a temporary name are not looked at.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from gravitate.errors import FileError, InputError
from gravitate.trace.schemas import TABLES


def _schema(table: str) -> pa.Schema:
    if table not in TABLES:
        raise InputError(f"unknown table '{table}': write one of {', '.join(TABLES)}")
    return TABLES[table]


def files(directory: str | Path, table: str) -> list[Path]:
    """The complete files of a table, sorted by name."""
    _schema(table)
    return sorted((Path(directory) / table).glob("part-*.parquet"))


def read(directory: str | Path, table: str, columns: Sequence[str] | None = None) -> pa.Table:
    """All rows of a table (or the named columns); empty when nothing was written."""
    for name in columns or ():
        if name not in _schema(table).names:
            known = ", ".join(_schema(table).names)
            raise InputError(f"table '{table}' has no column '{name}': write some of {known}")
    found = [read_file(path, table, columns) for path in files(directory, table)]
    if found:
        return pa.concat_tables(found)
    if not Path(directory).is_dir():
        raise FileError("is not a directory with traces", str(directory))
    empty = TABLES[table].empty_table()
    return empty if columns is None else empty.select(columns)


def read_file(
    path: Path,
    table: str,
    columns: Sequence[str] | None = None,
    schemas: Mapping[str, pa.Schema] = TABLES,
) -> pa.Table:
    """The rows of one file of a table, of traces or others; a `FileError` names the file and the
    column that is not what the schema says."""
    schema = schemas[table]
    try:
        with pq.ParquetFile(path) as file:
            _check_columns(file.schema_arrow, schema, table, str(path))
            if columns is not None:
                schema = pa.schema([schema.field(name) for name in columns])
            return file.read(columns=schema.names).select(schema.names).cast(schema)
    except (pa.ArrowException, OSError, ValueError) as problem:
        reason = str(problem).splitlines()[0]
        raise FileError(f"cannot be read as Parquet: {reason}", str(path)) from None


def _check_columns(found: pa.Schema, expected: pa.Schema, table: str, path: str) -> None:
    """Refuse a schema that is not the table's; the error names the first column that differs."""
    for field in expected:
        if field.name not in found.names:
            raise FileError(f"column '{field.name}' of table '{table}' is missing", path)
        kind = found.field(field.name).type
        if kind != field.type:
            raise FileError(
                f"column '{field.name}' of table '{table}' is {kind}, expected {field.type}", path
            )
    for name in found.names:
        if name not in expected.names:
            raise FileError(f"column '{name}' is not part of table '{table}'", path)
