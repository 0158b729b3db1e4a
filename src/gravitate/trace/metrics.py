"""What a run amounted to: deliveries, delays, hops, message rates, pure forwarders, yield.

What is counted, exactly:

- a *delivery* is one event handed to one session; its delay is from the moment the first broker
  took the event in to the moment the last broker handed it over;
- *hops* of a delivery are the links the event came along, 0 when publisher and subscriber share
  their broker;
- an *arrival* is one event that came to a broker over a link. It is *useful* when a local
  session matched it, otherwise the broker was a *pure forwarder* of that event (also when it had
  nobody to forward it to). The first broker of an event is never counted;
- *yield* is useful arrivals over all arrivals, 1 when there were none;
- *mechanism messages* are what mechanisms sent each other from broker to broker, no part of rates;
- a broker's *message rate* counts events in (from links and clients) and out (to links and
  sessions), per second of the time *observed*: from the first to the last that happened to any
  event. `pipeline.evaluate.measured` takes the same time from the traces of a run.
"""

from __future__ import annotations

import math
from array import array
from collections import Counter
from collections.abc import Sequence

import msgspec
import numpy as np

from gravitate.broker.observers import Matched, Observer
from gravitate.model.events import Batch
from gravitate.model.moves import Move, MoveOutcome


class Summary(msgspec.Struct, frozen=True):
    """The figures of a run."""

    published: int
    delivered: int
    delay_ms_mean: float
    delay_ms_p50: float
    delay_ms_p95: float
    delay_ms_p99: float
    delay_ms_max: float
    hops_mean: float
    arrivals: int
    pure_forwarders: int
    yield_share: float
    broker_rate_msgs_per_s_mean: float
    broker_rate_msgs_per_s_max: float
    dropped: int
    observed_s: float
    """What rates are taken over; they are over 1 s where this is no time."""
    broker_rates_msgs_per_s: dict[str, float]
    mechanism_messages: int = 0
    mechanism_bytes: int = 0


class Metrics(Observer):
    """Collects the figures of a world, or of a node: of all events, or of those published at
    `since_s` or later. What was dropped and what mechanisms sent is counted from the beginning in
    either case: nobody tells when that was published."""

    def __init__(self, since_s: float = -math.inf) -> None:
        self.since_s = since_s
        self.published = 0
        self.arrivals = 0
        self.pure_forwarders = 0
        self.dropped = 0
        self.messages: Counter[str] = Counter()
        self.mechanism_messages = 0
        self.mechanism_bytes = 0
        self._delays_s = array("d")
        self._hops = array("l")
        self._first_s, self._last_s = math.inf, -math.inf

    def on_published(self, broker: str, batch: Batch, now: float) -> None:
        if batch.published_at >= self.since_s:
            self.published += len(batch.counters)
            self._seen(now)

    def on_hop(self, hop: Matched, now: float) -> None:
        broker, came_from, batch, local, links = hop
        if batch.published_at < self.since_s:
            return
        self._seen(now)
        messages = len(batch.counters)
        if came_from is not None:
            self.arrivals += messages
            for sessions in local:
                if not sessions:
                    self.pure_forwarders += 1
        for sessions in local:
            messages += len(sessions)
        for peers in links:
            messages += len(peers)
        self.messages[broker] += messages

    def on_delivered(self, broker: str, session: str, batch: Batch, qos: int, now: float) -> None:
        if batch.published_at < self.since_s:
            return
        self._seen(now)
        delay_s = now - batch.published_at
        hops = batch.hops_at(broker)
        if len(batch.counters) == 1:
            self._delays_s.append(delay_s)
            self._hops.append(hops)
        else:
            self._delays_s.extend([delay_s] * len(batch.counters))
            self._hops.extend([hops] * len(batch.counters))

    def on_dropped(self, broker: str, session: str, count: int, reason: str, now: float) -> None:
        self.dropped += count

    def on_mechanism_sent(
        self, broker: str, peer: str, mechanism: str, size_bytes: int, now: float
    ) -> None:
        self.mechanism_messages += 1
        self.mechanism_bytes += size_bytes

    def _seen(self, now: float) -> None:
        self._first_s, self._last_s = min(self._first_s, now), max(self._last_s, now)

    @property
    def delivered(self) -> int:
        return len(self._delays_s)

    def summary(self, brokers: Sequence[str]) -> Summary:
        """The figures, rates taken over the time observed and over all `brokers`."""
        observed_s = max(self._last_s - self._first_s, 0.0)
        delays_ms = np.frombuffer(self._delays_s, dtype=np.float64) * 1000.0
        if not len(delays_ms):
            delays_ms = np.zeros(1)
        p50, p95, p99 = (float(value) for value in np.percentile(delays_ms, (50, 95, 99)))
        rates = {broker: self.messages[broker] / (observed_s or 1.0) for broker in brokers}
        useful = self.arrivals - self.pure_forwarders
        return Summary(
            published=self.published,
            delivered=self.delivered,
            delay_ms_mean=float(delays_ms.mean()),
            delay_ms_p50=p50,
            delay_ms_p95=p95,
            delay_ms_p99=p99,
            delay_ms_max=float(delays_ms.max()),
            hops_mean=sum(self._hops) / (len(self._hops) or 1),
            arrivals=self.arrivals,
            pure_forwarders=self.pure_forwarders,
            yield_share=useful / self.arrivals if self.arrivals else 1.0,
            broker_rate_msgs_per_s_mean=sum(rates.values()) / (len(rates) or 1),
            broker_rate_msgs_per_s_max=max(rates.values(), default=0.0),
            dropped=self.dropped,
            observed_s=observed_s,
            broker_rates_msgs_per_s=rates,
            mechanism_messages=self.mechanism_messages,
            mechanism_bytes=self.mechanism_bytes,
        )


class MovesSeen(Observer):
    """How moves ended, in order."""

    def __init__(self) -> None:
        self.ended: list[tuple[Move, MoveOutcome]] = []

    def on_move(self, broker: str, move: Move, outcome: MoveOutcome, now: float) -> None:
        self.ended.append((move, outcome))

    @property
    def done(self) -> list[Move]:
        """Those that were carried out."""
        return [move for move, outcome in self.ended if outcome is MoveOutcome.DONE]
