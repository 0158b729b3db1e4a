"""Back-pressure that cannot deadlock: publishers are held, links are always read.

A broker with a link that has too much unacknowledged says so; the word floods over the
tree, and every broker that knows of a congested one holds its local publishers. Neighbours are
never held back, so what is under way drains whatever the directions it goes in.
"""

from __future__ import annotations

from gravitate.broker.dispatch import Dispatch
from gravitate.broker.links import LinkTable
from gravitate.broker.messages import Congestion
from gravitate.broker.options import BrokerOptions


class CongestionView:
    """The congested brokers known here, and who said so."""

    def __init__(
        self, broker_id: str, options: BrokerOptions, links: LinkTable, dispatch: Dispatch
    ) -> None:
        self._broker_id = broker_id
        self._high = (options.link_queue_events_max, options.link_queue_bytes_max)
        self._low = (self._high[0] // 2, self._high[1] // 2)
        self._links = links
        self._dispatch = dispatch
        self._said_by: dict[str, str | None] = {}
        """Congested broker -> the neighbour it was heard from; None for this one."""
        self._holding = False

    @property
    def holding(self) -> bool:
        """Whether publishers are to be held."""
        return bool(self._said_by)

    def changed(self) -> bool:
        """Look at the links; whether `holding` is another than when last asked."""
        links, queued, (events_max, bytes_max) = self._links, self._links.queued, self._high
        if (
            not self._said_by
            and not self._holding
            and queued.events <= events_max
            and queued.size_bytes <= bytes_max
        ):
            return False
        congested = self._broker_id in self._said_by
        if not congested and links.is_congested(*self._high):
            self._note(self._broker_id, True, None)
        elif congested and not links.is_congested(*self._low):
            self._note(self._broker_id, False, None)
        before, self._holding = self._holding, self.holding
        return before != self._holding

    def heard(self, peer: str, message: Congestion) -> None:
        if message.congested or self._said_by.get(message.origin) == peer:
            self._note(message.origin, message.congested, peer)

    def reset(self, peer: str) -> None:
        """Start anew with a neighbour: it will say what is congested behind it."""
        self.forget(peer)
        for origin in self._said_by:
            self._dispatch.send_control(peer, Congestion(origin, True))

    def forget(self, peer: str) -> None:
        for origin in [o for o, said_by in self._said_by.items() if said_by == peer]:
            self._note(origin, False, peer)

    def _note(self, origin: str, congested: bool, said_by: str | None) -> None:
        if congested:
            self._said_by[origin] = said_by
        else:
            self._said_by.pop(origin, None)
        for peer in self._links.neighbours():
            if peer != said_by:
                self._dispatch.send_control(peer, Congestion(origin, congested))
