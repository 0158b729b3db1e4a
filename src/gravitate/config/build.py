"""Networks made to order: a shape, a number of brokers, ports and places.

Owns how made networks name their brokers (`b01`, `b02`, ...) and number their ports. Every
network made here passes the checks that a network file must pass.
"""

from __future__ import annotations

import math

from gravitate.config.network import Address, BrokerSpec, LinkSpec, Network
from gravitate.errors import InputError
from gravitate.overlay import coordinates, shapes

MQTT_PORT = 18830
PEER_PORT = 22830
HTTP_PORT = 26830
"""First ports by default: below the range from which systems dial out, 4000 apart."""


def shaped(
    shape: str,
    brokers: int,
    *,
    name: str = "",
    fanout: int = 2,
    seed: int = 0,
    host: str = "127.0.0.1",
    mqtt_port: int = MQTT_PORT,
    peer_port: int = PEER_PORT,
    http_port: int = HTTP_PORT,
    link_ms: float = 0.0,
    extent_ms: float = 0.0,
) -> Network:
    """A network of `brokers` brokers in the given shape, all on `host`, on consecutive ports.

    `link_ms` spreads the tree around its root with links about that long; `extent_ms` scatters
    the brokers over a square of that size by `seed`; with neither, links have no latency."""
    links = shapes.shape(shape, brokers, fanout, seed)
    points: list[coordinates.Point]
    for what, length_ms in (("length of links", link_ms), ("extent of the plane", extent_ms)):
        if not 0 <= length_ms < math.inf:
            raise InputError(f"{length_ms:g} ms is no {what}: write a number from 0")
    if link_ms > 0 and extent_ms > 0:
        raise InputError("give either a length of links or an extent of the plane, not both")
    if link_ms > 0:
        points = coordinates.radial(links, brokers, link_ms)
    elif extent_ms > 0:
        points = coordinates.scattered(brokers, extent_ms, seed)
    else:
        points = [()] * brokers
    _check_ports(brokers, (mqtt_port, peer_port, http_port))
    ids = broker_ids(brokers)
    return Network(
        name=name or f"{shape}-{brokers}",
        brokers=tuple(
            BrokerSpec(
                id=broker,
                address=Address(host, mqtt_port + index, peer_port + index, http_port + index),
                coordinates=points[index],
            )
            for index, broker in enumerate(ids)
        ),
        links=tuple(
            LinkSpec(
                between=(ids[parent], ids[child]),
                latency_ms=round(coordinates.latency_ms(points[parent], points[child]), 3),
            )
            for parent, child in links
        ),
    )


def broker_ids(brokers: int) -> list[str]:
    """The names of the brokers in a made network of that many."""
    digits = max(2, len(str(brokers)))
    return [f"b{number:0{digits}d}" for number in range(1, brokers + 1)]


def _check_ports(brokers: int, firsts: tuple[int, ...]) -> None:
    last = 65536 - brokers
    for position, first in enumerate(firsts):
        if not 1 <= first <= last:
            raise InputError(f"{brokers} ports from {first} are not to be had: write 1 to {last}")
        for other in firsts[:position]:
            if abs(first - other) < brokers:
                raise InputError(
                    f"ports from {other} and from {first} overlap: keep them {brokers} apart"
                )
