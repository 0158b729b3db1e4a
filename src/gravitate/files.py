"""Small files, written whole or not at all, and read.

A file that is being written has a hidden name with the number of its process, so that several may
write the same one at once; people are only ever told its own name. Files of many rows are written
where their rows are made.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from gravitate.errors import FileError

T = TypeVar("T")


def write_whole(
    path: str | Path, content: bytes, *, make_folder: bool = False, durable: bool = False
) -> Path:
    """Write a file so that readers see all of it or what was there before; returns its path.

    What is durable is on the disk then, and a machine that loses its power has it."""
    target = Path(path)
    temporary = target.with_name(f".{target.name}.{os.getpid()}.writing")
    try:
        if make_folder:
            target.parent.mkdir(parents=True, exist_ok=True)
        with temporary.open("wb") as file:
            file.write(content)
            if durable:
                file.flush()
                os.fsync(file.fileno())
        temporary.replace(target)
        if durable:
            _sync_folder(target.parent)
        return target
    except BaseException as problem:
        with contextlib.suppress(OSError):
            temporary.unlink()
        if not isinstance(problem, OSError):
            raise
        raise FileError(f"cannot be written: {problem.strerror or problem}", str(target)) from None


def _sync_folder(folder: Path) -> None:
    """Have the disk know under which name a file is, where the file system does that at all."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def read_json(path: Path, kind: type[T], what: str) -> T:
    """A struct that was written as JSON; one that cannot be read is not `what`."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except OSError as problem:
        raise FileError(f"cannot be read: {problem.strerror}", str(path)) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as problem:
        raise FileError(f"is not {what}: {problem}", str(path)) from None


def write_json(
    path: str | Path, what: Any, *, make_folder: bool = False, durable: bool = False
) -> Path:
    """The same for a struct, as JSON that people can read."""
    content = msgspec.json.format(msgspec.json.encode(what)) + b"\n"
    return write_whole(path, content, make_folder=make_folder, durable=durable)
