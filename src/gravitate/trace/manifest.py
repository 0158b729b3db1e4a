"""The manifest of a run: which network, which scenario, which seed the traces beside it are of."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import msgspec

from gravitate import __version__
from gravitate.errors import FileError
from gravitate.files import read_json, write_json

NAME = "run.json"


class RunManifest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a reader of the tables needs to know beside them."""

    network: str
    """The network file as TOML text."""
    clock: Literal["virtual", "unix"]
    """What `at_s` counts: seconds from the start of a simulated world, or Unix time."""
    scenario: str = ""
    started_at_s: float = 0.0
    """When the run began, in the units of `clock`. The times of a simulated scenario and of its
    workload count from here; before that, clients connect and all settles."""
    seed: int | None = None
    sampling_rate: float = 1.0
    gravitate_version: str = __version__

    def save(self, directory: str | Path) -> Path:
        """Write it into the trace directory, whole or not at all."""
        # Several processes of one run write the same manifest at once.
        return write_json(Path(directory) / NAME, self, make_folder=True)


def check_unused(directory: str | Path) -> None:
    """Refuse a directory that holds a run already: two runs in one place cannot be told apart.

    A manifest alone is what a run left that never began."""
    if any(Path(directory).glob("*/*.parquet")):
        raise FileError("holds the traces of another run: give another folder", str(directory))


def load(directory: str | Path) -> RunManifest:
    """The manifest of a trace directory."""
    path = Path(directory) / NAME
    if not path.exists():
        raise FileError(
            f"has no {NAME}: write the folder of a run, where brokers or the simulator left traces",
            str(directory),
        )
    return read_json(path, RunManifest, "a run manifest")
