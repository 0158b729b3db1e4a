"""Large messages on sockets: frames hold them, queues are bounded, and nobody else notices."""

from __future__ import annotations

from typing import Any

from gravitate.broker.options import BrokerOptions

MB = 1024 * 1024


def test_many_large_publications_that_waited_for_an_advertisement_all_arrive(run: Any) -> None:
    """A broker that is down keeps the advertisement from settling; then all of them go at once."""

    async def body(lab: Any) -> None:
        network = lab.chain(3)
        options = BrokerOptions(hold_s_max=0.3, hold_bytes_max=200 * MB, retry_s_max=0.05)
        nodes = await lab.start(network, "b1", "b2", options=options)
        subscriber = lab.Client(nodes[1], "subscriber")
        subscriber.subscribe()
        publisher = lab.Client(nodes[0], "publisher")
        for number in range(80):
            publisher.publish(b"%d" % number * MB)
        await lab.eventually(lambda: publisher.accepted == 80)
        await lab.eventually(lambda: len(subscriber.received) == 80)
        assert [counter for _, counter in subscriber.received] == list(range(1, 81))
        assert [node.failure for node in nodes] == [None, None]

    run(body)


def test_a_client_whose_publications_wait_is_not_read_from(run: Any) -> None:
    async def body(lab: Any) -> None:
        options = BrokerOptions(hold_s_max=0.3, hold_bytes_max=4 * MB, retry_s_max=0.05)
        (node,) = await lab.start(lab.chain(2), "b1", options=options)
        publisher = lab.Client(node, "publisher")
        for number in range(5):
            publisher.publish(b"%d" % number * MB)
        await lab.eventually(lambda: publisher.held)
        await lab.eventually(lambda: not publisher.held)
        assert publisher.accepted == 5

    run(body)


def test_large_messages_to_a_subscriber_that_never_acknowledges_are_bounded(run: Any) -> None:
    async def body(lab: Any) -> None:
        options = BrokerOptions(session_window_bytes_max=4 * MB, session_queue_bytes_max=16 * MB)
        (node,) = await lab.start(lab.chain(1), options=options)
        brisk = await lab.subscriber(node, "brisk")
        stuck = lab.Client(node, "stuck", acknowledges=False)
        stuck.subscribe()
        await lab.eventually(lambda: stuck.settled)
        session = node.broker.clients.sessions["stuck"]
        publisher = lab.Client(node, "publisher")
        held = []
        for number in range(40):
            publisher.publish(b"x" * MB)
            await lab.eventually(lambda number=number: len(brisk.received) == number + 1)
            held.append(session.unacknowledged_bytes + session.waiting.measure.size_bytes)
        assert stuck.closed == "overloaded"
        assert max(held) < 21 * MB
        assert len(stuck.received) <= 4

    run(body)
