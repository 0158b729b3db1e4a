"""The scenario file: a network, a workload, faults, and a seed that decides everything drawn.

Owns what such a file may say and how it becomes a `Script`; it does not run anything. What is
wrong is a `FileError` that names file and line: an unknown key, a broker that the network lacks,
a condition that does not parse, a fault on a link that is not there.

    name = "two quotes"
    seed = 7
    duration_s = 10.0

    [network]                       # either file = "network.toml", or a shape:
    shape = "balanced-tree"         # balanced-tree, line, star, random-tree
    brokers = 7
    fanout = 2
    latency_ms = [5.0, 40.0]        # per link, drawn between the two; or one of
                                    # extent_ms = 80.0 (brokers scattered over a square) and
                                    # rtt_matrix = "rtt.tsv" (measured round trips, a row a line)
    bandwidth_bytes_per_s = 0.0     # of every link; 0: unlimited

    [service]                       # what a simulated broker takes; optional
    batch_ms = 0.1                  # for each batch of inputs, each input, each event
    input_ms = 0.0
    event_ms = 0.02

    [workload]                      # stock quotes; optional. Or directory = "quotes", a folder
    publishers = 2                  # that `gravitate workload` made, with qos if need be
    subscribers = 20
    rate_msgs_per_s = 5.0
    mix = "random"                  # or "enterprise"

    [[clients]]                     # clients by hand; optional
    id = "big-trades"
    broker = "b03"
    subscriptions = [{ topic = "stocks/#", where = "volume > 1000000" }]

    [[faults]]                      # optional; cut, delay, restart, disconnect
    kind = "cut"
    between = ["b01", "b02"]
    at_s = 3.0
    for_s = 1.5

    [mechanisms.grape]              # optional; what moves publishers, see `adapt.catalogue`
    prioritised = "load"

    [trace]                         # optional
    directory = "traces"
    sampling = 0.1

The same file and seed give the same script, always.
"""

from __future__ import annotations

import math
from collections import Counter
from importlib import resources
from pathlib import Path
from typing import Any, Final

import msgspec

from gravitate.config import latencies, workload_script
from gravitate.config import network as network_file
from gravitate.config.build import shaped
from gravitate.config.decode import decode
from gravitate.config.network import Network
from gravitate.config.script import (
    CutLink,
    DelayLink,
    DisconnectClient,
    Fault,
    Publication,
    RestartBroker,
    Script,
    ScriptClient,
    ServiceTimes,
    TraceOptions,
)
from gravitate.config.stock_tables import StockQuotes, problem
from gravitate.config.toml import Document, parse, read
from gravitate.config.workload import stock_quotes
from gravitate.errors import FileError, FilterError, InputError
from gravitate.model.language import parse as parse_condition

PACKAGED: Final = ("demo", "small")
"""Names of the scenarios that come with the package."""


class NetworkChoice(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A network file, or a network made to order."""

    file: str = ""
    shape: str = "balanced-tree"
    brokers: int = 0
    fanout: int = 2
    latency_ms: tuple[float, float] = (0.0, 0.0)
    extent_ms: float = 0.0
    rtt_matrix: str = ""
    bandwidth_bytes_per_s: float = 0.0


class WorkloadChoice(StockQuotes, frozen=True, forbid_unknown_fields=True):
    """A workload's folder, or stock quotes made to order."""

    directory: str = ""


class Scenario(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a scenario file says, before anything is drawn."""

    name: str
    duration_s: float
    network: NetworkChoice
    seed: int = 1
    workload: WorkloadChoice | None = None
    clients: tuple[ScriptClient, ...] = ()
    faults: tuple[Fault, ...] = ()
    service: ServiceTimes = ServiceTimes()
    trace: TraceOptions = TraceOptions()
    mechanisms: dict[str, dict[str, Any]] = {}
    """Instead of those of the network file."""


def load(
    path: str | Path,
    seed: int | None = None,
    duration_s: float | None = None,
    workload: Path | None = None,
) -> Script:
    """The script of the scenario file at `path`, or of a packaged one by its name.

    `seed` and `duration_s` replace those in the file; `workload` is the folder of one that is to
    be used instead of what the file says."""
    return _expand(_document(path), Path(path).parent, seed, duration_s, workload)


def described(path: str | Path) -> Scenario:
    """What a scenario file says, or a packaged one by its name; nothing is drawn."""
    document = _document(path)
    scenario = decode(document, Scenario)
    _check_figures(document, scenario)
    return scenario


def _document(path: str | Path) -> Document:
    if str(path) in PACKAGED and not Path(path).exists():
        file = resources.files("gravitate.config") / "scenarios" / f"{path}.toml"
        return parse(file.read_text("utf-8"), f"{path}.toml")
    return read(path)


def loads(
    text: str, path: str = "", seed: int | None = None, duration_s: float | None = None
) -> Script:
    """The same for text that is at hand; a network file is looked for beside `path`."""
    return _expand(parse(text, path), Path(path).parent, seed, duration_s)


def _expand(
    document: Document,
    folder: Path,
    seed: int | None,
    duration_s: float | None,
    workload: Path | None = None,
) -> Script:
    scenario = decode(document, Scenario)
    _check_figures(document, scenario)
    if seed is None:
        seed = scenario.seed
    if duration_s is None:
        duration_s = scenario.duration_s
    network = _network(document, scenario.network, folder, seed)
    if "mechanisms" in document.data:
        network_file.check_mechanisms(document)
        network = msgspec.structs.replace(network, mechanisms=scenario.mechanisms)
    brokers = [broker.id for broker in network.brokers]
    clients = list(scenario.clients)
    publications: list[Publication] = []
    if workload is not None:
        qos = scenario.workload.qos if scenario.workload is not None else 1
        drawn, publications = workload_script.read(workload, brokers, duration_s, qos)
        clients = [*drawn, *clients]
    elif scenario.workload is not None:
        _check_workload(document, scenario.workload, len(brokers))
        if scenario.workload.directory:
            drawn, publications = workload_script.read(
                folder / scenario.workload.directory, brokers, duration_s, scenario.workload.qos
            )
        else:
            drawn, publications = stock_quotes(scenario.workload, brokers, duration_s, seed)
        clients = [*drawn, *clients]
    _check_clients(document, scenario, clients, set(brokers))
    _check_faults(document, scenario, network, {client.id for client in clients})
    return Script(
        name=scenario.name,
        seed=seed,
        duration_s=duration_s,
        network=network,
        clients=tuple(clients),
        publications=tuple(publications),
        faults=tuple(sorted(scenario.faults, key=lambda fault: fault.at_s)),
        service=scenario.service,
        trace=scenario.trace,
    )


def _network(document: Document, choice: NetworkChoice, folder: Path, seed: int) -> Network:
    if choice.file:
        if choice.brokers:
            raise document.error(
                "'file' and 'brokers' exclude each other: write one", "network", "brokers"
            )
        return network_file.load(folder / choice.file)
    _check_latencies(document, choice)
    try:
        network = shaped(
            choice.shape,
            choice.brokers,
            fanout=choice.fanout,
            seed=seed,
            extent_ms=choice.extent_ms,
        )
        if choice.rtt_matrix:
            matrix = latencies.read_matrix(folder / choice.rtt_matrix)
            network = latencies.measured(network, matrix, seed)
        elif not choice.extent_ms:
            network = latencies.drawn(network, *choice.latency_ms, seed)
    except FileError:
        raise
    except InputError as problem:
        raise document.error(str(problem), "network") from None
    links = tuple(
        msgspec.structs.replace(link, bandwidth_bytes_per_s=choice.bandwidth_bytes_per_s)
        for link in network.links
    )
    return msgspec.structs.replace(network, links=links)


def _check_latencies(document: Document, choice: NetworkChoice) -> None:
    low_ms, high_ms = choice.latency_ms
    if not 0.0 <= low_ms <= high_ms < math.inf:
        raise document.error(
            f"'latency_ms' is [{low_ms:g}, {high_ms:g}], which is not accepted: "
            "write the smallest and the largest, from 0",
            "network",
            "latency_ms",
        )
    sources = {
        "latency_ms": high_ms > 0,
        "extent_ms": choice.extent_ms != 0,
        "rtt_matrix": bool(choice.rtt_matrix),
    }
    given = [name for name, is_given in sources.items() if is_given]
    if len(given) > 1:
        raise document.error(
            f"'{given[0]}' and '{given[1]}' exclude each other: write one", "network", given[1]
        )
    if not 0 <= choice.bandwidth_bytes_per_s < math.inf:
        raise document.error(
            f"'bandwidth_bytes_per_s' is {choice.bandwidth_bytes_per_s:g}: write a number from 0",
            "network",
            "bandwidth_bytes_per_s",
        )


def _check_figures(document: Document, scenario: Scenario) -> None:
    for name, value in (("seed", scenario.seed), ("duration_s", scenario.duration_s)):
        if not 0 <= value < math.inf:
            raise document.error(f"'{name}' is {value:g}: write a number from 0", name)
    if not 0.0 < scenario.trace.sampling <= 1.0:
        raise document.error(
            f"'sampling' is {scenario.trace.sampling:g}: write a share above 0, up to 1",
            "trace",
            "sampling",
        )
    for name in ServiceTimes.__struct_fields__:
        time_ms = getattr(scenario.service, name)
        if not 0 <= time_ms < math.inf:
            raise document.error(f"'{name}' is {time_ms:g}: write a number from 0", "service", name)


def _check_workload(document: Document, workload: WorkloadChoice, brokers: int) -> None:
    if workload.directory:
        for name in document.data["workload"]:
            if name not in {"directory", "qos"}:
                raise document.error(
                    f"'directory' and '{name}' exclude each other: write one", "workload", name
                )
    elif found := problem(workload, brokers):
        name, sentence = found
        raise document.error(sentence, "workload", name)


def _check_clients(
    document: Document, scenario: Scenario, clients: list[ScriptClient], brokers: set[str]
) -> None:
    taken = Counter(client.id for client in clients)
    for index, client in enumerate(scenario.clients):
        wrong = document.at("clients", index)
        if taken[client.id] > 1:
            raise wrong(f"client '{client.id}' is there already", "id")
        if client.broker not in brokers:
            raise wrong(
                f"client '{client.id}' is on broker '{client.broker}', which the network lacks",
                "broker",
            )
        names = Counter(subscription.name for subscription in client.subscriptions)
        for number, subscription in enumerate(client.subscriptions):
            place = ("clients", index, "subscriptions", number)
            if names[subscription.name] > 1:
                raise document.error(
                    f"client '{client.id}' has two subscriptions named '{subscription.name}': "
                    "give each a 'name'",
                    *place,
                )
            try:
                subscription.filter()
            except FilterError as problem:
                raise document.error(
                    f"subscription of '{client.id}':\n{problem.pointed()}", *place
                ) from None
        for number, condition in enumerate(client.advertisements):
            try:
                parse_condition(condition)
            except FilterError as problem:
                raise wrong(
                    f"advertisement of '{client.id}':\n{problem.pointed()}",
                    "advertisements",
                    number,
                ) from None


def _check_faults(
    document: Document, scenario: Scenario, network: Network, clients: set[str]
) -> None:
    links = {frozenset(link.between) for link in network.links}
    brokers = {broker.id for broker in network.brokers}
    for index, fault in enumerate(scenario.faults):
        wrong = document.at("faults", index)
        if not (0 <= fault.at_s < math.inf and 0 < fault.for_s < math.inf):
            raise wrong(
                f"a fault starts at 'at_s' from 0 and lasts 'for_s' above 0; this one has "
                f"{fault.at_s:g} and {fault.for_s:g}"
            )
        if isinstance(fault, DelayLink) and not 0 <= fault.extra_ms < math.inf:
            raise wrong(f"'extra_ms' is {fault.extra_ms:g}: write a number from 0", "extra_ms")
        match fault:
            case CutLink() | DelayLink() if frozenset(fault.between) not in links:
                a, b = fault.between
                raise wrong(f"there is no link between '{a}' and '{b}'", "between")
            case RestartBroker() if fault.broker not in brokers:
                raise wrong(f"there is no broker '{fault.broker}'", "broker")
            case DisconnectClient() if fault.client not in clients:
                raise wrong(f"there is no client '{fault.client}'", "client")
