"""Brokers and links of a run as its report shows them, from what `evaluate.measured` adds up."""

from __future__ import annotations

from gravitate.config.network import Network
from gravitate.pipeline.evaluate.measured import BrokerCounts, LinkCounts, Measured
from gravitate.pipeline.evaluate.metrics import FLOWS
from gravitate.pipeline.report.figures import BrokerFigures, LinkFigures


def broker_figures(found: Measured, network: Network) -> tuple[BrokerFigures, ...]:
    """Every broker of the network and of the traces, in the order of the network file."""
    named = {broker.id: broker.coordinates for broker in network.brokers}
    figures = []
    for broker in (*named, *sorted(found.brokers.keys() - named.keys())):
        counts = found.brokers.get(broker, BrokerCounts())
        delay_ms_sum = 1000 * counts.delay_s_sum
        figures.append(
            BrokerFigures(
                broker=broker,
                coordinates=named.get(broker, ()),
                **{
                    f"{flow}_msgs_per_s": getattr(counts, flow) / found.duration_s for flow in FLOWS
                },
                arrivals=counts.arrivals,
                pure_forwarders=counts.pure_forwarders,
                deliveries=counts.deliveries,
                delay_ms_mean=delay_ms_sum / counts.deliveries if counts.deliveries else None,
                subscribers=counts.subscribers,
            )
        )
    return tuple(figures)


def link_figures(found: Measured, network: Network) -> tuple[LinkFigures, ...]:
    """Every primary link, and every other that carried something."""
    latencies = {_sorted(*link.between): link.latency_ms for link in network.links}
    used = {_sorted(*between) for between, link in found.links.items() if link.events}
    nothing, seconds = LinkCounts(0.0, 0.0, None), found.duration_s
    figures = []
    for between in sorted({*latencies, *used}):
        forth, back = (found.links.get(way, nothing) for way in (between, between[::-1]))
        rtts_s = [way.rtt_s_mean for way in (forth, back) if way.rtt_s_mean is not None]
        figures.append(
            LinkFigures(
                between=between,
                primary=between in latencies,
                latency_ms=latencies.get(between),
                forth_msgs_per_s=forth.events / seconds,
                back_msgs_per_s=back.events / seconds,
                forth_bytes_per_s=forth.size_bytes / seconds,
                back_bytes_per_s=back.size_bytes / seconds,
                rtt_ms_mean=1000 * sum(rtts_s) / len(rtts_s) if rtts_s else None,
            )
        )
    return tuple(figures)


def _sorted(one: str, other: str) -> tuple[str, str]:
    return (one, other) if one <= other else (other, one)
