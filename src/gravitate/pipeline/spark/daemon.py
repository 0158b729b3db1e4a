"""The process that the Python workers of an embedded session are forked from.

It is Spark's own, but for two things. Spark collects garbage after every task; going over all
objects of numba, pyarrow and the like takes 50 ms, longer than most tasks. Here what has outlived a
task is set aside, so that the next collection looks only at what is new. And a worker that Spark
does not need any more ends without a word.
"""

from __future__ import annotations

import gc
import socket

from pyspark import daemon

_serve = daemon.worker


class NewGarbage:
    """In place of the module `gc` within Spark's daemon."""

    @staticmethod
    def collect() -> int:
        found = gc.collect()
        gc.freeze()
        return found


def serve(connection: socket.socket, authenticated: bool) -> int:
    """One task of a worker; the exit status."""
    try:
        return int(_serve(connection, authenticated))
    except BrokenPipeError:
        # Spark closes connections that were idle for a minute.
        return 1


if __name__ == "__main__":
    daemon.gc = NewGarbage
    daemon.worker = serve
    daemon.manager()
