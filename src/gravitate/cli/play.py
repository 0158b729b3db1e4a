"""`gravitate play`: the clients of a scenario on a network that is running."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gravitate.cli import output
from gravitate.cli.networks import NetworkFile, load

if TYPE_CHECKING:
    from gravitate.serve.scenarios.stage import LiveResult

EXIT_UNSOUND = 1


def play(
    what: Annotated[
        str,
        typer.Argument(
            metavar="WHAT",
            help="The folder of a workload, a scenario file, or the name of a scenario that comes "
            "along: demo, small.",
        ),
    ],
    path: NetworkFile,
    json: output.AsJson = False,
) -> None:
    """Connect the clients of a workload or scenario to a running network and let them publish.

    Exit status 1 when a delivery is missing, doubled or out of order."""
    import uvloop

    from gravitate.config import scenario, workload_script
    from gravitate.serve.scenarios import stage

    network = load(path)
    script = workload_script.load(what, network) if Path(what).is_dir() else scenario.load(what)
    output.say(f"{len(script.clients)} clients connect ...")

    def ready() -> None:
        output.say(f"{len(script.publications)} events in {script.duration_s:.0f} s ...")

    result = uvloop.run(stage.play(script, network, ready))
    title = f"{script.name} on {network.name}"
    output.answer(_facts(result), json, lambda facts: output.show_facts(facts.items(), title))
    raise typer.Exit(0 if result.is_sound() else EXIT_UNSOUND)


def _facts(result: LiveResult) -> dict[str, object]:
    from gravitate.config.outcome import Outcome

    return {name: getattr(result, name) for name in Outcome.__struct_fields__} | {
        "delay_ms_p50": round(result.delay_ms_p50, 3),
        "delay_ms_p99": round(result.delay_ms_p99, 3),
        "seconds": round(result.elapsed_s, 3),
    }
