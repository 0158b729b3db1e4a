"""One run of the publisher-placement study: a setting in, what brokers and clients saw out.

A run is a simulated network with the production brokers, checkers included. Figures are taken
over the last part of it, when publishers have found their places, as the paper reports them at the
end of a run. Messages of a mechanism count as messages of the brokers that send and get them.

What is counted: a broker's *message rate* is what comes in, over links and from clients, which is
how the paper defines a system's (section IV-C). Its *input utilisation* is the share of the time
that it is busy matching events; what mechanisms say is not matched. *Overhead* is the share of
what comes in over the whole run that mechanisms sent.
"""

from __future__ import annotations

from typing import Final, Literal

import msgspec

from gravitate.broker.observers import Matched, Observer
from gravitate.config import latencies
from gravitate.config.build import shaped
from gravitate.config.script import Script, ServiceTimes
from gravitate.config.stock_tables import StockQuotes
from gravitate.config.workload import stock_quotes
from gravitate.model.events import Batch
from gravitate.simulate.run import run_scenario
from gravitate.trace.metrics import MovesSeen

LATENCY_MS: Final = (5.0, 60.0)
"""One way, drawn for each link: the spread of PlanetLab's nearer pairs."""
SERVICE: Final = ServiceTimes(input_ms=0.2, event_ms=0.3)
"""What a broker takes for an input and an event; brokers stay far from their limits."""
X_QUICK: Final = (1, 4, 16)
"""Numbers of brokers with subscribers, in the quick study."""
X_THRESHOLDS: Final = 16
"""The same where thresholds are studied."""
MEASURED_SHARE: Final = 0.3
"""The last part of a run, over which figures are taken."""


class Setting(msgspec.Struct, frozen=True):
    """One run."""

    mix: Literal["enterprise", "random"] = "enterprise"
    brokers: int = 63
    fanout: int = 2
    subscriber_brokers: int = 0
    """The paper's X; 0: all."""
    mechanism: Literal["static", "pop", "grape"] = "static"
    prioritised: Literal["delay", "load"] = "delay"
    weight_percent: float = 100.0
    threshold: int = 0
    """Publications before a selection; 0: the mechanism's default."""
    seed: int = 1
    duration_s: float = 480.0
    publishers: int = 40
    subscribers_each: int = 25

    @property
    def name(self) -> str:
        """What moves publishers, in words."""
        if self.mechanism == "grape":
            return f"GRAPE {self.prioritised} {self.weight_percent:g} %"
        return {"static": "static", "pop": "POP"}[self.mechanism]

    def mechanisms(self) -> dict[str, dict[str, object]]:
        """As a network file has them."""
        match self.mechanism:
            case "static":
                return {}
            case "pop":
                if not self.threshold:
                    return {"pop": {}}
                # As many a window as the paper's study of thresholds has.
                return {"pop": {"traces_min": self.threshold, "traced_max": self.threshold // 2}}
            case "grape":
                given: dict[str, object] = {
                    "prioritised": self.prioritised,
                    "weight_percent": self.weight_percent,
                }
                if self.threshold:
                    given["session_publications"] = self.threshold
                return {"grape": given}


class Seen(msgspec.Struct, frozen=True):
    """What one run amounted to."""

    setting: Setting
    message_rate: float
    """Messages in, a second and broker."""
    input_utilisation: float
    delay_ms: float
    hops: float
    overhead: float
    moves: int
    deliveries: int
    violations: int


def simulate(setting: Setting) -> Seen:
    """Play the run; the same setting, the same figures."""
    script = script_of(setting)
    whole, ending, moves = Traffic(), Traffic(counting=False), MovesSeen()
    result = run_scenario(
        script,
        observers=[whole, ending, moves],
        progress=lambda share: ending.begin() if share >= 1.0 - MEASURED_SHARE else None,
    )
    seconds = script.duration_s * MEASURED_SHARE
    brokers = len(script.network.brokers)
    return Seen(
        setting=setting,
        message_rate=ending.messages_in() / brokers / seconds,
        input_utilisation=ending.busy_s() / brokers / seconds,
        delay_ms=1000 * ending.delay_s / max(ending.deliveries, 1),
        hops=ending.hops / max(ending.deliveries, 1),
        overhead=whole.mechanisms_in / max(whole.messages_in(), 1),
        moves=len(moves.done),
        deliveries=result.delivered,
        violations=len(result.violations) + result.missing + result.duplicates,
    )


def script_of(setting: Setting) -> Script:
    """The network, the clients and what they publish."""
    network = shaped("balanced-tree", setting.brokers, fanout=setting.fanout, seed=setting.seed)
    network = latencies.drawn(network, *LATENCY_MS, setting.seed)
    network = msgspec.structs.replace(network, mechanisms=setting.mechanisms())
    options = StockQuotes(
        publishers=setting.publishers,
        subscribers=setting.publishers * setting.subscribers_each,
        mix=setting.mix,
        subscriber_brokers=setting.subscriber_brokers,
    )
    ids = [broker.id for broker in network.brokers]
    clients, publications = stock_quotes(options, ids, setting.duration_s, setting.seed)
    return Script(
        name=setting.name,
        seed=setting.seed,
        duration_s=setting.duration_s,
        network=network,
        clients=tuple(clients),
        publications=tuple(publications),
        service=SERVICE,
    )


class Traffic(Observer):
    """Counts messages, delays and hops; later ones only, if it is to begin later."""

    def __init__(self, counting: bool = True) -> None:
        self._counting = counting
        self.events_in = self.mechanisms_in = 0
        self.deliveries = self.hops = 0
        self.delay_s = 0.0

    def begin(self) -> None:
        self._counting = True

    def messages_in(self) -> int:
        return self.events_in + self.mechanisms_in

    def busy_s(self) -> float:
        """How long brokers took for the events that came in."""
        return (SERVICE.input_ms + SERVICE.event_ms) * self.events_in / 1000

    def on_hop(self, hop: Matched, now: float) -> None:
        if self._counting:
            self.events_in += len(hop.batch)

    def on_delivered(self, broker: str, session: str, batch: Batch, qos: int, now: float) -> None:
        if self._counting:
            self.deliveries += len(batch)
            self.hops += len(batch) * batch.hops_at(broker)
            self.delay_s += len(batch) * (now - batch.published_at)

    def on_mechanism_sent(
        self, broker: str, peer: str, mechanism: str, size_bytes: int, now: float
    ) -> None:
        if self._counting:
            self.mechanisms_in += 1
