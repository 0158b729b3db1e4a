"""`gravitate workload`: the workloads of the studies, made on Spark."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gravitate.cli import output, spark
from gravitate.cli.options import from_structs

if TYPE_CHECKING:
    from gravitate.config.workload_tables import WorkloadManifest
    from gravitate.pipeline.workloads.definition import Definition

NAMED_OPTIONS = ("subscribers", "publishers", "brokers", "duration_s")
"""Parameters that several workloads have, with an option each."""


@from_structs
def workload(
    name: Annotated[
        str | None, typer.Argument(help="Which workload; without a name, they are listed.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="A new folder for it. Default: NAME.")
    ] = None,
    subscribers: Annotated[int | None, typer.Option(help="How many.", min=0)] = None,
    publishers: Annotated[int | None, typer.Option(help="How many.", min=0)] = None,
    brokers: Annotated[int | None, typer.Option(help="How many.", min=1)] = None,
    duration: Annotated[
        float | None, typer.Option(help="Seconds of traffic, where there is any.", min=0.0)
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            help="Any parameter, as name=value, or part of one, as grid.rows=10; may be repeated.",
        ),
    ] = None,
    describe: Annotated[
        bool, typer.Option("--describe", help="Show the parameters and make nothing.")
    ] = False,
    seed: Annotated[int, typer.Option(help="The same seed, the same rows.", min=0)] = 1,
    data: Annotated[
        Path | None,
        typer.Option(help="A folder of measurements to use instead of synthetic figures."),
    ] = None,
    tasks: Annotated[
        int, typer.Option(help="Pieces the work is cut into; changes no row. 0: by cores.", min=0)
    ] = 0,
    where: spark.Place = spark.HERE,
    json: output.AsJson = False,
) -> None:
    """Make a workload: tables of publishers, publications, subscriptions, interests, ..."""
    spark.require()
    if name is None:
        _list(json)
        return
    from gravitate.pipeline.workloads.catalogue import named

    definition = named(name)
    if describe:
        _describe(definition, json)
        return
    given = {
        parameter: value
        for parameter, value in zip(
            NAMED_OPTIONS, (subscribers, publishers, brokers, duration), strict=True
        )
        if value is not None
    }
    folder = out or Path(name)
    _make(
        definition,
        folder,
        given | _parsed(definition, settings or []),
        seed=seed,
        data=data,
        tasks=tasks,
        where=where,
        json=json,
    )


def _parsed(definition: Definition, settings: list[str]) -> dict[str, Any]:
    """Parameters as they are written; of one with parts, those not written have their defaults."""
    import msgspec

    from gravitate.errors import InputError

    defaults = msgspec.to_builtins(definition.parameters())
    parsed: dict[str, Any] = {}
    for setting in settings:
        name, equals, value = setting.partition("=")
        if not equals or not name:
            raise InputError(f"'{setting}' sets nothing: write --set name=value")
        whole, *parts = name.split(".")
        if not parts:
            parsed[name] = value
            continue
        within = parsed.setdefault(whole, defaults.get(whole))
        for part in parts[:-1]:
            within = within.get(part) if isinstance(within, dict) else None
        if not isinstance(within, dict) or parts[-1] not in within:
            known = [f"{whole}.{part}" for part in within] if isinstance(within, dict) else defaults
            raise InputError(
                f"workload '{definition.name}' has no parameter '{name}': "
                f"write some of {', '.join(known)}"
            )
        within[parts[-1]] = value
    return parsed


def _make(
    definition: Definition,
    folder: Path,
    parameters: dict[str, Any],
    *,
    seed: int,
    data: Path | None,
    tasks: int,
    where: spark.Place,
    json: bool,
) -> None:
    from gravitate.pipeline.spark.memory import PeakMemory
    from gravitate.pipeline.workloads.making import (
        check_data,
        check_free,
        make_workload,
        parameters_of,
    )

    # What is wrong is told before Spark is started.
    parameters_of(definition, parameters)
    check_data(data)
    check_free(folder)
    with PeakMemory() as memory, spark.started(where, hidden=json) as session:
        began_s = time.perf_counter()
        with output.progress(f"making {definition.name}", 1.0, hidden=json) as advance:
            manifest = make_workload(
                session,
                definition.name,
                folder,
                parameters,
                seed=seed,
                data=data,
                tasks=tasks,
                progress=lambda done, total: advance(done / total if total else 1.0),
            )
        seconds = time.perf_counter() - began_s
    if json:
        import msgspec

        figures = {"directory": str(folder), "seconds": seconds, "memory_gib": memory.peak_gib}
        output.show_json(msgspec.to_builtins(manifest) | figures)
    else:
        _show(manifest, folder, seconds, memory.peak_gib)


def _show(manifest: WorkloadManifest, folder: Path, seconds: float, memory_gib: float) -> None:
    rows = sum(manifest.rows.values())
    output.show_facts(
        [
            *((f"{table}, rows", count) for table, count in manifest.rows.items()),
            *((name, value) for name, value in manifest.statistics.items()),
            ("seconds", f"{seconds:.1f}"),
            ("rows a second", rows / seconds if seconds else None),
            ("memory at most", f"{memory_gib:.2f} GiB"),
        ],
        title=f"{manifest.workload}, seed {manifest.seed}: {folder}",
    )
    output.say(f"source: {manifest.source}")


def _list(json: bool) -> None:
    from gravitate.pipeline.workloads.catalogue import WORKLOADS

    if json:
        output.show_json([{"name": w.name, "summary": w.summary} for w in WORKLOADS])
        return
    output.show_table(["workload", "what it is"], [(w.name, w.summary) for w in WORKLOADS])
    output.say("gravitate workload NAME --describe shows the parameters of one")


def _describe(definition: Definition, json: bool) -> None:
    import msgspec

    defaults = msgspec.to_builtins(definition.parameters())
    if json:
        output.show_json(
            {"name": definition.name, "summary": definition.summary, "parameters": defaults}
        )
        return
    output.show_facts(defaults.items(), title=f"{definition.name}: {definition.summary}")
