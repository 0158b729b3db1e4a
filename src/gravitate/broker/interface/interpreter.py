"""Effects into calls: what a broker wants done, done in its surroundings.

One interpreter serves brokers on sockets, simulated ones and those of the tests. Owns which client
has which connection, in what order things are written, and who pays when something raises:

    what raises                               who pays
    a client's end, encoding for it           the client: closed, and told so where possible
    sending on a link, encoding a frame       the link's connection: broken, the broker is told
    an observer, a mechanism, a watcher       the watcher: the broker has detached it (`guards`)
    anything else                             the core is broken: it goes up to who drives it

The rest of the effects is carried out. In worlds and tests nobody pays: what raises is a bug.
Does not know when effects come, nor what a broker is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, Protocol, TypeVar

from gravitate.broker.interface import effects as e
from gravitate.broker.interface.timers import Timer
from gravitate.broker.messages.frames import Frame


class ClientEnd(Protocol):
    """Where the effects of a session go. They may be buffered until `flush`, which comes once per
    connection touched, after all effects of a batch."""

    def deliver(self, effect: e.Deliver) -> None: ...

    def accept(self, count: int) -> None: ...

    def tell(self, word: e.Word) -> None: ...

    def flush(self) -> None: ...


C = TypeVar("C", bound=ClientEnd)
Served = TypeVar("Served", bound=ClientEnd, contravariant=True)


class Surroundings(Protocol[Served]):
    """What a broker is in. Inherited where what raises is a bug."""

    def send(self, connection: int, frame: Frame) -> None:
        """Nothing when the connection has gone. It may be buffered until `flush_links`."""
        ...

    def flush_links(self) -> None:
        return

    def open_link(self, peer: str) -> None: ...

    def close_link(self, connection: int, reason: str) -> None: ...

    def set_timer(self, timer: Timer, at: float) -> None: ...

    def persist(self, token: int) -> None: ...

    def warn(self, warning: e.Warn) -> None: ...

    def stopped(self) -> None: ...

    def client_failed(self, client: Served, error: Exception) -> None:
        raise error

    def link_failed(self, connection: int, error: Exception) -> None:
        raise error


class Interpreter(Generic[C]):
    def __init__(self, around: Surroundings[C]) -> None:
        self._around = around
        self.clients: dict[int, C] = {}
        """By connection."""

    def carry_out(self, effects: Sequence[e.Effect], at_once: bool = False) -> None:
        """Buffer what effects bring for each connection and write it, links first.

        What follows from a single input brings a client hardly ever more than one thing, so it
        may be written as it comes: the first of many clients need not wait for the last."""
        if not effects:
            return
        around, clients = self._around, self.clients
        if at_once and type(effects[-1]) is e.Send:
            at_once = False
        touched: dict[C, None] = {}
        sent = False
        for effect in effects:
            client = None
            try:
                # The most frequent first.
                match effect:
                    case e.Deliver():
                        client = clients.get(effect.connection)
                        if client is not None:
                            client.deliver(effect)
                            if at_once:
                                client.flush()
                            else:
                                touched[client] = None
                    case e.Send():
                        around.send(effect.connection, effect.frame)
                        sent = True
                    case e.Accept():
                        client = clients.get(effect.connection)
                        if client is not None:
                            client.accept(effect.count)
                            touched[client] = None
                    case e.SetTimer():
                        around.set_timer(effect.timer, effect.at)
                    case e.Tell():
                        client = clients.get(effect.connection)
                        if client is not None:
                            client.tell(effect.word)
                            touched[client] = None
                    case e.OpenLink():
                        around.open_link(effect.peer)
                    case e.CloseLink():
                        around.close_link(effect.connection, effect.reason)
                    case e.Persist():
                        around.persist(effect.token)
                    case e.Warn():
                        around.warn(effect)
                    case e.Stopped():
                        around.stopped()
            except Exception as error:
                if client is not None:
                    around.client_failed(client, error)
                elif isinstance(effect, e.Send):
                    around.link_failed(effect.connection, error)
                else:
                    raise
        if sent:
            around.flush_links()
        for client in touched:
            try:
                client.flush()
            except Exception as error:
                around.client_failed(client, error)
