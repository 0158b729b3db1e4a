"""Everything that moves subscribers, as the broker sees it: messages, timers, links, the end.

Wires the parts (`staging`, `tether.remote`, `tether.subscriber`, `reassignment`) and passes
on to each what concerns it; decides nothing itself.
"""

from __future__ import annotations

from gravitate.broker.forwarding.pipeline import Dispatch
from gravitate.broker.messages.guests import GuestCut, GuestMessage
from gravitate.broker.messages.tether import Deliveries
from gravitate.broker.moves.reassignment import Reassignments
from gravitate.broker.moves.tether.served import TetheredSubscribers
from gravitate.broker.moves.tether.subscriber import SubscriberTethers
from gravitate.broker.sessions.clients import Clients
from gravitate.broker.sessions.outbound import Outbound
from gravitate.errors import PeerError


class SubscriberMoves:
    def __init__(
        self,
        dispatch: Dispatch,
        clients: Clients,
        tethers: SubscriberTethers,
        tethered: TetheredSubscribers,
        reassignments: Reassignments,
    ) -> None:
        self._dispatch = dispatch
        self._clients = clients
        self.tethers = tethers
        self.tethered = tethered
        self.guests = tethered.guests
        self.reassignments = reassignments

    # What other brokers say ----------------------------------------------------------------

    def handle(self, peer: str, message: Deliveries) -> None:
        """Said on a direct link."""
        _check_matched(message)
        self.tethers.deliver(peer, message)

    def handle_along_path(self, peer: str, message: GuestMessage | GuestCut) -> None:
        if isinstance(message, GuestCut):
            _check_matched(message)
        self.guests.handle(peer, message)

    def taken(self, peer: str, message: Deliveries) -> None:
        """The other end of a link has received what was handed over."""
        self.tethered.taken(peer, message)

    # What happens here ---------------------------------------------------------------------

    def close_overloaded(self, session: Outbound) -> None:
        """End a session that fell too far behind, connected or not."""
        self._dispatch.events_overflowed += session.owed_events()
        if not self._clients.close_overloaded(session):
            self.reassignments.on_overloaded(session)
            self.tethered.overloaded(session)


def _check_matched(message: Deliveries | GuestCut) -> None:
    if not all(batch.covered for batch in message.batches):
        raise PeerError("unmatched", "events for a subscriber that no broker has matched")
