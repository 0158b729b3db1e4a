"""A rolling restart: the brokers of a running network restarted one after the other.

    waiting (it and its neighbours are ready)  -> asked (POST /restart)
            -> back (it answers with another incarnation)  -> ready (it and its neighbours are)

Owns the order, what is waited for between two steps, and for how long. Asks brokers over HTTP and
blocks the thread it runs in. Does not know who starts a broker again (`serve.control.processes`
does), nor how this is shown.

Invariant: no broker is asked before the one ahead of it, and the neighbours of both, are ready; so
at any time one broker at most is away because of this.
"""

from __future__ import annotations

import contextlib
import enum
import time
from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec

from gravitate.config.network import BrokerSpec, Network
from gravitate.errors import EnvironmentLack, GravitateError
from gravitate.operate.asking import OutcomeUnknown, ask, check_port
from gravitate.serve.control.network import broker_spec
from gravitate.serve.http.restart_page import Restarting
from gravitate.serve.node.status import NodeStatus, Readiness

LOOK_EVERY_S: Final = 0.1
NOT_READY: Final = 503
PATIENCE_S: Final = 60.0
"""How long a broker may take, by default, to be ready, and again after it was restarted."""


class Step(str, enum.Enum):
    WAITING = "waiting"
    ASKED = "asked"
    BACK = "back"
    READY = "ready"


Tell = Callable[[str, Step], None]
"""Called with a broker whenever it has come to a step."""


class Restarted(msgspec.Struct, frozen=True):
    broker: str
    away_s: float
    """From the request until it answered with another incarnation."""
    took_s: float
    """From the request until it and its neighbours were ready."""


class RollingRestart(msgspec.Struct, frozen=True):
    """How far it came. `failed` is empty when all brokers were restarted."""

    network: str
    done: tuple[Restarted, ...]
    failed: str = ""
    """The broker at which it stopped; it may have been restarted or not, as `reason` says."""
    reason: str = ""
    left: tuple[str, ...] = ()
    """Those that were not asked."""
    interrupted: bool = False
    """Somebody has ended it before it was through."""


def roll(
    network: Network,
    brokers: Sequence[str] = (),
    patience_s: float = PATIENCE_S,
    tell: Tell = lambda broker, step: None,
) -> RollingRestart:
    """Restart the brokers named, or all, in this order; stops at the first that does not come to be
    ready within `patience_s`. All that are concerned are asked how they are before the first."""
    order = tuple(dict.fromkeys(brokers)) or tuple(spec.id for spec in network.brokers)
    concerned = {broker: _concerned(network, broker) for broker in order}
    done: list[Restarted] = []
    at, failed, reason, interrupted = order[0], "", "", False
    try:
        for specs in concerned.values():
            for spec in specs:
                _status(spec)
        for at in order:
            done.append(_restarted(concerned[at], patience_s, tell))
    except GravitateError as problem:
        failed, reason = at, str(problem)
    except KeyboardInterrupt:
        failed, reason = at, f"interrupted; '{at}' may have been asked to restart"
        interrupted = True
    left = order[len(done) + 1 :]
    return RollingRestart(network.name, tuple(done), failed, reason, left, interrupted)


def _concerned(network: Network, broker: str) -> list[BrokerSpec]:
    """A broker and its neighbours; all of them can be asked."""
    broker_spec(network, broker)
    near = network.topology().near()
    specs = [broker_spec(network, one) for one in (broker, *near[broker])]
    for spec in specs:
        check_port(spec)
    return specs


def _restarted(concerned: list[BrokerSpec], patience_s: float, tell: Tell) -> Restarted:
    broker = concerned[0]
    tell(broker.id, Step.WAITING)
    _await_ready(concerned, time.monotonic() + patience_s, f"before '{broker.id}' was restarted")
    before = _status(broker).incarnation
    asked_s = time.monotonic()
    tell(broker.id, Step.ASKED)
    with contextlib.suppress(OutcomeUnknown):  # Whether it has heard shows later.
        _told(broker, "/restart", Restarting, {})
    until_s = asked_s + patience_s
    _await_back(broker, before, until_s)
    back_s = time.monotonic()
    tell(broker.id, Step.BACK)
    _await_ready(concerned, until_s, f"after '{broker.id}' was restarted")
    tell(broker.id, Step.READY)
    ready_s = time.monotonic()
    return Restarted(broker.id, round(back_s - asked_s, 3), round(ready_s - asked_s, 3))


def _await_ready(specs: list[BrokerSpec], until_s: float, when: str) -> None:
    """Until all of them answer that they are ready, and have no link that is down."""
    while lacking := next(filter(None, map(_lack, specs)), ""):
        if time.monotonic() >= until_s:
            raise EnvironmentLack(f"{lacking}, {when}")
        time.sleep(LOOK_EVERY_S)


def _lack(spec: BrokerSpec) -> str:
    """What keeps a broker from being ready; empty when nothing does."""
    try:
        told: Readiness = _told(spec, "/ready", Readiness)
    except GravitateError as problem:
        return str(problem)
    for peer, why in told.awaited.items():
        return f"broker '{spec.id}' is not ready: it waits for '{peer}', {why}"
    for peer in told.down:
        return f"broker '{spec.id}' has lost its link with '{peer}'"
    return ""


def _await_back(broker: BrokerSpec, before: int, until_s: float) -> None:
    """Until another incarnation of the broker answers."""
    while True:
        try:
            if _status(broker).incarnation != before:
                return
            lacking = f"broker '{broker.id}' goes on and does not restart"
        except GravitateError as problem:
            lacking = f"{problem}, after it was asked to restart: who runs it starts it again?"
        if time.monotonic() >= until_s:
            raise EnvironmentLack(lacking)
        time.sleep(LOOK_EVERY_S)


def _status(spec: BrokerSpec) -> NodeStatus:
    told: NodeStatus = _told(spec, "/status", NodeStatus)
    return told


def _told(spec: BrokerSpec, path: str, what: Any, body: Any = None) -> Any:
    """What a broker says; one that is not ready says so with a failure."""
    told = ask(spec, path, what, body, besides=NOT_READY)
    if told is None:
        raise EnvironmentLack(f"broker '{spec.id}' has no {path}: is it of this version?")
    return told
