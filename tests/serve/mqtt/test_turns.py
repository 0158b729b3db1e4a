"""Long requests are taken in parts: in order, answered once, and others have their turn between."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable

import pytest
from tests.serve.mqtt.talk import Raw, Recorder, on_loop, recording, serving, where

from gravitate.broker.interface.effects import STOPPING, CloseSession
from gravitate.broker.interface.inputs import (
    ClientDisconnected,
    ClientPublished,
    ClientSubscribed,
    ClientUnsubscribed,
    Input,
)
from gravitate.model.language import compiled
from gravitate.serve.mqtt import requests
from gravitate.serve.mqtt.desk import EFFORT_A_TURN, Desk
from gravitate.serve.mqtt.intake import ATTENDING
from gravitate.serve.mqtt.requests import LOOKING, SUBSCRIBING, Answer, Requests
from gravitate.wire.mqtt import packets as p
from gravitate.wire.mqtt.codec import encode
from gravitate.wire.mqtt.codes import V5, ReasonCode
from gravitate.wire.mqtt.properties import reason_text

MANY = 5000


def many(count: int = MANY) -> list[str]:
    return [f"t/{number}" for number in range(count)]


def subscribe(topic_filters: Iterable[str], packet_id: int = 1) -> p.Subscribe:
    return p.Subscribe(packet_id, tuple(p.TopicRequest(one) for one in topic_filters))


class Turns:
    """In which turn of the loop each input of a recorder came."""

    def __init__(self, recorder: Recorder) -> None:
        self.turn = 0
        self.inputs: list[tuple[int, Input]] = []
        self._loop = asyncio.get_running_loop()
        self._submit = recorder.submit
        recorder.submit = self.submit  # type: ignore[method-assign]
        self._tick()

    def _tick(self) -> None:
        self.turn += 1
        self._loop.call_soon(self._tick)

    def submit(self, input: Input) -> None:
        self.inputs.append((self.turn, input))
        self._submit(input)

    def most_in_one(self, kind: type[Input]) -> int:
        return max(Counter(turn for turn, one in self.inputs if isinstance(one, kind)).values())

    def kinds(self) -> list[type[Input]]:
        return [type(one) for _, one in self.inputs]


def test_a_long_subscribe_is_spread_over_turns_and_answered_once() -> None:
    async def body() -> None:
        async with recording() as (door, recorder):
            raw = await Raw.connected(door)
            turns = Turns(recorder)
            raw.send(subscribe(many()))
            answer = await raw.get(p.Suback)
            assert answer.reasons == (ReasonCode.GRANTED_QOS_0,) * MANY
            names = [one.name for _, one in turns.inputs if isinstance(one, ClientSubscribed)]
            assert names == many()
            assert turns.most_in_one(ClientSubscribed) <= EFFORT_A_TURN // (2 * SUBSCRIBING)

    on_loop(body)


def test_others_are_served_while_a_long_subscribe_is_taken() -> None:
    async def body() -> None:
        async with recording() as (door, recorder):
            raw, other = await Raw.connected(door), await Raw.connected(door, "other")
            turns = Turns(recorder)
            raw.send(subscribe(many(20 * MANY)))
            await recorder.get(ClientSubscribed)
            other.send(p.Publish("a", b"meanwhile"))
            assert recorder.session_of(await recorder.get(ClientPublished)) == "other"
            await raw.get(p.Suback)
            kinds = turns.kinds()
            assert kinds.index(ClientPublished) < len(kinds) - 1

    on_loop(body)


def test_what_follows_a_long_request_waits_for_it() -> None:
    async def body() -> None:
        async with recording() as (door, recorder):
            raw = await Raw.connected(door)
            turns = Turns(recorder)
            raw.send(
                subscribe(many()),
                p.Publish("a", b"behind"),
                p.Unsubscribe(2, tuple(many())),
                p.Pingreq(),
            )
            assert (await raw.get(p.Suback)).packet_id == 1
            assert len((await raw.get(p.Unsuback)).reasons) == MANY
            await raw.get(p.Pingresp)
            expected = [ClientSubscribed] * MANY + [ClientPublished] + [ClientUnsubscribed] * MANY
            assert turns.kinds() == expected
            assert turns.most_in_one(ClientUnsubscribed) < MANY / 2
            assert door.desk.unread_bytes == 0

    on_loop(body)


def test_a_client_that_goes_in_the_middle_leaves_nothing_behind() -> None:
    async def body() -> None:
        async with recording() as (door, recorder):
            raw = await Raw.connected(door)
            turns = Turns(recorder)
            raw.send(subscribe(many(20 * MANY)))
            await recorder.get(ClientSubscribed)
            raw.writer.transport.abort()
            await recorder.get(ClientDisconnected)
            await asyncio.sleep(0)
            assert turns.kinds()[-1] is ClientDisconnected
            assert turns.kinds().count(ClientSubscribed) < 20 * MANY
            assert door.desk.unread_bytes == 0

    on_loop(body)


def test_a_session_that_the_broker_ends_in_the_middle_asks_for_nothing_more() -> None:
    async def body() -> None:
        async with recording() as (door, recorder):
            raw = await Raw.connected(door)
            turns = Turns(recorder)
            raw.send(subscribe(many(20 * MANY)))
            await recorder.get(ClientSubscribed)
            recorder.attached["c"].tell(CloseSession(STOPPING))
            asked = len(turns.inputs)
            assert (await raw.get(p.Disconnect)).reason == ReasonCode.SERVER_SHUTTING_DOWN
            assert await raw.ended()
            assert len(turns.inputs) == asked
            assert door.desk.unread_bytes == 0

    on_loop(body)


def test_a_broker_stops_while_a_long_subscribe_is_taken() -> None:
    async def body() -> None:
        async with serving() as door:
            node = door._host
            raw = await Raw.connected(door)
            raw.send(subscribe(many(10 * MANY)))
            while not node.broker.router.table.subscriptions:  # type: ignore[attr-defined]
                await asyncio.sleep(0)
            await node.stop()  # type: ignore[attr-defined]
            assert (await raw.get(p.Disconnect)).reason == ReasonCode.SERVER_SHUTTING_DOWN

    on_loop(body)


def test_many_small_requests_are_spread_over_turns_too() -> None:
    async def body() -> None:
        async with recording() as (door, recorder):
            raw = await Raw.connected(door)
            turns = Turns(recorder)
            packets = [encode(p.Unsubscribe(1, ("a",)), V5), encode(subscribe(["a"]), V5)]
            raw.writer.write(b"".join(packets) * MANY)
            for _ in range(MANY):
                await raw.get(p.Unsuback)
                await raw.get(p.Suback)
            assert turns.most_in_one(ClientSubscribed) <= EFFORT_A_TURN // (2 * SUBSCRIBING)
            raw.writer.write(encode(p.Pingreq(), V5) * MANY)
            for _ in range(MANY):
                await raw.get(p.Pingresp)

    on_loop(body)


def test_no_turn_of_the_desk_takes_more_than_its_effort() -> None:
    async def body() -> None:
        desk = Desk(1)
        spent: Counter[str] = Counter()

        class Busy:
            def __init__(self, name: str) -> None:
                self.name = name

            def go_on(self) -> None:
                effort = desk.allowance
                spent[self.name] += effort
                desk.spend(effort)
                desk.join(self)

        for name in ("one", "two", "three", "four"):
            desk.join(Busy(name))
        await asyncio.sleep(0)
        assert spent == {"one": EFFORT_A_TURN // 2, "two": EFFORT_A_TURN // 2}
        assert desk.allowance == 0
        await asyncio.sleep(0)
        assert set(spent.values()) == {EFFORT_A_TURN // 2}
        assert len(spent) == 4
        assert 0 < ATTENDING < EFFORT_A_TURN // 100

    on_loop(body)


def test_a_condition_is_compiled_once_a_packet(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []

    def counting(text: str) -> object:
        seen.append(text)
        return compiled(text)

    monkeypatch.setattr(requests, "compiled", counting)

    async def body() -> None:
        async with recording() as (door, recorder):
            raw = await Raw.connected(door)
            answer = await raw.subscribe(*many(50), condition="x LIKE '%a%b'")
            assert answer.reasons == (ReasonCode.GRANTED_QOS_1,) * 50
            assert seen == ["x LIKE '%a%b'"]
            answer = await raw.subscribe(*many(50), condition="x LIKE")
            assert answer.reasons == (ReasonCode.IMPLEMENTATION_SPECIFIC_ERROR,) * 50
            assert len(seen) == 2
            assert [one for one in recorder.inputs if isinstance(one, ClientSubscribed)]

    on_loop(body)


def test_a_condition_that_is_too_much_is_refused_with_its_bound_and_disturbs_nobody() -> None:
    likes = " OR ".join(f"x LIKE '%{i:03}{'ab' * 55}%{'ba' * 55}%'" for i in range(250))

    async def body() -> None:
        async with serving() as door:
            raw = await Raw.connected(door)
            topics = [f"t/x{number}/#" for number in range(50)]
            answer = await raw.subscribe(*topics, condition=likes)
            assert answer.reasons == (ReasonCode.IMPLEMENTATION_SPECIFIC_ERROR,) * 50
            assert "weighs at most 4096" in reason_text(answer.properties)
            await raw.subscribe("t")
            await raw.publish("t", b"still there")
            assert (await raw.get(p.Publish)).payload == b"still there"

    on_loop(body)


def test_what_one_subscribe_asks_for_beyond_its_bound_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(requests, "SUBSCRIBE_EFFORT_MAX", 1000)

    async def body() -> None:
        async with recording() as (door, _):
            raw = await Raw.connected(door)
            answer = await raw.subscribe(*many(100), qos=0)
            granted = answer.reasons.count(ReasonCode.GRANTED_QOS_0)
            assert 10 < granted < 20
            assert answer.reasons[granted:] == (ReasonCode.QUOTA_EXCEEDED,) * (100 - granted)
            assert "at most 1000 steps" in reason_text(answer.properties)

    on_loop(body)


def test_very_many_refusals_are_told_in_few_words() -> None:
    async def body() -> None:
        async with recording() as (door, _):
            raw = await Raw.connected(door)
            answer = await raw.subscribe(*(f"a#/{number}" for number in range(MANY)))
            assert answer.reasons == (ReasonCode.TOPIC_FILTER_INVALID,) * MANY
            assert 0 < len(reason_text(answer.properties)) <= 1000

    on_loop(body)


class Counted(str):
    """A topic filter that counts how often it is compared."""

    comparisons = 0
    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        Counted.comparisons += 1
        return str.__eq__(self, other)


def test_unsubscribing_does_not_look_through_all_subscriptions() -> None:
    session = Requests("s")
    topics = many(1000)
    requested = [p.TopicRequest(topic) for topic in topics]
    assert len(list(session.subscribe({}, requested, Answer()))) == 1000
    Counted.comparisons = 0
    answer = Answer()
    steps = list(session.unsubscribe({}, [Counted(topic) for topic in topics], answer))
    assert answer.reasons == bytes(1000)
    assert [one.name for _, one in steps if one is not None] == topics
    assert Counted.comparisons < 10 * len(topics)


def test_the_conditions_of_one_topic_filter_end_one_by_one() -> None:
    session = Requests("s")
    for number in range(100):
        condition = where(f"x = {number}")
        assert list(session.subscribe(condition, [p.TopicRequest("a")], Answer()))
    steps = list(session.unsubscribe({}, ["a", "a"], Answer()))
    assert sum(1 for _, one in steps if one is not None) == 100
    assert all(effort >= LOOKING for effort, _ in steps)
