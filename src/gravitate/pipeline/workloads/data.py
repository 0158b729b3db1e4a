"""Readers of public measurements that take the place of synthetic figures.

Owns file names, formats and what makes a file unusable; answers in arrays. Knows nothing of
workloads. Every problem is a `FileError` with the file and, where there is one, the line.
"""

from __future__ import annotations

import zlib
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.csv as csv
from numpy.typing import NDArray

from gravitate.errors import FileError
from gravitate.pipeline.workloads.columns import Floats, Integers

WALL_POSTS: Final = "facebook_wall_neworleans_dymond_subset.csv.gz"
CHECKINS: Final = "foursquare_3_checkins.csv.gz"
TRANSIT_STUB: Final = "topo-0-big.alt"


class WallPosts(msgspec.Struct, frozen=True):
    """Posts in order of time; users are numbered from 0 without gaps."""

    author: Integers
    owner: Integers
    """Whose wall it is."""
    at_s: Floats
    """From the first post."""
    users: int


class Checkins(msgspec.Struct, frozen=True):
    """Check-ins by user and time; users are numbered from 0 without gaps."""

    user: Integers
    at_s: Floats
    """From the first check-in of all."""
    latitude: Floats
    longitude: Floats
    users: int


class Graph(msgspec.Struct, frozen=True):
    """An undirected graph with lengths; every edge once."""

    nodes: int
    edges: NDArray[np.int64]
    """Pairs of nodes."""
    lengths: Floats
    stubs: Integers
    """The nodes at the edge of the network, where hosts are."""


def wall_posts(folder: Path) -> WallPosts:
    """Wall posts between users of the Facebook network New Orleans, a subset."""
    rows = _csv(folder / WALL_POSTS, {"src": pa.int64(), "dst": pa.int64(), "timestamp": _FLOAT})
    order = np.argsort(rows["timestamp"], kind="stable")
    names, numbers = np.unique(np.concatenate([rows["src"], rows["dst"]]), return_inverse=True)
    author, owner = numbers.reshape(2, -1)
    at_s = rows["timestamp"][order]
    return WallPosts(author[order], owner[order], at_s - at_s[0], len(names))


def checkins(folder: Path) -> Checkins:
    """Check-ins of Foursquare users in North America."""
    rows = _csv(
        folder / CHECKINS, {"user": pa.int64(), "epoch_s": _FLOAT, "lat": _FLOAT, "lon": _FLOAT}
    )
    users, user = np.unique(rows["user"], return_inverse=True)
    order = np.lexsort((rows["epoch_s"], user))
    at_s = rows["epoch_s"] - rows["epoch_s"].min()
    return Checkins(user[order], at_s[order], rows["lat"][order], rows["lon"][order], len(users))


def transit_stub(folder: Path) -> Graph:
    """A graph in the `.alt` format of GT-ITM: a header, vertices `T:..` and `S:..`, edges."""
    path = folder / TRANSIT_STUB
    section = ""
    stubs: list[int] = []
    edges: dict[tuple[int, int], float] = {}
    nodes = 0
    for number, line in enumerate(_text(path).splitlines(), 1):
        fields = line.split()
        if not fields:
            continue
        if fields[0] in ("GRAPH", "VERTICES", "EDGES"):
            section = fields[0]
            continue
        try:
            if section == "GRAPH":
                nodes = int(fields[0])
            elif section == "VERTICES":
                if fields[1].startswith("S:"):
                    stubs.append(int(fields[0]))
            elif section == "EDGES":
                one, other, length = int(fields[0]), int(fields[1]), float(fields[2])
                if not (0 <= one < nodes and 0 <= other < nodes and length >= 0):
                    raise ValueError(f"nodes are 0 to {nodes - 1}, lengths not negative")
                edges[min(one, other), max(one, other)] = length
        except (ValueError, IndexError) as problem:
            raise FileError(
                f"'{line.strip()}' is no line of {section or 'a GT-ITM graph'}: {problem}",
                str(path),
                number,
            ) from None
    if not edges or not stubs:
        raise FileError("has no edges or no stub nodes (S:): give a transit-stub graph", str(path))
    pairs = np.array(list(edges), dtype=np.int64)
    lengths = np.array(list(edges.values()))
    return Graph(nodes, pairs, lengths, np.array(stubs, dtype=np.int64))


_FLOAT: Final = pa.float64()


def _csv(path: Path, kinds: dict[str, Any]) -> dict[str, NDArray[Any]]:
    """Some columns of a CSV file, compressed or not, as arrays."""
    options = csv.ConvertOptions(column_types=kinds, include_columns=list(kinds))
    try:
        rows = csv.read_csv(path, convert_options=options)
    except OSError as problem:
        raise _unreadable(path, problem) from None
    except (pa.ArrowException, KeyError) as problem:
        raise FileError(
            f"needs the columns {', '.join(kinds)}: {str(problem).splitlines()[0]}", str(path)
        ) from None
    if not rows.num_rows:
        raise FileError("holds no rows", str(path))
    for name in kinds:
        if rows[name].null_count:
            raise FileError(f"column '{name}' has empty values", str(path))
    return {name: rows[name].to_numpy() for name in kinds}


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except (OSError, UnicodeDecodeError, zlib.error) as problem:
        raise _unreadable(path, problem) from None


def _unreadable(path: Path, problem: Exception) -> FileError:
    if not path.exists():
        return FileError("is missing: the data folder must have it for this workload", str(path))
    return FileError(f"cannot be read: {str(problem).splitlines()[0]}", str(path))
