"""`gravitate simulate`: a scenario on a virtual clock, or many random worlds with every checker."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gravitate.cli import output
from gravitate.cli.brokers import Sampling, Trace

if TYPE_CHECKING:
    from gravitate.config.script import Script
    from gravitate.simulate.run import RunResult
    from gravitate.simulate.switches import Switches

EXIT_UNSOUND = 1


def simulate(
    scenario: Annotated[
        str | None,
        typer.Argument(help="A scenario file, or the name of one that comes along: demo, small."),
    ] = None,
    random: Annotated[
        int, typer.Option("--random", help="Play this many random worlds instead.", min=0)
    ] = 0,
    seed: Annotated[
        int | None,
        typer.Option(help="Replaces the scenario's seed; the first random world.", min=0),
    ] = None,
    processes: Annotated[int, typer.Option(help="For random worlds.", min=1)] = 2,
    crashes: Annotated[
        bool, typer.Option("--crashes", help="Kill brokers in random worlds.")
    ] = False,
    migrations: Annotated[
        bool, typer.Option("--migrations", help="Move clients in random worlds.")
    ] = False,
    mechanisms: Annotated[
        bool, typer.Option("--mechanisms", help="Let brokers relocate publishers in them.")
    ] = False,
    pings: Annotated[
        bool, typer.Option("--pings", help="The same after publishers have measured their ways.")
    ] = False,
    faults: Annotated[
        bool, typer.Option("--faults/--no-faults", help="Whether things go wrong in random worlds.")
    ] = True,
    trace: Trace = None,
    sampling: Sampling = 1.0,
    checks: Annotated[
        bool, typer.Option("--checks/--no-checks", help="Whether checkers watch every step.")
    ] = True,
    json: output.AsJson = False,
) -> None:
    """Run a scenario in the simulator, or random worlds. Exit status 1 when a checker speaks."""
    from gravitate.errors import InputError
    from gravitate.simulate.switches import Switches

    if bool(random) == (scenario is not None):
        raise InputError("write either a scenario (a file, demo or small) or --random N")
    if random and trace is not None:
        raise InputError("random worlds are not traced: give --trace with a scenario")
    switches = Switches(faults, crashes, migrations, mechanisms, pings)
    if not random and switches != Switches():
        raise InputError(f"{switches.words().strip()}: for random worlds alone, give --random N")
    if random:
        first = 1 if seed is None else seed
        _random_worlds(random, first, processes, switches, json)
    else:
        _scenario(str(scenario), seed, trace, sampling, checks, json)


def _scenario(
    name: str, seed: int | None, trace: Path | None, sampling: float, checks: bool, json: bool
) -> None:
    from gravitate.config import scenario
    from gravitate.trace import manifest

    script = scenario.load(name, seed)
    directory = trace or (Path(script.trace.directory) if script.trace.directory else None)
    rate = sampling if trace else script.trace.sampling
    if directory is not None:
        manifest.check_unused(directory)
    result = _run(script, directory, rate, checks)
    if json:
        output.show_json(summary(result))
    else:
        _show(result)
        if directory is not None:
            output.say(f"traces: {directory}")
    # A fault may rightly keep a subscriber from what was published meanwhile; checkers know.
    sound = not result.violations if script.faults else result.is_sound()
    raise typer.Exit(0 if sound else EXIT_UNSOUND)


def _run(script: Script, directory: Path | None, rate: float, checks: bool) -> RunResult:
    from contextlib import ExitStack

    from gravitate.config import network
    from gravitate.simulate.run import run_scenario
    from gravitate.trace.manifest import RunManifest
    from gravitate.trace.writer import TraceWriter

    with ExitStack() as stack:
        advance = stack.enter_context(output.progress(f"simulating {script.name}", 1.0))
        observers = []
        if directory is not None:
            observers.append(stack.enter_context(TraceWriter(directory, "world", rate)))

        def started(at_s: float) -> None:
            if directory is not None:
                RunManifest(
                    network=network.render(script.network),
                    clock="virtual",
                    scenario=script.name,
                    started_at_s=at_s,
                    seed=script.seed,
                    sampling_rate=rate,
                ).save(directory)

        return run_scenario(
            script, observers=observers, checks=checks, progress=advance, started=started
        )


def summary(result: RunResult) -> dict[str, object]:
    """The result without the list of single deliveries, flat, as JSON has it."""
    import msgspec

    flat: dict[str, object] = {
        name: getattr(result, name)
        for name in result.__struct_fields__
        if name not in {"metrics", "deliveries"}
    }
    metrics = msgspec.structs.asdict(result.metrics)
    metrics["yield"] = metrics.pop("yield_share")
    return flat | {name: value for name, value in metrics.items() if name not in flat}


def _show(result: RunResult) -> None:
    metrics = result.metrics
    output.show_facts(
        [
            ("expected deliveries", result.expected),
            ("delivered", result.delivered),
            ("missing", result.missing),
            ("unexpected", result.unexpected),
            ("duplicates", result.duplicates),
            ("out of order", result.out_of_order),
            ("delay, median (ms)", metrics.delay_ms_p50),
            ("delay, 99 % (ms)", metrics.delay_ms_p99),
            ("hops, mean", metrics.hops_mean),
            ("broker rate, mean (msgs/s)", metrics.broker_rate_msgs_per_s_mean),
            ("broker rate, most (msgs/s)", metrics.broker_rate_msgs_per_s_max),
            ("pure forwarders", metrics.pure_forwarders),
            ("yield", f"{100 * metrics.yield_share:.1f} %"),
            *(
                [("mechanism messages", metrics.mechanism_messages)]
                if metrics.mechanism_messages
                else []
            ),
            ("broker steps", result.steps),
            ("events observed for (s)", metrics.observed_s),
            ("simulated (s)", result.simulated_s),
        ],
        title=f"{result.scenario}, seed {result.seed}",
    )
    for sentence in result.violations[:20]:
        output.say(sentence)


def _random_worlds(count: int, seed: int, processes: int, switches: Switches, json: bool) -> None:
    from gravitate.simulate.random_worlds import WorldOutcome, run_worlds

    done = 0
    with output.progress(f"{count} random worlds", count) as advance:

        def played(outcome: WorldOutcome) -> None:
            nonlocal done
            done += 1
            advance(done)
            if outcome.violations:
                output.say(outcome.report())

        outcomes = run_worlds(count, seed, processes, played, switches)
    failed = [outcome for outcome in outcomes if outcome.violations]
    facts: dict[str, object] = {
        "worlds": len(outcomes),
        "failed": len(failed),
        "brokers": sum(outcome.brokers for outcome in outcomes),
        "clients": sum(outcome.clients for outcome in outcomes),
        "faults": sum(outcome.faults for outcome in outcomes),
        "brokers killed": sum(outcome.crashes for outcome in outcomes),
        "deliveries lost with them or with links given up": sum(o.taken for o in outcomes),
        "clients moved": sum(outcome.moves for outcome in outcomes),
        "published": sum(outcome.published for outcome in outcomes),
        "delivered": sum(outcome.delivered for outcome in outcomes),
        "steps": sum(outcome.steps for outcome in outcomes),
    }
    if json:
        output.show_json(facts | {"first_seed": seed, "failures": failed})
    else:
        output.show_facts(facts.items(), title=f"random worlds {seed} to {seed + count - 1}")
    raise typer.Exit(EXIT_UNSOUND if failed else 0)
