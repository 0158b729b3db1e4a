"""Volumes of unions of boxes, exact up to rounding, and whether a union holds a box.

    union_volume(boxes)          # boxes of shape (count, 2, dimensions)
    added_volume(boxes, box)     # by how much the union grows with one more box
    holds(boxes, box)            # whether the box lies within the union

Boxes are closed; one without extent on some axis is a box with volume 0. Owns the wrappers that
check; the kernels are in `volume_kernels`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gravitate.errors import InputError
from gravitate.plan.assignment.boxes import volume_kernels as kernels

Floats = NDArray[np.float64]


def union_volume(boxes: ArrayLike) -> float:
    """The volume of the union; 0 for no boxes.

    In two dimensions count * log(count) steps, so a million boxes are a matter of seconds; each
    further dimension multiplies that by the number of different edges on its axis."""
    return float(kernels.union_volume(_boxes(boxes)))


def added_volume(boxes: ArrayLike, box: ArrayLike) -> float:
    """The volume that `box` has outside the union of `boxes`."""
    found, added = _boxes(boxes), _boxes(np.asarray(box, dtype=np.float64)[None])
    _require_same_space(found, added)
    return float(kernels.added_volume(found, len(found), added[0], np.empty_like(found)))


def holds(boxes: ArrayLike, box: ArrayLike) -> bool:
    """Whether every point of `box` lies in one of `boxes`; compares only, so rounding is none."""
    found, held = _boxes(boxes), _boxes(np.asarray(box, dtype=np.float64)[None])
    _require_same_space(found, held)
    return bool(kernels.holds(found, held[0]))


def _boxes(boxes: ArrayLike) -> Floats:
    found = np.ascontiguousarray(boxes, dtype=np.float64)
    if found.size == 0 and found.ndim < 3:
        return np.empty((0, 2, 1))
    if found.ndim != 3 or found.shape[1] != 2 or found.shape[2] == 0:
        raise InputError(
            f"boxes of shape {found.shape} are not accepted: write (count, 2, dimensions)"
        )
    if not (found[:, 0] <= found[:, 1]).all() or not np.isfinite(found).all():
        wrong = ~(found[:, 0] <= found[:, 1]).all(axis=1) | ~np.isfinite(found).all(axis=(1, 2))
        number = int(np.flatnonzero(wrong)[0])
        raise InputError(
            f"box {number}, {found[number].tolist()}, is not accepted: "
            "write finite corners, the lower first"
        )
    return found


def _require_same_space(boxes: Floats, other: Floats) -> None:
    if len(boxes) and boxes.shape[2] != other.shape[2]:
        raise InputError(
            f"boxes of {boxes.shape[2]} and {other.shape[2]} dimensions do not go together"
        )
