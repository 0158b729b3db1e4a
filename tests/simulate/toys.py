"""Stand-ins for the broker core: worlds are tested without knowing what brokers do."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from gravitate.broker.interface import effects as e
from gravitate.broker.interface import inputs as i
from gravitate.broker.messages.frames import Ping
from gravitate.broker.observers import Observer
from gravitate.config.network import BrokerSpec, LinkSpec, Network


class ToyBroker:
    """Writes down its inputs with their times, dials on request, says what it is told to say."""

    def __init__(
        self, broker_id: str, incarnation: int, links: Mapping[str, bool], _: Sequence[Observer]
    ) -> None:
        self.id = broker_id
        self.incarnation = incarnation
        self.dials = [peer for peer, dials in links.items() if dials]
        self.log: list[tuple[float, list[i.Input]]] = []
        self.reply: Callable[[i.Input], list[e.Effect]] = lambda item: []

    def start(self, now: float) -> list[e.Effect]:
        return [e.OpenLink(peer) for peer in self.dials]

    def handle(self, inputs: Sequence[i.Input], now: float) -> list[e.Effect]:
        self.log.append((now, list(inputs)))
        found: list[e.Effect] = []
        for item in inputs:
            if isinstance(item, i.StopRequested):
                found.append(e.Stopped())
            found += self.reply(item)
        return found

    def times(self, kind: type) -> list[float]:
        return [now for now, inputs in self.log for item in inputs if isinstance(item, kind)]

    def pings(self) -> list[tuple[float, float]]:
        """(arrival, number) of every ping received."""
        return [
            (now, item.frame.sent_at)
            for now, inputs in self.log
            for item in inputs
            if isinstance(item, i.FrameReceived) and isinstance(item.frame, Ping)
        ]


def pair(latency_ms: float = 10.0, bandwidth_bytes_per_s: float = 0.0) -> Network:
    """Two brokers and a link; `a` dials."""
    return Network(
        name="pair",
        brokers=(BrokerSpec("a"), BrokerSpec("b")),
        links=(LinkSpec(("a", "b"), latency_ms, bandwidth_bytes_per_s),),
    )
