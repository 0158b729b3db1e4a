"""What was promised and not kept, from the ledger of a run alone.

Owed. A subscriber is owed an acknowledged publication that it wants if it was sent after the
subscription had settled towards its publisher, and as long as the subscriber's connection lasts:
nothing is owed to who is away. A subscription has settled

- when the subscriber's broker says after the SUBACK that it is ready, with all its links, if
  nothing else on the way was disturbed in the `SETTLE_S` before;
- else when nothing on the way was disturbed for `SETTLE_S` in one piece since the SUBACK.

Lost is what was owed and not delivered, if the subscriber's connection lasts to the end of the run,
or was given a later publication of the same connection of the publisher: these come in order.

Taken by a kill is what would be lost, but a broker was killed that may have been alone in having
it: one on the way (detours and second brokers of clients that were moved included), killed after
the publication was sent and while it was on its way. A publication is on its way until everything
on the way has been undisturbed for `TRANSIT_S` in one piece since it was sent.

Doubled is what one connection of a subscriber was given twice, unless it had been sent twice.
Reordered is what came on one connection of a subscriber after a later publication of the same
connection of its publisher; what was sent twice is not looked at.

Silent. How long an owed publication took from its acknowledgement to its delivery, or to the end
of the subscriber's connection; of that the longest piece in which the publisher's and the
subscriber's broker, and all between them, were undisturbed, and so were the brokers and links of
detours. A second broker, and the tether to it, are no excuse, since who cannot be served there is
to be taken home, unless it was paused while the publication was on its way: it may have been alone
in having it. Without all that as an excuse it is the `longest_detour_s`: told, not judged.

Closed without cause is a client's connection that ended though nothing had been done to its broker
that ends connections.

Pure functions of the ledger; nothing here has seen the run.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import msgspec

from gravitate.config.network import Network
from gravitate.torture.ledger import (
    ENDS_CONNECTIONS,
    KILLED,
    Arrival,
    Closing,
    Ledger,
    Presence,
    Publication,
    Spot,
)
from gravitate.torture.ways import Disturbances, Ways

SETTLE_S: Final = 4.0
"""Who falls silent is noticed after two and a half heartbeats, and not waited for a little later;
until then nobody knows that a subscription has settled but there."""
TRANSIT_S: Final = 2.0
SILENCE_S_MAX: Final = 5.0
EXAMPLES_MAX: Final = 5
"""Of each kind."""
CLOSING_S: Final = 2.0
"""How far from what was done to its broker a client may notice its end."""


class Judgement(msgspec.Struct, frozen=True):
    owed: int
    """Deliveries that were owed, made or not."""
    delivered: int
    lost: int
    doubled: int
    reordered: int
    taken_by_kills: int
    closed_without_cause: int
    longest_silence_s: float
    longest_detour_s: float
    longest_wait_s: float
    """From an acknowledgement to the delivery, whatever was done meanwhile."""
    slowest: str = ""
    """What was silent for longest, in words."""
    examples: tuple[str, ...] = ()

    def is_kept(self) -> bool:
        """Whether all promises were."""
        broken = self.lost + self.doubled + self.reordered + self.closed_without_cause
        return not broken and self.longest_silence_s <= SILENCE_S_MAX


class Missing(NamedTuple):
    """An owed publication that was not delivered, and will not be or should have been."""

    presence: Presence
    publication: Publication
    is_taken: bool


class _Silence(NamedTuple):
    longest_s: float = 0.0
    detour_s: float = 0.0
    wait_s: float = 0.0
    example: str = ""


class Judge:
    """The judge of one ledger, as it is at `now`."""

    def __init__(self, network: Network, ledger: Ledger, now: float) -> None:
        self._ledger = ledger
        self._now = now
        self._ways = Ways(network, ledger)
        self._disturbances = Disturbances(ledger.disturbances)
        self._kills = [one for one in ledger.disturbances if one.what == KILLED]
        self._pauses = Disturbances(
            [
                one
                for one in ledger.disturbances
                if isinstance(one.spot, str) and one.what not in ENDS_CONNECTIONS
            ]
        )
        """When brokers kept what they had and did nothing."""

    def judgement(self) -> Judgement:
        missing = list(self.missing())
        lost = [one for one in missing if not one.is_taken]
        doubled = [one for presence in self._ledger.presences for one in self._doubled(presence)]
        reordered = [
            one for presence in self._ledger.presences for one in self._reordered(presence)
        ]
        closed = list(self._closed_without_cause())
        silence = self._silence()
        return Judgement(
            owed=sum(map(self._owed_and_given, self._ledger.presences)) + len(missing),
            delivered=sum(len(presence.arrivals) for presence in self._ledger.presences),
            lost=len(lost),
            doubled=len(doubled),
            reordered=len(reordered),
            taken_by_kills=len(missing) - len(lost),
            closed_without_cause=len(closed),
            longest_silence_s=round(silence.longest_s, 3),
            longest_detour_s=round(silence.detour_s, 3),
            longest_wait_s=round(silence.wait_s, 3),
            slowest=silence.example,
            examples=(
                *(self._told(one) for one in lost[:EXAMPLES_MAX]),
                *doubled[:EXAMPLES_MAX],
                *reordered[:EXAMPLES_MAX],
                *map(self._closing_told, closed[:EXAMPLES_MAX]),
                *([silence.example] if silence.longest_s > SILENCE_S_MAX else []),
            ),
        )

    # --- owed, lost -----------------------------------------------------------------------------

    def missing(self) -> Iterator[Missing]:
        """What was owed and did not come, although the subscriber is there or had later ones."""
        for presence in self._ledger.presences:
            had = {(arrival.publisher, arrival.number) for arrival in presence.arrivals}
            latest = self._latest(presence)
            for publication in self._wanted(presence):
                key = (publication.publisher, publication.number)
                stream = (publication.publisher, publication.connection)
                if (
                    key not in had
                    and (
                        presence.ended_at > self._now or publication.number < latest.get(stream, 0)
                    )
                    and self._is_settled(presence, publication)
                ):
                    yield Missing(presence, publication, self._is_taken(presence, publication))

    def _latest(self, presence: Presence) -> dict[tuple[str, int], int]:
        """The latest publication that came of each connection of a publisher."""
        latest: dict[tuple[str, int], int] = {}
        for arrival in presence.arrivals:
            publication = self._publication(arrival)
            if not publication.resent:
                stream = (publication.publisher, publication.connection)
                latest[stream] = max(latest.get(stream, 0), publication.number)
        return latest

    def _wanted(self, presence: Presence) -> Iterator[Publication]:
        """Acknowledged publications for a subscriber, sent while it was subscribed."""
        spec = self._ledger.clients[presence.subscriber]
        for publication in self._ledger.all_publications():
            if (
                publication.acknowledged_at <= self._now
                and presence.subscribed_at <= publication.sent_at < presence.ended_at
                and publication.lane in spec.lanes
            ):
                yield publication

    def _is_settled(self, presence: Presence, publication: Publication) -> bool:
        """Whether the subscription had settled when the publication was sent."""
        return self._settled_at(presence, publication.publisher, publication.sent_at) is not None

    def _settled_at(self, presence: Presence, publisher: str, until: float) -> float | None:
        """When the subscription had settled along all the ways there were from the publisher until
        a time; None: not before that time."""
        since, ready_at = presence.subscribed_at, presence.ready_at
        way = self._ways.way(publisher, presence.subscriber, since, until).whole
        if ready_at <= until:
            home = self._ledger.clients[presence.subscriber].home
            if not self._disturbances.within(way - {home}, ready_at - SETTLE_S, ready_at):
                return ready_at
        return self._disturbances.first_free(way, since, until, SETTLE_S)

    def _is_taken(self, presence: Presence, publication: Publication) -> bool:
        """Whether a killed broker may have been alone in having the publication."""
        if not self._kills:
            return False
        end = min(self._now, presence.ended_at)
        way, arrived_at = self._transit(presence, publication, end)
        return any(
            kill.spot in way and publication.sent_at <= kill.began_at <= arrived_at
            for kill in self._kills
        )

    def _transit(
        self, presence: Presence, publication: Publication, end: float
    ) -> tuple[frozenset[Spot], float]:
        """All that a publication may have passed, and until when it may have been on its way."""
        sent_at = until = publication.sent_at
        arrived_at = sent_at + TRANSIT_S
        way: frozenset[Spot] = frozenset()
        while until < arrived_at:
            # While it was on its way the two may have been moved, and the way with them.
            until = arrived_at
            way = self._ways.way(publication.publisher, presence.subscriber, sent_at, until).whole
            free_at = self._disturbances.first_free(way, sent_at, end, TRANSIT_S)
            arrived_at = end if free_at is None else free_at
        return way, arrived_at

    def _owed_and_given(self, presence: Presence) -> int:
        """How much that was owed has come."""
        had = {(arrival.publisher, arrival.number) for arrival in presence.arrivals}
        # Most was sent when the subscription had settled along whatever way there ever was.
        settled_at = {
            publisher: self._settled_at(presence, publisher, self._now)
            for publisher in {name for name, _ in had}
        }
        count = 0
        for publication in self._wanted(presence):
            if (publication.publisher, publication.number) in had:
                at = settled_at[publication.publisher]
                is_late = at is not None and publication.sent_at > at
                count += is_late or self._is_settled(presence, publication)
        return count

    # --- doubled, reordered ---------------------------------------------------------------------

    def _doubled(self, presence: Presence) -> Iterator[str]:
        first_at: dict[tuple[str, int], float] = {}
        for arrival in presence.arrivals:
            key = (arrival.publisher, arrival.number)
            if key not in first_at:
                first_at[key] = arrival.at
            elif not self._publication(arrival).resent:
                yield (
                    f"{self._where(presence.subscriber)} was given {arrival.publisher}/"
                    f"{arrival.number} at {first_at[key]:.3f} s and again at {arrival.at:.3f} s"
                )

    def _reordered(self, presence: Presence) -> Iterator[str]:
        last: dict[tuple[str, int], int] = {}
        had: set[tuple[str, int]] = set()
        for arrival in presence.arrivals:
            publication = self._publication(arrival)
            key = (arrival.publisher, arrival.number)
            if publication.resent or key in had:
                continue
            had.add(key)
            stream = (publication.publisher, publication.connection)
            if arrival.number < last.get(stream, 0):
                yield (
                    f"{self._where(presence.subscriber)} was given {arrival.publisher}/"
                    f"{arrival.number} at {arrival.at:.3f} s, after {last[stream]}"
                )
            else:
                last[stream] = arrival.number

    def _publication(self, arrival: Arrival) -> Publication:
        return self._ledger.publications[arrival.publisher][arrival.number - 1]

    # --- silence --------------------------------------------------------------------------------

    def _silence(self) -> _Silence:
        worst = _Silence()
        for presence in self._ledger.presences:
            first_at: dict[tuple[str, int], float] = {}
            for arrival in presence.arrivals:
                first_at.setdefault((arrival.publisher, arrival.number), arrival.at)
            for publication in self._wanted(presence):
                key = (publication.publisher, publication.number)
                if key in first_at:
                    waited_s = first_at[key] - publication.acknowledged_at
                    worst = worst._replace(wait_s=max(worst.wait_s, waited_s))
                elif presence.ended_at > self._now:
                    continue  # It is lost, or taken, or not owed.
                until = first_at.get(key, presence.ended_at)
                worst = self._worse(worst, presence, publication, until)
        return worst

    def _worse(
        self, worst: _Silence, presence: Presence, publication: Publication, until: float
    ) -> _Silence:
        since = publication.acknowledged_at
        if until - since <= worst.longest_s:
            return worst
        if not self._is_settled(presence, publication):
            return worst
        way = self._ways.way(publication.publisher, presence.subscriber, since, until)
        passed, arrived_at = self._transit(presence, publication, until)
        alone = self._pauses.begun(passed, publication.sent_at, arrived_at)
        free_s = self._disturbances.longest_free_s(way.served, since, until, alone)
        detour_s = max(worst.detour_s, self._disturbances.longest_free_s(way.direct, since, until))
        if free_s <= worst.longest_s:
            return worst._replace(detour_s=detour_s)
        example = (
            f"{self._way_told(presence, publication)} had been silent for {free_s:.1f} s of "
            f"undisturbed time when it came, or the subscriber left, at {until:.3f} s"
        )
        return _Silence(free_s, detour_s, worst.wait_s, example)

    # --- closed ---------------------------------------------------------------------------------

    def _closed_without_cause(self) -> Iterator[Closing]:
        for closing in self._ledger.closings:
            home = self._ledger.clients[closing.client].home
            if not any(
                one.spot == home
                and one.what in ENDS_CONNECTIONS
                and one.began_at - CLOSING_S <= closing.at <= one.ended_at + CLOSING_S
                for one in self._ledger.disturbances
            ):
                yield closing

    # --- examples -------------------------------------------------------------------------------

    def _told(self, missing: Missing) -> str:
        return f"{self._way_told(missing.presence, missing.publication)} was lost"

    def _closing_told(self, closing: Closing) -> str:
        return f"{self._where(closing.client)} was closed at {closing.at:.3f} s: {closing.why}"

    def _way_told(self, presence: Presence, publication: Publication) -> str:
        """A publication for a subscriber, where both were, and what was done on the way."""
        since, until = publication.sent_at, publication.sent_at + SILENCE_S_MAX
        way = self._ways.way(publication.publisher, presence.subscriber, since, until)
        done = [
            f"{one.spot if isinstance(one.spot, str) else '-'.join(one.spot)} {one.what} "
            f"{one.began_at:.3f} to {one.ended_at:.3f} s"
            for one in self._ledger.disturbances
            if one.spot in way.whole and one.began_at < until and one.ended_at > since - SETTLE_S
        ]
        return (
            f"{publication.publisher}/{publication.number} of {self._where(publication.publisher)} "
            f"(now {self._places(publication.publisher, since)}), sent at {since:.3f} s and "
            f"acknowledged at {publication.acknowledged_at:.3f} s, for "
            f"{self._where(presence.subscriber)} (now {self._places(presence.subscriber, since)}; "
            f"subscribed at {presence.subscribed_at:.3f} s; on the way: "
            f"{_listed(done) or 'nothing was done'})"
        )

    def _where(self, client: str) -> str:
        return f"{client} at {self._ledger.clients[client].home}"

    def _places(self, client: str, at: float) -> str:
        return "/".join(sorted(self._ways.places(client, at, at)))


def _listed(done: Sequence[str]) -> str:
    return ", ".join(done[:EXAMPLES_MAX])


def judge(network: Network, ledger: Ledger, now: float) -> Judgement:
    """What the run amounts to at `now`."""
    return Judge(network, ledger, now).judgement()
