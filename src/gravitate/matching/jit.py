"""Compiling kernels once: a typed decorator over numba, and the cache its machine code lives in.

Owns where compiled kernels are kept and who may write there when. Knows nothing about matching.

The cache is a private directory of the user, never the installed package, so a read-only
install works like any other. Its name carries the package version, the interpreter, the
processor and a digest of the sources that kernels are compiled from: machine code is never
shared between what could differ in them. When the home directory cannot be
written, a directory below the system's temporary one takes its place, which must belong to the
user and be closed to others, because cached kernels are code. `NUMBA_CACHE_DIR` overrules both.

Compiling happens under one advisory file lock in the cache directory, and numba looks into the
cache after the lock is taken. Of many processes that start at once with a cold cache one
compiles and the others load. The lock also keeps two writers of one cache index from losing
each other's entries, and the operating system lets go of it when its holder dies.

Invariants: a kernel calls helper kernels and uses constants of its own family only, because the
digest covers the modules of that family that mention `jit`, and this one. A family is a folder of
the package or of one of its folders (`matching`, `plan/assignment`) with all that is in it.
Kernels are compiled for the argument types they are called with; keep to one set of types per
kernel.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import hashlib
import os
import platform
import stat
import sys
import tempfile
import threading
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any, TypeVar, cast

import llvmlite.binding  # type: ignore[import-untyped]
import numba
from llvmlite import ir
from numba.core import cgutils, config, types
from numba.extending import intrinsic

from gravitate import __version__

Function = TypeVar("Function", bound=Callable[..., Any])


def kernel(function: Function) -> Function:
    """Compile `function` with numba on its first call, through the cache, without the GIL.

    The first call may take seconds on a cold cache; `gravitate.matching.warm` pays it ahead.
    """
    directory = cache_directory(_family(Path(function.__code__.co_filename).parent))
    previous = config.CACHE_DIR
    # numba reads its directory while it decorates, so other users of numba keep theirs.
    config.CACHE_DIR = "" if directory is None else str(directory)
    try:
        dispatcher = numba.njit(function, cache=directory is not None, nogil=True)
    finally:
        config.CACHE_DIR = previous
    if directory is not None:
        compile_unlocked = dispatcher.compile
        lock = _lock_for(directory)

        def compile_locked(signature: object) -> object:
            with lock.held():
                return compile_unlocked(signature)

        dispatcher.compile = compile_locked
    return cast(Function, dispatcher)


@functools.cache
def cache_directory(sources: Path) -> Path | None:
    """Where kernels from the folder `sources` are kept; None when nothing can be written."""
    name = _cache_name(sources)
    override = os.environ.get("NUMBA_CACHE_DIR")
    if override:
        return Path(override) / name
    home = os.environ.get("XDG_CACHE_HOME") or str(Path("~").expanduser() / ".cache")
    temporary = Path(tempfile.gettempdir()) / f"gravitate-{os.getuid()}"
    for parent in (Path(home) / "gravitate", temporary):
        directory = parent / name
        if _is_private_and_writable(directory):
            return directory
    return None


@intrinsic
def pointer(typing_context, address):  # type: ignore[no-untyped-def]
    """An integer address as a pointer, for `numba.carray` inside kernels.

    A kernel that takes one address instead of a dozen arrays is called in 0.2 microseconds
    instead of 2: unpacking array arguments is most of the cost of a short call.
    """

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        return builder.inttoptr(arguments[0], cgutils.voidptr_t)

    return types.voidptr(types.int64), generate


@intrinsic
def trailing_zeros(typing_context, word):  # type: ignore[no-untyped-def]
    """How many zero bits lie below the lowest set bit of a word that is not zero."""

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        return builder.cttz(arguments[0], cgutils.true_bit)

    return types.uint64(types.uint64), generate


@intrinsic
def prefetch(typing_context, address):  # type: ignore[no-untyped-def]
    """Ask for the cache line at an address ahead of its use."""

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        half = ir.IntType(32)
        function_type = ir.FunctionType(ir.VoidType(), [cgutils.voidptr_t, half, half, half])
        function = cgutils.get_or_insert_function(builder.module, function_type, "llvm.prefetch.p0")
        to_read, keep, data = (ir.Constant(half, number) for number in (0, 3, 1))
        place = builder.inttoptr(arguments[0], cgutils.voidptr_t)
        builder.call(function, [place, to_read, keep, data])
        return context.get_dummy_value()

    return types.none(types.int64), generate


@intrinsic
def ruled_in(typing_context, columns, chosen, lanes, count, rows, live, survivors):  # type: ignore[no-untyped-def]
    """AND the complements of some rows of four words onto `live`, as vectors.

    All arguments but `count` are addresses. For each i below `count` the row is number
    `rows[lanes[i]]` of the 32 rows of column `chosen[i]`. The four words that are left go to
    `survivors`; the result is not zero when any bit is left. Written as vector code because the
    compiler does not find it in loops over words.
    """
    word = ir.IntType(64)
    half = ir.IntType(32)
    four = ir.VectorType(word, 4)

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        def array(address: Any, element: Any) -> Any:
            return builder.inttoptr(address, element.as_pointer())

        columns, chosen, lanes, count, rows, live, survivors = arguments
        columns, live, survivors = (array(a, four) for a in (columns, live, survivors))
        chosen, lanes = array(chosen, half), array(lanes, half)
        rows = array(rows, ir.IntType(8))
        left = cgutils.alloca_once_value(builder, builder.load(live, align=8))
        with cgutils.for_range(builder, count) as loop:
            lane = builder.sext(builder.load(builder.gep(lanes, [loop.index])), word)
            row = builder.zext(builder.load(builder.gep(rows, [lane])), word)
            column = builder.sext(builder.load(builder.gep(chosen, [loop.index])), word)
            at = builder.add(builder.mul(column, ir.Constant(word, 32)), row)
            out = builder.load(builder.gep(columns, [at]), align=8)
            builder.store(builder.and_(builder.load(left), builder.not_(out)), left)
        result = builder.load(left)
        builder.store(result, survivors, align=8)
        any_left = ir.Constant(word, 0)
        for index in range(4):
            element = builder.extract_element(result, ir.Constant(half, index))
            any_left = builder.or_(any_left, element)
        return any_left

    argument_types = [types.int64] * 7
    return types.uint64(*argument_types), generate


class _FileLock:
    """An advisory lock between processes, re-entrant within a thread."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._thread_lock = threading.RLock()
        self._depth = 0
        self._file: IO[bytes] | None = None

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        with self._thread_lock:
            if self._depth == 0:
                self._file = self._locked_file()
            self._depth += 1
            try:
                yield
            finally:
                self._depth -= 1
                if self._depth == 0 and self._file is not None:
                    self._file.close()
                    self._file = None

    def _locked_file(self) -> IO[bytes] | None:
        # A file system without locks costs a repeated compilation, not the program.
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            file = self._path.open("ab")
        except OSError:
            return None
        try:
            fcntl.flock(file, fcntl.LOCK_EX)
        except OSError:
            file.close()
            return None
        return file


_locks: dict[Path, _FileLock] = {}


def _lock_for(directory: Path) -> _FileLock:
    return _locks.setdefault(directory, _FileLock(directory / "compiling.lock"))


def _cache_name(sources: Path) -> str:
    digest = hashlib.sha256(_modules(Path(__file__).parent)[Path(__file__).name])
    for name, text in sorted(_modules(sources).items()):
        if b"jit" in text:
            digest.update(name.encode() + b"\0" + text)
    interpreter = f"{sys.implementation.cache_tag}-{platform.machine()}"
    processor = llvmlite.binding.get_host_cpu_name()
    return f"kernels-{__version__}-{interpreter}-{processor}-{digest.hexdigest()[:12]}"


def _family(folder: Path) -> Path:
    package = Path(__file__).parents[1]
    if not folder.is_relative_to(package):
        return folder
    return package.joinpath(*folder.relative_to(package).parts[:2])


def _modules(folder: Path) -> dict[str, bytes]:
    """The sources in a folder by their paths; it may lie within a zip archive, as on workers that
    were sent the package."""
    if folder.is_dir():
        return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*.py")}
    archive = next(parent for parent in folder.parents if parent.is_file())
    inside = folder.relative_to(archive).as_posix()
    with zipfile.ZipFile(archive) as packed:
        return {
            name.removeprefix(f"{inside}/"): packed.read(name)
            for name in packed.namelist()
            if name.startswith(f"{inside}/") and name.endswith(".py")
        }


def _is_private_and_writable(directory: Path) -> bool:
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        # Who owns the parent could put another directory in the place of this one.
        statuses = [directory.lstat(), directory.parent.lstat()]
        with tempfile.TemporaryFile(dir=directory):
            pass
    except OSError:
        return False
    return all(
        stat.S_ISDIR(status.st_mode)
        and status.st_uid == os.getuid()
        and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
        for status in statuses
    )
