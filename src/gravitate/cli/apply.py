"""`gravitate apply`: a plan's moves carried out on a running network, one after the other."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import msgspec
import typer

from gravitate.cli import output
from gravitate.cli.networks import NetworkFile, load
from gravitate.cli.plan import PlanFile, said
from gravitate.errors import EnvironmentLack, FileError
from gravitate.model.moves import (
    ClientMove,
    Move,
    MoveOutcome,
    ReassignSubscriber,
    RelocatePublisher,
    client_of,
)

if TYPE_CHECKING:
    from gravitate.config.network import Network
    from gravitate.config.plan import Plan

EXIT_NOT_ALL_DONE: Final = 1
SKIPPED: Final = "skipped"
UNKNOWN: Final = "unknown"
_NAMED_MAX: Final = 5

Carry = Callable[[Move], tuple[MoveOutcome | None, str]]
"""Carries a move out; how it ended, None where it was begun and nobody tells how it ended, and what
kept it from being done or known."""


class Carried(msgspec.Struct, frozen=True):
    """What became of one move."""

    move: str
    """As the plan has it."""
    what: str
    outcome: str
    """`done`, `refused`, `rolled back`, `skipped`; or `unknown`: it may have been done."""
    reason: str = ""
    took_s: float = 0.0


class Applied(msgspec.Struct, frozen=True):
    plan: str
    moves: int
    done: int
    carried: tuple[Carried, ...]
    undo: str = ""
    """The plan that takes back what was done or may have been; empty when nothing was."""

    @property
    def unknown(self) -> tuple[Carried, ...]:
        """Moves that may have been done."""
        return tuple(it for it in self.carried if it.outcome == UNKNOWN)


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
    json: output.AsJson = False,
) -> None:
    """Carry a plan out on a running network, and write the plan that takes it back.

    Brokers are asked over their http ports. Exit status 1 when a move was not done."""
    from gravitate.cli import endpoints
    from gravitate.config import plan as plans

    plan = plans.load(plan_path)
    network = load(path)
    check_network(plan, network, plan_path, path)
    check_ports(plan, network, path)
    specs = {spec.id: spec for spec in network.brokers}
    elsewhere = misplaced(plan, *endpoints.places(network))
    if any(isinstance(move, ReassignSubscriber) for move in plan.moves):
        found = endpoints.places(network, endpoints.SUBSCRIBERS)
        elsewhere |= misplaced(plan, *found, kind=ReassignSubscriber)
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

    def carry(move: Move) -> tuple[MoveOutcome | None, str]:
        assert isinstance(move, ClientMove)
        try:
            record = endpoints.carry_out(specs[move.source], move)
        except endpoints.Refused as refused:
            return MoveOutcome.REFUSED, str(refused)
        except endpoints.OutcomeUnknown as unknown:
            return None, str(unknown)
        assert record.outcome is not None
        return record.outcome, record.reason

    undo_file = _unused(plans.undo_path(plan_path))
    with output.progress("moving", len(plan.moves), hidden=json) as tell:
        applied = carried_out(plan, carry, undo_file, keep_going, elsewhere, tell)
    if json:
        output.show_json(applied)
    else:
        _show(applied)
    raise typer.Exit(0 if applied.done == applied.moves else EXIT_NOT_ALL_DONE)


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
    sources = {move.source for move in plan.moves if isinstance(move, ClientMove)}
    mute = [spec.id for spec in network.brokers if spec.id in sources and not spec.address.http]
    if mute:
        some = ", ".join(mute[:_NAMED_MAX])
        more = f" and {len(mute) - _NAMED_MAX} more" if len(mute) > _NAMED_MAX else ""
        raise FileError(
            f"has no http port for {some}{more}, where moves of the plan begin: give each one, "
            "brokers are asked over HTTP",
            str(path),
        )


def misplaced(
    plan: Plan,
    places: dict[str, str],
    untold: Sequence[str],
    kind: type[ClientMove] = RelocatePublisher,
) -> dict[str, str]:
    """Moves of a kind whose client is not where the plan has it, each with a sentence; and moves
    that no broker carries out."""
    found = {}
    for move in plan.moves:
        if not isinstance(move, ClientMove):
            found[move.id] = f"move '{move.id}' is no relocation: it cannot be carried out yet"
        elif not isinstance(move, kind) or move.source in untold:
            # What cannot be known before is left to the broker, which refuses what it has not.
            continue
        elif (at := places.get(client_of(move))) != move.source:
            nowhere = "at no broker that tells" if untold else "not connected"
            where = f"at {at}" if at else nowhere
            who = "publisher" if isinstance(move, RelocatePublisher) else "subscriber"
            found[move.id] = (
                f"{who} '{client_of(move)}' is {where}, the plan has it at {move.source}"
            )
    return found


def carried_out(
    plan: Plan,
    carry: Carry,
    undo_file: Path,
    keep_going: bool = False,
    skipped: dict[str, str] | None = None,
    tell: Callable[[float], None] = lambda done: None,
) -> Applied:
    """Carry the moves out in order; after each that was or may have been done, the plan that takes
    back all of these is written."""
    from gravitate.config import plan as plans

    # Brokers carry out an id once. A plan that was taken back may be applied again.
    occasion = f"{time.time_ns() // 1_000_000:x}"
    begun: list[Move] = []
    carried: list[Carried] = []
    for number, move in enumerate(plan.moves, start=1):
        if skipped and move.id in skipped:
            carried.append(Carried(move.id, said(move), SKIPPED, skipped[move.id]))
            continue
        began_s = time.monotonic()
        outcome: MoveOutcome | None
        try:
            outcome, reason = carry(msgspec.structs.replace(move, id=f"{move.id}-{occasion}"))
        except EnvironmentLack as lack:
            if not keep_going:
                raise EnvironmentLack(_stopped(str(lack), len(begun), undo_file)) from None
            outcome, reason = MoveOutcome.REFUSED, str(lack)
        took_s = round(time.monotonic() - began_s, 3)
        ended = UNKNOWN if outcome is None else outcome.value
        carried.append(Carried(move.id, said(move), ended, reason, took_s))
        tell(number)
        if outcome in (MoveOutcome.DONE, None):
            begun.append(move)
            plans.save(plans.undoing(plan, begun), undo_file)
        if outcome is not MoveOutcome.DONE and not keep_going:
            break
    done = sum(it.outcome == MoveOutcome.DONE.value for it in carried)
    undo = str(undo_file) if begun else ""
    return Applied(plan.id, len(plan.moves), done, tuple(carried), undo)


def _stopped(sentence: str, done: int, undo_file: Path) -> str:
    if not done:
        return f"{sentence}; nothing was moved"
    return f"{sentence}; {done} moves were done, {undo_file} takes them back"


def _unused(path: Path) -> Path:
    """The path, or one with a number when it is taken: what takes back an earlier occasion is
    not lost."""
    stem, number, found = path.name.removesuffix(".json"), 1, path
    while found.exists():
        number += 1
        found = path.with_name(f"{stem}-{number}.json")
    return found


def _show_dry(plan: Plan, elsewhere: dict[str, str], json: bool) -> None:
    carried = tuple(
        Carried(move.id, said(move), SKIPPED, elsewhere.get(move.id, "dry run"))
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


def _show(applied: Applied) -> None:
    output.show_table(
        ("move", "what", "outcome", "s", "reason"),
        [(it.move, it.what, it.outcome, it.took_s, it.reason) for it in applied.carried],
        title=f"plan '{applied.plan}': {applied.done} of {applied.moves} moves done",
    )
    left = applied.moves - len(applied.carried)
    if left:
        output.say(f"stopped; {left} moves were not begun (--keep-going would have)")
    for it in applied.unknown:
        output.say(
            f"move '{it.move}' may have been done: `gravitate moves NETWORK` tells what its broker "
            f"knows; {applied.undo} takes it back, or finds its client elsewhere"
        )
    if applied.undo:
        output.say(f"to take back what was done: gravitate apply {applied.undo} NETWORK")
