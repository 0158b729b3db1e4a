"""Everything that a broker refers to: how checkers walk it, whatever parts it is made of."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any, Final

OWN: Final = ("gravitate.broker.", "gravitate.adapt.")
"""Where the classes are whose objects are looked into."""
CONTAINERS: Final = (dict, list, set, frozenset, tuple, deque)


def attributes(one: object) -> Iterator[tuple[str, Any]]:
    """Those of an object, with their names."""
    yield from getattr(one, "__dict__", {}).items()
    slots = [name for kind in type(one).__mro__ for name in getattr(kind, "__slots__", ())]
    for name in (*slots, *getattr(one, "__struct_fields__", ())):
        if hasattr(one, name):
            yield name, getattr(one, name)
