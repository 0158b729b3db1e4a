"""Ledgers made by hand: a line of brokers, p publishes at the first, s subscribes at the third."""

from __future__ import annotations

from gravitate.config.build import shaped
from gravitate.config.network import Network
from gravitate.torture.judging import Judgement, judge
from gravitate.torture.ledger import (
    KILLED,
    STAYING,
    STEADY,
    VISITING,
    Arrival,
    ClientSpec,
    Ledger,
    Presence,
    Publication,
    Role,
    Spot,
)

LINE: Network = shaped("line", 4)
END = 100.0


class Story:
    """What happens, told in short; `judged` is what comes of it."""

    def __init__(self, home: str = "b01", end: str = "b03") -> None:
        self.ledger = Ledger(
            [
                ClientSpec("p", Role.PUBLISHER, home),
                ClientSpec("s", Role.SUBSCRIBER, end, STAYING),
                ClientSpec("visitor", Role.SUBSCRIBER, end, VISITING),
            ]
        )

    def subscribed(self, at: float, ready_at: float | None = None, who: str = "s") -> Presence:
        presence = self.ledger.entered(who)
        presence.subscribed_at = at
        presence.ready_at = at + 0.1 if ready_at is None else ready_at
        return presence

    def published(
        self, at: float, acknowledged: bool = True, connection: int = 1, lane: str = STEADY[0]
    ) -> Publication:
        publication = self.ledger.published("p", lane, connection, at)
        if acknowledged:
            self.ledger.acknowledged(publication, at)
        return publication

    def arrived(self, presence: Presence, publication: Publication, at: float) -> None:
        presence.arrivals.append(Arrival(publication.publisher, publication.number, at))

    def disturbed(self, spot: Spot, since: float, until: float, what: str = "cut") -> None:
        self.ledger.disturb(spot, what, since).ended_at = until

    def killed(self, broker: str, at: float, ready_at: float) -> None:
        self.disturbed(broker, at, ready_at, KILLED)

    def judged(self) -> Judgement:
        return judge(LINE, self.ledger, END)
