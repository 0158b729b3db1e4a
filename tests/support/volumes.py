"""The kernels of `volume_kernels` for boxes written as anything that reads as arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from gravitate.plan.assignment.boxes import volume_kernels as kernels


def union_volume(boxes: ArrayLike) -> float:
    return float(kernels.union_volume(_boxes(boxes)))


def added_volume(boxes: ArrayLike, box: ArrayLike) -> float:
    found = _boxes(boxes)
    return float(kernels.added_volume(found, len(found), _boxes(box), np.empty_like(found)))


def holds(boxes: ArrayLike, box: ArrayLike) -> bool:
    return bool(kernels.holds(_boxes(boxes), _boxes(box)))


def _boxes(boxes: ArrayLike) -> Any:
    return np.ascontiguousarray(boxes, dtype=np.float64)
