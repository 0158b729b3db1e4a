"""Effects are carried out in order, and what raises is charged to whom it concerns."""

from __future__ import annotations

import pytest

from gravitate.broker.interface import effects as e
from gravitate.broker.interface.interpreter import Interpreter, Surroundings
from gravitate.broker.interface.timers import Timer
from gravitate.broker.messages.frames import Frame, Ping
from gravitate.model.events import Batch, Event, PlainBodies

BATCH = Batch("p", 1, range(1, 2), PlainBodies([Event({"topic": "t"})]), 1)


class Desk(Surroundings["End"]):
    """Writes down what is done; what is named in `broken` raises."""

    def __init__(self, *broken: str) -> None:
        self.done: list[str] = []
        self._broken = broken

    def note(self, what: str) -> None:
        if what in self._broken:
            raise RuntimeError(what)
        self.done.append(what)

    def send(self, connection: int, frame: Frame) -> None:
        self.note(f"send {connection}")

    def flush_links(self) -> None:
        self.note("flush links")

    def open_link(self, peer: str) -> None:
        self.note(f"open {peer}")

    def close_link(self, connection: int, reason: str) -> None:
        self.note(f"close {connection}")

    def set_timer(self, timer: Timer, at: float) -> None:
        self.note("timer")

    def persist(self, token: int) -> None:
        self.note(f"persist {token}")

    def warn(self, warning: e.Warn) -> None:
        self.note(warning.text)

    def stopped(self) -> None:
        self.note("stopped")

    def client_failed(self, client: End, error: Exception) -> None:
        self.done.append(f"client {client.name} pays for {error}")

    def link_failed(self, connection: int, error: Exception) -> None:
        self.done.append(f"link {connection} pays for {error}")


class End:
    """A client's."""

    def __init__(self, desk: Desk, name: int) -> None:
        self.desk = desk
        self.name = name

    def deliver(self, effect: e.Deliver) -> None:
        self.desk.note(f"deliver {self.name}")

    def accept(self, count: int) -> None:
        self.desk.note(f"accept {self.name}")

    def tell(self, word: e.Word) -> None:
        self.desk.note(f"tell {self.name}")

    def flush(self) -> None:
        self.desk.note(f"flush {self.name}")


EFFECTS: list[e.Effect] = [
    e.Deliver(1, BATCH, 0, 0),
    e.Send(7, Ping(0.0)),
    e.Accept(2, 1),
    e.Tell(1, e.Stay()),
    e.Deliver(3, BATCH, 0, 0),
    e.OpenLink("c"),
]
IN_ORDER = [
    "deliver 1",
    "send 7",
    "accept 2",
    "tell 1",
    "open c",
    "flush links",
    "flush 1",
    "flush 2",
]


def carried_out(*broken: str, at_once: bool = False) -> list[str]:
    """What is done for two clients of three, and one link."""
    desk = Desk(*broken)
    interpreter = Interpreter(desk)
    interpreter.clients.update({1: End(desk, 1), 2: End(desk, 2)})
    interpreter.carry_out(EFFECTS, at_once)
    return desk.done


def test_everything_is_done_in_order_and_written_once_links_first() -> None:
    assert carried_out() == IN_ORDER


def test_what_one_input_brings_is_written_as_it_comes() -> None:
    assert carried_out(at_once=True)[:3] == ["deliver 1", "flush 1", "send 7"]


@pytest.mark.parametrize("what", ["deliver 1", "send 7", "accept 2", "tell 1", "flush 1"])
def test_whom_it_concerns_pays_and_the_rest_is_carried_out(what: str) -> None:
    done = carried_out(what)
    who = "link 7" if what == "send 7" else f"client {what[-1]}"
    assert done[IN_ORDER.index(what)] == f"{who} pays for {what}"
    others = {"accept 2": ["flush 2"], "send 7": ["flush links"]}.get(what, [])
    assert {one for one in done if "pays" not in one} == {*IN_ORDER} - {what, *others}


def test_anything_else_that_raises_goes_up() -> None:
    with pytest.raises(RuntimeError, match="open c"):
        carried_out("open c")
