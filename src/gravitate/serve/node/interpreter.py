"""Effects into calls: what a broker wants done, done on the connections of a node.

Owns which client connection a session has, and that failures stay where they happen: what raises
while something is done for a client closes that client, what raises for a link that link, and the
rest of the effects are carried out. Each is counted, and said once (`failures`).

    what raises                               who pays
    a client's connection, encoding for it    the client: closed, and told so where possible
    sending on a link, encoding a frame       the link's connection: broken, the broker is told
    an observer, a mechanism, a watcher       the watcher: the broker has detached it (`guards`)
    anything else                             the core is broken: the node closes

Does not know when effects come, nor what a broker is.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from gravitate.broker.interface.effects import (
    MOVED,
    Accept,
    AdvertisementSettled,
    Attached,
    CloseLink,
    CloseSession,
    Deliver,
    Effect,
    HoldReading,
    OpenLink,
    Persist,
    PingBrokers,
    Redirect,
    Send,
    SetTimer,
    Stay,
    Stopped,
    SubscriptionSettled,
    Tell,
    Warn,
    Word,
)
from gravitate.broker.interface.inputs import Input, Persisted
from gravitate.model.events import Batch
from gravitate.serve.node.failures import Failures
from gravitate.serve.node.timers import Timers
from gravitate.serve.peers.links import PeerLinks

logger = logging.getLogger("gravitate.node")


class ClientConnection(Protocol):
    """Where the effects of a session go. All but `flush`, `close` and `fail` only buffer."""

    origin: str
    """Who it is, for logs."""

    def deliver(self, batch: Batch, qos: int, sequence: int) -> None: ...

    def accept(self, count: int) -> None: ...

    def subscription_settled(self, name: str) -> None: ...

    def advertisement_settled(self, name: str) -> None: ...

    def hold_reading(self, hold: bool) -> None: ...

    def redirect(self, target: str, host: str, port: int) -> None:
        """The client is expected at broker `target`, which takes clients at this address."""
        ...

    def stay(self) -> None:
        """The client is to go on here after all."""
        ...

    def ping(self, brokers: Mapping[str, tuple[str, int]], token: int) -> None:
        """The client is to measure how far brokers are that take clients at these addresses."""
        ...

    def attached(self) -> None: ...

    def moved(self, target: str, host: str, port: int) -> None:
        """The session has ended; the client is expected at broker `target`."""
        ...

    def close(self, reason: str) -> None: ...

    def fail(self) -> None:
        """Something went wrong here while this client was served: tell it and close."""
        ...

    def abort(self) -> None:
        """Close at once, and leave the session."""
        ...

    def flush(self) -> None:
        """Once per connection touched, after all effects of a batch."""
        ...


class Interpreter:
    """Carries out the effects of one broker; `submit` takes what it is to be told, `stopped` is
    called when it has stopped in order."""

    def __init__(
        self,
        broker_id: str,
        links: PeerLinks,
        timers: Timers,
        mqtt_addresses: Mapping[str, tuple[str, int]],
        submit: Callable[[Input], None],
        stopped: Callable[[], None],
    ) -> None:
        self._broker_id = broker_id
        self._links = links
        self._timers = timers
        self._mqtt_addresses = mqtt_addresses
        self._submit = submit
        self._stopped = stopped
        self.clients: dict[int, ClientConnection] = {}
        """By number."""
        self.failures = Failures(broker_id)

    def carry_out(self, effects: Sequence[Effect], at_once: bool = False) -> None:
        """Buffer what effects bring for each connection and write it, links first.

        What follows from a single input brings a client hardly ever more than one thing, so it
        may be written as it comes: the first of many clients need not wait for the last. What
        raises is contained, and the rest carried out."""
        clients = self.clients
        if at_once and effects and type(effects[-1]) is Send:
            at_once = False
        touched: dict[ClientConnection, None] = {}
        for effect in effects:
            # The most frequent first.
            match effect:
                case Deliver():
                    client = clients.get(effect.connection)
                    if client is not None:
                        try:
                            client.deliver(effect.batch, effect.qos, effect.sequence)
                            if at_once:
                                client.flush()
                            else:
                                touched[client] = None
                        except Exception as error:
                            self.client_failed(client, error)
                case Accept():
                    client = clients.get(effect.connection)
                    if client is not None:
                        touched[client] = None
                        try:
                            client.accept(effect.count)
                        except Exception as error:
                            self.client_failed(client, error)
                case Send():
                    try:
                        self._links.send(effect.connection, effect.frame)
                    except Exception as error:
                        self._link_failed(effect.connection, error)
                case SetTimer():
                    self._timers.set(effect.timer, effect.at)
                case OpenLink():
                    self._links.open(effect.peer)
                case CloseLink():
                    self._links.close(effect.connection, effect.reason)
                case Persist():
                    # Without a journal nothing is more stable than memory.
                    self._submit(Persisted(effect.token))
                case Warn():
                    level = logging.ERROR if effect.is_error else logging.WARNING
                    logger.log(
                        level, "%s, from %s: %s", self._broker_id, effect.origin, effect.text
                    )
                case Stopped():
                    self._stopped()
                case Tell():
                    client = clients.get(effect.connection)
                    if client is not None:
                        touched[client] = None
                        try:
                            self._tell(client, effect.word)
                        except Exception as error:
                            self.client_failed(client, error)
        if self._links.touched:
            for connection, problem in self._links.flush():
                self._link_failed(connection, problem)
        for client in touched:
            try:
                client.flush()
            except Exception as error:
                self.client_failed(client, error)

    # --- what goes wrong ------------------------------------------------------------------------

    def client_failed(self, client: ClientConnection, error: Exception) -> None:
        """Something raised while a client was served: that client is closed."""
        self.failures.note("clients", client.origin, error)
        try:
            client.fail()
        except Exception as again:
            self.failures.note("clients", client.origin, again)
            client.abort()

    def _link_failed(self, connection: int, error: Exception) -> None:
        """What is for a link cannot be sent on it: its connection is closed."""
        peer = self._links.drop(connection)
        if peer:
            self.failures.note("links", peer, error)

    def _tell(self, client: ClientConnection, word: Word) -> None:
        match word:
            case SubscriptionSettled(name):
                client.subscription_settled(name)
            case AdvertisementSettled(name):
                client.advertisement_settled(name)
            case HoldReading(hold):
                client.hold_reading(hold)
            case Attached():
                client.attached()
            case PingBrokers():
                known = self._mqtt_addresses
                client.ping({id: known[id] for id in word.brokers if id in known}, word.token)
            case Stay():
                client.stay()
            case Redirect(target):
                if target in self._mqtt_addresses:
                    client.redirect(target, *self._mqtt_addresses[target])
                else:
                    # It is not told, does not pause, and stays.
                    logger.warning("%s knows no MQTT address of %s", self._broker_id, target)
            case CloseSession(reason, target):
                if reason == MOVED and target in self._mqtt_addresses:
                    client.moved(target, *self._mqtt_addresses[target])
                else:
                    client.close(reason)
