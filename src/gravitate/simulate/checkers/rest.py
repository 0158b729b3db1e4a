"""What may be left of anything once a world is quiet: nothing that is owed or under way.

Clients are connected, their publications accepted, their subscriptions settled; publishers and
subscribers have arrived, and nobody else is expected; tethers have handed over all they had, links
have been read to the end, mechanisms are idle.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from gravitate.broker.core import Broker
from gravitate.broker.moves.tether.origin import State
from gravitate.broker.sessions.states import Owed
from gravitate.simulate.clients import Client
from gravitate.simulate.world import World


def unfinished(world: World, clients: Iterable[Client]) -> Iterator[str]:
    """What is not at rest, in sentences; what clients complained of is told once."""
    yield from departing(world)
    for client in clients:
        yield from _of_client(client)
    brokers = _brokers(world)
    for here, broker in brokers.items():
        yield from _of_broker(here, broker)
        yield from _of_tethers(here, broker, brokers)
        yield from _of_subscribers(here, broker, brokers)


def departing(world: World) -> Iterator[str]:
    """Clients that have been sent away and have not arrived, and what is ready for them."""
    for here, broker in _brokers(world).items():
        for departing in broker.publishers.departing:
            yield f"{here} still waits for {departing.id} to be elsewhere"
        for run in broker.engine.under_way():
            if run.subject is not None:
                yield f"{here}: {run.part.name} of {run.subject.id} is still {run.state.value}"
        for subscriber in broker.tethered_subscribers:
            if subscriber.holding:
                yield f"{here} holds what is for {subscriber.id} of {subscriber.origin}"


def _brokers(world: World) -> dict[str, Broker]:
    return {
        host.id: host.broker for host in world.hosts.values() if isinstance(host.broker, Broker)
    }


def _of_client(client: Client) -> Iterator[str]:
    yield from client.violations
    client.violations.clear()
    if client.wants_connection and client.connection is None:
        yield f"{client.id} is not connected to {client.broker}"
    if client.connection is None:
        return
    if about := client.unfinished():
        yield f"{client.id} {about}"
    wanted = client.subscriptions.keys() | client.advertisements.keys()
    for name in sorted(wanted - client.connection.settled):
        yield f"{client.id} at {client.broker}: {name} has not settled"


def _of_broker(here: str, broker: Broker) -> Iterator[str]:
    for mechanism in broker.mechanisms:
        if not mechanism.is_idle():
            yield f"{here}: {mechanism.name} still has something under way"
    for link in broker.links:
        if len(link.tail):
            yield f"{here} has {len(link.tail)} messages for {link.peer}"


def _of_tethers(here: str, broker: Broker, brokers: dict[str, Broker]) -> Iterator[str]:
    for tether in broker.tethers:
        if tether.state is not State.ATTACHED or tether.sent or tether.kept:
            yield (
                f"{here} has not handed over {tether.client} to {tether.place}: "
                f"{tether.state.value}, {len(tether.sent)} sent, {len(tether.kept)} kept"
            )
        if tether.session is None:
            yield f"{here} still has the tether of {tether.client}, which is gone"
    for publisher in broker.tethered:
        origin = brokers.get(publisher.origin)
        if origin is not None and not any(
            (tether.number, tether.attachment, tether.place)
            == (publisher.number, publisher.attachment, here)
            for tether in origin.tethers
        ):
            yield f"{here} has {publisher.id}, which {publisher.origin} has not attached"
    for link in broker.links:
        if link.tethers and not broker.tether_links.is_needed(link.peer):
            yield f"{here} keeps a link to {link.peer} for no tether"


def _of_subscribers(here: str, broker: Broker, brokers: dict[str, Broker]) -> Iterator[str]:
    for tether in broker.subscriber_tethers:
        if tether.state is not State.ATTACHED:
            state = tether.state.value
            yield f"{here}: {tether.session.id} is not served by {tether.place}: {state}"
        if tether.session.state is Owed.ENDED:
            yield f"{here} still has the tether of {tether.session.id}, which is gone"
        place = brokers.get(tether.place)
        if place is not None and not any(
            (*one.key, one.attachment) == (here, tether.number, tether.attachment)
            for one in place.tethered_subscribers
        ):
            yield f"{here}: {tether.session.id} is not known to {tether.place}, which serves it"
    for subscriber in broker.tethered_subscribers:
        if len(subscriber.waiting):
            yield f"{here} has {len(subscriber.waiting)} batches for {subscriber.id}"
        origin = brokers.get(subscriber.origin)
        if origin is not None and not any(
            (tether.number, tether.attachment, tether.place)
            == (subscriber.number, subscriber.attachment, here)
            for tether in origin.subscriber_tethers
        ):
            yield f"{here} serves {subscriber.id}, which {subscriber.origin} has elsewhere"
    for session in broker.clients.sessions.values():
        if session.outbound.holding:
            yield f"{here} holds what is for {session.id}"
