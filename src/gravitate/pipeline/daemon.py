"""The process that the Python workers of an embedded session are forked from.

It is Spark's own, but for garbage. Spark collects it after every task; going over all objects of
numba, pyarrow and the like takes 50 ms, longer than most tasks. Here what has outlived a task is
set aside, so that the next collection looks only at what is new.
"""

from __future__ import annotations

import gc

from pyspark import daemon


class NewGarbage:
    """In place of the module `gc` within Spark's daemon."""

    @staticmethod
    def collect() -> int:
        found = gc.collect()
        gc.freeze()
        return found


if __name__ == "__main__":
    daemon.gc = NewGarbage
    daemon.manager()
