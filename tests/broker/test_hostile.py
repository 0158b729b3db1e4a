"""A neighbour that is out of its mind costs its link: the core refuses it, or goes on."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import get_args

import pytest

from gravitate.adapt.catalogue import mechanisms
from gravitate.broker.interface import inputs as i
from gravitate.broker.interface.effects import CloseLink, Send
from gravitate.broker.messages import frames as m
from gravitate.broker.messages import guests as g
from gravitate.broker.messages import tether as t
from gravitate.broker.messages.frames import Hello
from gravitate.broker.moves.staging import RECALL
from gravitate.errors import PeerError
from gravitate.model.events import Event
from gravitate.model.moves import Rationale, ReassignSubscriber, RelocatePublisher
from gravitate.simulate.random_worlds import MECHANISMS
from gravitate.wire.mqtt.bodies import FrameBodies
from gravitate.wire.peers import decode, encode
from tests.support.hostile import CLIENTS, FILTERS, MOVES, frame, message
from tests.support.wired import QUIET, Wired, at

BROKERS = ("a", "b", "x", "y")


class Besieged:
    """`a` between a sane neighbour `b`, and `x`, which is not; `y` is nobody's neighbour."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)
        on = self.draw.choice(MECHANISMS)
        watching = {name: list(mechanisms(on)) for name in "ab"}
        self.wired = Wired([("a", "b"), ("x", "a")], QUIET, watching)
        del self.wired.brokers["x"]
        self.wired.lose("x", "a")
        self.wired.run()
        self.connection = 1000
        self.sequence = 0

    def play(self, steps: int) -> None:
        for _ in range(steps):
            kind = self.draw.random()
            if kind < 0.6:
                self._say()
            elif kind < 0.95:
                self.wired.tell(self.draw.choice("ab"), *self._client())
            else:
                self.wired.pass_time(self.draw.choice((0.1, 1.0, 6.0, 30.0)))

    def _say(self) -> None:
        """What `x` says next, on a new connection if it was refused."""
        wired, draw = self.wired, self.draw
        if not self.sequence or not wired.brokers["a"].links.is_up("x"):
            self.connection += 1
            self.sequence = 1
            wired.tell("a", i.LinkOpened("x", self.connection))
            hello = Hello(QUIET.network, "x", draw.randint(1, 2), 0, 0, series=self.connection)
            wired.tell("a", i.FrameReceived("x", self.connection, hello))
        said, self.sequence = frame(draw, BROKERS, self.sequence)
        effects = wired.tell("a", i.FrameReceived("x", self.connection, said))
        if any(isinstance(e, CloseLink) and e.connection == self.connection for e in effects):
            self.sequence = 0

    def _client(self) -> Iterator[i.Input]:
        draw = self.draw
        id = draw.choice(CLIENTS)
        match draw.randrange(10):
            case 0 | 1:
                yield i.ClientConnected(
                    at(id), id, draw.randint(1, 2), draw.choice((2, 65535)), draw.random() < 0.5,
                    draw.randint(0, 2), draw.random() < 0.5,
                    draw.choice((i.Continues.NOTHING, i.Continues.NOTHING, *i.Continues)),
                )  # fmt: skip
            case 2:
                yield i.ClientDisconnected(at(id))
            case 3:
                name, qos = draw.choice(("s1", "s2")), draw.randint(0, 1)
                yield i.ClientSubscribed(at(id), name, draw.choice(FILTERS), qos)
            case 4:
                yield i.ClientUnsubscribed(at(id), draw.choice(("s1", "s2")))
            case 5:
                yield i.ClientAdvertised(at(id), "n", draw.choice(FILTERS))
            case 6:
                events = [Event({"topic": "t", "v": str(draw.randrange(5))}, b"x")]
                bodies = FrameBodies.from_events(events)
                yield i.ClientPublished(at(id), bodies, draw.randint(0, 1))
            case 7:
                yield i.ClientAcknowledged(at(id), draw.randrange(5))
            case 8:
                yield draw.choice((i.ClientPaused(at(id)), i.ClientArrived(at(id))))
            case 9:
                source, target = draw.sample(BROKERS[:3], 2)
                kind = draw.choice((RelocatePublisher, ReassignSubscriber))
                path = (source, target) if "a" in (source, target) else (source, "a", target)
                why = Rationale("a test")
                yield i.MoveRequested(kind(draw.choice(MOVES), id, source, target, why, path))


@pytest.mark.parametrize("seed", range(40))
def test_whatever_a_neighbour_says_the_core_holds_and_others_are_served(seed: int) -> None:
    besieged = Besieged(seed)
    besieged.play(300)
    wired = besieged.wired
    if besieged.sequence:
        wired.tell("a", i.LinkClosed("x", besieged.connection))
    wired.boot("x", 99)  # at last it has come to its senses
    wired.heal("x", "a")
    wired.connect("a", "sane-subscriber")
    wired.subscribe("a", "sane-subscriber", "v = 77")
    wired.connect("b", "sane-publisher")
    for _ in range(3):
        wired.publish("b", "sane-publisher", {"v": "77"})
    wired.pass_time(10.0)
    assert wired.delivered("a", "sane-subscriber") == [("sane-publisher", n) for n in (1, 2, 3)]


def test_a_neighbour_that_is_out_of_its_mind_says_everything() -> None:
    draw = random.Random(1)
    said = {type(message(draw, BROKERS)) for _ in range(5000)}
    assert said == set(get_args(m.Message))


# What random play seldom comes to ------------------------------------------------------------


class Liar:
    """`x` is a neighbour of `a`, by hand."""

    def __init__(self) -> None:
        self.wired = wired = Wired([("a", "b"), ("x", "a")], QUIET)
        del wired.brokers["x"]
        wired.lose("x", "a")
        wired.run()
        wired.tell("a", i.LinkOpened("x", 1000))
        hello = Hello(QUIET.network, "x", 7, 0, 0, series=5)
        wired.tell("a", i.FrameReceived("x", 1000, hello))
        self.sequence = 0
        for what in ("advertisements", "subscriptions"):
            self.say(m.SyncEnd(what))

    def say(self, message: m.Message) -> bool:
        """Whether the link is refused for it."""
        self.sequence += 1
        return self._tell(m.Data(self.sequence, 0, [message]))

    def _tell(self, frame: m.Frame) -> bool:
        effects = self.wired.tell("a", i.FrameReceived("x", 1000, frame))
        return any(isinstance(effect, CloseLink) for effect in effects)

    def told(self) -> list[m.Message]:
        """All that `a` has said to it."""
        return [
            message
            for effect in self.wired.effects["a"]
            if isinstance(effect, Send)
            and effect.connection == 1000
            and isinstance(effect.frame, m.Data)
            for message in effect.frame.messages
        ]


@pytest.mark.parametrize("frame", [m.Acknowledge(0, -1000), m.Acknowledge(0, 1000)])
def test_who_retains_what_was_never_sent_is_refused(frame: m.Acknowledge) -> None:
    assert Liar()._tell(frame)


@pytest.mark.parametrize(
    "message",
    [
        g.GuestAnswer("m", ("a", "x"), g.GuestStep.READY, "", "h", 1, "c", (), -1, 5),
        g.Reminder(g.Entrusted(1, 1, "h", "c", 1, (), -1)),
        t.TetherWants(-1, 1, ()),
        t.HandedOver(1, -1, 0, ()),
    ],
)
def test_numbers_that_count_something_are_not_negative_on_the_wire(message: m.Message) -> None:
    (body,) = [b"".join(map(bytes, encode(m.Data(1, 0, [message]))))]
    with pytest.raises(PeerError, match="Expected `int` >= 0"):
        decode(memoryview(body)[4:])


def test_a_broker_that_is_open_on_two_sides_is_so_until_both_have_settled() -> None:
    liar = Liar()
    wired = liar.wired
    liar.say(m.Advertise("of-x", "px", 1, FILTERS[0], 900))
    wired.connect("b", "p")
    wired.publish("b", "p", {"v": 5})
    for said in liar.told():
        if isinstance(said, m.Advertise):
            liar.say(m.Settled(said.token))
    wired.lose("a", "b")
    wired.run()
    wired.connect("a", "s")
    wired.subscribe("a", "s", "v > 1")
    tokens = [said.token for said in liar.told() if isinstance(said, m.Subscribe)]
    assert not liar.say(m.Settled(tokens[-1], ("b",)))
    wired.heal("a", "b")
    wired.publish("b", "p", {"v": 5})
    assert wired.delivered("a", "s") == []  # as far as x says, b cannot be reached
    assert not liar.say(m.Settled(tokens[-1]))
    wired.publish("b", "p", {"v": 5})
    assert wired.delivered("a", "s") == [("p", 3)]


def test_nobody_but_a_broker_itself_takes_its_clients_home() -> None:
    name = f"{RECALL}a:1:2"
    assert Liar().say(g.TakeGuest(name, ("x", "a"), "c1", 1, (), 5.0))


def test_a_guest_that_is_led_here_is_told_the_whole_cut() -> None:
    """Only who comes home may be served while something is missing."""
    liar = Liar()
    wanted = (g.Wanted("s", FILTERS[0], 1),)
    liar.say(g.TakeGuest("m1", ("x", "a"), "c1", 1, wanted, 60.0))
    for said in liar.told():
        if isinstance(said, m.Subscribe):
            liar.say(m.Settled(said.token))
    assert not liar.say(g.GuestCut("m1", ("x", "a"), (), open=("x",)))
    answers = [said.step for said in liar.told() if isinstance(said, g.GuestAnswer)]
    assert answers == [g.GuestStep.READY]
    assert not liar.say(g.GuestCut("m1", ("x", "a"), ()))
    answers = [said.step for said in liar.told() if isinstance(said, g.GuestAnswer)]
    assert answers == [g.GuestStep.READY, g.GuestStep.TAKEN]
