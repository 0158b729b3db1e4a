"""What stands out in a run, in sentences that an operator would say.

Each finding is a rule on the numbers of the report and names the figures it rests on.
"""

from __future__ import annotations

from collections.abc import Iterator

from gravitate.pipeline.report.figures import RunFigures
from gravitate.pipeline.report.words import count, ms, percent, rate

UNEVEN: float = 1.5
"""A broker with this many times the mean load is worth a sentence."""
WASTEFUL_SHARE: float = 0.2
"""Pure forwarding above this share of the arrivals is worth one."""


def findings(run: RunFigures) -> tuple[str, ...]:
    """The sentences that apply to `run`, most general first."""
    if not run.headline["published"]:
        return ("Nothing was published while the run was traced.",)
    return tuple(
        sentence
        for rule in (_delivered, _slow, _busy, _wasteful, _far, _moved, _left_out)
        for sentence in rule(run)
    )


def _known(run: RunFigures, *names: str) -> tuple[float, ...]:
    return tuple(run.headline[name] or 0.0 for name in names)


def _delivered(run: RunFigures) -> Iterator[str]:
    published, delivered, median_ms = _known(run, "published", "delivered", "delay_ms_p50")
    if not delivered:
        yield f"{count(published)} events were published and nobody was handed one."
        return
    yield (
        f"{count(published)} events were handed over {count(delivered)} times in "
        f"{run.facts.observed_s:,.0f} s, half of them within {ms(median_ms)}."
    )


def _slow(run: RunFigures) -> Iterator[str]:
    late_ms, median_ms = _known(run, "delay_ms_p99", "delay_ms_p50")
    if median_ms and late_ms > 2 * median_ms:
        yield (
            f"One delivery in a hundred took {ms(late_ms)} or longer, "
            f"{late_ms / median_ms:.1f} times the median."
        )


def _busy(run: RunFigures) -> Iterator[str]:
    busiest = max(run.brokers, key=lambda broker: broker.rate_msgs_per_s)
    factor = run.headline["load_balance_messages"] or 0.0
    if len(run.brokers) > 1 and factor >= UNEVEN:
        yield (
            f"{busiest.broker} is the busiest broker with "
            f"{rate(busiest.rate_msgs_per_s)}, {factor:.1f} times the mean."
        )


def _wasteful(run: RunFigures) -> Iterator[str]:
    arrivals, pure_forwarders = _known(run, "arrivals", "pure_forwarders")
    if arrivals and pure_forwarders / arrivals >= WASTEFUL_SHARE:
        worst = max(run.brokers, key=lambda broker: broker.pure_forwarders)
        yield (
            f"{percent(pure_forwarders / arrivals)} of what came over links was wanted "
            f"by nobody at the broker it came to; {worst.broker} alone was a pure forwarder "
            f"{count(worst.pure_forwarders)} times."
        )


def _far(run: RunFigures) -> Iterator[str]:
    """The publisher whose audience is most clearly somewhere else."""
    best: tuple[float, str] | None = None
    for publisher in run.publishers:
        if not publisher.audience or not publisher.homes or not publisher.deliveries:
            continue
        home = publisher.homes[0]
        here = sum(part.deliveries for part in publisher.audience if part.broker == home)
        there = max(publisher.audience, key=lambda part: part.deliveries)
        away = there.deliveries - here
        if there.broker != home and (best is None or away > best[0]):
            share = there.deliveries / publisher.deliveries
            best = (
                away,
                f"Publisher {publisher.publisher} is at {home}, where "
                f"{percent(here / publisher.deliveries)} of its deliveries happen; "
                f"{percent(share)} happen at {there.broker}.",
            )
    if best:
        yield best[1]


def _moved(run: RunFigures) -> Iterator[str]:
    ended = _known(run, "moves_done", "moves_refused", "moves_rolled_back")
    if ended[-1]:
        yield f"{count(ended[-1])} of {count(sum(ended))} moves were rolled back."


def _left_out(run: RunFigures) -> Iterator[str]:
    if run.quarantined:
        yield (
            f"{count(len(run.quarantined))} trace files could not be taken in; "
            "what they held is missing here."
        )
