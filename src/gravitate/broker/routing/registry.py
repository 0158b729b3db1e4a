"""What carries out each routing strategy."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Final

from gravitate.broker.routing.content.router import ContentRouter
from gravitate.broker.routing.router import Router, RouterPorts
from gravitate.overlay.strategies import CONTENT, Routing

ROUTERS: Final[Mapping[Routing, Callable[[Collection[str], RouterPorts], Router]]] = {
    CONTENT: ContentRouter
}
"""Called with the broker's neighbours."""
