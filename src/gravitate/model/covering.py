"""Which filters cover and which intersect: the questions that routing asks all the time.

`covers` is a preorder and sound: what it says is so, filter over filter over filter. It is not
complete: a conjunction that is covered only by several of the other filter's together is not
found, nor are some pairs of LIKE patterns. `intersects` may say yes too often (the same
patterns), never no when an event matches both. What is derived from a filter is kept with it.
"""

from __future__ import annotations

from typing import Final, cast

from gravitate.model.alternatives import Alternatives
from gravitate.model.filters import Filter
from gravitate.model.regions import conjunction_within, conjunctions_overlap, filter_regions

_FEW_PAIRS: Final = 32
"""Up to so many pairs of alternatives are compared one by one."""


def _alternatives(filter: Filter) -> Alternatives:
    """Those of a filter, kept with it. Invalidated by: nothing, filters are immutable."""
    memory = filter.__dict__
    known = memory.get("alternatives")
    if known is None:
        known = memory["alternatives"] = Alternatives(filter_regions(filter))
    return cast(Alternatives, known)


def covers(wide: Filter, narrow: Filter) -> bool:
    """Whether every event that matches `narrow` matches `wide`."""
    if wide is narrow:
        return True
    wides = wide.__dict__.get("regions")
    if wides is None:
        wides = filter_regions(wide)
    narrows = narrow.__dict__.get("regions")
    if narrows is None:
        narrows = filter_regions(narrow)
    if len(wides) * len(narrows) > _FEW_PAIRS:
        return all(_alternatives(wide).around(narrows))
    for part in narrows:
        for whole in wides:
            if conjunction_within(part, whole):
                break
        else:
            return False
    return True


def intersects(f: Filter, g: Filter) -> bool:
    """Whether some event may match both."""
    ours = f.__dict__.get("regions")
    if ours is None:
        ours = filter_regions(f)
    others = g.__dict__.get("regions")
    if others is None:
        others = filter_regions(g)
    if len(ours) * len(others) > _FEW_PAIRS:
        return any(_alternatives(f).meeting(others))
    for mine in ours:
        for other in others:
            if conjunctions_overlap(mine, other):
                return True
    return False


def is_empty(filter: Filter) -> bool:
    """Whether it is found that no event matches."""
    return not filter_regions(filter)
