"""Links: greeting, refusal, heartbeat; what a broker says on connections and when."""

from __future__ import annotations

import pytest

from gravitate.broker.core import Broker
from gravitate.broker.interface.effects import CloseLink, Effect, OpenLink, Send, SetTimer, Warn
from gravitate.broker.interface.inputs import (
    DialFailed,
    FrameReceived,
    LinkClosed,
    LinkHeard,
    LinkOpened,
    TimerFired,
)
from gravitate.broker.interface.timers import AcknowledgeLink, GraceOver, Heartbeat
from gravitate.broker.links.peering import LOOK_AGAIN_S
from gravitate.broker.messages.frames import (
    Acknowledge,
    Data,
    Drained,
    Frame,
    Hello,
    Ping,
    Pong,
    Refusal,
)
from gravitate.broker.messages.parcels import FRAME_MESSAGES_MAX
from gravitate.broker.options import BrokerOptions

HELLO = Hello("gravitate", "b", 7, 0, 0)


@pytest.fixture
def broker() -> Broker:
    """A broker `a` that dials `b`, with a connection on which nothing was said yet."""
    broker = Broker("a", 1, {"b": True}, options=BrokerOptions(retry_s_min=1, retry_s_max=4))
    assert OpenLink("b") in broker.start(0.0)
    return broker


def frames(effects: list[Effect]) -> list[Frame]:
    return [effect.frame for effect in effects if isinstance(effect, Send)]


def greet(broker: Broker, hello: Hello = HELLO, connection: int = 1) -> list[Effect]:
    said = broker.handle([LinkOpened("b", connection)], 0.0)
    return said + broker.handle([FrameReceived("b", connection, hello)], 0.0)


def test_a_connection_begins_with_hello_and_everything_known(broker: Broker) -> None:
    hello, data = frames(greet(broker))
    assert hello == Hello("gravitate", "a", 1, 0, 0)
    assert isinstance(data, Data)
    assert data.sequence == 1


@pytest.mark.parametrize(
    ("hello", "name"),
    [
        (Hello("gravitate", "b", 7, 0, 0, version=9), "wrong-version"),
        (Hello("elsewhere", "b", 7, 0, 0), "wrong-network"),
        (Hello("gravitate", "c", 7, 0, 0), "wrong-broker"),
    ],
)
def test_a_peer_that_does_not_fit_is_refused_by_name(
    broker: Broker, hello: Hello, name: str
) -> None:
    effects = greet(broker, hello)
    refusal = frames(effects)[-1]
    assert isinstance(refusal, Refusal)
    assert refusal.name == name
    assert any(isinstance(effect, CloseLink) for effect in effects)


@pytest.mark.parametrize(
    "frame", [Data(5, 0, []), Acknowledge(99), Data(1, 99, []), Hello("gravitate", "b", 7, 0, 0)]
)
def test_numbers_that_cannot_be_are_refused(broker: Broker, frame: Frame) -> None:
    greet(broker)
    effects = broker.handle([FrameReceived("b", 1, frame)], 0.0)
    assert any(isinstance(effect, CloseLink) for effect in effects)


def test_data_before_hello_is_refused(broker: Broker) -> None:
    broker.handle([LinkOpened("b", 1)], 0.0)
    effects = broker.handle([FrameReceived("b", 1, Data(1, 0, []))], 0.0)
    assert isinstance(frames(effects)[0], Refusal)


def test_frames_of_a_former_connection_are_ignored(broker: Broker) -> None:
    greet(broker, connection=1)
    greet(broker, Hello("gravitate", "b", 7, 1, 0), connection=2)
    assert broker.handle([FrameReceived("b", 1, Acknowledge(99))], 0.0) == []
    assert broker.handle([LinkClosed("b", 1)], 0.0) == []


def test_what_was_received_twice_is_taken_once(broker: Broker) -> None:
    greet(broker)
    data = Data(1, 0, [Drained(("z", "y")), Drained(("y", "z"))])
    broker.handle([FrameReceived("b", 1, data)], 0.0)
    broker.handle([FrameReceived("b", 1, data)], 0.0)
    effects = broker.handle([TimerFired(AcknowledgeLink("b"), 1.0)], 1.0)
    assert frames(effects) == [Acknowledge(2)]


def test_retries_back_off_up_to_a_bound(broker: Broker) -> None:
    delays = []
    for _ in range(5):
        effects = broker.handle([DialFailed("b")], 100.0)
        delays += [e.at - 100.0 for e in effects if isinstance(e, SetTimer)]
    assert delays == [1, 2, 4, 4, 4]


def test_a_timer_that_was_set_anew_before_it_was_handled_does_not_count(broker: Broker) -> None:
    grace = GraceOver("b")
    due_at = BrokerOptions().link_grace_s
    greet(broker)
    fired = TimerFired(grace, due_at)
    effects = broker.handle([LinkClosed("b", 1), fired], due_at)
    assert SetTimer(grace, 2 * due_at) in effects
    assert not broker.links["b"].given_up
    broker.handle([TimerFired(grace, 2 * due_at)], 2 * due_at - 0.0004)
    assert broker.links["b"].given_up


def closed(effects: list[Effect]) -> bool:
    return any(isinstance(effect, CloseLink) for effect in effects)


def beat(broker: Broker, now: float) -> list[Effect]:
    return broker.handle([TimerFired(Heartbeat("b"), now)], now)


def test_a_heartbeat_measures_the_round_trip_and_cuts_a_silent_peer(broker: Broker) -> None:
    greet(broker)
    assert Ping(2.0) in frames(beat(broker, 2.0))
    broker.handle([FrameReceived("b", 1, Pong(2.0))], 2.5)
    assert broker.links["b"].rtt_s == pytest.approx(0.5)
    assert frames(broker.handle([FrameReceived("b", 1, Ping(7.0))], 3.0)) == [Pong(7.0)]
    assert not closed(beat(broker, 5.4))
    assert not closed(beat(broker, 5.5))
    assert closed(beat(broker, 5.5 + LOOK_AGAIN_S))


def test_a_broker_that_was_paused_reads_before_it_judges_its_neighbours(broker: Broker) -> None:
    """Timers are due at once when it goes on, and fire before sockets are read."""
    greet(broker)
    effects = beat(broker, 20.0)
    assert not closed(effects)
    assert SetTimer(Heartbeat("b"), 20.0 + LOOK_AGAIN_S) in effects
    broker.handle([FrameReceived("b", 1, Ping(19.0))], 20.01)
    assert not closed(beat(broker, 20.0 + LOOK_AGAIN_S))


def test_bytes_that_make_no_whole_frame_yet_are_a_sign_of_life(broker: Broker) -> None:
    greet(broker)
    for tenths in range(1, 200):
        now = tenths / 10
        assert not closed(broker.handle([LinkHeard("b", 1)], now))
        assert not closed(beat(broker, now))
    broker.handle([LinkHeard("b", 99)], 25.0)  # of a connection that is no more
    beat(broker, 25.0)
    assert closed(beat(broker, 25.0 + LOOK_AGAIN_S))


def test_what_is_refused_again_and_again_is_counted_and_said_once_a_minute(broker: Broker) -> None:
    greet(broker)
    refusal = Refusal("malformed-frame", "no body")
    said: list[float] = []
    for number in range(2, 100):
        now = float(number)
        effects = broker.handle([FrameReceived("b", number - 1, refusal)], now)
        said += [now for effect in effects if isinstance(effect, Warn) and effect.is_error]
        again = Hello("gravitate", "b", 7, 1, 0, series=2, received_series=2)
        broker.handle([LinkOpened("b", number)], now)
        broker.handle([FrameReceived("b", number, again)], now)
    assert broker.peering.refused_again == 97
    assert said == [3.0, 63.0]
    # What is taken at last is not the same any more.
    broker.handle([FrameReceived("b", 99, Acknowledge(1))], 100.0)
    broker.handle([FrameReceived("b", 99, refusal)], 100.0)
    assert broker.peering.refused_again == 97


def test_a_long_queue_leaves_in_several_frames(broker: Broker) -> None:
    """One frame for all would be cut off by the heartbeat on a slow link, again and again."""
    greet(broker)
    broker.handle([LinkClosed("b", 1)], 0.0)
    for number in range(200):
        broker.dispatch.send_control("b", Drained((f"x{number}", "y")))
    again = Hello("gravitate", "b", 7, 1, 0, series=2, received_series=2)
    received = frames(greet(broker, again, connection=2))
    data = [frame for frame in received if isinstance(frame, Data)]
    assert len(data) > 1
    assert max(len(frame.messages) for frame in data) <= FRAME_MESSAGES_MAX
    sequence = 1
    for frame in data:
        assert frame.sequence == sequence
        sequence += len(frame.messages)
    assert sequence > 200
