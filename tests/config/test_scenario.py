"""A scenario file becomes the same script every time, or an error that names its line."""

from __future__ import annotations

from pathlib import Path

import pytest

from gravitate.config import network as network_file
from gravitate.config.build import shaped
from gravitate.config.scenario import PACKAGED, load, loads
from gravitate.config.script import (
    CutLink,
    DelayLink,
    DisconnectClient,
    RestartBroker,
    Subscription,
    delivery_of,
    expected,
    payload_of,
)
from gravitate.errors import FileError
from gravitate.model.semantics import matches

HEAD = 'name = "test"\nduration_s = 2.0\nseed = 3\n'
NETWORK = '[network]\nshape = "line"\nbrokers = 3\n'
WORKLOAD = "[workload]\npublishers = 2\nsubscribers = 5\nrate_msgs_per_s = 5.0\n"


def test_the_same_file_and_seed_give_the_same_script() -> None:
    text = HEAD + NETWORK + WORKLOAD
    assert loads(text) == loads(text)
    assert loads(text, seed=4) != loads(text)
    assert loads(text, seed=3) == loads(text)


def test_publications_are_in_time_order_and_numbered_per_client_without_gaps() -> None:
    script = loads(HEAD + NETWORK + WORKLOAD)
    times = [publication.at_s for publication in script.publications]
    assert times == sorted(times)
    for client in ("pub-1", "pub-2"):
        numbers = [p.number for p in script.publications if p.client == client]
        assert numbers == list(range(1, 11))


def test_latencies_are_drawn_between_the_bounds() -> None:
    script = loads(HEAD + NETWORK + "latency_ms = [5.0, 9.0]\n")
    assert all(5.0 <= link.latency_ms <= 9.0 for link in script.network.links)
    assert len({link.latency_ms for link in script.network.links}) > 1


def test_a_network_file_is_found_beside_the_scenario(tmp_path: Path) -> None:
    network_file.save(shaped("star", 4), tmp_path / "net.toml")
    (tmp_path / "scenario.toml").write_text(HEAD + '[network]\nfile = "net.toml"\n')
    assert len(load(tmp_path / "scenario.toml").network.brokers) == 4


def test_clients_by_hand_and_faults_are_taken_over_in_time_order() -> None:
    script = loads(
        HEAD
        + NETWORK
        + """
[[clients]]
id = "me"
broker = "b02"
subscriptions = [{ topic = "a/#", where = "x > 5", qos = 0 }]
advertisements = ["topic = 'a/b'"]
[[faults]]
kind = "restart"
broker = "b01"
at_s = 1.5
for_s = 0.5
[[faults]]
kind = "cut"
between = ["b02", "b01"]
at_s = 0.5
for_s = 0.1
[[faults]]
kind = "delay"
between = ["b02", "b03"]
at_s = 0.7
for_s = 0.1
extra_ms = 20.0
[[faults]]
kind = "disconnect"
client = "me"
at_s = 0.9
for_s = 0.1
"""
    )
    (client,) = script.clients
    (subscription,) = client.subscriptions
    assert matches(subscription.filter(), {"topic": "a/b", "x": 6})
    assert not matches(subscription.filter(), {"topic": "b", "x": 6})
    assert not matches(subscription.filter(), {"topic": "a/b", "x": 5})
    assert script.faults == (
        CutLink(0.5, 0.1, ("b02", "b01")),
        DelayLink(0.7, 0.1, ("b02", "b03"), 20.0),
        DisconnectClient(0.9, 0.1, "me"),
        RestartBroker(1.5, 0.5, "b01"),
    )


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ('name = "x"\nduration_s = -1.0\n' + NETWORK, 2, "'duration_s' is -1"),
        ('name = "x"\nduration_s = inf\n' + NETWORK, 2, "'duration_s' is inf"),
        ('name = "x"\nduration_s = nan\n' + NETWORK, 2, "'duration_s' is nan"),
        (HEAD + NETWORK + "latency_ms = [0.0, inf]\n", 7, "the smallest and the largest"),
        (HEAD + NETWORK + "extent_ms = -2.0\n", 4, "-2 ms is no extent"),
        (HEAD + NETWORK + "bandwidth_bytes_per_s = -1.0\n", 7, "is -1: write a number from 0"),
        (
            HEAD + NETWORK + 'latency_ms = [1.0, 2.0]\nrtt_matrix = "m"\n',
            8,
            "'latency_ms' and 'rtt_matrix' exclude each other",
        ),
        (HEAD + NETWORK + "[service]\nevent_ms = nan\n", 8, "'event_ms' is nan"),
        (HEAD + NETWORK + "[workload]\nrate_msgs_per_s = inf\n", 8, "a number above 0"),
        (HEAD + NETWORK + "colour = 1\n", 7, "unknown key 'colour'"),
        (HEAD + '[network]\nshape = "blob"\nbrokers = 3\n', 4, "unknown shape 'blob'"),
        (HEAD + NETWORK + "latency_ms = [9.0, 5.0]\n", 7, "the smallest and the largest"),
        (HEAD + NETWORK + 'file = "n.toml"\n', 6, "exclude each other"),
        (HEAD + NETWORK + "[workload]\nrate_msgs_per_s = 0.0\n", 8, "a number above 0"),
        (HEAD + NETWORK + "[workload]\npublishers = -1\n", 8, "'publishers' is -1"),
        (HEAD + NETWORK + "[workload]\npublishers = 0\n", 8, "at least 1 publisher"),
        (HEAD + NETWORK + '[workload]\nmix = "odd"\n', 8, "mix"),
        (HEAD + NETWORK + "[workload]\nsubscriber_brokers = 4\n", 8, "there are 3 brokers"),
        (HEAD + NETWORK + "[trace]\nsampling = 2.0\n", 8, "'sampling' is 2"),
        (HEAD + NETWORK + '[[clients]]\nid = "c"\nbroker = "b9"\n', 9, "broker 'b9'"),
        (
            HEAD + NETWORK + WORKLOAD + '[[clients]]\nid = "sub-1"\nbroker = "b01"\n',
            12,
            "'sub-1' is there already",
        ),
        (
            HEAD
            + NETWORK
            + '[[clients]]\nid = "c"\nbroker = "b01"\nsubscriptions = [{ where = "x >" }]\n',
            10,
            "subscription of 'c'",
        ),
        (
            HEAD + NETWORK + '[[clients]]\nid = "c"\nbroker = "b01"\nsubscriptions = [{}, {}]\n',
            10,
            "two subscriptions named",
        ),
        (
            HEAD + NETWORK + '[[clients]]\nid = "c"\nbroker = "b01"\nadvertisements = ["x ="]\n',
            10,
            "advertisement of 'c'",
        ),
        (
            HEAD
            + NETWORK
            + '[[faults]]\nkind = "cut"\nbetween = ["b01", "b03"]\nat_s = 1.0\nfor_s = 1.0\n',
            9,
            "no link between 'b01' and 'b03'",
        ),
        (
            HEAD
            + NETWORK
            + '[[faults]]\nkind = "restart"\nbroker = "z"\nat_s = 1.0\nfor_s = 1.0\n',
            9,
            "no broker 'z'",
        ),
        (
            HEAD
            + NETWORK
            + '[[faults]]\nkind = "disconnect"\nclient = "z"\nat_s = 1.0\nfor_s = 1.0\n',
            9,
            "no client 'z'",
        ),
        (
            HEAD
            + NETWORK
            + '[[faults]]\nkind = "restart"\nbroker = "b01"\nat_s = 1.0\nfor_s = 0.0\n',
            7,
            "'for_s' above 0; this one has 1 and 0",
        ),
        (
            HEAD
            + NETWORK
            + '[[faults]]\nkind = "delay"\nbetween = ["b01", "b02"]\nat_s = 1.0\nfor_s = 1.0\n'
            + "extra_ms = -5.0\n",
            12,
            "'extra_ms' is -5",
        ),
    ],
)
def test_what_is_wrong_is_told_with_its_line(text: str, line: int, said: str) -> None:
    with pytest.raises(FileError) as caught:
        loads(text, "scenario.toml")
    assert said in str(caught.value)
    assert (caught.value.path, caught.value.line) == ("scenario.toml", line)


@pytest.mark.parametrize("name", PACKAGED)
def test_packaged_scenarios_load_and_expect_deliveries(name: str) -> None:
    script = load(name)
    wanted = expected(script)
    assert wanted
    assert {publisher for _, publisher, _ in wanted} <= {c.id for c in script.clients}


def test_the_demo_is_what_it_promises() -> None:
    script = load("demo")
    assert len(script.network.brokers) == 15
    assert sum(bool(client.subscriptions) for client in script.clients) == 300
    assert sum(not client.subscriptions for client in script.clients) == 10
    assert script.duration_s == 60.0


def test_expected_deliveries_are_the_matches_by_the_definition() -> None:
    script = load("small")
    assert expected(script) == {
        (client.id, publication.client, publication.number)
        for client in script.clients
        for publication in script.publications
        if any(matches(s.filter(), publication.event.attributes) for s in client.subscriptions)
    }


def test_a_query_behind_a_topic_means_what_it_means_on_sockets() -> None:
    filter = Subscription(topic="a/+?x>5", where="y = 1").filter()
    assert matches(filter, {"topic": "a/b", "x": 6, "y": 1})
    assert not matches(filter, {"topic": "a/b", "x": 5, "y": 1})
    assert not matches(filter, {"topic": "a/b", "x": 6})


def test_a_payload_names_its_publication() -> None:
    assert delivery_of("s", payload_of("pub-1", 42)) == ("s", "pub-1", 42)
    assert delivery_of("s", payload_of("pub-1", 42, 100)) == ("s", "pub-1", 42)
    assert len(payload_of("pub-1", 42, 100)) == 100
