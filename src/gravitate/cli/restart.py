"""`gravitate restart`: the brokers of a running network restarted, one after the other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final

import typer

from gravitate.cli import output
from gravitate.cli.brokers import complete_broker
from gravitate.cli.networks import NetworkFile, load

if TYPE_CHECKING:
    from gravitate.operate.rolling import RollingRestart, Step

EXIT_NOT_ALL_DONE: Final = 1
EXIT_INTERRUPTED: Final = 130


def restart(
    path: NetworkFile,
    broker: Annotated[
        list[str] | None,
        typer.Option(
            "--broker",
            metavar="ID",
            help="Only this broker; may be repeated, and says the order. Else all, as in the file.",
            autocompletion=complete_broker,
        ),
    ] = None,
    timeout: Annotated[
        float,
        typer.Option(
            help="Seconds that a broker may take to be ready, and again once it was asked.", min=0.1
        ),
    ] = 60.0,
    json: output.AsJson = False,
) -> None:
    """Restart the brokers of a running network one after the other, while it is used.

    Each needs a process of its own: `gravitate up --processes`, or a `gravitate broker` each. They
    are asked over their http ports, and waited for until each and its neighbours are ready.
    Exit status 1 when one was not restarted, or not ready in time: it stops there."""
    from gravitate.operate.rolling import roll

    network = load(path)
    count = len(broker or network.brokers)
    with output.activity(f"restarting network '{network.name}'", hidden=json) as say:

        def tell(id: str, step: Step) -> None:
            say(f"restarting '{id}' of {count} brokers: {step.value}")

        result = roll(network, broker or (), timeout, tell)
    output.answer(result, json, _show)
    if result.interrupted:
        raise typer.Exit(EXIT_INTERRUPTED)
    raise typer.Exit(EXIT_NOT_ALL_DONE if result.failed else 0)


def _show(result: RollingRestart) -> None:
    rows: list[tuple[object, ...]] = [
        (one.broker, "restarted", one.away_s, one.took_s) for one in result.done
    ]
    if result.failed:
        rows.append((result.failed, "failed", None, None))
    rows += [(broker, "not begun", None, None) for broker in result.left]
    output.show_table(
        ("broker", "", "away (s)", "ready after (s)"),
        rows,
        title=f"network '{result.network}': {len(result.done)} of {len(rows)} brokers restarted",
    )
    if result.failed:
        output.say(f"stopped at '{result.failed}': {result.reason}")
