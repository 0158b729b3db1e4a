"""`gravitate workload`: the workloads of the studies, made on Spark."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gravitate.cli import output, spark

if TYPE_CHECKING:
    from gravitate.config.workload_tables import WorkloadManifest
    from gravitate.pipeline.workloads.definition import Definition

NAMED_OPTIONS = ("subscribers", "publishers", "brokers", "duration_s")
"""Parameters that several workloads have, with an option each."""


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
        typer.Option("--set", help="Any parameter, as name=value; may be repeated."),
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
    master: spark.Master = None,
    remote: spark.Remote = None,
    memory: spark.Memory = None,
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
        given | _parsed(settings or []),
        seed=seed,
        data=data,
        tasks=tasks,
        where=(master, remote, memory),
        json=json,
    )


def _parsed(settings: list[str]) -> dict[str, Any]:
    from gravitate.errors import InputError

    parsed = {}
    for setting in settings:
        name, equals, value = setting.partition("=")
        if not equals or not name:
            raise InputError(f"'{setting}' sets nothing: write --set name=value")
        parsed[name] = value
    return parsed


def _make(
    definition: Definition,
    folder: Path,
    parameters: dict[str, Any],
    *,
    seed: int,
    data: Path | None,
    tasks: int,
    where: tuple[str | None, str | None, float | None],
    json: bool,
) -> None:
    from gravitate.pipeline.memory import PeakMemory
    from gravitate.pipeline.workloads.making import check_free, make_workload, parameters_of

    parameters_of(definition, parameters)  # wrong ones are told before Spark is started
    check_free(folder)
    with PeakMemory() as memory, spark.started(*where, hidden=json) as session:
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
