"""What a Spark worker refused, as the error it raised and not as Spark's account of it.

A worker's exception reaches the driver as text: a traceback within a report. Errors of this
project are recognised in it by their names and come out as themselves. Messages of errors that
are raised in workers are one line; what follows it cannot be told from the report.
"""

from __future__ import annotations

import re
from typing import Final

from gravitate.errors import EnvironmentLack, FileError, GravitateError, InputError

_KINDS: Final[dict[str, type[GravitateError]]] = {
    kind.__name__: kind for kind in (InputError, FileError, EnvironmentLack)
}
_RAISED: Final = re.compile(rf"^gravitate\.errors\.({'|'.join(_KINDS)}): (.+)$", re.MULTILINE)


def of_worker(report: str) -> GravitateError | None:
    """The error that a worker raised on purpose, found in what Spark says; None if it is none."""
    found = _RAISED.search(report)
    return None if found is None else _KINDS[found[1]](found[2].strip())
