"""Small files, written whole or not at all.

A file that is being written has a hidden name with the number of its process, so that several may
write the same one at once; people are only ever told its own name. Files of many rows are written
where their rows are made.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Any

import msgspec

from gravitate.errors import FileError


def write_whole(path: str | Path, content: bytes, *, make_folder: bool = False) -> Path:
    """Write a file so that readers see all of it or what was there before; returns its path."""
    target = Path(path)
    temporary = target.with_name(f".{target.name}.{os.getpid()}.writing")
    try:
        if make_folder:
            target.parent.mkdir(parents=True, exist_ok=True)
        temporary.write_bytes(content)
        return temporary.replace(target)
    except OSError as problem:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise FileError(f"cannot be written: {problem.strerror or problem}", str(target)) from None


def write_json(path: str | Path, what: Any, *, make_folder: bool = False) -> Path:
    """The same for a struct, as JSON that people can read."""
    content = msgspec.json.format(msgspec.json.encode(what)) + b"\n"
    return write_whole(path, content, make_folder=make_folder)
