"""Nodes on sockets deliver once and in order, through cuts, takeovers and slow readers."""

from __future__ import annotations

from typing import Any

import pytest

from gravitate.broker.interface.inputs import ClientDisconnected
from gravitate.broker.options import BrokerOptions
from gravitate.model.language import parse


def _numbered(count: int, start: int = 0) -> list[bytes]:
    return [b"%d" % number for number in range(start, start + count)]


@pytest.mark.parametrize("brokers", [1, 2, 3])
def test_a_publication_reaches_a_subscriber_at_the_other_end(run: Any, brokers: int) -> None:
    async def body(lab: Any) -> None:
        nodes = await lab.start(lab.chain(brokers))
        subscriber = await lab.subscriber(nodes[-1], "subscriber")
        publisher = lab.Client(nodes[0], "publisher")
        publisher.publish(*_numbered(10))
        await lab.eventually(lambda: len(subscriber.received) == 10)
        assert subscriber.payloads == _numbered(10)
        assert [counter for _, counter in subscriber.received] == list(range(1, 11))
        await lab.eventually(lambda: publisher.accepted == 10)

    run(body)


def test_only_matching_events_arrive(run: Any) -> None:
    async def body(lab: Any) -> None:
        nodes = await lab.start(lab.chain(3))
        dear = await lab.subscriber(nodes[2], "dear", parse("price > 100"))
        cheap = await lab.subscriber(nodes[1], "cheap", parse("price <= 100"))
        publisher = lab.Client(nodes[0], "publisher")
        for price in (50, 150, 99, 101):
            publisher.publish(b"%d" % price, price=str(price))
        await lab.eventually(lambda: len(dear.payloads) + len(cheap.payloads) == 4)
        assert dear.payloads == [b"150", b"101"]
        assert cheap.payloads == [b"50", b"99"]

    run(body)


def test_a_connection_cut_in_mid_stream_loses_and_doubles_nothing(run: Any) -> None:
    async def body(lab: Any) -> None:
        nodes = await lab.start(lab.chain(3))
        subscriber = await lab.subscriber(nodes[2], "subscriber")
        publisher = lab.Client(nodes[0], "publisher")
        sent = 0
        for cut in ("b1", "b3", "b1", "b3"):
            for _ in range(20):
                publisher.publish(*_numbered(50, sent))
                sent += 50
            some = sent - 500
            await lab.eventually(lambda some=some: len(subscriber.payloads) > some)
            assert nodes[1].links.cut(cut)
            publisher.publish(*_numbered(50, sent))
            sent += 50
        await lab.eventually(lambda: len(subscriber.payloads) >= sent)
        assert subscriber.payloads == _numbered(sent)
        await lab.eventually(lambda: publisher.accepted == sent)

    run(body)


def test_frames_keep_their_order_under_emulated_latency(run: Any) -> None:
    async def body(lab: Any) -> None:
        nodes = await lab.start(lab.chain(3, latency_ms=5.0), emulate_latency=True)
        subscriber = await lab.subscriber(nodes[2], "subscriber")
        publisher = lab.Client(nodes[0], "publisher")
        for start in range(0, 200, 10):
            publisher.publish(*_numbered(10, start))
            await lab.eventually(lambda start=start: len(subscriber.payloads) >= start - 50)
        await lab.eventually(lambda: len(subscriber.payloads) >= 200)
        assert subscriber.payloads == _numbered(200)

    run(body)


def test_a_restarted_neighbour_learns_everything_anew(run: Any) -> None:
    async def body(lab: Any) -> None:
        network = lab.chain(2)
        one, two = await lab.start(network)
        publisher = lab.Client(one, "publisher")
        await two.stop()
        assert two.failure is None
        (again,) = await lab.start(network, "b2")
        subscriber = await lab.subscriber(again, "subscriber")
        publisher.publish(b"welcome back")
        await lab.eventually(lambda: subscriber.payloads == [b"welcome back"])

    run(body)


def test_a_subscriber_that_stops_acknowledging_holds_nobody_else_back(run: Any) -> None:
    async def body(lab: Any) -> None:
        options = BrokerOptions(session_queue_events_max=100)
        nodes = await lab.start(lab.chain(2), options=options)
        brisk = await lab.subscriber(nodes[1], "brisk")
        stuck = lab.Client(nodes[1], "stuck", acknowledges=False)
        stuck.subscribe()
        await lab.eventually(lambda: stuck.settled)
        publisher = lab.Client(nodes[0], "publisher")
        sent = 0
        while not stuck.closed:
            publisher.publish(*_numbered(1000, sent))
            sent += 1000
            await lab.eventually(lambda sent=sent: len(brisk.payloads) == sent)
        assert stuck.closed == "overloaded"
        assert brisk.payloads == _numbered(sent)
        assert not brisk.closed

    run(body)


def test_publishers_are_held_while_a_link_cannot_keep_up_and_go_on_afterwards(run: Any) -> None:
    async def body(lab: Any) -> None:
        options = BrokerOptions(link_queue_events_max=500, retry_s_min=0.01, retry_s_max=0.02)
        network = lab.chain(2)
        one, two = await lab.start(network, options=options)
        subscriber = await lab.subscriber(two, "subscriber")
        publisher = lab.Client(one, "publisher")
        publisher.publish(*_numbered(10))
        await lab.eventually(lambda: len(subscriber.payloads) == 10)
        two.links.connection_of("b1")._transport.pause_reading()
        sent = 10
        while not publisher.held:
            publisher.publish(*_numbered(100, sent))
            sent += 100
            await lab.eventually(lambda sent=sent: publisher.accepted == sent or publisher.held)
            assert sent < 5000
        two.links.connection_of("b1")._transport.resume_reading()
        await lab.eventually(lambda: not publisher.held)
        await lab.eventually(lambda: len(subscriber.payloads) >= sent)
        assert subscriber.payloads == _numbered(sent)

    run(body)


def test_what_a_full_connection_does_not_take_is_written_later_and_in_order(
    run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gravitate.serve.peers.connections.WRITE_BYTES_HIGH", 10_000)
    monkeypatch.setattr("gravitate.serve.peers.connections.WRITE_BYTES_LOW", 1_000)

    async def body(lab: Any) -> None:
        one, two = await lab.start(lab.chain(2))
        subscriber = await lab.subscriber(two, "subscriber")
        publisher = lab.Client(one, "publisher")
        publisher.publish(b"first")
        await lab.eventually(lambda: subscriber.payloads == [b"first"])
        two.links.connection_of("b1")._transport.pause_reading()
        sent = [b"%d" % number + bytes(200_000) for number in range(100)]
        for payload in sent:
            publisher.publish(payload)
            await lab.eventually(lambda: publisher.accepted)
        await lab.eventually(lambda: one.status().links[0].queue_bytes > 1_000_000)
        two.links.connection_of("b1")._transport.resume_reading()
        await lab.eventually(lambda: len(subscriber.payloads) == 101)
        assert subscriber.payloads[1:] == sent
        await lab.eventually(lambda: one.status().links[0].queue_bytes == 0)

    run(body)


def test_inputs_of_one_iteration_are_handled_together(run: Any) -> None:
    async def body(lab: Any) -> None:
        (node,) = await lab.start(lab.chain(1))
        subscriber = await lab.subscriber(node, "subscriber")
        publisher = lab.Client(node, "publisher")
        publisher.publish(b"first")
        await lab.eventually(lambda: subscriber.payloads)
        flushes = subscriber.flushes
        for number in range(5):
            publisher.publish(b"%d" % number)
        await lab.eventually(lambda: len(subscriber.payloads) == 6)
        assert subscriber.flushes == flushes + 1

    run(body)


def test_a_connection_that_is_taken_over_gets_its_answers_first(run: Any) -> None:
    async def body(lab: Any) -> None:
        (node,) = await lab.start(lab.chain(1))
        old = lab.Client(node, "twin")
        old.publish(b"once")
        await lab.eventually(lambda: old.accepted == 1)
        old.publish(b"more")
        new = lab.Client(node, "twin")
        new.publish(b"mine")
        await lab.eventually(lambda: new.accepted == 1)
        assert (old.accepted, old.closed) == (2, "taken-over")
        assert not new.closed

    run(body)


def test_answers_to_a_client_that_has_gone_do_not_reach_its_successor(run: Any) -> None:
    async def body(lab: Any) -> None:
        (node,) = await lab.start(lab.chain(1))
        old = lab.Client(node, "twin")
        old.publish(b"once")
        await lab.eventually(lambda: old.accepted == 1)
        old.publish(b"more")
        node.detach(old.number)
        node.submit(ClientDisconnected(old.number))
        new = lab.Client(node, "twin")
        new.publish(b"mine")
        await lab.eventually(lambda: new.accepted)
        assert (old.accepted, new.accepted) == (1, 1)

    run(body)


def test_incarnations_only_grow(run: Any) -> None:
    async def body(lab: Any) -> None:
        (node,) = await lab.start(lab.chain(1))
        drawn = [node.next_incarnation() for _ in range(100)]
        assert drawn == sorted(set(drawn))

    run(body)


def test_a_core_that_raises_closes_its_node_and_says_why(
    run: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def body(lab: Any) -> None:
        one, two = await lab.start(lab.chain(2))

        def broken(inputs: Any, now: float) -> Any:
            raise AssertionError("a broken invariant")

        monkeypatch.setattr(one.broker, "handle", broken)
        lab.Client(one, "publisher")
        with pytest.raises(AssertionError, match="a broken invariant"):
            await one.wait()
        await lab.eventually(lambda: not lab.link_is_up("b2", "b1"))
        assert two.failure is None

    run(body)
    assert any("b1 failed" in record.getMessage() for record in caplog.records)
