"""What parts ask and tell of others is given to them when they are made."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import gravitate.broker
from gravitate.broker.core import Broker
from gravitate.broker.interface.inputs import Input
from gravitate.broker.interface.timers import Timer
from gravitate.broker.sessions.publishers import PublisherPorts

ROOT = Path(gravitate.broker.__file__).parent
MODULES = sorted(ROOT.rglob("*.py"))


def names_in(annotation: ast.expr) -> set[str]:
    return {node.id for node in ast.walk(annotation) if isinstance(node, ast.Name)}


def callable_attributes(tree: ast.Module) -> Iterator[str]:
    """Attributes that hold something to be called, as far as annotations tell."""
    for kind in ast.walk(tree):
        for node in kind.body if isinstance(kind, ast.ClassDef) else ():
            if isinstance(node, ast.AnnAssign) and "Callable" in names_in(node.annotation):
                assert isinstance(node.target, ast.Name)
                yield node.target.id
    for function in ast.walk(tree):
        if not isinstance(function, ast.FunctionDef) or function.name != "__init__":
            continue
        arguments = (*function.args.args, *function.args.kwonlyargs)
        called = {
            one.arg
            for one in arguments
            if one.annotation and "Callable" in names_in(one.annotation)
        }
        for node in ast.walk(function):
            if isinstance(node, ast.AnnAssign) and "Callable" in names_in(node.annotation):
                if isinstance(node.target, ast.Attribute):
                    yield node.target.attr
            elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Name):
                for target in node.targets:
                    if isinstance(target, ast.Attribute) and node.value.id in called:
                        yield target.attr


def set_from_outside(tree: ast.Module, attributes: set[str]) -> Iterator[str]:
    for node in ast.walk(tree):
        targets = node.targets if isinstance(node, ast.Assign) else []
        for target in targets:
            if isinstance(target, ast.Attribute) and target.attr in attributes:
                of = target.value
                if not (isinstance(of, ast.Name) and of.id == "self"):
                    yield f"line {node.lineno}: {ast.unparse(target)}"


def test_nothing_that_is_called_is_set_from_outside() -> None:
    trees = {path: ast.parse(path.read_text()) for path in MODULES}
    attributes = {name for tree in trees.values() for name in callable_attributes(tree)}
    assert len(attributes) > 15
    found = {
        str(path.relative_to(ROOT)): list(set_from_outside(tree, attributes))
        for path, tree in trees.items()
    }
    assert {path: lines for path, lines in found.items() if lines} == {}


def test_the_test_finds_what_it_looks_for() -> None:
    source = (
        "class A:\n"
        "    def __init__(self, told: Callable[[], None]) -> None:\n"
        "        self.told = told\n"
        "class B:\n"
        "    heard: Callable[[], None]\n"
        "a.told = print\n"
        "b.heard = print\n"
    )
    tree = ast.parse(source)
    found = list(set_from_outside(tree, set(callable_attributes(tree))))
    assert found == ["line 6: a.told", "line 7: b.heard"]


def test_a_port_that_was_forgotten_is_an_error() -> None:
    with pytest.raises(TypeError, match="on_taken_over"):
        PublisherPorts(on_closed=lambda publisher: None, on_at_rest=lambda publisher: None)  # type: ignore[call-arg]


def kinds(base: type) -> set[type]:
    below = [kind for one in base.__subclasses__() for kind in kinds(one)]
    return {*below} or {base}


def test_every_kind_of_input_and_of_timer_has_what_takes_it() -> None:
    broker = Broker("a", 1, {})
    assert set(broker._handlers) == kinds(Input)
    assert set(broker._incoming._on_timer) == kinds(Timer)
