"""The network file: brokers, addresses, coordinates, primary links, routing, mechanisms."""

from __future__ import annotations

from typing import Any, Literal

import msgspec


class Address(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where a broker listens; port 0 means that it does not offer this."""

    host: str = "127.0.0.1"
    mqtt: int = 0
    peer: int = 0
    http: int = 0


class BrokerSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    id: str
    address: Address = Address()
    coordinates: tuple[float, ...] = ()
    payload_fields: bool = True
    """Whether conditions may look into JSON payloads (`payload.x`)."""


class LinkSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A primary link; the first of the two dials."""

    between: tuple[str, str]
    latency_ms: float = 0.0
    """One way; simulated worlds use it, nodes add it when they emulate."""
    bandwidth_bytes_per_s: float = 0.0
    """0: unlimited."""


class Network(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    brokers: tuple[BrokerSpec, ...]
    links: tuple[LinkSpec, ...]
    routing: Literal["content"] = "content"
    forwarding: Literal["S0"] = "S0"
    mechanisms: dict[str, dict[str, Any]] = {}
