"""Large messages on sockets: frames hold them, queues are bounded, and nobody else notices."""

from __future__ import annotations

from typing import Any

from gravitate.broker.options import BrokerOptions
from gravitate.serve.control.network import start_node
from gravitate.torture.proxies import Proxies

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
        session = node.broker.clients.sessions["stuck"].outbound
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


def test_what_takes_many_heartbeats_on_a_link_arrives_and_so_does_what_is_behind_it(
    run: Any,
) -> None:
    """A link of 500 kB a second that is cut after a quarter of a second of silence."""

    async def body(lab: Any) -> None:
        options = BrokerOptions(heartbeat_s=0.1, retry_s_min=0.01, retry_s_max=0.05)
        network = lab.chain(2)
        proxies = Proxies(network)
        await proxies.open()
        try:
            for id in ("b1", "b2"):
                lab.nodes[id] = await start_node(proxies.view(id), id, options=options)
            await lab.linked("b1", "b2")
            subscriber = await lab.subscriber(lab.nodes["b2"], "subscriber")
            publisher = lab.Client(lab.nodes["b1"], "publisher")
            publisher.publish(b"first")
            await lab.eventually(lambda: len(subscriber.received) == 1)
            (proxy,) = proxies.by_link.values()
            proxy.slow(500_000)
            publisher.publish(b"x" * (MB // 2))
            publisher.publish(b"small")
            await lab.eventually(lambda: len(subscriber.received) == 3)
            assert [counter for _, counter in subscriber.received] == [1, 2, 3]
            assert lab.link_is_up("b1", "b2")
        finally:
            await lab.close()
            lab.nodes.clear()
            await proxies.close()

    run(body)
