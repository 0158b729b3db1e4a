"""Who is let in on a peer port, what strangers are told, and that nobody else is disturbed."""

from __future__ import annotations

import logging
import struct
from typing import Any

import pytest

from gravitate.broker.interface.inputs import DialFailed
from gravitate.broker.messages.frames import (
    Acknowledge,
    Data,
    Hello,
    MoveAnswer,
    Ping,
    Pong,
    PrepareMove,
    Refusal,
    Settled,
)
from gravitate.config.network import Address
from gravitate.wire.peers import encode


async def _live_pair(lab: Any) -> Any:
    """b1 - b2 - b3 up, a publisher on the first and a subscriber on the last."""
    network = lab.chain(3)
    one, _, three = await lab.start(network)
    publisher = lab.Client(one, "publisher")
    subscriber = await lab.subscriber(three, "subscriber")
    return network, publisher, subscriber


async def _still_serves(lab: Any, publisher: Any, subscriber: Any) -> None:
    publisher.publish(b"still there")
    await lab.eventually(lambda: subscriber.payloads == [b"still there"])


def _refusals(caplog: pytest.LogCaptureFixture, name: str) -> list[str]:
    return [
        record.getMessage()
        for record in caplog.records
        if record.name == "gravitate.links" and name in record.getMessage()
    ]


@pytest.mark.parametrize(
    ("name", "broker", "changes"),
    [
        ("unknown-broker", "b9", {}),
        ("own-id", "b2", {}),
        ("wrong-network", "b1", {"network": "elsewhere"}),
        ("wrong-version", "b1", {"version": 1}),
        ("id-in-use", "b1", {"incarnation": 99}),
        ("wrong-direction", "b3", {}),
        ("hello-expected", "b1", {"incarnation": 0}),
    ],
)
def test_a_hello_that_cannot_be_accepted_is_refused_by_name(
    run: Any, caplog: pytest.LogCaptureFixture, name: str, broker: str, changes: dict[str, Any]
) -> None:
    async def body(lab: Any) -> None:
        network, publisher, subscriber = await _live_pair(lab)
        stranger = await lab.raw_peer(network, "b2")
        stranger.send(lab.hello(network, broker, **changes))
        refusal = await stranger.receive()
        assert isinstance(refusal, Refusal)
        assert refusal.name == name
        assert await stranger.receive() is None
        await _still_serves(lab, publisher, subscriber)

    with caplog.at_level(logging.WARNING):
        run(body)
    (said,) = _refusals(caplog, name)
    assert "127.0.0.1:" in said


def test_a_refusal_names_the_value_and_what_would_be_accepted(run: Any) -> None:
    async def body(lab: Any) -> None:
        network, _, _ = await _live_pair(lab)
        stranger = await lab.raw_peer(network, "b2")
        stranger.send(lab.hello(network, "b9"))
        refusal = await stranger.receive_only(Refusal)
        assert "'b9'" in refusal.reason
        assert "'b1', 'b3'" in refusal.reason

    run(body)


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("malformed-frame", struct.pack(">IB", 3, 9) + b"??"),
        ("malformed-frame", struct.pack(">IB", 3, 1) + b"??"),
        ("oversized-frame", struct.pack(">I", 2**31)),
        ("oversized-frame", b"GET / HTTP/1.1\r\n\r\n"),
        ("hello-expected", b"".join(map(bytes, encode(Ping(1.0))))),
        ("hello-expected", b"".join(map(bytes, encode(Data(1, 0, [Settled(1)]))))),
    ],
)
def test_a_stranger_that_does_not_greet_is_refused_by_name(
    run: Any, caplog: pytest.LogCaptureFixture, name: str, data: bytes
) -> None:
    async def body(lab: Any) -> None:
        network, publisher, subscriber = await _live_pair(lab)
        stranger = await lab.raw_peer(network, "b2")
        stranger.send_bytes(data)
        refusal = await stranger.receive()
        assert isinstance(refusal, Refusal)
        assert refusal.name == name
        assert await stranger.receive() is None
        await _still_serves(lab, publisher, subscriber)

    with caplog.at_level(logging.WARNING):
        run(body)
    assert len(_refusals(caplog, name)) == 1


def test_a_stranger_that_insists_is_logged_once_and_counted(
    run: Any, caplog: pytest.LogCaptureFixture
) -> None:
    async def body(lab: Any) -> None:
        network = lab.chain(2)
        (node,) = await lab.start(network, "b2")
        for _ in range(3):
            stranger = await lab.raw_peer(network, "b2")
            stranger.send(lab.hello(network, "b9"))
            assert await stranger.receive_only(Refusal)
        assert node.links.offences == {("unknown-broker", "127.0.0.1", "b9"): 3}

    with caplog.at_level(logging.WARNING):
        run(body)
    assert len(_refusals(caplog, "unknown-broker")) == 1


@pytest.mark.parametrize(
    ("name", "frames"),
    [
        ("malformed-frame", [struct.pack(">IB", 3, 2) + b"??"]),
        ("oversized-frame", [struct.pack(">I", 2**31)]),
        ("hello-expected", [Hello("lab", "b1", 7, 0, 0)]),
        ("sequence", [Data(5, 0, [Settled(1)])]),
        ("sequence", [Acknowledge(1000)]),
        ("sequence", [Data(1, 1000, [Settled(1)])]),
    ],
)
def test_a_neighbour_that_breaks_the_protocol_is_refused_and_may_come_back(
    run: Any, name: str, frames: list[Any]
) -> None:
    async def body(lab: Any) -> None:
        network = lab.chain(2)
        await lab.start(network, "b2")
        for _ in range(2):
            peer = await lab.raw_peer(network, "b2")
            peer.send(lab.hello(network, "b1"))
            assert (await peer.receive_only(Hello)).broker == "b2"
            for frame in frames:
                if isinstance(frame, bytes):
                    peer.send_bytes(frame)
                else:
                    peer.send(frame)
            assert (await peer.receive_only(Refusal)).name == name
            assert await peer.receive() is None

    run(body)


def test_the_same_incarnation_may_connect_anew_before_its_old_connection_ended(run: Any) -> None:
    async def body(lab: Any) -> None:
        network = lab.chain(2)
        await lab.start(network, "b2")
        old = await lab.raw_peer(network, "b2")
        old.send(lab.hello(network, "b1"))
        assert await old.receive_only(Hello)
        new = await lab.raw_peer(network, "b2")
        new.send(lab.hello(network, "b1"), Ping(5.0))
        assert await new.receive_only(Hello)
        assert (await new.receive_only(Pong)).sent_at == 5.0

    run(body)


@pytest.mark.parametrize("peer", ["nobody", "b1"])
def test_a_broker_that_cannot_be_dialled_is_a_link_that_closes(run: Any, peer: str) -> None:
    async def body(lab: Any) -> None:
        network = lab.chain(3)
        portless = {"b1": Address(network.brokers[0].address.host)}
        _, _, three = await lab.start(_with_addresses(network, portless))
        told: list[Any] = []
        three.links._submit = told.append
        three.links.open(peer)
        assert told == [DialFailed(peer)]
        assert three.failure is None

    run(body)


def test_a_move_with_a_tether_from_nowhere_is_refused(run: Any) -> None:
    async def body(lab: Any) -> None:
        network = lab.chain(2)
        (two,) = await lab.start(network, "b2")
        peer = await lab.raw_peer(network, "b2")
        prepare = PrepareMove("m", ("b1", "b2"), 5.0, "aaa-nobody")
        peer.send(lab.hello(network, "b1"))
        assert await peer.receive_only(Hello)
        peer.send(Data(1, 0, [prepare]))
        answer = None
        while answer is None:
            data = await peer.receive_only(Data)
            answer = next((m for m in data.messages if isinstance(m, MoveAnswer)), None)
        reason = "b2 can make no link to aaa-nobody, where the client is"
        assert answer == MoveAnswer("m", ("b1", "b2"), False, reason)
        assert two.failure is None

    run(body)


def test_whoever_answers_a_dial_must_be_the_broker_that_was_dialled(
    run: Any, caplog: pytest.LogCaptureFixture
) -> None:
    async def body(lab: Any) -> None:
        network = lab.chain(3)
        wanted, impostor = network.brokers[1], network.brokers[2]
        swapped = _with_addresses(network, {"b3": wanted.address, "b2": impostor.address})
        await lab.start(swapped, "b3")
        one = (await lab.start(network, "b1"))[0]
        await lab.eventually(lambda: _refusals(caplog, "b3"))
        assert not lab.link_is_up("b1", "b2")
        assert one.failure is None

    with caplog.at_level(logging.WARNING):
        run(body)


def _with_addresses(network: Any, addresses: dict[str, Any]) -> Any:
    import msgspec

    return msgspec.structs.replace(
        network,
        brokers=tuple(
            msgspec.structs.replace(spec, address=addresses.get(spec.id, spec.address))
            for spec in network.brokers
        ),
    )


def test_a_stranger_that_says_nothing_is_let_go(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gravitate.serve.peers.links.HELLO_TIMEOUT_S", 0.01)

    async def body(lab: Any) -> None:
        network = lab.chain(2)
        await lab.start(network, "b2")
        stranger = await lab.raw_peer(network, "b2")
        assert (await stranger.receive_only(Refusal)).name == "hello-expected"
        assert await stranger.receive() is None

    run(body)


def test_strangers_are_bounded_and_a_broker_is_let_in_beside_them(
    run: Any, caplog: pytest.LogCaptureFixture
) -> None:
    async def body(lab: Any) -> None:
        network = lab.chain(2)
        (two,) = await lab.start(network, "b2")
        most = two.doorkeeper.strangers_max
        strangers = [await lab.raw_peer(network, "b2") for _ in range(most + 50)]
        for stranger in strangers[:50]:
            assert await stranger.receive() is None
        await lab.start(network, "b1")
        await lab.linked("b1", "b2")
        assert not any(stranger.reader.at_eof() for stranger in strangers[51:])
        assert two.status().counters["connections_refused"] == 51
        for stranger in strangers:
            stranger.close()

    with caplog.at_level(logging.WARNING):
        run(body)
    said = [it.getMessage() for it in caplog.records if "turns peers away" in it.getMessage()]
    assert len(said) == 1
