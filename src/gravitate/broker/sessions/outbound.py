"""What a client is owed, whether it is connected here or elsewhere, or not at all.

Duplicates are recognised here, per publisher, by the last counter seen; links keep the order. One
that *holds* keeps what is for its client, in order: for a subscriber that is to come, or that was
sent elsewhere.

Does not know how the client is given what is for it: `LocalOutbound` gives it to a client of this
broker's, the far end of a tether hands it over to the broker of the client.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass

from gravitate.broker.interface.effects import ToClient
from gravitate.broker.lives import Life, Lives, size_bytes
from gravitate.broker.options import BrokerOptions
from gravitate.broker.routing.settlement import NOWHERE, Open
from gravitate.broker.sessions.backlog import Kept, Seen
from gravitate.broker.sessions.states import GIVING, OWED, UNOBSERVED, Owed
from gravitate.model.events import Batch
from gravitate.model.filters import Filter

SWEEP_BYTES_MIN = 64 * 1024
"""What is remembered of publishers is not looked through for less."""


@dataclass(slots=True, eq=False)
class LocalSubscription:
    """A subscription that is served by this broker, and the destination that stands for it."""

    receiver: Outbound
    name: str
    id: str
    filter: Filter
    qos: int
    no_local: bool
    destination: int


class Outbound:
    """One subscriber that is served here."""

    origin: str | None = None
    """The broker that its client is connected to; None: this one, without a tether."""
    connection: int
    """That of its client, while it has one to this broker."""
    congested = False
    """Its client takes nothing at the moment."""
    indirect = True
    """What is for the client does not go to it at once: something waits, or it holds."""
    kept: Kept
    """What is held."""

    def __init__(
        self, id: str, incarnation: int, options: BrokerOptions, lives: Lives, state: Owed
    ) -> None:
        self.state = OWED.enter(None, state)
        self.id = id
        self.incarnation = incarnation
        self._options = options
        self._lives = lives
        self._seen: OrderedDict[Life, int] = OrderedDict()
        self.seen_bytes = 0
        self._sweep_at_bytes = SWEEP_BYTES_MIN
        self.subscriptions: dict[str, LocalSubscription] = {}
        self.series = ""
        """Part of the names of its subscriptions, where other guests of the same client may be."""
        self.unsettled_subscriptions: set[str] = set()
        """Names of those that have not settled yet."""
        self.unconfirmed: set[str] = set()
        """Names of subscriptions brought from elsewhere, which the client has not said again."""
        self.missing: Open = NOWHERE
        """While it holds: only what has passed one of these brokers, if there are any."""

    def enter(self, state: Owed) -> None:
        self.state = OWED.enter(self.state, state)

    def end(self) -> None:
        """It is served here no more, or will not be."""
        if self.state not in OWED.ends:
            self.enter(Owed.ENDED if self.observed else Owed.DROPPED)

    @property
    def holding(self) -> bool:
        """Whether what comes is kept."""
        return self.state not in GIVING

    @property
    def observed(self) -> bool:
        """Whether observers know of it: not of a guest before its client has arrived."""
        return self.state not in UNOBSERVED

    # How it goes on differs ----------------------------------------------------------------

    def say(self, effect: ToClient) -> None:
        """Tell the client."""
        raise NotImplementedError

    def offer(self, batch: Batch, qos: int) -> bool:
        """Hand over a fresh batch, or keep it for later; False: the client is too far behind."""
        raise NotImplementedError

    def released(self) -> list[tuple[Batch, int]]:
        """Hold no longer; what was kept, in order, to be offered now."""
        raise NotImplementedError

    def drained(self) -> bool:
        """Whether the client has all that was not kept."""
        raise NotImplementedError

    def owed_events(self) -> int:
        """How many events wait for the client, or are kept for it."""
        raise NotImplementedError

    def wait_for(self, life: Life) -> None:
        """While something is missing: a publisher is attached elsewhere now, and something earlier
        of it may be missing."""

    def matched_by(self, version: int) -> None:
        """What is kept counts as matched by what the client wanted then."""

    # What has been seen --------------------------------------------------------------------

    def saw(self, publisher: Life, first: int, last: int) -> bool:
        """Note that the client gets a publisher's events `first` to `last`.

        False, and nothing is noted, when it has been given some of them before."""
        seen = self._seen
        before = seen.get(publisher, 0)
        if first <= before:
            return False
        seen[publisher] = last
        if before:
            seen.move_to_end(publisher)
        else:
            self.seen_bytes += size_bytes(publisher)
            if self.seen_bytes > self._sweep_at_bytes and self.state is Owed.CONNECTED:
                self._forget_publishers()
        return True

    def _forget_publishers(self) -> None:
        """Those whose events cannot come again; if that is not enough, the longest silent."""
        seen, lives = self._seen, self._lives
        bytes_max = self._options.session_seen_bytes_max
        for publisher in [one for one in seen if not lives.may_come(one)]:
            del seen[publisher]
            self.seen_bytes -= size_bytes(publisher)
        while self.seen_bytes > bytes_max and len(seen) > 1:
            publisher, _ = seen.popitem(last=False)
            self.seen_bytes -= size_bytes(publisher)
            lives.forgotten += 1
        # Looking at all of them must not happen with every new one.
        self._sweep_at_bytes = max(SWEEP_BYTES_MIN, min(2 * self.seen_bytes, bytes_max))

    def fresh(self, batch: Batch) -> Batch | None:
        """The part of the batch the client has not been given before."""
        publisher = batch.stream
        counters = batch.counters
        if self.saw(publisher, counters[0], counters[-1]):
            return batch
        before = self._seen[publisher]
        if counters[-1] <= before:
            return None
        batch = batch.select([i for i, counter in enumerate(counters) if counter > before])
        self.saw(publisher, batch.counters[0], batch.counters[-1])
        return batch

    def seen(self) -> Seen:
        """The last counter of each publisher that the client has been given, or is kept for it."""
        return tuple((id, incarnation, last) for (id, incarnation), last in self._seen.items())

    def note_seen(self, publisher: Life, last: int) -> None:
        """The client has been given, or will be, what a publisher published up to here."""
        if publisher not in self._seen:
            self.seen_bytes += size_bytes(publisher)
        self._seen[publisher] = max(last, self._seen.get(publisher, 0))

    def continue_from(self, former: Outbound) -> None:
        """The client has been given all that another one of its gave it."""
        self._seen, self.seen_bytes = OrderedDict(former._seen), former.seen_bytes

    # Holding -------------------------------------------------------------------------------

    def cut(self, seen: Seen, backlog: Iterable[tuple[Batch, int]] = (), version: int = 0) -> None:
        """The client has had everything up to `seen` elsewhere, but for the backlog, which was
        matched by what it wanted as of `version`."""
        assert self.holding
        self.kept.cut(seen, backlog)
        for id, incarnation, last in seen:
            self.note_seen((id, incarnation), last)

    def keeps_too_much(self) -> bool:
        """Whether more is kept for it than two brokers may keep."""
        options = self._options
        bound = (2 * options.session_queue_events_max, 2 * options.session_queue_bytes_max)
        return self.kept.measure.exceeds(*bound)

    def discard(self) -> None:
        """What is kept is for nobody any more."""
        self.kept.take_all()
