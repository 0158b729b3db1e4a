"""What is a publisher's and what is a subscriber's is not written twice, by letter or by shape."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import gravitate.broker

ROOT = Path(gravitate.broker.__file__).parent
ROOMS = ("sessions", "moves")
LINES = 6
"""What is shorter may stand twice."""
NAMED = re.compile(r"(id|attr|arg|name|value)='[^']*'")


def shape(statements: list[ast.stmt]) -> str:
    """What statements do, whatever things are called in them."""
    return NAMED.sub(r"\1=_", "; ".join(ast.dump(one) for one in statements))


def runs(function: ast.FunctionDef) -> Iterator[list[ast.stmt]]:
    """Statements that follow each other, over so many lines or more, docstrings apart."""
    for node in ast.walk(function):
        for field in ("body", "orelse"):
            block = getattr(node, field, None)
            if not isinstance(block, list):
                continue
            body = [one for one in block if not _is_docstring(one)]
            for start in range(len(body)):
                for end in range(start + 1, len(body) + 1):
                    last = body[end - 1].end_lineno
                    assert last is not None
                    if last - body[start].lineno + 1 >= LINES:
                        yield body[start:end]
                        break


def _is_docstring(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def twins(sources: dict[str, str]) -> Iterator[str]:
    """Where the same is done in two places; what an `__init__` is given is its own."""
    seen: dict[str, str] = {}
    for name, source in sources.items():
        for function in ast.walk(ast.parse(source)):
            if not isinstance(function, ast.FunctionDef) or function.name == "__init__":
                continue
            for run in runs(function):
                where = f"{name}:{run[0].lineno}"
                first = seen.setdefault(shape(run), where)
                if first != where:
                    yield f"{first} and {where}"


def test_nothing_stands_twice() -> None:
    paths = [path for room in ROOMS for path in sorted((ROOT / room).rglob("*.py"))]
    sources = {str(path.relative_to(ROOT)): path.read_text() for path in paths}
    assert len(sources) > 10
    assert list(twins(sources)) == []


def test_what_stands_twice_is_found_under_other_names() -> None:
    one = """
def publish(self, publisher):
    for key in publisher.advertisements:
        if key in self.known:
            self.known.remove(key)
            self.tell(publisher, key)
        else:
            self.known.add(key)
    return publisher
"""
    other = one.replace("publisher", "subscriber").replace("advertisements", "wanted")
    assert list(twins({"one": one, "other": other})) == ["one:3 and other:3"]
    assert list(twins({"one": one, "other": other.replace("else", "elif other")})) == []
