"""The planner for subscribers: the problem of a run posed and solved, and what that changes.

The driver sees subscribers (their brokers, and their interests as boxes), topics, bounds of
interests, and figures of the size of the network; never events.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec
import numpy as np
from pyspark.sql import functions as F

from gravitate.config.plan import Metrics
from gravitate.config.planning import SubscriberOptions
from gravitate.model.moves import ReassignSubscriber
from gravitate.pipeline.evaluate.measured import subscription_changes
from gravitate.pipeline.planning import listeners as told
from gravitate.pipeline.planning.audiences import (
    RecordedEvents,
    Served,
    audiences,
    numbered,
    to_clients,
)
from gravitate.pipeline.planning.densities import densities
from gravitate.pipeline.planning.listeners import Listeners
from gravitate.pipeline.planning.making import Draft, Run, Tell
from gravitate.pipeline.planning.prediction import STATES, evaluated
from gravitate.pipeline.planning.publishers import Overlay
from gravitate.pipeline.planning.recorded import places
from gravitate.pipeline.planning.scene import Scene
from gravitate.pipeline.planning.subscribers import Posed, moves_of
from gravitate.pipeline.store.store import Store
from gravitate.plan.assignment.problem.event_space import Density, Floats, marks_of
from gravitate.plan.assignment.problem.problem import Ints
from gravitate.plan.assignment.search.gains import Gains, worthwhile

DELAYS: Final = ("delay_ms_mean", "delay_ms_p50", "delay_ms_p95", "delay_ms_p99", "delay_ms_max")
NOBODY: Final = "Nobody moves: "
NAMED_MAX: Final = 10
"""So many brokers are named at most where a bound does not hold."""


class SubscriberPlanner(msgspec.Struct, frozen=True):
    choice: SubscriberOptions
    kind = "subscribers"

    def draft(self, spark: Any, store: Store, run: Run, tell: Tell) -> Draft:
        network, overlay, choice = run.network, run.overlay, self.choice
        publications = store.traces(spark, "publications")
        deliveries = store.traces(spark, "deliveries")
        tell("reading who wants what")
        changes = subscription_changes(spark, store)
        interests = _interests(publications, changes, deliveries, overlay, choice)
        by_size = any(link.bandwidth_bytes_per_s for link in network.links)
        numbers = numbered(spark, interests.listeners.names)
        rows = audiences(publications, deliveries, numbers, by_size).persist()
        try:
            events = RecordedEvents(rows, overlay)
            tell("choosing a broker for every subscriber; the first time kernels are compiled")
            scene = Scene.of(network, overlay, _published(publications, overlay), choice.complexity)
            chosen = _chosen(scene, interests, choice, events)
            tell(f"predicting what {len(chosen.moves)} moves change")
            before, after = _predicted(run, scene, interests.listeners, chosen, events)
        finally:
            rows.unpersist()
        about: dict[str, str | float] = {
            "axes": ", ".join(interests.axes),
            "root": overlay.brokers[scene.root],
        }
        return Draft(
            moves=chosen.moves,
            before=before,
            after=after,
            parameters=choice.parameters() | about,
            yardstick=chosen.yardstick,
            notes=chosen.notes,
        )


class Interests(msgspec.Struct, frozen=True, eq=False):
    """Who wants what, on chosen axes."""

    axes: tuple[str, ...]
    listeners: Listeners
    densities: list[Density]


def _interests(
    publications: Any, changes: Any, deliveries: Any, overlay: Overlay, choice: SubscriberOptions
) -> Interests:
    """Interests on the topic and on the attributes that filters constrain most, `choice.axes` in
    all; an attribute that no event has as a number tells nothing and is passed over."""
    seen = told.vocabulary(publications, changes)
    space = seen.space()
    rows = told.listeners(changes, deliveries, space)
    found = Listeners.of(rows, len(space), overlay.brokers)
    marks = [
        marks_of(np.stack([found.lows[:, axis], found.highs[:, axis]]))
        for axis in range(len(space))
    ]
    spread = densities(publications, space, marks)
    is_topic = [number == 0 and space.topics is not None for number in range(len(space))]
    used = [
        axis
        for axis, density in enumerate(spread)
        if is_topic[axis] or density.missing < density.events
    ][: choice.axes]
    if not used:
        used = [0]
    return Interests(
        tuple(space.names[axis] for axis in used),
        msgspec.structs.replace(found, lows=found.lows[:, used], highs=found.highs[:, used]),
        [spread[axis] for axis in used],
    )


def _published(publications: Any, overlay: Overlay) -> Floats:
    """How many events were published at each broker."""
    rows = places(publications).groupBy("source").agg(F.sum("published").alias("events")).collect()
    counts = {row["source"]: float(row["events"]) for row in rows}
    return np.array([counts.get(broker, 0.0) for broker in overlay.brokers])


class Chosen(msgspec.Struct, frozen=True, eq=False):
    """What a plan is to do, and what is to be said about it."""

    after: Ints
    moves: list[ReassignSubscriber]
    yardstick: dict[str, float | None]
    notes: tuple[str, ...]


def _chosen(
    scene: Scene, interests: Interests, choice: SubscriberOptions, events: RecordedEvents
) -> Chosen:
    listeners = interests.listeners
    posed = Posed.of(scene, listeners, interests.densities, choice)
    if posed is None:
        return Chosen(
            listeners.home, [], {}, (f"{NOBODY}no subscriber got any event of the recording.",)
        )
    target, lp_yardstick = posed.targets()
    limits = posed.limits(listeners.deliveries)
    after, gains = worthwhile(listeners.home, target, events, limits)
    moves = moves_of(posed, listeners, target, after, gains)
    yardstick: dict[str, float | None] = {
        "filter_volume_before": posed.volume(listeners.home),
        "filter_volume_chosen": posed.volume(target),
        "filter_volume_after": posed.volume(after),
        "yardstick_by_linear_programs": lp_yardstick,
        "lower_bound_proven": posed.lower_bound(),
    }
    return Chosen(after, moves, yardstick, _notes(posed, target, after, gains))


def _notes(posed: Posed, target: Ints, after: Ints, gains: Gains) -> tuple[str, ...]:
    chosen, moves = target != posed.home, after != posed.home
    algorithm, limit = posed.choice.algorithm, posed.choice.moves_max
    said: list[str] = []
    if not moves.any():
        said.append(
            f"{NOBODY}neither what {algorithm} chose by boxes nor any single move within the "
            "bounds lowers the message rate of the recorded events."
        )
    else:
        kept = int((moves & (after == target)).sum())
        said.append(
            f"{kept} of the {int(chosen.sum())} moves that {algorithm} chose by boxes are made, "
            f"and {int(moves.sum()) - kept} others that the recorded events suggest"
            + ("." if limit is None else f"; {limit} moves are allowed.")
        )
    if gains.before and moves.any():
        share = 100 * (gains.before - gains.after) / gains.before
        said.append(
            f"Links carry {share:.1f} % fewer messages."
            if share >= 0
            else f"Links carry {-share:.1f} % more messages: brokers that have more than "
            f"{posed.problem.beta_max:.3g} times their share of subscribers are relieved."
        )
    now, then = posed.broken(posed.home), posed.broken(after)
    worse = [key for key, (far, _) in then.items() if key not in now or far > now[key][0]]
    said += [f"A bound does not hold: {then[key][1]}." for key in worse]
    for kind in ("latency", "load"):
        stays = sorted(name for of, name in then if of == kind and (of, name) not in worse)
        if stays:
            more = f" and {len(stays) - NAMED_MAX} more" if len(stays) > NAMED_MAX else ""
            named = f"{', '.join(stays[:NAMED_MAX])}{more}"
            said.append(f"The bound on {kind} holds neither before nor after at {named}.")
    return tuple(said)


def _predicted(
    run: Run, scene: Scene, listeners: Listeners, chosen: Chosen, events: RecordedEvents
) -> tuple[Metrics, Metrics]:
    """Every metric of the recorded events, with subscribers where they are and where they go."""
    states = {
        state: Served(home, scene.own_ms(listeners.home, home) / 1000)
        for state, home in zip(STATES, (listeners.home, chosen.after), strict=True)
    }
    totals = events.totals(states, run.network.forwarding)
    costs = (0.0, sum(move.why.cost for move in chosen.moves))

    def metrics(state: str, cost: float) -> Metrics:
        loads = _loads(listeners, states[state].home, run.overlay)
        frame = msgspec.structs.replace(run.frame, subscribers=loads)
        found, to_client = (
            evaluated(name, totals[name], run.network, run.overlay, frame, cost).metrics
            for name in (state, to_clients(state))
        )
        return with_client_delays(found, to_client)

    before, after = map(metrics, STATES, costs)
    return before, after


def with_client_delays(found: Metrics, to_client: Metrics) -> Metrics:
    """Metrics with delays to clients behind those that brokers measure."""
    told: Metrics = {}
    for name, value in found.items():
        told[name] = value
        if name == DELAYS[-1]:
            told |= {f"client_{delay}": to_client[delay] for delay in DELAYS}
    return told


def _loads(listeners: Listeners, home: Ints, overlay: Overlay) -> dict[str, int]:
    """How many subscribers each broker has."""
    counts = np.bincount(home[listeners.is_subscribed], minlength=len(overlay.brokers))
    return dict(zip(overlay.brokers, counts.tolist(), strict=True))
