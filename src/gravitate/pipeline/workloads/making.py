"""Making a workload: parameters checked, tables generated, the manifest written last.

A folder without a manifest is a workload that was not finished; one with a manifest is never
overwritten.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from gravitate.config.decode import accepted
from gravitate.config.workload_tables import MANIFEST, TABLES, WorkloadManifest
from gravitate.errors import FileError, InputError
from gravitate.pipeline.workloads.catalogue import named
from gravitate.pipeline.workloads.definition import Definition
from gravitate.pipeline.workloads.generate import generate

_PART: Final = re.compile(r"part-\d+\.parquet|\.part-.*\.writing")
"""Names of the files in a table's folder, complete or not."""


def make_workload(
    spark: Any,
    name: str,
    directory: str | Path,
    parameters: Mapping[str, Any] | None = None,
    *,
    seed: int = 1,
    data: Path | None = None,
    tasks: int = 0,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> WorkloadManifest:
    """Generate the workload `name` below `directory` on `spark`.

    `parameters` replace defaults of the definition; `data` is a folder of measurements to take
    the place of synthetic ones. The same arguments give the same rows, whatever `tasks` is."""
    definition = named(name)
    chosen = parameters_of(definition, parameters or {})
    if data is not None and not data.is_dir():
        raise FileError("is not a folder with data", str(data))
    if seed < 0:
        raise InputError(f"seed {seed} is not accepted: write a whole number from 0")
    folder = Path(directory)
    check_free(folder)
    made = definition.make(chosen, seed, data)
    _prepare(folder)
    generated = generate(spark, made.plans, folder, seed, tasks=tasks, progress=progress)
    statistics = made.statistics
    if made.measured is not None:
        statistics = statistics | made.measured(generated.counts)
    manifest = WorkloadManifest(
        workload=name,
        seed=seed,
        parameters=msgspec.to_builtins(chosen),
        source=made.source,
        rows=generated.rows,
        statistics=statistics,
    )
    manifest.save(folder)
    return manifest


def parameters_of(definition: Definition, given: Mapping[str, Any]) -> Any:
    """The parameters of a definition with some replaced; texts are read as what they must be."""
    known = definition.parameters.__struct_fields__
    for name in given:
        if name not in known:
            raise InputError(
                f"workload '{definition.name}' has no parameter '{name}': "
                f"write some of {', '.join(known)}"
            )
    kinds = {field.name: field.type for field in msgspec.structs.fields(definition.parameters)}
    chosen = {}
    try:
        for name, value in given.items():
            try:
                chosen[name] = msgspec.convert(value, kinds[name], strict=False)
            except msgspec.ValidationError as problem:
                wanted = accepted(kinds[name], str(problem))
                raise InputError(f"'{name}' is {value!r}: write {wanted}") from None
        # Through `convert`, since what a struct refuses by itself is a ValidationError then.
        parameters = msgspec.convert(chosen, definition.parameters)
        definition.check(parameters)
    except (InputError, msgspec.ValidationError) as problem:
        raise InputError(f"workload '{definition.name}': {problem}") from None
    return parameters


def check_free(folder: Path) -> None:
    """Refuse a folder that holds anything but what an unfinished workload left."""
    if (folder / MANIFEST).exists():
        raise FileError("holds a workload already: give another folder", str(folder))
    if not folder.exists():
        return
    if not folder.is_dir():
        raise FileError("is not a folder: give another name", str(folder))
    for entry in sorted(folder.iterdir()):
        strangers = [entry] if not _is_ours(entry) else []
        if entry.name in TABLES and entry.is_dir():
            strangers = [part for part in sorted(entry.iterdir()) if not _PART.fullmatch(part.name)]
        if strangers:
            name = strangers[0].relative_to(folder)
            raise FileError(
                f"holds '{name}', which is no part of a workload: give another folder",
                str(folder),
            )


def _is_ours(entry: Path) -> bool:
    if entry.name in TABLES:
        return entry.is_dir()
    return entry.name.startswith(f".{MANIFEST}.") and entry.name.endswith(".writing")


def _prepare(folder: Path) -> None:
    """Clear what an unfinished workload left, or make the folder."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for entry in folder.iterdir():
            shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
    except OSError as problem:
        raise FileError(f"cannot be written: {problem.strerror}", str(folder)) from None
