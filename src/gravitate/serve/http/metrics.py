"""The status of a node as Prometheus reads it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final

from prometheus_client import generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from gravitate.broker.links.link import LinkState
from gravitate.serve.node.status import LinkStatus, NodeStatus

FORMAT: Final = "text/plain; version=0.0.4; charset=utf-8"

Figures = Iterable[tuple[float, *tuple[str, ...]]]
"""What is counted, each with the values of its labels."""

LINK_FIGURES: Final[tuple[tuple[str, str, Callable[[LinkStatus], float]], ...]] = (
    ("up", "1 while the link is up", lambda link: link.state == LinkState.UP.value),
    ("rtt_seconds", "Round trip by heartbeat", lambda link: link.rtt_ms / 1000),
    ("queue_events", "Sent and not acknowledged", lambda link: link.queue_events),
    ("queue_bytes", "Waiting to be written", lambda link: link.queue_bytes),
    ("unsettled", "Local subscriptions not settled behind it", lambda link: link.unsettled),
)


def metrics(status: NodeStatus) -> bytes:
    return generate_latest(_Collector(status))


class _Collector(Collector):
    def __init__(self, status: NodeStatus) -> None:
        self._status = status

    def collect(self) -> Iterator[Metric]:
        status = self._status
        yield self._gauge("uptime_seconds", "Since the broker started", [(status.uptime_s,)])
        yield self._gauge("sessions", "Clients connected", [(status.sessions,)])
        for name, count in status.tables.items():
            yield self._gauge(f"table_{name}", f"Entries: {name}", [(count,)])
        for name, count in status.counters.items():
            counter = CounterMetricFamily(
                f"gravitate_{name}", f"Since the start: {name}", labels=["broker"]
            )
            counter.add_metric([status.broker], count)
            yield counter
        for name, text, figure in LINK_FIGURES:
            figures = ((figure(link), link.peer) for link in status.links)
            yield self._gauge(f"link_{name}", text, figures, "peer")
        yield self._gauge(
            "publishers_held",
            "Not read from, because a link is congested that their events go over",
            ((one.count, one.broker, one.peer) for one in status.held),
            *("congested_broker", "congested_peer"),
        )

    def _gauge(self, name: str, text: str, figures: Figures, *labels: str) -> Metric:
        gauge = GaugeMetricFamily(f"gravitate_{name}", text, labels=["broker", *labels])
        for figure, *values in figures:
            gauge.add_metric([self._status.broker, *values], figure)
        return gauge
