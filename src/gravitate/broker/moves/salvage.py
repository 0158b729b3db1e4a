"""What waits for a broker that cannot be reached goes to those it was for.

A subscriber that was served elsewhere comes home when the broker that served it cannot be reached.
What that one never had is in the tail of its neighbour's link to it: everything that has come since
it last acknowledged, and it acknowledges nothing that is for a subscriber of another broker's
before that broker has it. So the neighbour can answer in its stead, but for what comes from behind,
and asks as soon as the link is back. Nothing need wait on a link that is down: who asks does so
again by itself until it has an answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import groupby
from typing import Final

from gravitate.broker.forwarding.pipeline import Dispatch
from gravitate.broker.links.table import LinkTable
from gravitate.broker.messages.frames import Publications
from gravitate.broker.messages.guests import GuestAnswer, GuestCut, GuestStep, Wanted
from gravitate.broker.moves.path import MovePaths
from gravitate.broker.options import BrokerOptions
from gravitate.broker.sessions.backlog import Backlog, Seen, parts_of
from gravitate.matching.matcher import Matcher
from gravitate.model.events import Batch

DEFERRED_MAX: Final = 1_000
"""Questions that wait for one link."""


@dataclass(eq=False)
class Salvage:
    _options: BrokerOptions
    _links: LinkTable
    _dispatch: Dispatch
    _paths: MovePaths
    _heard_of: Callable[[str, GuestAnswer], int]
    """As of when a neighbour is known to want what somebody wants whom it serves."""
    _deferred: dict[str, dict[str, GuestAnswer]] = field(default_factory=dict)
    """What was to be asked over links that are down, by neighbour and move."""

    def pass_back(self, answer: GuestAnswer, place: int) -> list[GuestCut]:
        """Towards a guest's old place; what is to be answered in its stead, if it is not asked."""
        peer = answer.path[place - 1]
        asks = answer.step is GuestStep.READY and bool(answer.origin)
        cuts = self.answer_for(answer, place) if asks else []
        if asks and not self._links.is_up(peer):
            deferred = self._deferred.setdefault(peer, {})
            if answer.move in deferred or len(deferred) < DEFERRED_MAX:
                deferred[answer.move] = answer
        elif not cuts:
            self._paths.pass_on(peer, answer)
        return cuts

    def link_given_up(self, peer: str) -> None:
        self._deferred.pop(peer, None)

    def flush(self) -> None:
        """Behind all that waited for links which are back: what was to be asked over them."""
        if not self._deferred:
            return
        for peer in [peer for peer in self._deferred if self._links.is_up(peer)]:
            for answer in self._deferred.pop(peer).values():
                self._paths.pass_on(peer, answer)

    def answer_for(self, answer: GuestAnswer, place: int) -> list[GuestCut]:
        """Empty if the next broker towards the one that served can be reached."""
        peer = answer.path[place - 1]
        if peer not in self._links or self._links[peer].given_up:
            return self.cuts(answer, (), (), answer.version)
        link = self._links[peer]
        if place > 1 or not link.is_absent:
            return []
        self._dispatch.flush()  # what was routed in this step is in the tail too
        carrying = (one for one in link.tail if isinstance(one, Publications | GuestCut))
        batches = (batch for message in carrying for batch in message.batches)
        waiting = wanted_of(batches, answer.subscriptions, answer.subscriber)
        return self.cuts(answer, (), waiting, self._heard_of(peer, answer), open=(peer,))

    def cuts(
        self,
        answer: GuestAnswer,
        seen: Seen,
        backlog: Backlog,
        version: int,
        open: tuple[str, ...] = (),
        is_known: bool = True,
    ) -> list[GuestCut]:
        """What a subscriber has had and what is left to deliver, in parts that fit into frames."""
        options = self._options
        parts = parts_of(backlog, options.frame_events_max, options.frame_bytes_max)
        cuts = []
        for number, part in enumerate(parts):
            is_more = number + 1 < len(parts)
            about = (answer.move, answer.path, () if is_more else seen)
            qos, batches = tuple(qos for _, qos in part), tuple(batch for batch, _ in part)
            cuts.append(GuestCut(*about, qos, batches, number, is_more, open, is_known, version))
        return cuts


def wanted_of(batches: Iterable[Batch], wanted: Iterable[Wanted], subscriber: str) -> Backlog:
    """The events that a subscriber wants, each batch with the quality it wants them at."""
    (found,) = wanted_by_each(batches, [(subscriber, wanted)])
    return found


def wanted_by_each(
    batches: Iterable[Batch], subscribers: Iterable[tuple[str, Iterable[Wanted]]]
) -> list[Backlog]:
    """The same for several, in their order; what is matched is looked at once."""
    names: list[str] = []
    by_key: list[tuple[int, Wanted]] = []
    matcher = Matcher()
    for number, (name, wanted) in enumerate(subscribers):
        names.append(name)
        for one in wanted:
            matcher.add(len(by_key), one.filter, len(by_key))
            by_key.append((number, one))
    found: list[list[tuple[Batch, int]]] = [[] for _ in names]
    for batch in batches:
        asked: dict[int, list[int | None]] = {}
        for index, keys in enumerate(matcher.match(batch.bodies.attributes(matcher.attributes))):
            for key in keys:
                number, one = by_key[key]
                if one.no_local and batch.publisher == names[number]:
                    continue
                by_event = asked.setdefault(number, [None] * len(batch))
                by_event[index] = max(one.qos, by_event[index] or 0)
        for number, by_event in asked.items():
            found[number] += _runs(batch, by_event)
    return [tuple(one) for one in found]


def _runs(batch: Batch, asked: list[int | None]) -> Iterator[tuple[Batch, int]]:
    """A batch without what nobody asked for, cut where the quality asked for changes."""
    for qos, indices in groupby(range(len(asked)), asked.__getitem__):
        if qos is not None:
            yield batch.select([*indices]), min(qos, batch.qos)
