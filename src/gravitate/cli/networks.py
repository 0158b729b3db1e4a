"""`gravitate network`: make, check and look at network files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gravitate.cli import output

if TYPE_CHECKING:
    from rich.tree import Tree

    from gravitate.config.network import Network

app = typer.Typer(help="Make, check and look at network files.", no_args_is_help=True)

NetworkFile = Annotated[Path, typer.Argument(metavar="NETWORK", help="A network file.")]


def load(path: Path) -> Network:
    """The network file a command was given."""
    from gravitate.config import network

    return network.load(path)


def complete_shape(incomplete: str) -> list[str]:
    from gravitate.overlay.shapes import SHAPES

    return [name for name in SHAPES if name.startswith(incomplete)]


@app.command()
def new(
    shape: Annotated[
        str,
        typer.Option(
            help="balanced-tree, line, star or random-tree.", autocompletion=complete_shape
        ),
    ] = "balanced-tree",
    brokers: Annotated[int, typer.Option(help="How many brokers.", min=1)] = 15,
    fanout: Annotated[int, typer.Option(help="Children of a broker in a balanced tree.")] = 2,
    seed: Annotated[int, typer.Option(help="Decides a random tree and scattered places.")] = 0,
    name: Annotated[str, typer.Option(help="Name of the network.")] = "",
    link_ms: Annotated[
        float, typer.Option(help="Spread brokers so that links are about this long, one way.")
    ] = 0.0,
    extent_ms: Annotated[
        float, typer.Option(help="Scatter brokers over a square of this size instead.")
    ] = 0.0,
    host: Annotated[str, typer.Option(help="Where all brokers listen.")] = "127.0.0.1",
    mqtt_port: Annotated[int, typer.Option(help="First of the MQTT ports.")] = 18830,
    peer_port: Annotated[int, typer.Option(help="First of the ports for links.")] = 22830,
    http_port: Annotated[int, typer.Option(help="First of the status ports.")] = 26830,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="File to write; else standard output.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace a file that exists.")] = False,
) -> None:
    """Make a network file: a shape, a number of brokers, consecutive ports."""
    from gravitate.config import network
    from gravitate.config.build import shaped
    from gravitate.errors import InputError

    made = shaped(
        shape,
        brokers,
        name=name,
        fanout=fanout,
        seed=seed,
        host=host,
        mqtt_port=mqtt_port,
        peer_port=peer_port,
        http_port=http_port,
        link_ms=link_ms,
        extent_ms=extent_ms,
    )
    if out is None:
        typer.echo(network.render(made), nl=False)
        return
    if out.exists() and not force:
        raise InputError(f"{out} exists: give another name, or --force to replace it")
    network.save(made, out)
    output.say(f"{out}: network '{made.name}' of {brokers} brokers")


@app.command()
def check(path: NetworkFile, json: output.AsJson = False) -> None:
    """Check a network file; what is wrong is named with its line."""
    made = load(path)
    title = f"{path} is sound"
    output.answer(_facts(made), json, lambda told: output.show_facts(told.items(), title))


@app.command()
def show(
    path: NetworkFile,
    live: Annotated[
        bool,
        typer.Option(
            "--live",
            help="Ask the brokers for their neighbours instead. Exit status 1 when one does not "
            "answer, two differ, or it is no tree.",
        ),
    ] = False,
    json: output.AsJson = False,
) -> None:
    """Draw a network's primary tree, with addresses and latencies, as the file has it.

    With --live, show what the brokers say of it, each for its own neighbours."""
    made = load(path)
    if live:
        _show_live(made, json)
    else:
        output.answer(made, json, lambda told: output.show(drawn(told)))


def _show_live(network: Network, as_json: bool) -> None:
    from gravitate.operate.asking import neighbourhoods
    from gravitate.overlay.topology import Topology

    told, problems = neighbourhoods(network)
    topology = Topology.of(told)
    is_sound = topology.is_tree and not topology.differences and not problems
    if as_json:
        output.show_json(
            {
                "network": network.name,
                "version": topology.version,
                "brokers": told,
                "no_answer": problems,
                "differences": topology.differences,
                "is_tree": topology.is_tree and not problems,
            }
        )
    else:
        for one, other in topology.differences:
            problems[one] = (
                f"{problems[one]}, {other}" if one in problems else (f"does not name it: {other}")
            )
        rows = []
        for spec in network.brokers:
            own = told.get(spec.id)
            said = (own.version, ", ".join(own.neighbours)) if own else (None, None)
            rows.append((spec.id, *said, problems.get(spec.id, "")))
        title = f"network '{network.name}', as its brokers say"
        output.show_table(("broker", "version", "neighbours", "problem"), rows, title=title)
        if not is_sound:
            output.say("these are not the neighbours of one tree of all brokers")
    raise typer.Exit(0 if is_sound else 1)


def _facts(network: Network) -> dict[str, object]:
    from gravitate.overlay.tree import diameter_hops

    near = network.topology().near()
    latencies = [link.latency_ms for link in network.links]
    return {
        "name": network.name,
        "brokers": len(network.brokers),
        "links": len(network.links),
        "routing": network.routing,
        "forwarding": network.forwarding,
        "mechanisms": ", ".join(network.mechanisms) or "none",
        "links_of_a_broker_max": max(map(len, near.values())),
        "diameter_hops": diameter_hops(near),
        "link_latency_ms_min": min(latencies, default=0.0),
        "link_latency_ms_max": max(latencies, default=0.0),
    }


def drawn(network: Network) -> Tree:
    """The primary tree from its first broker on."""
    from rich.markup import escape
    from rich.tree import Tree

    specs = {broker.id: broker for broker in network.brokers}
    near = network.topology().near()
    latencies = {frozenset(link.between): link.latency_ms for link in network.links}

    def label(broker: str, parent: str | None) -> str:
        address = specs[broker].address
        offers = " ".join(
            f"{kind} {port}"
            for kind, port in (
                ("mqtt", address.mqtt),
                ("peer", address.peer),
                ("http", address.http),
            )
            if port
        )
        far = f" [cyan]{latencies[frozenset((broker, parent))]:g} ms[/]" if parent else ""
        return f"[bold]{escape(broker)}[/]{far} [dim]{escape(address.host)} {offers}[/]"

    root = network.brokers[0].id
    trunk = Tree(label(root, None))
    open_branches: list[tuple[str, str | None, Tree]] = [(root, None, trunk)]
    while open_branches:
        broker, parent, branch = open_branches.pop()
        for child in near[broker]:
            if child != parent:
                open_branches.append((child, broker, branch.add(label(child, broker))))
    return trunk
