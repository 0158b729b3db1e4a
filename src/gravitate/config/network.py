"""The network file: brokers, addresses, coordinates, primary links, routing, mechanisms.

Owns what such a file may say: its structs, reading with validation, and writing. A `Network`
that `load` returns is sound: ids are valid and unique, no port is used twice, the primary links
join all brokers without a cycle. What is wrong is a `FileError` that names file and line. What
mechanisms take is the business of `adapt.catalogue`, unless the caller names those it knows:
then their parameters are left as they are.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection
from pathlib import Path
from typing import Any

import msgspec

from gravitate.broker.options import DEFAULTS, BrokerOptions
from gravitate.config.decode import decode, unknown_key
from gravitate.config.listeners import MqttSpec
from gravitate.config.toml import Document, parse, read, render_key, render_value
from gravitate.errors import FileError, InputError
from gravitate.files import write_whole
from gravitate.overlay import tree
from gravitate.overlay.coordinates import latency_ms
from gravitate.overlay.strategies import CONTENT, S0, Forwarding, Routing
from gravitate.overlay.topology import Topology

BROKER_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
"""Ids name files and stand in topics and tables, so they are plain."""

NOT_SETTABLE = frozenset(("network", "durable"))
"""Options that no network file sets: its name is said elsewhere, and nodes have no journal."""
HOST = re.compile(r"[^\s\x00-\x1f\x7f]{0,255}")
"""Clients are told hosts in packets, so any that is listened on must fit."""

EVERY_HOST = frozenset({"", "0.0.0.0", "::"})
PORT_KINDS = ("mqtt", "peer", "http")


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
    mqtt: MqttSpec = MqttSpec()
    """What clients may ask of this broker, and how much."""


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
    links: tuple[LinkSpec, ...] = ()
    routing: Routing = CONTENT
    forwarding: Forwarding = S0
    options: BrokerOptions = DEFAULTS
    """Bounds and intervals of every broker; not `network`, which is the name above."""
    mechanisms: dict[str, dict[str, Any]] = {}

    def topology(self) -> Topology:
        """How it starts."""
        return Topology.started_as(
            [broker.id for broker in self.brokers], [link.between for link in self.links]
        )


def load(path: str | Path, known_mechanisms: Collection[str] | None = None) -> Network:
    """The network file at `path`, checked; a `FileError` names the line of what is wrong."""
    return from_document(read(path), known_mechanisms)


def loads(text: str, path: str = "", known_mechanisms: Collection[str] | None = None) -> Network:
    """The same from text; `path` is only used in errors."""
    return from_document(parse(text, path), known_mechanisms)


def from_document(document: Document, known_mechanisms: Collection[str] | None = None) -> Network:
    """The network that a TOML document describes.

    A link without a latency between brokers with coordinates has their distance as latency."""
    check_mechanisms(document, known_mechanisms)
    _check_options(document)
    network = decode(document, Network)
    _check_retries(document, network.options)
    _check_brokers(document, network)
    _check_ports(document, network)
    _check_links(document, network)
    _check_tree(document, network)
    return _with_distances(document, network)


def save(network: Network, path: str | Path) -> None:
    """Write the network file, whole or not at all."""
    write_whole(path, render(network).encode())


def render(network: Network) -> str:
    """The network as TOML; defaults are left out, `loads` gives the same network back."""
    lines = [f"name = {render_value(network.name)}"]
    lines.append(f"routing = {render_value(network.routing)}")
    lines.append(f"forwarding = {render_value(network.forwarding)}")
    for broker in network.brokers:
        lines += ["", "[[brokers]]", *_rendered_fields(broker)]
    for link in network.links:
        lines += ["", "[[links]]", *_rendered_fields(link)]
    if network.options != DEFAULTS:
        lines += ["", "[options]", *_rendered_fields(network.options)]
    for mechanism, parameters in network.mechanisms.items():
        lines += ["", f"[mechanisms.{render_key(mechanism)}]"]
        lines += [f"{render_key(key)} = {render_value(value)}" for key, value in parameters.items()]
    return "\n".join(lines) + "\n"


def _rendered_fields(struct: msgspec.Struct) -> list[str]:
    shown = []
    for field in msgspec.structs.fields(struct):
        value = getattr(struct, field.name)
        # A latency of zero is written out: else the coordinates' distance would take its place.
        if value == field.default and field.name != "latency_ms":
            continue
        if isinstance(value, msgspec.Struct):
            default = field.default
            value = {
                part.name: getattr(value, part.name)
                for part in msgspec.structs.fields(value)
                if getattr(value, part.name) != getattr(default, part.name)
            }
        shown.append(f"{field.name} = {render_value(value)}")
    return shown


def check_mechanisms(document: Document, known: Collection[str] | None = None) -> None:
    """Check the table `mechanisms` of a network or scenario file."""
    sections = document.data.get("mechanisms", {})
    if not isinstance(sections, dict):
        raise document.error("'mechanisms' must be a table: write [mechanisms.NAME]", "mechanisms")
    if not sections:
        return
    # Compiled kernels come along with mechanisms, and most files name none.
    from gravitate.adapt import catalogue

    names = catalogue.KINDS if known is None else known
    for name, parameters in sections.items():
        if name not in names:
            listed = ", ".join(sorted(names)) or "none"
            raise document.error(
                f"unknown mechanism '{name}' (known: {listed})", "mechanisms", name
            )
        if not isinstance(parameters, dict):
            raise unknown_key(document, name, (), "mechanisms")
        if known is None:
            try:
                decode(document, catalogue.KINDS[name].settings, "mechanisms", name)
            except FileError:
                raise
            except InputError as problem:
                raise document.error(str(problem), "mechanisms", name) from None
    if known is None:
        try:
            catalogue.check_together(sections)
        except InputError as problem:
            raise document.error(str(problem), "mechanisms", next(iter(sections))) from None


def _check_options(document: Document) -> None:
    sections = document.data.get("options", {})
    for key in NOT_SETTABLE & sections.keys() if isinstance(sections, dict) else ():
        known = [name for name in BrokerOptions.__struct_fields__ if name not in NOT_SETTABLE]
        raise unknown_key(document, key, known, "options")


def _check_retries(document: Document, options: BrokerOptions) -> None:
    if options.retry_s_min > options.retry_s_max:
        raise document.error(
            f"retry_s_min is {options.retry_s_min:g}, expected at most retry_s_max, which is "
            f"{options.retry_s_max:g}",
            "options",
            "retry_s_min" if "retry_s_min" in document.data["options"] else "retry_s_max",
        )


def _check_brokers(document: Document, network: Network) -> None:
    if not network.name:
        raise document.error("'name' is empty: give the network a name", "name")
    if not network.brokers:
        raise document.error("a network needs at least one broker: add [[brokers]]", "brokers")
    first_at: dict[str, int] = {}
    dimensions = len(network.brokers[0].coordinates)
    for index, broker in enumerate(network.brokers):
        wrong = document.at("brokers", index)
        if not BROKER_ID.fullmatch(broker.id):
            raise wrong(
                f"broker id {broker.id!r} is not accepted: write letters, digits, '.', '_' and "
                "'-', at most 64, the first a letter or digit",
                "id",
            )
        if broker.id in first_at:
            line = document.line_of(("brokers", first_at[broker.id], "id"))
            raise wrong(f"duplicate broker id '{broker.id}': line {line} has it already", "id")
        first_at[broker.id] = index
        if not HOST.fullmatch(broker.address.host) or not _is_encodable(broker.address.host):
            raise wrong(
                f"host {broker.address.host[:40]!r} of '{broker.id}' is not accepted: write a name "
                "or an address without spaces, of at most 255 characters",
                "address",
                "host",
            )
        if broker.mqtt.write_bytes_low >= broker.mqtt.write_bytes_high:
            raise wrong(
                f"write_bytes_low {broker.mqtt.write_bytes_low} of '{broker.id}' is not accepted: "
                f"write less than write_bytes_high, which is {broker.mqtt.write_bytes_high}",
                "mqtt",
                "write_bytes_low",
            )
        if not all(math.isfinite(value) for value in broker.coordinates):
            raise wrong(f"coordinates of '{broker.id}' must be finite numbers", "coordinates")
        if len(broker.coordinates) != dimensions:
            raise wrong(
                f"'{broker.id}' has {len(broker.coordinates)} coordinates and "
                f"'{network.brokers[0].id}' has {dimensions}: give all brokers the same number",
                "coordinates",
            )


def _check_ports(document: Document, network: Network) -> None:
    users: dict[int, list[tuple[str, int, str]]] = {}
    for index, broker in enumerate(network.brokers):
        host = broker.address.host
        for kind in PORT_KINDS:
            port: int = getattr(broker.address, kind)
            place = ("brokers", index, "address", kind)
            if not 0 <= port <= 65535:
                raise document.error(
                    f"port {port} of '{broker.id}' is not accepted: write 1 to 65535, "
                    "or 0 to not offer this",
                    *place,
                )
            if port == 0:
                continue
            for other_host, other_index, other_kind in users.setdefault(port, []):
                if host == other_host or host in EVERY_HOST or other_host in EVERY_HOST:
                    line = document.line_of(("brokers", other_index, "address", other_kind))
                    raise document.error(
                        f"port {port} of '{broker.id}' ({kind}) is used by "
                        f"'{network.brokers[other_index].id}' ({other_kind}, line {line})",
                        *place,
                    )
            users[port].append((host, index, kind))


def _check_links(document: Document, network: Network) -> None:
    ids = {broker.id for broker in network.brokers}
    first_at: dict[frozenset[str], int] = {}
    for index, link in enumerate(network.links):
        wrong = document.at("links", index)
        for end, broker in enumerate(link.between):
            if broker not in ids:
                raise wrong(f"link to unknown broker '{broker}'", "between", end)
        one, other = link.between
        if one == other:
            raise wrong(f"'{one}' is linked to itself", "between")
        pair = frozenset(link.between)
        if pair in first_at:
            line = document.line_of(("links", first_at[pair], "between"))
            raise wrong(
                f"'{one}' and '{other}' are linked twice: line {line} has the link already",
                "between",
            )
        first_at[pair] = index
        for key in ("latency_ms", "bandwidth_bytes_per_s"):
            value: float = getattr(link, key)
            if not (math.isfinite(value) and value >= 0):
                raise wrong(
                    f"'{key}' is {value}, which is not accepted: write a number from 0", key
                )


def _check_tree(document: Document, network: Network) -> None:
    links = [link.between for link in network.links]
    cycle = tree.first_cycle(links)
    if cycle is not None:
        position, way = cycle
        raise document.error(
            f"the primary links make a cycle: {' - '.join(way)}; they must be a tree",
            "links",
            position,
            "between",
        )
    ids = [broker.id for broker in network.brokers]
    parts = tree.parts(ids, links)
    if len(parts) > 1:
        named = " and ".join(f"{{{_some(part)}}}" for part in parts[:4])
        more = f" and {len(parts) - 4} more" if len(parts) > 4 else ""
        raise document.error(
            f"the network is in {len(parts)} parts: {named}{more}; link them",
            "brokers",
            ids.index(parts[1][0]),
        )


def _some(part: list[str]) -> str:
    return ", ".join(part) if len(part) <= 6 else f"{', '.join(part[:5])}, ... {len(part)} brokers"


def _with_distances(document: Document, network: Network) -> Network:
    points = {broker.id: broker.coordinates for broker in network.brokers}
    links = tuple(
        msgspec.structs.replace(
            link, latency_ms=round(latency_ms(*map(points.__getitem__, link.between)), 3)
        )
        if "latency_ms" not in document.data["links"][index] and points[link.between[0]]
        else link
        for index, link in enumerate(network.links)
    )
    return msgspec.structs.replace(network, links=links)


def _is_encodable(host: str) -> bool:
    """Whether a name can be looked up at all."""
    try:
        host.encode("idna")
    except UnicodeError:
        return False
    return True
