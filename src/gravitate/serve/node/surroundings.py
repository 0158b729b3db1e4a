"""What a broker on sockets is in: its peers' connections, the loop's timers, its clients.

Owns that failures stay where they happen: what raises while something is done for a client closes
that client, what raises for a link that link. Each is counted, and said once (`failures`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Protocol

from gravitate.broker.interface.effects import Warn
from gravitate.broker.interface.inputs import Input, Persisted
from gravitate.broker.interface.interpreter import ClientEnd
from gravitate.serve.node.failures import Failures
from gravitate.serve.node.timers import Timers
from gravitate.serve.peers.links import PeerLinks

logger = logging.getLogger("gravitate.node")


class ClientConnection(ClientEnd, Protocol):
    """A client's end that can be closed when something goes wrong. All that a broker wants only
    buffers until `flush`."""

    origin: str
    """Who it is, for logs."""

    def fail(self) -> None:
        """Something went wrong here while this client was served: tell it and close."""
        ...

    def abort(self) -> None:
        """Close at once, and leave the session."""
        ...


class Sockets:
    """Of one broker; `submit` takes what it is to be told, `stopped` is called when it has stopped
    in order."""

    def __init__(
        self,
        broker_id: str,
        links: PeerLinks,
        timers: Timers,
        submit: Callable[[Input], None],
        stopped: Callable[[], None],
    ) -> None:
        self._broker_id = broker_id
        self._links = links
        self._submit = submit
        self.failures = Failures(broker_id)
        self.send = links.send
        self.open_link = links.open
        self.close_link = links.close
        self.set_timer = timers.set
        self.stopped = stopped

    def flush_links(self) -> None:
        for connection, error in self._links.flush():
            self.link_failed(connection, error)

    def persist(self, token: int) -> None:
        # Without a journal nothing is more stable than memory.
        self._submit(Persisted(token))

    def warn(self, warning: Warn) -> None:
        level = logging.ERROR if warning.is_error else logging.WARNING
        logger.log(level, "%s, from %s: %s", self._broker_id, warning.origin, warning.text)

    def client_failed(self, client: ClientConnection, error: Exception) -> None:
        """Something raised while a client was served: that client is closed."""
        self.failures.note("clients", client.origin, error)
        try:
            client.fail()
        except Exception as again:
            self.failures.note("clients", client.origin, again)
            client.abort()

    def link_failed(self, connection: int, error: Exception) -> None:
        """What is for a link cannot be sent on it: its connection is closed."""
        peer = self._links.drop(connection)
        if peer:
            self.failures.note("links", peer, error)
