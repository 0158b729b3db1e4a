"""What a subscriber is owed whose client is connected to another broker, and how it is handed over.

Like what a client of this broker's is owed, but that it goes to the broker of the client: it is
kept until that one has it, and retained with the neighbours that it came from.

Does not know when it is served (`served`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Any

from gravitate.broker.lives import Life
from gravitate.broker.messages.parcels import divided
from gravitate.broker.messages.tether import Deliveries
from gravitate.broker.moves.tether.remote import End, EndKind, Key, Remote
from gravitate.broker.sessions.backlog import Backlog, Seen, Source
from gravitate.broker.sessions.outbound import Outbound
from gravitate.broker.sessions.states import Owed
from gravitate.model.events import Batch


class TetheredSubscriber(End, Outbound):
    """One subscriber whose client is connected elsewhere."""

    origin: str

    def __init__(
        self,
        kind: EndKind[Any],
        remote: Remote,
        key: Key,
        id: str,
        incarnation: int,
        state: Owed,
    ) -> None:
        context = remote.context
        End.__init__(self, kind, remote, key)
        Outbound.__init__(self, id, incarnation, context, state, remote.links)
        self.attachment = 0
        is_visitor = self.origin != context.broker_id
        self._keepers = self._possible_keepers = remote.links if is_visitor else None
        """The links whose other ends keep what comes for it; none do for this broker's own."""
        self._messages: deque[tuple[int, int]] = deque()
        """Those that have brought what waits, for it was handed over and is not taken: their
        attachment and sequence."""
        self._sequence = 0
        self.version = 0
        """As of when it is known what is matched."""
        self._waiting_lives: set[Life] = set()
        """Publishers of whom something earlier may be missing."""
        self._direct_lives: set[Life] = set()
        """Those of whom something has come since that has not passed there: nothing is missing."""
        self.recalled: tuple[Seen, Backlog] | None = None
        """What the origin is told that has recalled it."""

    def listens(self) -> bool:
        return self.recalled is None

    def offer(self, batch: Batch, qos: int) -> bool:
        return self._take(batch.compacted(), qos, self._source(self.version))

    def _source(self, version: int) -> Source:
        """Of what comes now. What is with the client's own broker is for nobody else to keep."""
        return Source(self._keepers.mark() if self._keepers is not None else None, version)

    def _take(self, batch: Batch, qos: int, source: Source) -> bool:
        if self.holding and self._is_kept(batch):
            return self.kept.add(batch, qos, source)
        for part in divided((batch,), self._options.frame_events_max):
            if not self.waiting.add(part, qos, source):
                return False
            self._sequence += 1
            about = (self.number, self.attachment, self._sequence)
            self._messages.append(about[1:])
            message = Deliveries(*about, qos, (part,), source.version)
            if self._remote.tell(self.origin, message):
                self.taken(message)
        return True

    def _is_kept(self, batch: Batch) -> bool:
        """Where something is missing: what has passed there, and all that its publisher has
        published since, wherever."""
        if not self.missing:
            return True
        life = batch.stream
        if life not in self._waiting_lives and self.missing.isdisjoint(batch.covered):
            self._direct_lives.add(life)
            return False
        self._waiting_lives.add(life)
        return True

    def wait_for(self, life: Life) -> None:
        if life not in self._direct_lives:
            self._waiting_lives.add(life)

    def released(self) -> list[tuple[Batch, int]]:
        """Hold no longer, or only what is missing; what does not fit is returned."""
        self.enter(Owed.PARTLY if self.missing else Owed.CONNECTED)
        if not self.missing:
            self._waiting_lives.clear()
            self._direct_lives.clear()
        left: list[tuple[Batch, int]] = []
        for batch, qos, source in self.kept.take(
            lambda batch: not (self.holding and self._is_kept(batch))
        ):
            if left or not self._take(batch, qos, source):
                left.append((batch, qos))
        return left

    def cut(self, seen: Seen, backlog: Iterable[tuple[Batch, int]] = (), version: int = 0) -> None:
        """Without anything seen, it is told by one that does not know what the client has had."""
        source, backlog = self._source(version), list(backlog)
        if seen:
            self.kept.cut(seen, backlog, source)
            told = [((id, incarnation), last) for id, incarnation, last in seen]
        else:
            self.kept.precede(backlog, source)
            told = [(one.stream, one.counters[-1]) for one, _ in backlog]
        for publisher, last in told:
            self.note_seen(publisher, last)

    def retain_no_more(self) -> None:
        """Its origin is not to be reached: it is not for others to keep what is for it."""
        self._keepers = None
        for queue in (self.kept, self.waiting):
            queue.change_sources(lambda source: source._replace(mark=None))

    def retain_again(self) -> None:
        """Its origin is there again."""
        self._keepers = self._possible_keepers

    def matched_by(self, version: int) -> None:
        self.kept.change_sources(
            lambda source: source._replace(version=min(version, source.version))
        )

    def discard(self) -> None:
        super().discard()
        self._messages.clear()

    def taken(self, message: Deliveries) -> None:
        """The origin has what was handed over, if that is the first of it."""
        if self._messages and self._messages[0] == (message.attachment, message.sequence):
            self._messages.popleft()
            self.waiting.take_first()

    def drained(self) -> bool:
        return not self.waiting

    def backlog(self) -> Backlog:
        return (*self.waiting, *self.kept)
