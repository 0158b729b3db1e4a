"""Kernels compile once, also for a read-only install and for many processes at once."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import gravitate
from gravitate.matching import jit

IMPORTED = r"^from gravitate\.([\w.]+) import"

KERNEL = """
from gravitate.matching.jit import kernel

@kernel
def helper(x):
    return x * 2

@kernel
def twice(x):
    return helper(x)

if __name__ == "__main__":
    assert twice(21) == 42
    print(sum(twice.stats.cache_misses.values()), sum(twice.stats.cache_hits.values()))
"""


@pytest.fixture
def install(tmp_path: Path) -> Path:
    """A folder with a kernel, standing for an installed package."""
    folder = tmp_path / "install"
    folder.mkdir()
    (folder / "module.py").write_text(KERNEL)
    return folder


def start(install: Path, **variables: str) -> subprocess.Popen[str]:
    environment = {k: v for k, v in os.environ.items() if k != "NUMBA_CACHE_DIR"}
    return subprocess.Popen(
        [sys.executable, "-B", str(install / "module.py")],
        env={**environment, **variables},
        stdout=subprocess.PIPE,
        text=True,
    )


def misses_and_hits(process: subprocess.Popen[str]) -> tuple[int, int]:
    output, _ = process.communicate(timeout=120)
    assert process.returncode == 0
    misses, hits = output.split()
    return int(misses), int(hits)


def test_a_read_only_install_is_left_alone_and_compiled_once(install: Path, tmp_path: Path) -> None:
    install.chmod(0o500)
    cache = str(tmp_path / "cache")
    assert misses_and_hits(start(install, XDG_CACHE_HOME=cache)) == (1, 0)
    assert misses_and_hits(start(install, XDG_CACHE_HOME=cache)) == (0, 1)
    assert [path.name for path in install.iterdir()] == ["module.py"]


def test_of_many_processes_starting_at_once_one_compiles(install: Path, tmp_path: Path) -> None:
    cache = str(tmp_path / "cache")
    processes = [start(install, XDG_CACHE_HOME=cache) for _ in range(5)]
    results = sorted(misses_and_hits(process) for process in processes)
    assert results == [(0, 1)] * 4 + [(1, 0)]


def test_a_changed_source_is_compiled_anew(install: Path, tmp_path: Path) -> None:
    cache = str(tmp_path / "cache")
    assert misses_and_hits(start(install, XDG_CACHE_HOME=cache)) == (1, 0)
    (install / "module.py").write_text(KERNEL.replace("x * 2", "x + x"))
    assert misses_and_hits(start(install, XDG_CACHE_HOME=cache)) == (1, 0)


def test_without_a_home_the_temporary_directory_serves(install: Path, tmp_path: Path) -> None:
    no_directory = tmp_path / "file"
    no_directory.write_text("")
    elsewhere = {"XDG_CACHE_HOME": str(no_directory / "x"), "TMPDIR": str(tmp_path)}
    assert misses_and_hits(start(install, **elsewhere)) == (1, 0)
    assert misses_and_hits(start(install, **elsewhere)) == (0, 1)


def test_a_cache_that_others_may_write_is_not_trusted(install: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache" / "gravitate"
    cache.mkdir(parents=True)
    cache.chmod(0o777)
    variables = {"XDG_CACHE_HOME": str(cache.parent), "TMPDIR": str(tmp_path)}
    assert misses_and_hits(start(install, **variables)) == (1, 0)
    assert not list(cache.rglob("*.nbi"))
    assert list((tmp_path / f"gravitate-{os.getuid()}").rglob("*.nbi"))


def test_kernels_use_kernels_of_their_own_family_only() -> None:
    """What they call is in the digest that their machine code is kept under."""
    package = Path(gravitate.__file__).parent
    kernels = {path for path in package.rglob("*.py") if "jit import kernel" in path.read_text()}
    assert len({jit._family(path.parent) for path in kernels}) < len({p.parent for p in kernels})
    for path in kernels:
        for module in re.findall(IMPORTED, path.read_text(), re.MULTILINE):
            used = package.joinpath(*module.split(".")).with_suffix(".py")
            if used in kernels:
                assert jit._family(used.parent) == jit._family(path.parent), f"{path} uses {used}"
                assert str(used.relative_to(jit._family(path.parent))) in jit._modules(
                    jit._family(path.parent)
                )
