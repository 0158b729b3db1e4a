"""States are in tables: every one of them can be reached and can end, and none is a boolean."""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import Any

import pytest

import gravitate.broker
from gravitate.broker.moves.table import Part
from gravitate.broker.sessions.states import OWED, PUBLISHING, Owed, Publishing
from gravitate.model.machines import Machine, Row

PREFIX = "gravitate.broker."
MODULES = [
    importlib.import_module(info.name)
    for info in pkgutil.walk_packages(gravitate.broker.__path__, PREFIX)
]


def machine_of(part: Part) -> Machine[Any]:
    """The table of a move for who reads about it."""
    rows = [Row(None, "Begun", part.first)]
    for row in part.rows:
        when = f" [{row.when}]".replace("_", " ") if row.when else ""
        rows.append(Row(row.state, row.event.value + when, row.to, row.do.replace("_", " ")))
    ends = [state for state in part.states if state not in part.waits]
    return Machine(part.name, part.states, rows, ends)


FOUND = [value for module in MODULES for value in vars(module).values()]
MACHINES: dict[str, Machine[Any]] = {
    **{value.name: value for value in FOUND if isinstance(value, Machine)},
    **{value.name: machine_of(value) for value in FOUND if isinstance(value, Part)},
}


def reached(machine: Machine[Any], start: object, back: bool = False) -> set[object]:
    """The states that can be come to from one, or from which one can be come to."""
    found, at = {start}, [start]
    while at:
        state = at.pop()
        for row in machine.rows:
            one, other = (row.to, row.state) if back else (row.state, row.to)
            if one is state and other not in found:
                found.add(other)
                at.append(other)
    return found


@pytest.mark.parametrize("machine", MACHINES.values(), ids=MACHINES)
def test_every_state_can_be_reached_and_can_end(machine: Machine[Any]) -> None:
    states = set(machine.states)
    assert states <= reached(machine, None)
    assert {row.state for row in machine.rows}.isdisjoint(machine.ends)
    ending = set[object]().union(*(reached(machine, end, back=True) for end in machine.ends))
    assert states <= ending


@pytest.mark.parametrize(
    ("machine", "state", "to"),
    [
        (OWED, Owed.CONNECTED, Owed.CUTTING),
        (OWED, Owed.STAGED, Owed.CONNECTED),
        (OWED, Owed.ENDED, Owed.CONNECTED),
        (PUBLISHING, Publishing.DEPARTING, Publishing.HERE),
        (PUBLISHING, Publishing.GONE, Publishing.HERE),
    ],
)
def test_there_is_no_way_past_the_table(machine: Machine[Any], state: Enum, to: Enum) -> None:
    with pytest.raises(AssertionError, match=f"no way from {state} to {to}"):
        machine.enter(state, to)


# What is said of them ------------------------------------------------------------------------

DOCUMENT = Path(__file__).parents[2] / "docs" / "states.md"
HEAD = """# States

What may follow what in a broker, made from the tables that the code runs on
(`python -m tests.broker.test_states`). What states mean is said in the module of each.
"""


def described(machine: Machine[Any]) -> str:
    """A table, the states in which the same happens in one line."""
    lines: dict[tuple[str, str, str], list[str]] = {}
    for row in machine.rows:
        state = row.state.name if row.state is not None else "-"
        lines.setdefault((row.event, row.to.name, row.do), []).append(state)
    rows = [
        f"| {', '.join(states)} | {event} | {to} | {do} |"
        for (event, to, do), states in lines.items()
    ]
    module = machine.states.__module__.removeprefix("gravitate.")
    head = f"## {machine.name.capitalize()}\n`{module}.{machine.states.__name__}`"
    return "\n".join((f"{head}\n", "| from | upon | to | then |", "|---|---|---|---|", *rows))


def document() -> str:
    return "\n".join((HEAD, "\n\n".join(map(described, MACHINES.values())), ""))


def test_the_document_says_what_the_tables_say() -> None:
    assert DOCUMENT.read_text() == document(), "run python -m tests.broker.test_states"


# Booleans ------------------------------------------------------------------------------------

KEPT = {
    "congested": "of a subscriber: whether its socket takes anything, which the driver tells",
    "has_served": "of a guest: what is known of the place where it was served, not its own state",
    "held": "of a publisher elsewhere: what the broker there has last said of its own bounds",
    "indirect": "of a client's outbound: known from its state and what waits; read for every event",
    "reading_held": "of a publisher: what its client was last told, so that it is not told again",
}
"""Booleans that are no states, each with its reason."""
BASES = {"Outbound", "Inbound", "Session", "Tether", "Run", "Guest"}


def classes() -> Iterator[ast.ClassDef]:
    """Sessions, both their halves, what stands for one of these, tethers, and runs of moves."""
    for module in MODULES:
        for node in ast.parse(inspect.getsource(module)).body:
            if isinstance(node, ast.ClassDef):
                bases = {base.id for base in node.bases if isinstance(base, ast.Name)}
                if node.name in BASES or bases & BASES:
                    yield node


def booleans(owner: ast.ClassDef) -> Iterator[str]:
    """Attributes of a class that are made, annotated or set as booleans."""
    for node in owner.body:
        if isinstance(node, ast.Assign) and is_boolean(node.value, set()):
            yield from (ast.unparse(target) for target in node.targets)
        elif isinstance(node, ast.AnnAssign) and ast.unparse(node.annotation) == "bool":
            yield ast.unparse(node.target)
        elif isinstance(node, ast.FunctionDef):
            given = {
                argument.arg
                for argument in (*node.args.args, *node.args.kwonlyargs)
                if argument.annotation and ast.unparse(argument.annotation) == "bool"
            }
            for one in ast.walk(node):
                match one:
                    case ast.Assign() if is_boolean(one.value, given):
                        targets: list[ast.expr] = one.targets
                    case ast.AnnAssign() if ast.unparse(one.annotation) == "bool":
                        targets = [one.target]
                    case _:
                        continue
                yield from (each.attr for each in targets if isinstance(each, ast.Attribute))


def is_boolean(value: ast.expr, given: set[str]) -> bool:
    match value:
        case ast.Constant(value=bool()) | ast.Compare() | ast.UnaryOp(op=ast.Not()):
            return True
        case ast.Call(func=ast.Name(id="bool")):
            return True
        case ast.BoolOp():
            return all(is_boolean(one, given) for one in value.values)
        case ast.Name(id=id):
            return id in given
    return False


def test_what_is_a_state_is_no_boolean() -> None:
    found = {(owner.name, name) for owner in classes() for name in booleans(owner)}
    assert {name for name, _ in found} >= {"LocalOutbound", "Inbound"}
    assert {name for _, name in found} == KEPT.keys()


def test_a_boolean_is_found_however_it_is_made() -> None:
    source = """
class Inbound:
    one = True
    two: bool
    def __init__(self, given: bool) -> None:
        self.three = False
        self.four = given
        self.five: bool = later()
    def change(self) -> None:
        self.six = not self.three
        self.seven = bool(self.waiting)
        self.count = 1
"""
    (owner,) = ast.parse(source).body
    assert isinstance(owner, ast.ClassDef)
    assert set(booleans(owner)) == {
        "one", "two", "three", "four", "five", "six", "seven",
    }  # fmt: skip


if __name__ == "__main__":
    DOCUMENT.write_text(document())
