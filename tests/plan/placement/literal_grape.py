"""Algorithms 1 to 3 of the GRAPE paper and its selection, transcribed; the oracle for `grape`.

Plain recursion, one walk for each candidate, exact fractions. Names are the paper's.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

from gravitate.plan.placement.grape import Answer


class Broker:
    """One broker of the delivery tree, as its answer tells."""

    def __init__(self, answer: Answer, answered: Mapping[str, Answer]) -> None:
        self.measured = answer.measured()
        self.id = answer.broker
        self.neighbor_set = [near for near in self.measured.queue_s if near in answered]
        self.bit_vector = int.from_bytes(answer.delivered, "little")
        self.total_deliveries = self.measured.deliveries
        self.downstream_bvs: dict[str, int] = {}
        there = {near: answered[near].measured().link_s for near in self.neighbor_set}
        self.link_s = {
            near: self.measured.link_s.get(near, there[near].get(self.id, 0.0))
            for near in self.neighbor_set
        }

    def queue_and_match_delays_to(self, neighbor: str | None) -> Fraction:
        inside_s = Fraction(self.measured.input_queue_s) + Fraction(self.measured.matching_s)
        if neighbor is None:
            return inside_s + Fraction(self.measured.client_queue_s)
        return (
            inside_s + Fraction(self.measured.queue_s[neighbor]) + Fraction(self.link_s[neighbor])
        )


Brokers = dict[str, Broker]


class Stats:
    def __init__(self) -> None:
        self.total_delay = Fraction(0)
        self.total_deliveries = 0


def calc_avg_delay(
    brokers: Brokers, stats: Stats, cum_delay: Fraction, curr: Broker, prev: Broker | None
) -> None:
    """Algorithm 1."""
    stats.total_delay += curr.total_deliveries * (cum_delay + curr.queue_and_match_delays_to(None))
    stats.total_deliveries += curr.total_deliveries
    for neighbor in curr.neighbor_set:
        if prev is not None and neighbor == prev.id:
            continue
        new_cum_delay = cum_delay + curr.queue_and_match_delays_to(neighbor)
        calc_avg_delay(brokers, stats, new_cum_delay, brokers[neighbor], curr)


def calc_total_msg_rate(brokers: Brokers, curr: Broker, prev: Broker | None) -> int:
    """Algorithm 2."""
    local_msg_rate = calc_downstream_bv(brokers, curr, prev).bit_count()
    ds_msg_rate = 0
    for neighbor in curr.neighbor_set:
        if prev is not None and neighbor == prev.id:
            continue
        ds_msg_rate += calc_total_msg_rate(brokers, brokers[neighbor], curr)
    return local_msg_rate + ds_msg_rate


def calc_downstream_bv(brokers: Brokers, curr: Broker, prev: Broker | None) -> int:
    """Algorithm 3."""
    aggregated_bv = curr.bit_vector
    for neighbor in curr.neighbor_set:
        if prev is not None and neighbor == prev.id:
            continue
        ds_bv = curr.downstream_bvs.get(neighbor)
        if ds_bv is None:
            ds_bv = calc_downstream_bv(brokers, brokers[neighbor], curr)
            curr.downstream_bvs[neighbor] = ds_bv
        aggregated_bv |= ds_bv
    return aggregated_bv


def metrics(
    answers: list[Answer], to_publisher_s: Mapping[str, float] | None = None
) -> dict[str, tuple[Fraction, int]]:
    """Average delay and total message rate with the publisher at each of the brokers."""
    answered = {answer.broker: answer for answer in answers}
    brokers = {broker: Broker(answer, answered) for broker, answer in answered.items()}
    found = {}
    for candidate in brokers.values():
        stats = Stats()
        ping = Fraction((to_publisher_s or {}).get(candidate.id, 0.0))
        calc_avg_delay(brokers, stats, ping, candidate, None)
        delay = stats.total_delay / stats.total_deliveries if stats.total_deliveries else 0
        rate = calc_total_msg_rate(brokers, candidate, None)
        found[candidate.id] = (Fraction(delay), rate)
    return found


def chosen(
    candidates: Mapping[str, tuple[Fraction, int]],
    current: str,
    prioritised: str,
    weight_percent: int,
) -> str:
    """The selection, rule by rule."""
    at = ("delay", "load").index(prioritised)
    value = {broker: Fraction(metric[at]) for broker, metric in candidates.items()}
    other = {broker: Fraction(metric[1 - at]) for broker, metric in candidates.items()}
    low, high = min(value.values()), max(value.values())
    normalised = {
        broker: 100 * (v - low) / (high - low) if high > low else Fraction(0)
        for broker, v in value.items()
    }
    kept = [broker for broker in candidates if not normalised[broker] > 100 - weight_percent]
    return min(kept, key=lambda b: (other[b], value[b], b != current, b))
