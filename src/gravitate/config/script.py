"""Scripts: a scenario spelled out, client by client and publication by publication.

A script is what both drivers execute, the simulator and the sockets: it says who is there, what
they want and what they publish when, and knows neither of them. Times are seconds from the moment
when every client is connected and everything has settled.

Invariants: publications are in time order; `number` counts the publications of one client from 1
without a gap, and a publication's payload starts with `client/number`, so that what was delivered
can be named alike everywhere.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from gravitate.config.network import Network
from gravitate.matching.matcher import Matcher
from gravitate.model.events import Event
from gravitate.model.filters import Filter
from gravitate.model.language import wanted_filter


class Subscription(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A topic filter, a query behind it if any, and a condition (what `$where` holds in MQTT)."""

    topic: str = "#"
    where: str = ""
    name: str = ""
    qos: Literal[0, 1] = 1

    def filter(self) -> Filter:
        """What it asks of an event; a `FilterError` when it does not parse."""
        return wanted_filter(self.topic, self.where or None)


class ScriptClient(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Somebody who subscribes, publishes, or both.

    `advertisements` are conditions; a client that gives none leaves it to its broker."""

    id: str
    broker: str
    subscriptions: tuple[Subscription, ...] = ()
    advertisements: tuple[str, ...] = ()


class Publication(msgspec.Struct, frozen=True):
    at_s: float
    client: str
    number: int
    event: Event
    qos: Literal[0, 1] = 1


class CutLink(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="kind", tag="cut"):
    """A link is cut and heals after `for_s`."""

    at_s: float
    for_s: float
    between: tuple[str, str]


class DelayLink(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="kind", tag="delay"
):
    """A link takes `extra_ms` longer for a while."""

    at_s: float
    for_s: float
    between: tuple[str, str]
    extra_ms: float


class RestartBroker(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="kind", tag="restart"
):
    """A broker stops in order, and starts again `for_s` after it was asked to stop."""

    at_s: float
    for_s: float
    broker: str


class DisconnectClient(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="kind", tag="disconnect"
):
    """A client goes away and comes back."""

    at_s: float
    for_s: float
    client: str


Fault = CutLink | DelayLink | RestartBroker | DisconnectClient


class TraceOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Whether and where traces are written; an empty directory means none."""

    directory: str = ""
    sampling: float = 1.0


class ServiceTimes(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How long a simulated broker is busy; real brokers take what they take."""

    batch_ms: float = 0.0
    input_ms: float = 0.0
    event_ms: float = 0.0


class Script(msgspec.Struct, frozen=True):
    """Everything a driver needs."""

    name: str
    seed: int
    duration_s: float
    network: Network
    clients: tuple[ScriptClient, ...]
    publications: tuple[Publication, ...]
    faults: tuple[Fault, ...] = ()
    service: ServiceTimes = ServiceTimes()
    trace: TraceOptions = TraceOptions()


Delivery = tuple[str, str, int]
"""Who got which publication: subscriber, publisher, number."""


def delivery_of(subscriber: str, payload: bytes) -> Delivery:
    """The delivery that a received payload stands for."""
    publisher, _, rest = payload.partition(b"/")
    return subscriber, publisher.decode(), int(rest.partition(b" ")[0])


def payload_of(publisher: str, number: int, size_bytes: int = 0) -> bytes:
    """A payload that names its publication, filled up to `size_bytes`."""
    return f"{publisher}/{number} ".encode().ljust(size_bytes, b".")


def expected(script: Script) -> set[Delivery]:
    """Who must get what, if no fault takes a subscriber away: every match once, per client."""
    matcher = Matcher()
    key = 0
    for index, client in enumerate(script.clients):
        for subscription in client.subscriptions:
            matcher.add(key, subscription.filter(), index)
            key += 1
    matched = matcher.match([publication.event.attributes for publication in script.publications])
    return {
        (script.clients[index].id, publication.client, publication.number)
        for publication, indices in zip(script.publications, matched, strict=True)
        for index in indices
    }
