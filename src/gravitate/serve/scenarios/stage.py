"""A script on real brokers: the socket side of what the simulator does on a virtual clock.

    result = await perform(script)                  # brokers in this process
    result = await perform(script, processes=True)  # one process a broker

Owns the order of a run: the network comes up, everybody connects over MQTT and settles, the
publications and faults of the script happen at their times, and what was delivered is compared
with what the script expects. Clients are `gravitate.client`s on loopback sockets.

Faults that can be staged are cuts and delays of links between brokers in this process; any other
is refused before anything starts.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from array import array
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Sequence
from typing import Final

import msgspec
import numpy as np

from gravitate.broker.observers import Observer
from gravitate.broker.options import BrokerOptions
from gravitate.client import Client, Message
from gravitate.config.network import Network
from gravitate.config.outcome import Outcome, judged
from gravitate.config.script import (
    CutLink,
    DelayLink,
    Delivery,
    Fault,
    Publication,
    Script,
    ScriptClient,
    delivery_of,
    expected,
)
from gravitate.errors import InputError, LocalProtocolError
from gravitate.model.events import TOPIC, EventId
from gravitate.serve.control.network import LiveNetwork, on_free_ports, up
from gravitate.serve.control.processes import RunSettings, Supervisor
from gravitate.serve.node.traces import TraceSettings, TraceSink
from gravitate.serve.warm import warm_up
from gravitate.trace.metrics import Metrics, MovesSeen, Summary

CONNECT_AT_ONCE: Final = 50
"""Clients that connect at the same time."""
SETTLE_S_MAX: Final = 60.0
ARRIVE_S_MAX: Final = 15.0
"""How long nothing may arrive before what is missing counts as lost."""
STRAY_S: Final = 0.3
"""How long is waited, once everything has come, for what should not."""


class LiveResult(Outcome, frozen=True, kw_only=True):
    """What a run on sockets delivered, and how long it took."""

    elapsed_s: float
    delay_ms_p50: float
    delay_ms_p99: float
    """From the publisher's call to the subscriber's callback."""
    metrics: Summary | None
    """What brokers saw, of what was measured; None when they ran in processes of their own."""
    deliveries: frozenset[Delivery]
    moves: int = 0
    """Carried out by brokers in this process."""


class Audience:
    """Everything that clients received, judged as it arrives."""

    def __init__(self, wanted: frozenset[Delivery], measured_from_s: float = 0.0) -> None:
        self.wanted = wanted
        self.measured_from_s = measured_from_s
        """Delays are those of what is published from this time of the script on."""
        self.received: set[Delivery] = set()
        self.duplicates = 0
        self.out_of_order = 0
        self.delays_ms = array("d")
        self.last_arrival_s = 0.0
        self.complete = asyncio.Event()
        self._missing = len(wanted)
        self._published_s: dict[tuple[str, int], float] = {}
        self._last_number: dict[tuple[str, str, str], int] = {}
        if not wanted:
            self.complete.set()

    def published(self, publication: Publication) -> None:
        if publication.at_s >= self.measured_from_s:
            self._published_s[publication.client, publication.number] = time.monotonic()

    def arrived(self, subscriber: str, subscription: str, message: Message) -> None:
        delivery = delivery_of(subscriber, message.payload)
        _, publisher, number = delivery
        key = (subscriber, subscription, publisher)
        last = self._last_number.get(key, 0)
        if number > last:
            self._last_number[key] = number
        elif number == last or delivery in self.received:
            self.duplicates += 1
        else:
            self.out_of_order += 1
        # Not the loop's clock, which stands still while the loop is busy.
        now_s = self.last_arrival_s = time.monotonic()
        if (published_s := self._published_s.get((publisher, number))) is not None:
            self.delays_ms.append(1000 * (now_s - published_s))
        if delivery not in self.received:
            self.received.add(delivery)
            if delivery in self.wanted:
                self._missing -= 1
                if not self._missing:
                    self.complete.set()

    async def everybody_served(self) -> None:
        """Until all that is wanted has come, or nothing has for a long while."""
        self.last_arrival_s = time.monotonic()
        while not self.complete.is_set():
            left_s = self.last_arrival_s + ARRIVE_S_MAX - time.monotonic()
            if left_s <= 0:
                return
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(left_s):
                    await self.complete.wait()
        await asyncio.sleep(STRAY_S)

    def percentile_ms(self, share: float) -> float:
        """Of the delays so far."""
        return (
            float(np.percentile(np.array(self.delays_ms), 100 * share)) if self.delays_ms else 0.0
        )


class Cast:
    """The clients of a script, connected to the brokers of a running network."""

    def __init__(self, script: Script, network: Network, audience: Audience) -> None:
        self._script = script
        self._addresses = {spec.id: spec.address for spec in network.brokers}
        self._audience = audience
        self.clients: dict[str, Client] = {}

    async def enter(self) -> None:
        """Connect everybody; returns when all that they asked for has settled.

        Subscriptions first: advertisements then find everything that concerns them."""
        specs = self._script.clients
        async with asyncio.timeout(SETTLE_S_MAX):
            await _in_groups(self._connect(spec) for spec in specs)
            await _in_groups(self._subscribe(spec) for spec in specs if spec.subscriptions)
            await _in_groups(self._advertise(spec) for spec in specs if spec.advertisements)

    async def _connect(self, spec: ScriptClient) -> None:
        address = self._addresses[spec.broker]
        client = Client(address.host, address.mqtt, spec.id)
        self.clients[spec.id] = client
        await client.connect()

    async def _subscribe(self, spec: ScriptClient) -> None:
        client, audience = self.clients[spec.id], self._audience
        for wish in spec.subscriptions:
            name = wish.name or wish.topic

            def on_message(message: Message, name: str = name) -> None:
                audience.arrived(spec.id, name, message)

            subscription = await client.subscribe(
                wish.topic, wish.where or None, wish.qos, on_message=on_message
            )
            await subscription.settled()

    async def _advertise(self, spec: ScriptClient) -> None:
        for condition in spec.advertisements:
            await self.clients[spec.id].advertise(where=condition)

    async def play(self) -> None:
        """Publish everything at its time; returns when all of it is accepted."""
        parts: dict[str, list[Publication]] = {}
        for publication in self._script.publications:
            parts.setdefault(publication.client, []).append(publication)
        origin_s = time.monotonic()
        async with asyncio.TaskGroup() as group:
            for part in parts.values():
                group.create_task(self._speak(part, origin_s))

    async def _speak(self, part: Sequence[Publication], origin_s: float) -> None:
        accepted = []
        for publication in part:
            await asyncio.sleep(max(0.0, origin_s + publication.at_s - time.monotonic()))
            accepted.append(await self._publish(publication))
        await asyncio.gather(*accepted)

    async def _publish(self, publication: Publication) -> asyncio.Future[EventId]:
        client = self.clients[publication.client]
        event = publication.event
        attributes = {name: value for name, value in event.attributes.items() if name != TOPIC}
        topic = str(event.attributes[TOPIC])
        while True:
            try:
                outcome = client.publish_nowait(topic, event.payload, attributes, publication.qos)
            except LocalProtocolError:
                # Its broker is away or has not accepted enough yet: the next moment may do.
                await asyncio.sleep(0.01)
            else:
                self._audience.published(publication)
                return outcome

    async def leave(self) -> None:
        await _in_groups(client.close() for client in self.clients.values())


async def _in_groups(steps: Iterable[Coroutine[None, None, None]]) -> None:
    pending = list(steps)
    for start in range(0, len(pending), CONNECT_AT_ONCE):
        await asyncio.gather(*pending[start : start + CONNECT_AT_ONCE])


class Stage:
    """A script about to be played: the network is up and the clients are in place."""

    def __init__(self, script: Script, cast: Cast, audience: Audience) -> None:
        self.script = script
        self.cast = cast
        self.audience = audience
        self.metrics = Metrics()
        self.measured = Metrics()
        """Of what is published from `audience.measured_from_s` on."""
        self.moves = MovesSeen()
        self.live: LiveNetwork | None = None
        """The brokers, when they run in this process."""
        self._started_s = time.monotonic()

    async def play(self) -> LiveResult:
        """Everything the script says, then the reckoning."""
        self._started_s = time.monotonic()
        self.measured.since_s = time.time() + self.audience.measured_from_s
        faults = asyncio.create_task(self._inflict(self.script.faults))
        await self.cast.play()
        await faults
        await self.audience.everybody_served()
        return self.result()

    @property
    def elapsed_s(self) -> float:
        return time.monotonic() - self._started_s

    async def _inflict(self, faults: Sequence[Fault]) -> None:
        async with asyncio.TaskGroup() as group:
            for fault in faults:
                group.create_task(self._inflict_one(fault))

    async def _inflict_one(self, fault: Fault) -> None:
        assert self.live is not None
        await asyncio.sleep(fault.at_s)
        match fault:
            case CutLink():
                for one, other in (fault.between, fault.between[::-1]):
                    self.live.nodes[one].links.cut(other, fault.for_s)
            case DelayLink():
                for one, other in (fault.between, fault.between[::-1]):
                    self.live.nodes[one].links.delay(other, fault.extra_ms / 1000)
                await asyncio.sleep(fault.for_s)
                for one, other in (fault.between, fault.between[::-1]):
                    self.live.nodes[one].links.delay(other, 0.0)

    def result(self) -> LiveResult:
        """What the run amounts to so far."""
        audience, script = self.audience, self.script
        brokers = [spec.id for spec in script.network.brokers]
        outcome = judged(
            script,
            audience.wanted,
            audience.received,
            audience.duplicates,
            audience.out_of_order,
        )
        return LiveResult(
            **msgspec.structs.asdict(outcome),
            elapsed_s=self.elapsed_s,
            delay_ms_p50=audience.percentile_ms(0.50),
            delay_ms_p99=audience.percentile_ms(0.99),
            metrics=self.measured.summary(brokers) if self.live else None,
            moves=len(self.moves.done),
            deliveries=frozenset(audience.received),
        )


@contextlib.asynccontextmanager
async def staged(
    script: Script,
    *,
    processes: bool = False,
    emulate_latency: bool = True,
    traces: TraceSettings | None = None,
    options: BrokerOptions | None = None,
    measured_from_s: float = 0.0,
) -> AsyncIterator[Stage]:
    """The script's network on free loopback ports with everybody in place; all ends with it.

    Delays and brokers' metrics are those of what is published from `measured_from_s` on."""
    _check_faults(script, processes)
    network = on_free_ports(script.network)
    warm_up()
    wanted = frozenset(expected(script))
    audience = Audience(wanted, measured_from_s)
    cast = Cast(script, network, audience)
    stage = Stage(script, cast, audience)
    settings = RunSettings(emulate_latency, options, traces)
    async with _network_of(network, settings, stage, processes):
        try:
            await cast.enter()
            yield stage
        finally:
            await cast.leave()


@contextlib.asynccontextmanager
async def _network_of(
    network: Network, settings: RunSettings, stage: Stage, processes: bool
) -> AsyncIterator[None]:
    if processes:
        supervisor = Supervisor(network, settings)
        try:
            await asyncio.to_thread(supervisor.start)
            yield
        finally:
            await asyncio.to_thread(supervisor.stop)
        return
    with TraceSink(settings.traces, network) as sink:

        def observers(broker_id: str) -> Iterable[Observer]:
            return (stage.metrics, stage.measured, stage.moves, *sink.observers(broker_id))

        async with await up(
            network,
            emulate_latency=settings.emulate_latency,
            observers=observers,
            counters=sink.counters,
            options=settings.options,
        ) as live:
            stage.live = live
            noting = asyncio.create_task(sink.note_round_trips(live.nodes.values()))
            try:
                yield
            finally:
                noting.cancel()


def _check_faults(script: Script, processes: bool) -> None:
    for fault in script.faults:
        if processes or not isinstance(fault, CutLink | DelayLink):
            kind = fault.__struct_config__.tag
            raise InputError(
                f"scenario {script.name!r} has a fault {kind!r}, which cannot be staged: "
                "on sockets, links can be cut and delayed between brokers in one process"
            )


async def perform(
    script: Script,
    *,
    processes: bool = False,
    emulate_latency: bool = True,
    traces: TraceSettings | None = None,
    options: BrokerOptions | None = None,
) -> LiveResult:
    """Run the script on real brokers from its first client to its last delivery."""
    async with staged(
        script,
        processes=processes,
        emulate_latency=emulate_latency,
        traces=traces,
        options=options,
    ) as stage:
        return await stage.play()


async def play(script: Script, network: Network, ready: Callable[[], None]) -> LiveResult:
    """The clients of the script on a network that runs already; what brokers saw is theirs.

    `ready` is called when everybody is in place."""
    if script.faults:
        raise InputError(
            f"scenario {script.name!r} has faults: they are staged by `gravitate simulate` alone"
        )
    lacking = {client.broker for client in script.clients} - {spec.id for spec in network.brokers}
    if lacking:
        raise InputError(
            f"scenario {script.name!r} has clients on broker '{min(lacking)}', which network "
            f"'{network.name}' lacks"
        )
    audience = Audience(frozenset(expected(script)))
    cast = Cast(script, network, audience)
    try:
        await cast.enter()
        ready()
        return await Stage(script, cast, audience).play()
    finally:
        await cast.leave()
