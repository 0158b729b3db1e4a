"""A neighbour that speaks well-formed nonsense is refused or ignored; the broker goes on.

What goes through the codec is drawn from few names and numbers, so that it collides with what the
broker knows: ids that exist, tokens that are awaited.
"""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from tests.support.wired import at
from tests.wire.guests import guest_messages

from gravitate.broker.core import Broker
from gravitate.broker.interface.effects import CloseLink, Deliver, Send
from gravitate.broker.interface.inputs import (
    ClientConnected,
    ClientPublished,
    ClientSubscribed,
    FrameReceived,
    Input,
    LinkOpened,
    TimerFired,
)
from gravitate.broker.interface.timers import HoldOver
from gravitate.broker.messages.frames import (
    Acknowledge,
    Advertise,
    Congested,
    Data,
    Drained,
    Draining,
    Frame,
    Hello,
    MechanismMessage,
    Message,
    Ping,
    Pong,
    Publications,
    Refusal,
    Settled,
    Subscribe,
    SyncEnd,
    Unadvertise,
    Unsubscribe,
)
from gravitate.broker.options import BrokerOptions
from gravitate.model.events import Batch, Event
from gravitate.model.filters import EVERYTHING
from gravitate.model.language import parse
from gravitate.wire.mqtt.bodies import FrameBodies
from gravitate.wire.peers import FrameDecoder, encode

names = st.sampled_from(["a", "c", "m", "local", "local/x", "other"])
tokens = st.integers(0, 6)
filters = st.sampled_from(
    [EVERYTHING, parse("topic = 't'"), parse("price > 5"), parse("x IS NULL")]
)


@st.composite
def batches(draw: st.DrawFn) -> Batch:
    counters = sorted(draw(st.sets(st.integers(1, 9), min_size=1, max_size=4)))
    qos = draw(st.integers(0, 1))
    bodies = FrameBodies.from_events([Event({"topic": "t"}) for _ in counters], qos)
    covered = tuple(draw(st.lists(names, max_size=3)))
    return Batch(draw(names), 1, counters, bodies, qos, 0.0, draw(st.booleans()), covered)


paths = st.sampled_from([("a", "m"), ("a", "m", "c"), ("m", "a"), ("c", "m", "a"), ("m",), ("x",)])
messages: st.SearchStrategy[Message] = st.one_of(
    st.builds(Advertise, names, names, st.integers(1, 2), filters, tokens),
    st.builds(Unadvertise, names, tokens),
    st.builds(Subscribe, names, filters, tokens),
    st.builds(Unsubscribe, names, tokens),
    st.builds(Settled, tokens),
    st.builds(SyncEnd, st.sampled_from(["advertisements", "subscriptions"])),
    st.builds(Congested, st.tuples(names, names), st.just((("p", 1),))),
    st.builds(Drained, st.tuples(names, names)),
    st.builds(MechanismMessage, names, st.binary(max_size=3)),
    st.builds(Publications, st.lists(batches(), max_size=3)),
    guest_messages(names, tokens, filters, paths, batches()),
)
odd_frames: st.SearchStrategy[Frame] = st.one_of(
    st.builds(Acknowledge, tokens),
    st.builds(Ping, st.floats(0, 9)),
    st.builds(Pong, st.floats(0, 9)),
    st.builds(Draining),
    st.builds(Refusal, names, names),
    st.builds(Data, tokens, tokens, st.lists(messages, max_size=2)),
)
steps = st.lists(st.lists(messages, max_size=3) | odd_frames, max_size=8)


def _broker() -> Broker:
    """Broker m between a and c, with a client that wants everything."""
    broker = Broker("m", 1, {"a": False, "c": False}, options=BrokerOptions(network="n"))
    broker.start(0.0)
    inputs: list[Input] = [LinkOpened("a", 1), LinkOpened("c", 2)]
    inputs += [
        FrameReceived(peer, number, Hello("n", peer, 5, 0, 0))
        for peer, number in (("a", 1), ("c", 2))
    ]
    inputs += [
        ClientConnected(at("local"), "local", 1),
        ClientSubscribed(at("local"), "x", EVERYTHING, 1),
    ]
    broker.handle(inputs, 0.0)
    return broker


@given(steps)
def test_nonsense_from_one_neighbour_leaves_clients_and_other_links_alone(
    said: list[list[Message] | Frame],
) -> None:
    broker = _broker()
    sequence = 1
    for one in said:
        frame = Data(sequence, 0, one) if isinstance(one, list) else one
        sequence += len(one) if isinstance(one, list) else 0
        (received,) = FrameDecoder().feed(b"".join(encode(frame)))
        effects = broker.handle([FrameReceived("a", 1, received)], 0.0)
        assert not any(isinstance(e, Send) and e.connection not in (1, 2) for e in effects)
        assert not any(isinstance(e, CloseLink) and e.connection != 1 for e in effects)
    _still_serves(broker)


def _still_serves(broker: Broker) -> None:
    """A publication reaches the local subscriber, at the latest when its hold expires."""
    bodies = FrameBodies.from_events([Event({"topic": "fresh"})])
    publish: list[Input] = [
        ClientConnected(at("publisher"), "publisher", 2),
        ClientPublished(at("publisher"), bodies),
    ]
    fired = TimerFired(HoldOver("publisher"), 100.0)
    effects = broker.handle(publish, 0.0) + broker.handle([fired], 100.0)
    assert any(isinstance(e, Deliver) and e.batch.publisher == "publisher" for e in effects)
