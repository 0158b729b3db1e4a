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
import http.client
import time
from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec

from gravitate.config.network import BrokerSpec, Network
from gravitate.errors import InputError
from gravitate.model.decoding import UNREADABLE
from gravitate.operate.asking import reason_in
from gravitate.serve.control.network import broker_spec
from gravitate.serve.http.pages import JSON
from gravitate.serve.http.restart_page import Restarting
from gravitate.serve.node.status import NodeStatus, Readiness

ANSWER_S_MAX: Final = 3.0
"""How long a broker may take over one answer."""
LOOK_EVERY_S: Final = 0.1
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


class _Stopped(Exception):
    """It does not go on; the message says why."""


class _Silent(_Stopped):
    """A broker does not answer; it may have taken what it was asked."""


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
    failed = order[0]
    try:
        for specs in concerned.values():
            for spec in specs:
                _status(spec)
        for failed in order:
            done.append(_restarted(concerned[failed], patience_s, tell))
    except _Stopped as problem:
        left = order[len(done) + 1 :]
        return RollingRestart(network.name, tuple(done), failed, str(problem), left)
    return RollingRestart(network.name, tuple(done))


def _concerned(network: Network, broker: str) -> list[BrokerSpec]:
    """A broker and its neighbours; all of them can be asked."""
    broker_spec(network, broker)
    near = network.topology().near()
    specs = [broker_spec(network, one) for one in (broker, *near[broker])]
    for spec in specs:
        if not spec.address.http:
            raise InputError(
                f"broker '{spec.id}' has no http port in the network file: give it one, it is "
                f"asked over HTTP when '{broker}' is restarted"
            )
    return specs


def _restarted(concerned: list[BrokerSpec], patience_s: float, tell: Tell) -> Restarted:
    broker = concerned[0]
    tell(broker.id, Step.WAITING)
    _await_ready(concerned, time.monotonic() + patience_s, f"before '{broker.id}' was restarted")
    before = _status(broker).incarnation
    asked_s = time.monotonic()
    tell(broker.id, Step.ASKED)
    _ask(broker)
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
            raise _Stopped(f"{lacking}, {when}")
        time.sleep(LOOK_EVERY_S)


def _lack(spec: BrokerSpec) -> str:
    """What keeps a broker from being ready; empty when nothing does."""
    try:
        told: Readiness = _answer(spec, "GET", "/ready", Readiness)
    except _Stopped as problem:
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
        except _Stopped as problem:
            lacking = f"{problem}, after it was asked to restart: who runs it starts it again?"
        if time.monotonic() >= until_s:
            raise _Stopped(lacking)
        time.sleep(LOOK_EVERY_S)


def _status(spec: BrokerSpec) -> NodeStatus:
    told: NodeStatus = _answer(spec, "GET", "/status", NodeStatus)
    return told


def _ask(broker: BrokerSpec) -> None:
    """Ask for the restart; whether one that does not answer has heard it shows later."""
    with contextlib.suppress(_Silent):
        _answer(broker, "POST", "/restart", Restarting)


def _answer(spec: BrokerSpec, method: str, path: str, what: Any) -> Any:
    """What a broker says; one that refuses, or cannot be understood, ends the whole."""
    address = spec.address
    where = f"broker '{spec.id}' at {address.host}:{address.http}"
    connection = http.client.HTTPConnection(address.host, address.http, timeout=ANSWER_S_MAX)
    try:
        body = b"{}" if method == "POST" else None
        connection.request(method, path, body, {"Content-Type": JSON} if body else {})
        answer = connection.getresponse()
        content = answer.read()
        if 400 <= answer.status < 500:
            raise _Stopped(f"{where} refuses {method} {path}: {reason_in(content)}")
        return msgspec.json.decode(content, type=what)
    except (OSError, http.client.HTTPException) as problem:
        raise _Silent(f"{where} does not answer ({problem or type(problem).__name__})") from None
    except UNREADABLE as problem:
        raise _Stopped(
            f"{where} answers {path} with what is not expected ({problem}): is it of this version?"
        ) from None
    finally:
        connection.close()
