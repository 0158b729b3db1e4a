"""Load, or compile on a cold cache, every kernel of this package before traffic comes.

The first call of a kernel takes a fraction of a second with a warm cache and many seconds with a
cold one; a listener calls `warm_up` before it lets anybody in.
"""

from __future__ import annotations

import numpy as np

from gravitate.model.events import Event
from gravitate.wire.mqtt import kernels as k
from gravitate.wire.mqtt.bodies import FrameBodies
from gravitate.wire.mqtt.codes import V5, V311
from gravitate.wire.mqtt.emit import emit, frame_sizes, upgrade
from gravitate.wire.mqtt.scan import scan_long


def warm_up() -> None:
    """Call every kernel once, with the types that traffic calls it with."""
    for qos in (0, 1):
        data = FrameBodies.from_events([Event({"topic": "warm", "x": 1})] * 12, qos).buffer
        frames, _, _, _ = scan_long(data, 0, V5, len(data))
        assert not isinstance(frames, list)
        bodies = FrameBodies(data, frames, qos)
        gaps = bodies.select([*range(5), *range(6, 12)])
        bodies.topics()
        bodies.size_bytes()
        frame_sizes(bodies, V5, qos)
        for some in (bodies, gaps):
            emit(some, V5, qos, qos)
            emit(some, V311, qos, qos)
        upgrade(data, frames, qos, True)
        k.write_pubacks(frames, np.empty(4 * len(frames), dtype=np.uint8))
        k.acknowledged_in_order(frames, 1)
