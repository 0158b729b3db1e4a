"""How much of a set of subscriptions is covered by others of it.

Asks the project's own `covers`; knows nothing of how subscriptions are drawn.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from gravitate.model.canonical import conjoin
from gravitate.model.covering import covers
from gravitate.model.filters import Filter
from gravitate.model.language import parse
from gravitate.model.topics import topic_filter


def subscription_filter(topic: str, condition: str) -> Filter:
    """The filter that a row of the table `subscriptions` means."""
    wanted = topic_filter(topic)
    return conjoin(wanted, parse(condition)) if condition else wanted


def covered_share(subscriptions: Sequence[tuple[str, str]]) -> float:
    """Share of (topic, condition) pairs that another one covers; topics without wildcards.

    Only subscriptions of one topic can cover each other. Covering is transitive, so it is enough
    to compare with the maximal ones found so far; of equal ones all but the first are covered."""
    by_topic: dict[str, list[Filter]] = defaultdict(list)
    for topic, condition in subscriptions:
        by_topic[topic].append(subscription_filter(topic, condition))
    maximal = sum(len(_maximal(filters)) for filters in by_topic.values())
    return 1.0 - maximal / len(subscriptions) if subscriptions else 0.0


def _maximal(filters: Sequence[Filter]) -> list[Filter]:
    """Those that no other covers, one of each equal kind."""
    kept: list[Filter] = []
    for candidate in filters:
        if not any(covers(wide, candidate) for wide in kept):
            kept = [narrow for narrow in kept if not covers(candidate, narrow)]
            kept.append(candidate)
    return kept
