"""What goes wrong for one client, link or watcher is its own, and the broker goes on."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import pytest

from gravitate.broker.interface.inputs import ClientDisconnected, MoveRequested
from gravitate.broker.mechanisms.guards import CoreBroken, Guard
from gravitate.broker.mechanisms.mechanism import Mechanism, Post
from gravitate.broker.messages.frames import MechanismMessage
from gravitate.broker.observers import LinkChange, Observer
from gravitate.model.events import Batch
from gravitate.model.moves import Rationale, RelocatePublisher
from gravitate.serve.control import network as starting
from gravitate.serve.node.node import Node
from gravitate.serve.node.surroundings import Sockets
from gravitate.serve.peers import connections


class Fragile(Observer):
    """An observer that raises at every event."""

    def on_published(self, broker: str, batch: Batch, now: float) -> None:
        raise OSError(28, "No space left on device")


class Careless(Mechanism):
    """A mechanism that raises where it is told to."""

    name = "careless"

    def __init__(self, where: str) -> None:
        self._where = where
        self.calls = 0

    def _maybe(self, here: str) -> None:
        if here == self._where:
            self.calls += 1
            raise ValueError(f"careless in {here}")

    def attach(self, post: Post, now: float) -> None:
        self._post = post
        post.set_timer("tick", now)
        self._maybe("attach")

    def mark(self, batch: Batch, now: float) -> int:
        self._maybe("mark")
        return 0

    def on_timer(self, key: str, now: float) -> None:
        for peer in self._post.neighbours():
            self._post.send(peer, b"hello")
        self._maybe("on_timer")

    def on_message(self, peer: str, body: bytes, now: float) -> None:
        self._maybe("on_message")

    def on_published(self, broker: str, batch: Batch, now: float) -> None:
        self._maybe("on_published")
        if self._where == "propose":
            self._post.propose(None)  # type: ignore[arg-type]


async def is_well(lab: Any, nodes: Sequence[Node]) -> None:
    """Whether an event goes from one end of the network to the other."""
    subscriber = await lab.subscriber(nodes[-1], "late")
    publisher = lab.Client(nodes[0], "well")
    publisher.publish(b"still here")
    await lab.eventually(lambda: subscriber.payloads == [b"still here"])
    publisher.node.submit(ClientDisconnected(publisher.number))
    assert [node.failure for node in nodes] == [None] * len(nodes)


@pytest.mark.parametrize("method", ["deliver", "flush"])
def test_a_client_for_which_something_raises_is_closed_and_nobody_else(
    run: Any, method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def body(lab: Any) -> None:
        nodes = await lab.start(lab.chain(2))
        healthy = await lab.subscriber(nodes[1], "healthy")
        sick = await lab.subscriber(nodes[1], "sick")
        publisher = lab.Client(nodes[0], "publisher")

        def fails(*_: Any) -> None:
            raise RuntimeError("cannot be encoded")

        monkeypatch.setattr(sick, method, fails)
        publisher.publish(b"1", b"2")
        await lab.eventually(lambda: healthy.payloads == [b"1", b"2"])
        assert sick.closed == "failed"
        await lab.eventually(lambda: "sick" not in nodes[1].broker.clients.sessions)
        assert nodes[1].status().counters["clients_failed"] == 1
        await is_well(lab, nodes)

    run(body)


def test_one_that_cannot_even_be_told_so_is_let_go(run: Any) -> None:
    async def body(lab: Any) -> None:
        (node,) = await lab.start(lab.chain(1))
        sick = await lab.subscriber(node, "sick")

        def fails(*_: Any) -> None:
            raise RuntimeError("cannot be encoded")

        sick.deliver = sick.fail = fails
        lab.Client(node, "publisher").publish(b"1")
        await lab.eventually(lambda: sick.closed == "aborted")
        assert node.status().counters["clients_failed"] == 2
        await is_well(lab, [node])

    run(body)


def test_a_link_for_which_something_raises_is_broken_and_made_again(
    run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def body(lab: Any) -> None:
        nodes = await lab.start(lab.chain(3))
        subscriber = await lab.subscriber(nodes[2], "far")
        near = await lab.subscriber(nodes[1], "near")
        encode, failures = connections.encode, [1, 2, 3]

        def fragile(frame: Any) -> Any:
            if failures and b"fragile" in repr(frame).encode():
                failures.pop()
                raise ValueError("this frame cannot be encoded")
            return encode(frame)

        monkeypatch.setattr(connections, "encode", fragile)
        lab.Client(nodes[1], "fragile").publish(b"1")
        await lab.eventually(lambda: near.payloads == [b"1"])
        await lab.eventually(lambda: subscriber.payloads == [b"1"])
        assert sum(node.status().counters["links_failed"] for node in nodes) == 3
        await is_well(lab, nodes)

    run(body)


def test_an_observer_that_raises_is_detached_counted_and_logged_once(
    run: Any, caplog: pytest.LogCaptureFixture
) -> None:
    async def body(lab: Any) -> None:
        nodes = await lab.start(lab.chain(2), observers=[Fragile()])
        subscriber = await lab.subscriber(nodes[1], "subscriber")
        publisher = lab.Client(nodes[0], "publisher")
        for _ in range(3):
            publisher.publish(b"1")
        await lab.eventually(lambda: len(subscriber.payloads) == 3)
        status = nodes[0].status()
        assert status.detached == ["Fragile"]
        assert status.counters["watchers_failed"] == 1
        await is_well(lab, nodes)

    with caplog.at_level(logging.INFO, "gravitate.failures"):
        run(body)
    (said,) = [record for record in caplog.records if "Fragile" in record.getMessage()]
    assert "No space left" in str(said.exc_info[1] if said.exc_info else "")


@pytest.mark.parametrize("where", ["attach", "mark", "on_timer", "on_message", "on_published"])
def test_a_mechanism_that_raises_anywhere_is_detached(run: Any, where: str) -> None:
    async def body(lab: Any) -> None:
        network = lab.chain(2)
        careless = Careless(where)
        nodes = await lab.start(network)
        await nodes[0].close()
        nodes[0] = await started_with(lab, network, "b1", careless)
        await is_well(lab, nodes)
        if where == "on_message":
            nodes[0].broker._parts.posts.handle("b2", MechanismMessage("careless", b"hello"))
        await lab.eventually(lambda: nodes[0].detached == ["careless"])
        await is_well(lab, nodes)
        assert careless.calls == 1

    run(body)


async def started_with(lab: Any, network: Any, broker: str, mechanism: Mechanism) -> Node:
    """A broker of the network with a mechanism that no catalogue has."""
    known, starting.mechanisms = starting.mechanisms, lambda _: [mechanism]
    try:
        (node,) = await lab.start(network, broker)
    finally:
        starting.mechanisms = known
    await lab.linked("b1", "b2")
    return node


def test_what_the_core_raises_is_fatal_even_when_a_mechanism_asked(run: Any) -> None:
    async def body(lab: Any) -> None:
        network = lab.chain(2)
        nodes = await lab.start(network)
        await nodes[0].close()
        node = await started_with(lab, network, "b1", Careless("propose"))
        node.broker.engine.propose = lambda move: 1 / 0  # type: ignore[method-assign]
        lab.Client(node, "publisher").publish(b"1")
        await lab.eventually(lambda: node.failure is not None)
        assert isinstance(node.failure, CoreBroken)
        assert isinstance(node.failure.__cause__, ZeroDivisionError)

    run(body)


def test_a_watcher_of_moves_that_raises_is_not_asked_again(run: Any) -> None:
    async def body(lab: Any) -> None:
        (node,) = await lab.start(lab.chain(1))
        told = []

        def watcher(*step: Any) -> None:
            told.append(step)
            raise KeyError("no such move")

        node.broker.watch_moves(watcher)
        for number in (1, 2):
            move = RelocatePublisher(f"m{number}", "nobody", "b1", "b2", Rationale(""), ())
            node.submit(MoveRequested(move))
            await lab.eventually(lambda number=number: ended(node, f"m{number}"))
        assert len(told) == 1
        await is_well(lab, [node])

    run(body)


def ended(node: Node, move: str) -> bool:
    record = node.moves.get(move)
    return record is not None and record.outcome is not None


def test_a_guard_stands_for_what_its_watcher_does_and_nothing_else() -> None:
    seen: list[LinkChange] = []

    class Quiet(Observer):
        def on_link(self, broker: str, peer: str, change: LinkChange, now: float) -> None:
            seen.append(change)

    guard = Guard(Quiet(), lambda name, error: None)
    guard.on_link("b1", "b2", LinkChange.DOWN, 0.0)
    guard.on_session("b1", "c", "opened", 0.0)
    assert seen == [LinkChange.DOWN]
    assert guard.is_idle()


def test_without_containment_one_client_ends_the_broker(
    run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The tests above themselves: with it taken out, they would speak."""

    def not_contained(self: Sockets, client: Any, error: Exception) -> None:
        raise error

    monkeypatch.setattr(Sockets, "client_failed", not_contained)

    async def body(lab: Any) -> None:
        (node,) = await lab.start(lab.chain(1))
        sick = await lab.subscriber(node, "sick")
        sick.deliver = lambda *_: 1 / 0
        lab.Client(node, "publisher").publish(b"1")
        await lab.eventually(lambda: node.failure is not None)
        with pytest.raises(AssertionError):
            await is_well(lab, [node])

    run(body)
