"""The plan file: moves in order, what they are predicted to change, and for which network.

    plan = load("plan.json")
    undo = undoing(plan, done)              # the plan that takes back the moves that were done

A plan is JSON. It says from which run it was made, carries the network it was made for, and each
move says where its subject was; `differences` tells in sentences what is no longer so. Where
brokers listen is no part of that: a network may run on other ports than those it was recorded on.

Owns the file: its struct, reading with checks, writing, and taking back. It knows neither how
plans are made nor how moves are carried out; metrics are names and numbers here.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Final

import msgspec

from gravitate.config import network as network_file
from gravitate.config.network import LinkSpec, Network
from gravitate.errors import FileError, GravitateError
from gravitate.files import read_json, write_json
from gravitate.model.moves import ClientMove, Move, Rationale

Metrics = dict[str, float | None]
"""Every metric of a network by name; None where it does not apply."""

_ID_DIGITS: Final = 8
_NAMED_MAX: Final = 5


class Plan(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    id: str
    kind: str
    """What it is about: `publishers`, `subscribers`, or `undo`."""
    run: str
    """The run whose traffic it was made from."""
    network: str
    """The network it was made for, as TOML text."""
    digest: str
    """Of that network; see `digest_of`."""
    parameters: dict[str, str | float] = {}
    moves: tuple[Move, ...] = ()
    """In the order in which they are to be carried out."""
    recorded: Metrics = {}
    """What the run measured."""
    before: Metrics = {}
    """What is predicted for the same traffic as things are."""
    after: Metrics = {}
    """What is predicted once all moves are done."""
    yardstick: Metrics = {}
    """What the chosen places cost by the chooser's own measure, and what none could cost less
    than where that is known; no metric of a network."""
    notes: tuple[str, ...] = ()
    """What is to be said beside the figures."""

    def network_planned(self) -> Network:
        """The network it was made for."""
        return network_file.loads(self.network, "the network of the plan")


def digest_of(network: Network) -> str:
    """What a plan depends on: name, brokers, links, routing. Equal for files that only say the
    same in another order or have their brokers listen elsewhere."""
    told = {
        "name": network.name,
        "brokers": sorted(broker.id for broker in network.brokers),
        "links": sorted(map(_link, network.links)),
        "routing": network.routing,
        "forwarding": network.forwarding,
    }
    return hashlib.sha256(msgspec.json.encode(told, order="sorted")).hexdigest()


def plan_of(
    *,
    kind: str,
    run: str,
    network: Network,
    parameters: dict[str, str | float],
    moves: Sequence[Move],
    recorded: Metrics,
    before: Metrics,
    after: Metrics,
    yardstick: Metrics | None = None,
    notes: Sequence[str] = (),
) -> Plan:
    """A plan whose id, and those of its moves, follow from what it is to do."""
    return _identified(
        Plan(
            id="",
            kind=kind,
            run=run,
            network=network_file.render(network),
            digest=digest_of(network),
            parameters=parameters,
            moves=tuple(moves),
            recorded=recorded,
            before=before,
            after=after,
            yardstick=yardstick or {},
            notes=tuple(notes),
        )
    )


def _identified(plan: Plan) -> Plan:
    moves = [msgspec.structs.replace(move, id="") for move in plan.moves]
    content = [plan.kind, plan.run, plan.digest, plan.parameters, moves]
    number = hashlib.sha256(msgspec.json.encode(content, order="sorted")).hexdigest()
    plan_id = f"{plan.kind}-{number[:_ID_DIGITS]}"
    numbered = (
        msgspec.structs.replace(move, id=f"{plan_id}-{at}") for at, move in enumerate(moves, 1)
    )
    return msgspec.structs.replace(plan, id=plan_id, moves=tuple(numbered))


def save(plan: Plan, path: str | Path, *, durable: bool = False) -> None:
    """Write the plan, whole or not at all."""
    write_json(path, plan, durable=durable)


def load(path: str | Path) -> Plan:
    """The plan at `path`, checked; a `FileError` says what is wrong."""
    plan = read_json(Path(path), Plan, "a plan")
    try:
        wrong = next(_faults(plan), None)
    except FileError as problem:
        raise FileError(str(problem), str(path)) from None
    if wrong is not None:
        raise FileError(wrong, str(path))
    return plan


def undo_path(path: str | Path) -> Path:
    """Where the plan that takes back the one at `path` is written: `plan.undo.json`."""
    given = Path(path)
    return given.with_name(f"{given.name.removesuffix('.json')}.undo.json")


def undoing(plan: Plan, done: Sequence[Move]) -> Plan:
    """The plan that takes back the moves that were done, the last one first.

    Moves that are not about clients cannot be taken back yet."""
    back = []
    for move in reversed(done):
        if not isinstance(move, ClientMove):
            raise GravitateError(f"move '{move.id}' cannot be taken back: it moves no client")
        why = Rationale(
            f"takes back {move.id}", -move.why.gain, move.why.cost, dict(move.why.figures)
        )
        back.append(
            msgspec.structs.replace(
                move, id="", source=move.target, target=move.source, why=why, path=move.path[::-1]
            )
        )
    whole = len(done) == len(plan.moves)
    return _identified(
        msgspec.structs.replace(
            plan,
            kind="undo",
            parameters={"undoes": plan.id},
            moves=tuple(back),
            # What is predicted half-way was never asked.
            before=plan.after if whole else {},
            after=plan.before,
            yardstick={},
            notes=(),
        )
    )


def differences(planned: Network, given: Network) -> list[str]:
    """What is different in another network than the one of a plan; empty: nothing that counts."""
    found = []
    for what in ("name", "routing", "forwarding"):
        one, other = getattr(planned, what), getattr(given, what)
        if one != other:
            found.append(f"its {what} is '{other}', the plan's is '{one}'")
    brokers = [{broker.id for broker in network.brokers} for network in (planned, given)]
    links = [{_link(link)[:2]: link for link in network.links} for network in (planned, given)]
    found += _missing("broker", *brokers)
    found += _missing("link", *({" - ".join(ends) for ends in part} for part in links))
    for ends in sorted(links[0].keys() & links[1].keys()):
        for what, unit in (("latency_ms", "ms"), ("bandwidth_bytes_per_s", "B/s")):
            one, other = (getattr(part[ends], what) for part in links)
            if one != other:
                found.append(
                    f"its link {' - '.join(ends)} has {other:g} {unit}, the plan's {one:g}"
                )
    return found


# --- what a plan must be --------------------------------------------------------------------------


def _faults(plan: Plan) -> Iterator[str]:
    network = plan.network_planned()
    if digest_of(network) != plan.digest:
        yield "its network is not the one it was made for: the digest differs"
    service_ms = plan.parameters.get("service_ms", 0.0)
    if not isinstance(service_ms, float) or not 0 <= service_ms < math.inf:
        yield f"its parameter service_ms is {service_ms!r}: write milliseconds, 0 or more"
    near: dict[str, set[str]] = {broker.id: set() for broker in network.brokers}
    for link in network.links:
        one, other = link.between
        near[one].add(other)
        near[other].add(one)
    ids: set[str] = set()
    for move in plan.moves:
        if move.id in ids:
            yield f"has two moves with the id '{move.id}': give each its own"
        ids.add(move.id)
        if isinstance(move, ClientMove):
            yield from _path_faults(move, near)


def _path_faults(move: ClientMove, near: dict[str, set[str]]) -> Iterator[str]:
    path = move.path
    if len(path) < 2 or (path[0], path[-1]) != (move.source, move.target):
        yield (
            f"move '{move.id}' goes from '{move.source}' to '{move.target}' along "
            f"{' - '.join(path) or 'no path'}: write the brokers from source to target"
        )
    for one, other in pairwise(path):
        if other not in near.get(one, ()):
            yield f"move '{move.id}' goes from '{one}' to '{other}', which have no link"


def _link(link: LinkSpec) -> tuple[str, str, float, float]:
    one, other = sorted(link.between)
    return one, other, link.latency_ms, link.bandwidth_bytes_per_s


def _missing(what: str, planned: set[str], given: set[str]) -> Iterator[str]:
    for names, owner in ((planned - given, "the plan's"), (given - planned, "its")):
        if names:
            some = ", ".join(sorted(names)[:_NAMED_MAX])
            more = f" and {len(names) - _NAMED_MAX} more" if len(names) > _NAMED_MAX else ""
            lacking = "it lacks" if owner == "the plan's" else "the plan's network lacks"
            yield f"{lacking} the {what}{'s' if len(names) > 1 else ''} {some}{more}"
