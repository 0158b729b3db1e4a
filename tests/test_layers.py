"""What the import contracts cannot say: no clock is read and no shared randomness drawn where
a simulated run must be the same every time."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import gravitate

PACKAGE = Path(gravitate.__file__).parent
DETERMINISTIC = ("model", "matching", "overlay", "plan", "broker", "adapt", "simulate", "config")

SEEDED = {"Random", "default_rng", "Generator", "SeedSequence", "PCG64"}
"""What may be used of `random` and `numpy.random`: generators that somebody seeds."""
CLOCKS = {"time", "datetime"}
UNSTABLE = {"urandom", "uuid1", "uuid4", "token_bytes", "token_hex", "SystemRandom"}


def modules() -> Iterator[Path]:
    for layer in DETERMINISTIC:
        yield from sorted((PACKAGE / layer).rglob("*.py"))


def offences(source: str) -> list[str]:
    found = []
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Import(names=names):
                found += [f"import {name.name}" for name in names if name.name in CLOCKS]
            case ast.ImportFrom(module=str(module), names=names):
                if module in CLOCKS:
                    found.append(f"from {module} import ...")
                if module in {"random", "numpy.random"}:
                    found += [
                        f"from {module} import {name.name}"
                        for name in names
                        if name.name not in SEEDED
                    ]
            case (
                ast.Attribute(value=ast.Name(id="random"), attr=attribute)
                | ast.Attribute(value=ast.Attribute(attr="random"), attr=attribute)
            ):
                if attribute not in SEEDED:
                    found.append(f"random.{attribute}")
            case ast.Attribute(attr=attribute) if attribute in UNSTABLE:
                found.append(attribute)
            case ast.Call(func=ast.Name(id="hash")):
                found.append("hash(): differs from process to process")
            case ast.Call(
                func=ast.Name(id="Random") | ast.Attribute(attr="Random" | "default_rng"), args=[]
            ):
                found.append("a generator without a seed")
    return found


@pytest.mark.parametrize("path", list(modules()), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_a_deterministic_layer_reads_no_clock_and_shares_no_randomness(path: Path) -> None:
    assert offences(path.read_text()) == []


@pytest.mark.parametrize(
    "source",
    [
        "import time",
        "from datetime import datetime",
        "import random\nrandom.shuffle(x)",
        "from random import random",
        "import numpy as np\nnp.random.rand(3)",
        "import random\nrandom.Random()",
        "hash('a')",
        "import os\nos.urandom(4)",
    ],
)
def test_what_makes_runs_differ_is_found(source: str) -> None:
    assert offences(source) != []


@pytest.mark.parametrize(
    "source",
    [
        "import random\nrandom.Random(7).shuffle(x)",
        "import numpy as np\nnp.random.default_rng(3).random()",
        "def f(generator): return generator.random()",
    ],
)
def test_seeded_generators_are_welcome(source: str) -> None:
    assert offences(source) == []
