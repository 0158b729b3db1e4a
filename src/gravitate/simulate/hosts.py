"""The places of a world: where brokers run and where clients are attached.

Plain state that `world` moves forward, and the shapes of what is plugged in: a broker that takes
steps, the client's end of a session.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from gravitate.broker.interface import effects as e
from gravitate.broker.interface import inputs as i
from gravitate.broker.interface.timers import Timer
from gravitate.broker.observers import Observer
from gravitate.simulate.lines import Pipe


class SteppedBroker(Protocol):
    """What a world drives: the broker core, or a stand-in of the tests."""

    def start(self, now: float) -> list[e.Effect]: ...

    def handle(self, inputs: Sequence[i.Input], now: float) -> list[e.Effect]: ...


BrokerFactory = Callable[[str, int, Mapping[str, bool], Sequence[Observer]], SteppedBroker]
"""Called with id, incarnation, links (peer -> whether this side dials) and observers."""


class StepWatcher:
    """Sees every step of every broker: what it took, and what was carried out of what it wanted.
    Override what you need."""

    def before_step(
        self, broker: str, core: SteppedBroker, inputs: Sequence[i.Input], now: float
    ) -> None:
        """A broker is about to take a step."""

    def on_step(
        self, broker: str, inputs: Sequence[i.Input], effects: Sequence[e.Effect], now: float
    ) -> None:
        """A broker has taken a step."""

    def on_crash(self, broker: str, core: SteppedBroker, now: float) -> None:
        """A broker is gone, with all that it held."""


class SessionEnd(Protocol):
    """The client's side of a session, as the world calls it."""

    def on_delivered(self, effect: e.Deliver) -> None: ...

    def on_accepted(self, count: int) -> None: ...

    def on_settled(self, name: str) -> None: ...

    def on_redirected(self, target: str) -> None: ...

    def on_stay(self, _: None) -> None: ...

    def on_moved(self, target: str) -> None: ...

    def on_ping(self, effect: e.PingBrokers) -> None: ...

    def on_attached(self, _: None) -> None: ...

    def on_closed(self, reason: str) -> None: ...


REFUSED = "refused"
"""Why a session ended that never began: the broker is down."""
LOST = "lost"
"""Why a session ended whose broker was killed."""


class Attachment:
    """One connection of one client to one broker."""

    __slots__ = (
        "client",
        "connection",
        "held",
        "latency_s",
        "live",
        "queue",
    )

    def __init__(self, connection: int, client: SessionEnd, latency_s: float) -> None:
        self.connection = connection
        self.client = client
        self.latency_s = latency_s
        self.live = True
        self.held = False
        self.queue: list[i.Input] = []


class Host:
    """The place of one broker: the broker itself while it is up, and its inputs."""

    __slots__ = (
        "attachments",
        "broker",
        "busy",
        "doomed",
        "id",
        "inbox",
        "incarnation",
        "noticed_after_s",
        "pipes",
        "stopping",
        "timers",
    )

    def __init__(self, broker_id: str) -> None:
        self.id = broker_id
        self.incarnation = 0
        self.broker: SteppedBroker | None = None
        self.pipes: dict[int, Pipe] = {}
        self.timers: dict[Timer, float] = {}
        self.attachments: dict[int, Attachment] = {}
        self.inbox: list[i.Input] = []
        self.busy = False
        self.stopping = False
        self.doomed: Callable[[int], int] | None = None
        """It is killed within its next step: after so many of the effects that it wants."""
        self.noticed_after_s: Callable[[], float | None] | None = None
