"""`gravitate apply`: a plan is checked against a running network, carried out, and told of.

How moves are carried out is `operate.applying`'s business, what brokers answer
`operate.asking`'s."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from gravitate.cli import output
from gravitate.cli.networks import NetworkFile, load
from gravitate.cli.plan import PlanFile
from gravitate.errors import FileError
from gravitate.model.moves import described

if TYPE_CHECKING:
    from gravitate.config.network import Network
    from gravitate.config.plan import Plan
    from gravitate.operate.applying import Applied

EXIT_NOT_ALL_DONE: Final = 1
EXIT_INTERRUPTED: Final = 130
_NAMED_MAX: Final = 5


def apply(
    plan_path: PlanFile,
    path: NetworkFile,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Check and show, but move nothing.")
    ] = False,
    keep_going: Annotated[
        bool,
        typer.Option(
            "--keep-going",
            help="Go on after a move that was refused or rolled back, and skip clients that "
            "are not where the plan has them.",
        ),
    ] = False,
    at_once: Annotated[
        int, typer.Option(help="Moves under way at the same time, at most.", min=1, max=64)
    ] = 8,
    json: output.AsJson = False,
) -> None:
    """Carry a plan out on a running network, and write the plan that takes it back.

    Brokers are asked over their http ports. Exit status 1 when a client is not where the plan
    brings it."""
    from gravitate.config import plan as plans
    from gravitate.operate import asking, standing
    from gravitate.operate.applying import SKIPPED, carried_out
    from gravitate.operate.undo_plan import next_path

    plan = plans.load(plan_path)
    network = load(path)
    check_network(plan, network, plan_path, path)
    check_ports(plan, network, path)
    with output.activity("looking where clients are", hidden=json):
        elsewhere, arrived = standing.found(plan, network)
    if elsewhere and not keep_going:
        some = "; ".join(list(elsewhere.values())[:_NAMED_MAX])
        more = f"; and {len(elsewhere) - _NAMED_MAX} more" if len(elsewhere) > _NAMED_MAX else ""
        raise FileError(
            f"was made for another state of the network: {some}{more}. Plan anew, or skip these "
            "with --keep-going",
            str(plan_path),
        )
    if dry_run:
        _show_dry(plan, elsewhere, json)
        return

    undo_file = next_path(plans.undo_path(plan_path))
    if not json and len(elsewhere) < len(plan.moves):
        command = _command(undo_file, path, keep_going=True)
        output.say(f"whatever ends this, what was done is taken back by: {command}")
    with output.progress("moving", len(plan.moves), hidden=json) as tell:
        applied = carried_out(
            plan, asking.carry(network), undo_file, keep_going, elsewhere, tell, at_once
        )
    output.answer(applied, json, lambda told: _show(told, path))
    if applied.interrupted:
        raise typer.Exit(EXIT_INTERRUPTED)
    there = sum(it.outcome == SKIPPED and it.move in arrived for it in applied.carried)
    raise typer.Exit(0 if applied.done + there == applied.moves else EXIT_NOT_ALL_DONE)


def check_network(plan: Plan, network: Network, plan_path: Path, path: Path) -> None:
    """Refuse a plan that was made for another network."""
    from gravitate.config.plan import differences, digest_of

    if digest_of(network) == plan.digest:
        return
    different = differences(plan.network_planned(), network)
    raise FileError(
        f"was made for another network than {path}: {'; '.join(different[:_NAMED_MAX])}",
        str(plan_path),
    )


def check_ports(plan: Plan, network: Network, path: Path) -> None:
    """Refuse a plan with moves that begin at brokers which cannot be asked for them."""
    from gravitate.operate.standing import client_moves

    sources = {move.source for move in client_moves(plan)}
    mute = [spec.id for spec in network.brokers if spec.id in sources and not spec.address.http]
    if mute:
        some = ", ".join(mute[:_NAMED_MAX])
        more = f" and {len(mute) - _NAMED_MAX} more" if len(mute) > _NAMED_MAX else ""
        raise FileError(
            f"has no http port for {some}{more}, where moves of the plan begin: give each one, "
            "brokers are asked over HTTP",
            str(path),
        )


def _command(undo: Path | str, network: Path, keep_going: bool) -> str:
    """What a person types to take back what was done."""
    told = ["gravitate", "apply", str(undo), str(network)]
    return shlex.join([*told, "--keep-going"] if keep_going else told)


def _show_dry(plan: Plan, elsewhere: dict[str, str], json: bool) -> None:
    from gravitate.operate.applying import SKIPPED, Applied, Carried

    carried = tuple(
        Carried(move.id, described(move), SKIPPED, elsewhere.get(move.id, "dry run"))
        for move in plan.moves
    )
    if json:
        output.show_json(Applied(plan.id, len(plan.moves), 0, carried))
        return
    output.show_table(
        ("move", "what", "would be"),
        [
            (it.move, it.what, f"skipped: {it.reason}" if it.move in elsewhere else "carried out")
            for it in carried
        ],
        title=f"plan '{plan.id}': nothing was moved",
    )


def _show(applied: Applied, network: Path) -> None:
    output.show_table(
        ("move", "what", "outcome", "s", "reason"),
        [(it.move, it.what, it.outcome, it.took_s, it.reason) for it in applied.carried],
        title=f"plan '{applied.plan}': {applied.done} of {applied.moves} moves done",
    )
    left = applied.moves - len(applied.carried)
    if applied.interrupted:
        output.say(f"interrupted: {applied.done} of {applied.moves} moves done, {left} not begun")
    elif left:
        output.say(f"stopped; {left} moves were not begun (--keep-going would have)")
    for it in applied.unknown:
        output.say(
            f"move '{it.move}' may have been done: `gravitate moves {network}` tells what its "
            f"broker knows; {applied.undo} takes it back, or finds its client elsewhere"
        )
    if applied.undo:
        command = _command(applied.undo, network, keep_going=bool(applied.unknown))
        output.say(f"to take back what was done: {command}")
