"""`gravitate torture`: real brokers under load while something goes wrong, and a judgement."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final

import typer

from gravitate.cli import output

if TYPE_CHECKING:
    from gravitate.torture.run import Report

EXIT_BROKEN: Final = 1
EXIT_TERMINATED: Final = 143
FAULTS: Final = ("restart", "kill", "pause", "cut", "slow", "burst", "large")


def complete_fault(incomplete: str) -> list[str]:
    return [name for name in FAULTS if name.startswith(incomplete)]


def torture(
    fault: Annotated[
        str,
        typer.Option(
            help=f"What goes wrong: {', '.join(FAULTS[:-1])} or {FAULTS[-1]}.",
            autocompletion=complete_fault,
        ),
    ],
    brokers: Annotated[int, typer.Option(help="How many, in a random tree.", min=2, max=20)] = 5,
    minutes: Annotated[float, typer.Option(help="How long it goes on.", min=0.05)] = 1.0,
    seed: Annotated[int, typer.Option(help="Decides what is done, and when.", min=0)] = 1,
    rate: Annotated[
        float, typer.Option(help="Publications a second of each publisher.", min=0.1)
    ] = 20.0,
    moves: Annotated[
        float, typer.Option(help="Share of the clients that are moved.", min=0.0, max=1.0)
    ] = 0.5,
    publishers: Annotated[int, typer.Option(help="How many; 0: two a broker.", min=0)] = 0,
    subscribers: Annotated[int, typer.Option(help="How many; 0: two a broker.", min=0)] = 0,
    json: output.AsJson = False,
) -> None:
    """Run brokers as processes, do something to them under load, and judge what clients got.

    Exit status 1 when something that was promised was not kept."""
    import asyncio

    from gravitate.torture.run import Settings, torture

    settings = Settings(fault, brokers, minutes, seed, rate, moves, publishers, subscribers)
    with output.progress(f"torture: {fault}, seed {seed}", 1.0, hidden=json) as tell:
        try:
            report = torture(settings, tell)
        except BaseException as problem:
            for note in getattr(problem, "__notes__", ()):
                output.say(note)
            if isinstance(problem, asyncio.CancelledError):
                output.say("told to terminate: the brokers have been ended")
                raise typer.Exit(EXIT_TERMINATED) from None
            raise
    if json:
        output.show_json(flat(report))
    else:
        _show(report)
    raise typer.Exit(0 if report.is_kept else EXIT_BROKEN)


def flat(report: Report) -> dict[str, object]:
    """The report as JSON has it: the judgement and the settings among the rest."""
    import msgspec

    told = msgspec.structs.asdict(report)
    settings, judgement = told.pop("settings"), told.pop("judgement")
    verdict = "kept" if told.pop("is_kept") else "broken"
    return {
        "verdict": verdict,
        **msgspec.structs.asdict(settings),
        **msgspec.structs.asdict(judgement),
        **told,
    }


def _show(report: Report) -> None:
    judgement = report.judgement
    moves = ", ".join(f"{count} {how}" for how, count in report.moves.items() if count)
    output.show_facts(
        [
            ("lost", judgement.lost),
            ("doubled", judgement.doubled),
            ("reordered", judgement.reordered),
            ("taken by kills", judgement.taken_by_kills),
            ("longest silence (s)", judgement.longest_silence_s),
            ("longest silence, detours apart (s)", judgement.longest_detour_s),
            ("longest wait, whatever was done (s)", judgement.longest_wait_s),
            ("clients closed without cause", judgement.closed_without_cause),
            ("brokers that ended", len(report.brokers_ended)),
            ("errors in their logs", len(report.errors_logged)),
            ("published", report.published),
            ("acknowledged", report.acknowledged),
            ("sent anew", report.resent),
            ("owed deliveries", judgement.owed),
            ("deliveries", judgement.delivered),
            ("faults", report.faults),
            ("moves", moves or "none"),
            *([("events queued, most", report.queued_most)] if report.queued_most else []),
            ("memory of a broker, most (MiB)", max(it.max_mib for it in report.memory.values())),
            ("its growth, most (MiB)", max(it.growth_mib for it in report.memory.values())),
            ("verdict", "kept" if report.is_kept else "broken"),
        ],
        title=f"torture: {report.settings.fault}, seed {report.settings.seed}",
    )
    if report.is_kept:
        return
    output.say(f"seed {report.settings.seed}: what was promised was not kept")
    for sentence in (
        *report.brokers_ended,
        *report.errors_logged[:5],
        *report.problems,
        *judgement.examples,
    ):
        output.say(sentence)
    output.say(f"logs of the brokers: {report.logs}")
