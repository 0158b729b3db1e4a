"""Every routing strategy by the name the network file uses."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Final

from gravitate.broker.routing.content.router import ContentRouter
from gravitate.broker.routing.router import Router, RouterPorts

ROUTERS: Final[Mapping[str, Callable[[str, Collection[str], RouterPorts], Router]]] = {
    "content": ContentRouter
}
"""Called with the broker's id and its neighbours."""
