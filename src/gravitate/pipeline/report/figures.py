"""The numbers of a report: what `--json` prints, what the page embeds, what every plot draws.

Plain structs, filled by `gather` from the store of a run; nothing here knows Spark, Plotly or
HTML. Counts and rates are of all events, estimated from the sample where traces were sampled.
Rates are over the time observed. Lists are bounded: by the network (brokers, links), by the
delay classes, or by a number of rows named in `gather`; none grows with the traffic.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from gravitate.pipeline.evaluate.registry import Figures


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """What the run was."""

    run: str
    """Name of its folder."""
    network: str
    brokers: int
    primary_links: int
    scenario: str
    seed: int | None
    clock: Literal["virtual", "unix"]
    observed_from_s: float
    """When the first event was taken in, on the clock of the run."""
    observed_s: float
    """From there to the last step of an event. Rates are over it, or over 1 s if it is 0."""
    sampling_rate: float
    period_s: float
    gravitate_version: str
    rows: dict[str, int]
    """Rows of each trace table in the store."""


class BrokerFigures(msgspec.Struct, frozen=True, kw_only=True):
    broker: str
    coordinates: tuple[float, ...] = ()
    in_links_msgs_per_s: float = 0.0
    in_clients_msgs_per_s: float = 0.0
    out_links_msgs_per_s: float = 0.0
    out_clients_msgs_per_s: float = 0.0
    arrivals: float = 0.0
    pure_forwarders: float = 0.0
    deliveries: float = 0.0
    delay_ms_mean: float | None = None
    subscribers: int = 0

    @property
    def rate_msgs_per_s(self) -> float:
        into = self.in_links_msgs_per_s + self.in_clients_msgs_per_s
        return into + (self.out_links_msgs_per_s + self.out_clients_msgs_per_s)

    @property
    def yield_share(self) -> float:
        """Share of the arrivals that somebody here wanted; 1 when nothing arrived."""
        return 1.0 - self.pure_forwarders / self.arrivals if self.arrivals else 1.0


class LinkFigures(msgspec.Struct, frozen=True, kw_only=True):
    """A link with both of its directions; `between` is sorted."""

    between: tuple[str, str]
    primary: bool
    latency_ms: float | None = None
    forth_msgs_per_s: float = 0.0
    """From the first of the two to the second."""
    back_msgs_per_s: float = 0.0
    forth_bytes_per_s: float = 0.0
    back_bytes_per_s: float = 0.0
    rtt_ms_mean: float | None = None

    @property
    def rate_msgs_per_s(self) -> float:
        return self.forth_msgs_per_s + self.back_msgs_per_s

    @property
    def bytes_per_s(self) -> float:
        return self.forth_bytes_per_s + self.back_bytes_per_s


class DelayClass(msgspec.Struct, frozen=True):
    """Deliveries with a delay of at least `delay_ms_from` and less than `delay_ms_until`."""

    delay_ms_from: float
    delay_ms_until: float
    deliveries: float


class HopsFigures(msgspec.Struct, frozen=True, kw_only=True):
    """Deliveries that came over the same number of links."""

    hops: int
    deliveries: float
    delay_ms_mean: float
    delay_ms_p50: float
    delay_ms_p95: float
    delay_ms_max: float


class PeriodFigures(msgspec.Struct, frozen=True, kw_only=True):
    """A stretch of the run: one period, or several where there are too many to draw."""

    from_s: float
    """Since the first event."""
    seconds: float
    """How much of it was observed."""
    published_msgs_per_s: float
    delivered_msgs_per_s: float
    links_msgs_per_s: float
    yield_share: float | None
    delay_ms_mean: float | None
    delay_ms_p95: float | None


class TopicFigures(msgspec.Struct, frozen=True, kw_only=True):
    topic: str
    publications: float
    rate_msgs_per_s: float
    """Over the time observed."""
    rate_smoothed_msgs_per_s: float
    """By the exponential filter, after the last period."""


class Audience(msgspec.Struct, frozen=True, kw_only=True):
    """What of one publisher is wanted at one broker."""

    broker: str
    events: float
    """Events that were delivered there."""
    deliveries: float
    """How often."""


class PublisherFigures(msgspec.Struct, frozen=True, kw_only=True):
    publisher: str
    published: float
    homes: tuple[str, ...]
    """Brokers it published at, most used first."""
    deliveries: float
    """At all brokers, those not in `audience` too."""
    audience: tuple[Audience, ...]


class PairFigures(msgspec.Struct, frozen=True, kw_only=True):
    """Events wanted at two brokers."""

    broker: str
    other: str
    events: float
    events_bloom: float
    """The same as a Bloom filter tells it: never fewer."""


class MoveCount(msgspec.Struct, frozen=True, kw_only=True):
    kind: str
    outcome: str
    moves: int


class MoveFigures(msgspec.Struct, frozen=True, kw_only=True):
    """A move that ended."""

    at_s: float
    """Since the first event."""
    move: str
    kind: str
    broker: str
    outcome: str
    reason: str
    gain: float
    cost: float
    details: str


class QuarantinedFile(msgspec.Struct, frozen=True):
    """A file that was not taken in, and why."""

    file: str
    reason: str


class RunFigures(msgspec.Struct, frozen=True, kw_only=True):
    """One run."""

    facts: Facts
    headline: Figures
    """Every metric that `evaluate.registry` has for reports."""
    findings: tuple[str, ...]
    """What stands out, in sentences."""
    brokers: tuple[BrokerFigures, ...]
    links: tuple[LinkFigures, ...]
    delays: tuple[DelayClass, ...]
    hops: tuple[HopsFigures, ...]
    periods: tuple[PeriodFigures, ...]
    topics_total: int
    topics: tuple[TopicFigures, ...]
    """Those published to most."""
    publishers_total: int
    publishers: tuple[PublisherFigures, ...]
    """Those with the most deliveries."""
    common_interest: tuple[PairFigures, ...]
    """Among the brokers with the most in common."""
    bloom_error_share: float | None
    """How much the Bloom filters overstate common interest, over all pairs."""
    move_counts: tuple[MoveCount, ...]
    moves: tuple[MoveFigures, ...]
    """The latest, newest first."""
    quarantined: tuple[QuarantinedFile, ...]


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """A metric of two runs; the change is from the first to the second."""

    metric: str
    first: float | None
    second: float | None
    change: float | None
    change_share: float | None
    verdict: Literal["better", "worse", "same", ""]
    """Empty: neither direction is better, or there is nothing to compare."""


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """One run, or two side by side."""

    gravitate_version: str
    """Of the program that wrote the report."""
    run: RunFigures
    compared: RunFigures | None = None
    differences: tuple[Difference, ...] = ()
    caveats: tuple[str, ...] = ()
    """Why the two runs should be compared with care."""

    @property
    def runs(self) -> tuple[RunFigures, ...]:
        return (self.run,) if self.compared is None else (self.run, self.compared)
