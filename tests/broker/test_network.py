"""Small networks of real brokers, wired by queues: who gets what, and what tables hold."""

from __future__ import annotations

import pytest

from gravitate.broker.interface.effects import (
    Accept,
    AdvertisementSettled,
    CloseSession,
    HoldReading,
    Persist,
    Stopped,
    SubscriptionSettled,
    Tell,
)
from gravitate.broker.interface.inputs import (
    ClientAcknowledged,
    ClientAdvertised,
    ClientCongested,
    ClientConnected,
    ClientDisconnected,
    ClientPublished,
    ClientSubscribed,
    ClientUnsubscribed,
    Persisted,
    StopRequested,
)
from gravitate.broker.options import BrokerOptions
from gravitate.model.events import Event, PlainBodies
from gravitate.model.language import parse
from tests.support.wired import QUIET, Wired, at

CHAIN = [("a", "b"), ("b", "c")]


def stop(wired: Wired, broker: str) -> None:
    """Stop a broker in order, which takes as long as its neighbours' acknowledgements."""
    wired.tell(broker, StopRequested())
    wired.pass_time(1)
    assert isinstance(wired.effects[broker][-1], Stopped)


@pytest.fixture
def chain() -> Wired:
    """A publisher `pub` at a, a subscriber `sub` at c, b between them."""
    wired = Wired(CHAIN)
    wired.connect("a", "pub")
    wired.connect("c", "sub")
    return wired


def test_an_event_crosses_the_network_to_a_matching_subscriber(chain: Wired) -> None:
    chain.subscribe("c", "sub", "x > 5")
    chain.publish("a", "pub", {"x": 6}, {"x": 4}, {"x": 7})
    assert chain.delivered("c", "sub") == [("pub", 1), ("pub", 3)]
    assert chain.accepted("a", "pub") == 3


def test_a_subscription_made_after_the_advertisement_is_served_too(chain: Wired) -> None:
    chain.publish("a", "pub", {"x": 1})
    chain.subscribe("c", "sub", "x > 5")
    chain.publish("a", "pub", {"x": 6})
    assert chain.delivered("c", "sub") == [("pub", 2)]


def test_an_event_nobody_wants_stays_at_its_broker(chain: Wired) -> None:
    chain.subscribe("c", "sub", "x > 5")
    chain.publish("a", "pub", {"x": 1})
    before = chain.brokers["b"].dispatch.events_in
    chain.publish("a", "pub", {"x": 2})
    assert chain.brokers["b"].dispatch.events_in == before


def test_subscriptions_travel_only_towards_intersecting_advertisements() -> None:
    wired = Wired([("a", "b"), ("b", "c"), ("b", "d")])
    for broker in "acd":
        wired.connect(broker, f"client-{broker}")
    wired.tell("a", ClientAdvertised(at("client-a"), "mine", parse("x > 0")))
    wired.tell("d", ClientAdvertised(at("client-d"), "mine", parse("x < 0")))
    wired.subscribe("c", "client-c", "x = 5")
    assert list(wired.table("a").values()) == ["b"]
    assert wired.table("d") == {}


def test_a_covered_subscription_is_not_passed_on_and_returns_when_uncovered(chain: Wired) -> None:
    chain.publish("a", "pub", {"x": 0})
    chain.subscribe("c", "sub", "x > 5")
    chain.subscribe("c", "sub", "x > 1")
    assert list(chain.table("b")) == ["sub#1@c/2"]
    chain.tell("c", ClientUnsubscribed(at("sub"), "x > 1"))
    assert chain.table("b") == {"sub#1@c/1": "c"}
    assert chain.table("a") == {"sub#1@c/1": "b"}
    chain.publish("a", "pub", {"x": 3}, {"x": 6})
    assert chain.delivered("c", "sub") == [("pub", 3)]


def test_leaving_undoes_everything(chain: Wired) -> None:
    chain.publish("a", "pub", {"x": 0})
    chain.subscribe("c", "sub", "x > 5")
    chain.tell("c", ClientDisconnected(at("sub")))
    chain.tell("a", ClientDisconnected(at("pub")))
    for broker in chain.brokers.values():
        assert broker.router.table.subscriptions == {}
        assert broker.router.table.advertisements == {}


def test_overlapping_subscriptions_deliver_once_at_the_better_quality(chain: Wired) -> None:
    chain.subscribe("c", "sub", "x > 5", qos=0)
    chain.subscribe("c", "sub", "y > 5", qos=1)
    chain.publish("a", "pub", {"x": 9, "y": 1}, {"x": 9, "y": 9}, {"x": 1, "y": 9})
    assert chain.delivered("c", "sub") == [("pub", 1), ("pub", 2), ("pub", 3)]


def test_a_cut_link_resumes_without_loss_or_duplicates(chain: Wired) -> None:
    chain.subscribe("c", "sub", "x > 0")
    chain.publish("a", "pub", {"x": 1})
    chain.lose("b", "c")
    chain.run()
    chain.publish("a", "pub", {"x": 2})
    chain.publish("a", "pub", {"x": 3})
    assert chain.delivered("c", "sub") == [("pub", 1)]
    chain.heal("b", "c")
    assert chain.delivered("c", "sub") == [("pub", 1), ("pub", 2), ("pub", 3)]


def test_a_restarted_broker_learns_its_place_and_nothing_is_lost(chain: Wired) -> None:
    chain.subscribe("c", "sub", "x > 0")
    chain.publish("a", "pub", {"x": 1})
    stop(chain, "b")
    chain.publish("a", "pub", {"x": 2})
    assert chain.delivered("c", "sub") == [("pub", 1)]
    chain.boot("b", 2)
    chain.pass_time(5)
    assert chain.delivered("c", "sub") == [("pub", 1), ("pub", 2)]
    assert chain.table("b") == {"sub#1@c/1": "c"}
    chain.publish("a", "pub", {"x": 3})
    assert chain.delivered("c", "sub") == [("pub", 1), ("pub", 2), ("pub", 3)]


def test_what_ended_while_a_broker_was_away_is_forgotten(chain: Wired) -> None:
    chain.subscribe("c", "sub", "x > 0")
    chain.publish("a", "pub", {"x": 1})
    stop(chain, "b")
    chain.tell("c", ClientUnsubscribed(at("sub"), "x > 0"))
    chain.boot("b", 2)
    chain.pass_time(5)
    assert chain.table("a") == chain.table("b") == {}


def test_a_subscription_settles_only_when_the_far_side_knows_it(chain: Wired) -> None:
    chain.publish("a", "pub", {"x": 1})
    chain.lose("a", "b")
    chain.run()
    chain.subscribe("c", "sub", "x > 0")

    def settled() -> bool:
        return Tell(at("sub"), SubscriptionSettled("x > 0")) in chain.effects["c"]

    assert not settled()
    chain.heal("a", "b")
    assert settled()


def test_a_new_publisher_behind_a_cut_link_does_not_wait_for_ever(chain: Wired) -> None:
    chain.subscribe("c", "sub", "x > 0")
    chain.lose("b", "c")
    chain.run()
    chain.publish("a", "pub", {"x": 1})
    chain.connect("b", "near")
    chain.subscribe("b", "near", "x > 0")
    assert chain.delivered("b", "near") == []
    chain.pass_time(QUIET.hold_s_max)
    assert chain.delivered("b", "near") == [("pub", 1)]
    chain.heal("b", "c")
    assert chain.delivered("c", "sub") == [("pub", 1)]


def test_many_topics_are_advertised_by_their_common_prefix(chain: Wired) -> None:
    for n in range(20):
        events = PlainBodies([Event({"topic": f"stocks/us/{n}"})])
        chain.tell("a", ClientPublished(at("pub"), events))
    assert list(chain.brokers["c"].router.table.advertisements) == ["pub#1/topic:stocks/us/#"]


def test_a_clients_own_advertisement_is_settled_and_used(chain: Wired) -> None:
    chain.tell("a", ClientAdvertised(at("pub"), "mine", parse("topic MATCHES 't/#' AND x > 0")))
    assert Tell(at("pub"), AdvertisementSettled("mine")) in chain.effects["a"]
    chain.subscribe("c", "sub", "x > 5")
    chain.publish("a", "pub", {"topic": "t/1", "x": 6})
    assert chain.delivered("c", "sub") == [("pub", 1)]
    assert list(chain.brokers["c"].router.table.advertisements) == ["pub#1/client:mine"]


def test_no_more_than_the_window_is_under_way_and_the_rest_follows(chain: Wired) -> None:
    chain.connect("c", "slow", window=2)
    chain.subscribe("c", "slow", "x > 0")
    chain.publish("a", "pub", {"x": 1}, {"x": 2}, {"x": 3}, {"x": 4}, {"x": 5})
    assert [c for _, c in chain.delivered("c", "slow")] == [1, 2]
    chain.tell("c", ClientAcknowledged(at("slow"), 1))
    assert [c for _, c in chain.delivered("c", "slow")] == [1, 2, 3]
    chain.tell("c", ClientAcknowledged(at("slow"), 3))
    assert [c for _, c in chain.delivered("c", "slow")] == [1, 2, 3, 4, 5]


def test_a_client_too_far_behind_is_closed_and_nobody_else_notices() -> None:
    options = BrokerOptions(heartbeat_s=0, link_grace_s=0, session_queue_events_max=3)
    wired = Wired(CHAIN, options)
    for client, window in (("slow", 1), ("quick", 100)):
        wired.connect("c", client, window)
        wired.subscribe("c", client, "x > 0")
    wired.connect("a", "pub")
    for n in range(1, 7):
        wired.publish("a", "pub", {"x": n})
    assert Tell(at("slow"), CloseSession("overloaded")) in wired.effects["c"]
    assert [c for _, c in wired.delivered("c", "quick")] == [1, 2, 3, 4, 5, 6]


def test_what_a_congested_client_cannot_take_is_dropped_at_qos_0_and_kept_at_qos_1(
    chain: Wired,
) -> None:
    chain.subscribe("c", "sub", "x > 0", qos=0)
    chain.subscribe("c", "sub", "y > 0", qos=1)
    chain.tell("c", ClientCongested(at("sub"), True))
    chain.publish("a", "pub", {"x": 1}, {"y": 1}, {"x": 2})
    chain.tell("c", ClientCongested(at("sub"), False))
    chain.publish("a", "pub", {"x": 3})
    assert [c for _, c in chain.delivered("c", "sub")] == [2, 4]
    assert chain.brokers["c"].dispatch.events_dropped == 2


def test_publications_sent_again_under_their_counters_are_recognised(chain: Wired) -> None:
    chain.subscribe("c", "sub", "x > 0")
    chain.connect("a", "counting", counts=True)
    batch = PlainBodies([Event({"topic": "t", "x": n}) for n in (1, 2)])
    chain.tell("a", ClientPublished(at("counting"), batch, 1, 1))
    chain.tell("a", ClientDisconnected(at("counting")))
    chain.connect("a", "counting", counts=True)
    again = PlainBodies([Event({"topic": "t", "x": n}) for n in (2, 3)])
    chain.tell("a", ClientPublished(at("counting"), again, 1, 2))
    assert [c for _, c in chain.delivered("c", "sub")] == [1, 2, 3]


def test_a_second_connect_takes_the_session_over(chain: Wired) -> None:
    chain.subscribe("c", "sub", "x > 0")
    chain.tell("c", ClientConnected(at("sub"), "sub", 2))
    assert Tell(at("sub"), CloseSession("taken-over")) in chain.effects["c"]
    chain.publish("a", "pub", {"x": 1})
    assert chain.delivered("c", "sub") == []


def test_a_client_that_declines_its_own_events_does_not_get_them(chain: Wired) -> None:
    for no_local in (True, False):
        chain.tell("a", ClientSubscribed(at("pub"), "own", parse("x > 0"), 1, no_local))
        chain.publish("a", "pub", {"x": 1})
    assert chain.delivered("a", "pub") == [("pub", 2)]


def test_a_full_link_holds_publishers_everywhere_until_it_drains() -> None:
    options = BrokerOptions(heartbeat_s=0, link_grace_s=0, link_queue_events_max=4)
    wired = Wired([*CHAIN, ("c", "d")], options)
    wired.connect("a", "pub")
    wired.connect("c", "sub")
    wired.connect("d", "other")
    wired.subscribe("c", "sub", "x > 0")
    wired.publish("a", "pub", {"x": 1})
    wired.lose("b", "c")
    wired.run()
    for n in range(2, 8):
        wired.publish("a", "pub", {"x": n})
    assert Tell(at("pub"), HoldReading(True)) in wired.effects["a"]
    wired.heal("b", "c")
    assert Tell(at("pub"), HoldReading(False)) in wired.effects["a"]
    assert [c for _, c in wired.delivered("c", "sub")] == [1, 2, 3, 4, 5, 6, 7]
    assert wired.brokers["d"].handle([], wired.now) == []


def test_a_link_down_for_too_long_is_given_up_and_taken_back() -> None:
    options = BrokerOptions(heartbeat_s=0, link_grace_s=30)
    wired = Wired(CHAIN, options)
    wired.connect("a", "pub")
    wired.connect("c", "sub")
    wired.subscribe("c", "sub", "x > 0")
    wired.publish("a", "pub", {"x": 1})
    wired.lose("b", "c")
    wired.pass_time(31)
    assert wired.table("a") == wired.table("b") == {}
    wired.heal("b", "c")
    assert wired.table("b") == {"sub#1@c/1": "c"}
    wired.publish("a", "pub", {"x": 2})
    assert wired.delivered("c", "sub") == [("pub", 1), ("pub", 2)]


def test_a_durable_broker_accepts_what_was_persisted() -> None:
    wired = Wired(CHAIN, BrokerOptions(heartbeat_s=0, link_grace_s=0, durable=True))
    wired.connect("a", "pub")
    wired.publish("a", "pub", {"x": 1}, {"x": 2})
    (persist,) = [e for e in wired.effects["a"] if isinstance(e, Persist)]
    assert wired.accepted("a", "pub") == 0
    wired.tell("a", Persisted(persist.token))
    assert wired.accepted("a", "pub") == 2


def test_a_client_that_falls_behind_what_it_publishes_itself_is_not_to_say_it_again() -> None:
    options = BrokerOptions(heartbeat_s=0, durable=True, session_queue_events_max=1)
    wired = Wired(CHAIN, options)
    wired.connect("a", "both", window=1)
    wired.subscribe("a", "both", "x > 0")
    wired.publish("a", "both", {"x": 1}, {"x": 2}, {"x": 3})
    closed = Tell(at("both"), CloseSession("overloaded"))
    assert not wired.brokers["a"].clients.sessions
    assert closed not in wired.effects["a"]
    (persist,) = [e for e in wired.effects["a"] if isinstance(e, Persist)]
    assert wired.tell("a", Persisted(persist.token)) == [Accept(at("both"), 3), closed]


def test_two_neighbours_that_stop_together_lose_nothing() -> None:
    wired = Wired([*CHAIN, ("c", "d")])
    wired.connect("a", "pub")
    wired.connect("d", "sub")
    wired.subscribe("d", "sub", "x > 0")
    wired.publish("a", "pub", {"x": 1})
    wired.lose("b", "c")
    wired.run()
    wired.publish("a", "pub", {"x": 2})
    wired.tell("b", StopRequested())
    wired.tell("c", StopRequested())
    wired.heal("b", "c")
    wired.pass_time(5)
    for name in "bc":
        if wired.brokers[name].stopped:
            wired.boot(name, 2)
            wired.pass_time(5)
    for name in "bc":
        if wired.brokers[name].stopped:
            wired.boot(name, 3)
            wired.pass_time(5)
    assert wired.delivered("d", "sub") == [("pub", 1), ("pub", 2)]
