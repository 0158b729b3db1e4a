"""What may be lost: what goes with a broker that is killed, or with a link that is given up.

A broker that is killed may take what it held (`held`), and nothing else; so may one that was asked
to stop and did not get rid of it in time. A link that is down for longer than its grace takes what
it had queued; and until everything has been said again behind it, what is published on one side of
it may not reach the other. Whoever checks deliveries or entries is told of each event, and for
whom it was held.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from functools import partial
from itertools import pairwise

from gravitate.broker.core import Broker
from gravitate.broker.interface.inputs import Input, TimerFired
from gravitate.broker.interface.timers import GraceOver, StopLate
from gravitate.broker.links.link import LinkState
from gravitate.broker.observers import LinkChange, Observer
from gravitate.overlay.tree import path
from gravitate.simulate.checkers.deliveries import DeliveryChecker
from gravitate.simulate.checkers.entries import EntryChecker
from gravitate.simulate.checkers.held import held
from gravitate.simulate.hosts import SteppedBroker, StepWatcher


def crosses(
    near: Mapping[str, Sequence[str]], a: str, b: str, links: Container[frozenset[str]]
) -> bool:
    """Whether one of the links is on the way between two brokers."""
    way = path(near, a, b) or ()
    return any(frozenset(link) in links for link in pairwise(way))


class LossWatcher(Observer, StepWatcher):
    """`near` are the neighbours of every broker; where clients are served elsewhere than they are
    connected, what waits for a neighbour may be for anybody. Comes before the checkers it tells."""

    def __init__(
        self,
        near: Mapping[str, Sequence[str]],
        has_moves: bool,
        deliveries: DeliveryChecker,
        entries: EntryChecker,
    ) -> None:
        self._near = near
        self._has_moves = has_moves
        self._deliveries = deliveries
        self._entries = entries
        self.crashes = 0
        self._given_up: set[frozenset[str]] = set()

    def on_crash(self, broker: str, core: SteppedBroker, now: float) -> None:
        self.crashes += 1
        self._excuse(broker, core)

    def before_step(
        self, broker: str, core: SteppedBroker, inputs: Sequence[Input], now: float
    ) -> None:
        assert isinstance(core, Broker)
        for item in inputs:
            match item:
                case TimerFired(timer=StopLate()):
                    self._excuse(broker, core)
                case TimerFired(timer=GraceOver(peer)):
                    if peer in core.links and core.links[peer].state is not LinkState.UP:
                        self._excuse(broker, core.links[peer])

    def on_link(self, broker: str, peer: str, change: LinkChange, now: float) -> None:
        if change is LinkChange.GIVEN_UP and peer in self._near[broker]:
            self._given_up.add(frozenset((broker, peer)))

    def is_parted(self, entered_at: str, broker: str) -> bool:
        """Whether a link between two brokers was given up since it was last `forgiven`."""
        return bool(self._given_up) and crosses(self._near, entered_at, broker, self._given_up)

    def has_parted(self) -> bool:
        """Whether any was."""
        return bool(self._given_up)

    def forgiven(self) -> None:
        """The world is quiet, and every link is up."""
        self._given_up.clear()

    def _excuse(self, broker: str, root: object) -> None:
        for batch, holding in held(root, partial(self._is_behind, broker)):
            publisher = batch.stream
            for counter in batch.counters:
                self._deliveries.excuse(publisher, counter, holding)
                self._entries.excuse(publisher, counter)

    def _is_behind(self, here: str, broker: str, peer: str) -> bool:
        if self._has_moves:
            return True
        way = path(self._near, here, broker)
        return way is not None and len(way) > 1 and way[1] == peer
