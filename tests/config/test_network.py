from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gravitate.broker.options import BrokerOptions
from gravitate.config import build, network
from gravitate.config.listeners import MqttSpec
from gravitate.errors import FileError, InputError
from gravitate.overlay.shapes import SHAPES

GOOD = """\
name = "three"

[[brokers]]
id = "a"
address = { mqtt = 1883, peer = 7000 }
coordinates = [0, 0]

[[brokers]]
id = "b"
coordinates = [3.0, 4.0]
[brokers.address]
mqtt = 1884
peer = 7001

[[brokers]]
id = "c"
coordinates = [3.0, 10.0]
payload_fields = false

[[links]]
between = ["a", "b"]

[[links]]
between = ["b", "c"]
latency_ms = 20
bandwidth_bytes_per_s = 1e6
"""


def test_a_good_file_is_read_whole() -> None:
    loaded = network.loads(GOOD)
    assert loaded.name == "three"
    assert [broker.id for broker in loaded.brokers] == ["a", "b", "c"]
    assert loaded.brokers[1].address == network.Address("127.0.0.1", 1884, 7001, 0)
    assert loaded.brokers[2].payload_fields is False
    assert loaded.links[1] == network.LinkSpec(("b", "c"), 20.0, 1e6)


def test_a_link_without_latency_takes_the_distance_of_its_ends() -> None:
    assert network.loads(GOOD).links[0].latency_ms == 5.0


def changed(old: str, new: str) -> str:
    assert old in GOOD
    return GOOD.replace(old, new, 1)


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        pytest.param(
            changed('id = "b"', 'id = "b"\ncolour = 3'), 10, r"unknown key 'colour'", id="key"
        ),
        pytest.param(
            changed("mqtt = 1884", "mqt = 1884"), 12, "did you mean 'mqtt'", id="nested key"
        ),
        pytest.param("nam = 3\n" + GOOD, 1, "did you mean 'name'", id="top key"),
        pytest.param(
            changed('id = "c"', 'id = "a"'), 16, "duplicate broker id 'a': line 4", id="duplicate"
        ),
        pytest.param(
            changed('["b", "c"]', '["b", "d"]'), 24, "link to unknown broker 'd'", id="unknown"
        ),
        pytest.param(
            GOOD + '[[links]]\nbetween = ["c", "a"]\n',
            28,
            "make a cycle: c - a - b - c",
            id="cycle",
        ),
        pytest.param(
            GOOD + '[[links]]\nbetween = ["b", "a"]\n', 28, "linked twice: line 21", id="twice"
        ),
        pytest.param(changed('["b", "c"]', '["c", "c"]'), 24, "linked to itself", id="itself"),
        pytest.param(
            changed('[[links]]\nbetween = ["b", "c"]\nlatency_ms = 20\n', "[none]\n"),
            23,
            "unknown key 'none'",
            id="stray table",
        ),
        pytest.param(
            GOOD[: GOOD.index('[[links]]\nbetween = ["b"')],
            15,
            re.escape("in 2 parts: {a, b} and {c}"),
            id="partition",
        ),
        pytest.param(
            changed("mqtt = 1884", "mqtt = 7000"),
            12,
            re.escape("port 7000 of 'b' (mqtt) is used by 'a' (peer, line 5)"),
            id="port twice",
        ),
        pytest.param(
            changed("mqtt = 1884", "mqtt = 70000"), 12, "write 1 to 65535", id="port too high"
        ),
        pytest.param(
            changed("mqtt = 1884", 'mqtt = "1884"'),
            12,
            "'address.mqtt' is '1884', which is not accepted: write a whole number",
            id="type",
        ),
        pytest.param(
            'routing = "gossip"\n' + GOOD,
            1,
            """'routing' is 'gossip'.*write "content\"""",
            id="choice",
        ),
        pytest.param(
            changed('["a", "b"]', '["a"]'), 21, "write a list of 2, each text in quotes", id="pair"
        ),
        pytest.param(
            changed("[3.0, 4.0]", '[3.0, "x"]'), 10, "is 'x'.*write a number", id="coordinate"
        ),
        pytest.param(changed("[3.0, 4.0]", "[3.0]"), 10, "the same number", id="dimensions"),
        pytest.param(changed("[3.0, 4.0]", "[3.0, nan]"), 10, "finite", id="nan"),
        pytest.param(changed("latency_ms = 20", "latency_ms = -1"), 25, "from 0", id="negative"),
        pytest.param(changed('id = "a"', 'id = "a b"'), 4, "'a b' is not accepted", id="id"),
        pytest.param(
            changed('id = "a"\n', ""), 3, "'id' is missing in entry 1 of 'brokers'", id="missing"
        ),
        pytest.param("brokers = []\nname = 'x'\n", 1, "at least one broker", id="no brokers"),
        pytest.param(changed('"three"', '""'), 1, "'name' is empty", id="no name"),
        pytest.param(changed('name = "three"', "name ="), 1, "not TOML", id="syntax"),
        pytest.param(GOOD + "[mechanisms.plum]\n", 27, "unknown mechanism 'plum'", id="mechanism"),
        pytest.param(
            GOOD + '[mechanisms.grape]\npriority = "load"\n',
            28,
            "unknown key 'priority'; did you mean 'prioritised'",
            id="mechanism-key",
        ),
        pytest.param(
            GOOD + '[mechanisms.grape]\nprioritised = "speed"\n',
            28,
            'write "delay" or "load"',
            id="mechanism-choice",
        ),
        pytest.param(
            GOOD + "[mechanisms.grape]\nweight_percent = 101.0\n",
            27,
            "weight 101.0 % is not accepted",
            id="mechanism-figure",
        ),
        pytest.param(
            GOOD + "[mechanisms.grape]\n[mechanisms.pop]\n",
            27,
            "'grape' and 'pop' exclude each other",
            id="mechanisms-together",
        ),
        pytest.param(
            changed("payload_fields = false", "mqtt = { packet_bytes_max = 0 }"),
            18,
            "'mqtt.packet_bytes_max' is 0, .*: write a whole number from 1 to 50331648$",
            id="mqtt option",
        ),
        pytest.param(
            changed("payload_fields = false", "mqtt = { receive_maximum = 70000 }"),
            18,
            "write a whole number from 1 to 65535$",
            id="mqtt option between",
        ),
        pytest.param(
            changed("payload_fields = false", "mqtt = { conect_bytes_max = 1 }"),
            18,
            "did you mean 'connect_bytes_max'",
            id="mqtt key",
        ),
        pytest.param(
            changed("payload_fields = false", "mqtt = { write_bytes_high = 1000 }"),
            18,
            "write less than write_bytes_high, which is 1000",
            id="mqtt options together",
        ),
        pytest.param(
            changed("peer = 7001", 'host = "no where"'), 13, "'no where' of 'b'", id="host"
        ),
        pytest.param("mechanisms = 3\n" + GOOD, 1, "must be a table", id="mechanisms"),
    ],
)
def test_what_is_wrong_is_named_with_its_line(text: str, line: int, says: str) -> None:
    with pytest.raises(FileError, match=says) as caught:
        network.loads(text, "net.toml")
    assert caught.value.line == line, str(caught.value)
    assert str(caught.value).startswith(f"net.toml:{line}: ")


def test_the_same_port_on_two_hosts_is_no_clash_unless_one_listens_everywhere() -> None:
    apart = changed("mqtt = 1884", 'host = "10.0.0.2"\nmqtt = 7000')
    assert network.loads(apart).brokers[1].address.mqtt == 7000
    with pytest.raises(FileError, match="port 7000"):
        network.loads(apart.replace("10.0.0.2", "0.0.0.0"))


def test_what_is_set_for_mqtt_is_read_and_written() -> None:
    text = changed("payload_fields = false", "mqtt = { connect_bytes_max = 1000, linger_s = 0.5 }")
    loaded = network.loads(text)
    assert loaded.brokers[2].mqtt == MqttSpec(connect_bytes_max=1000, linger_s=0.5)
    assert loaded.brokers[0].mqtt == MqttSpec()
    assert network.loads(network.render(loaded)) == loaded


def test_known_mechanisms_keep_their_parameters() -> None:
    text = GOOD + '[mechanisms.grape]\nweights = [1, 2]\n"odd key" = { x = "y" }\n'
    loaded = network.loads(text, known_mechanisms=["grape"])
    assert loaded.mechanisms == {"grape": {"weights": [1, 2], "odd key": {"x": "y"}}}
    assert network.loads(network.render(loaded), known_mechanisms=["grape"]) == loaded


@given(
    st.sampled_from(sorted(SHAPES)),
    st.integers(1, 40),
    st.integers(1, 4),
    st.integers(0, 99),
    st.sampled_from([(0.0, 0.0), (10.0, 0.0), (0.0, 100.0)]),
)
def test_every_network_made_to_order_is_sound_and_survives_its_file(
    shape: str, brokers: int, fanout: int, seed: int, lengths: tuple[float, float]
) -> None:
    link_ms, extent_ms = lengths
    made = build.shaped(
        shape, brokers, fanout=fanout, seed=seed, link_ms=link_ms, extent_ms=extent_ms
    )
    assert network.loads(network.render(made)) == made


def test_a_latency_of_zero_survives_coordinates() -> None:
    made = build.shaped("line", 2, link_ms=5)
    flat = msgspec.structs.replace(
        made, links=(msgspec.structs.replace(made.links[0], latency_ms=0.0),)
    )
    assert network.loads(network.render(flat)) == flat


def test_a_saved_network_loads(tmp_path: Path) -> None:
    made = build.shaped("star", 5)
    network.save(made, tmp_path / "n.toml")
    assert network.load(tmp_path / "n.toml") == made
    assert [path.name for path in tmp_path.iterdir()] == ["n.toml"]


def test_a_network_that_cannot_be_written_is_told_of_by_its_own_name(tmp_path: Path) -> None:
    target = tmp_path / "nowhere" / "n.toml"
    with pytest.raises(FileError) as refused:
        network.save(build.shaped("line", 3), target)
    assert str(refused.value) == f"{target}: cannot be written: No such file or directory"


def test_orders_that_cannot_be_met_are_refused() -> None:
    with pytest.raises(InputError, match="overlap"):
        build.shaped("star", 5, mqtt_port=2000, peer_port=2003)
    with pytest.raises(InputError, match="65531"):
        build.shaped("star", 5, mqtt_port=65533)
    with pytest.raises(InputError, match="not both"):
        build.shaped("star", 5, link_ms=1, extent_ms=1)
    for length_ms in (-1.0, float("inf"), float("nan")):
        with pytest.raises(InputError, match="ms is no length of links: write a number from 0"):
            build.shaped("star", 5, link_ms=length_ms)
        with pytest.raises(InputError, match="ms is no extent of the plane"):
            build.shaped("star", 5, extent_ms=length_ms)


def test_bounds_and_intervals_of_brokers_are_set_for_all_of_them() -> None:
    loaded = network.loads(GOOD + "\n[options]\nhold_bytes_max = 4096\nlink_grace_s = 5\n")
    assert loaded.options == BrokerOptions(hold_bytes_max=4096, link_grace_s=5.0)
    assert network.loads(network.render(loaded)) == loaded
    assert "options" not in network.render(network.loads(GOOD))


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("hold_bytes_max = 0", "'options.hold_bytes_max' is 0, which is not accepted"),
        ("link_grace_s = -1", "'options.link_grace_s' is -1, which is not accepted"),
        ("link_grace_s = inf", "'options.link_grace_s' is inf, which is not accepted"),
        ("retry_s_min = 0", "'options.retry_s_min' is 0, which is not accepted"),
        ("retry_s_min = 3", "retry_s_min is 3, expected at most retry_s_max, which is 2"),
        ("hold_bytes = 5", "unknown key 'hold_bytes'; did you mean 'hold_bytes_max'?"),
        ('network = "other"', "unknown key 'network'"),
        ("durable = true", "unknown key 'durable'"),
    ],
)
def test_options_that_cannot_be_meant_are_refused_with_their_line(line: str, says: str) -> None:
    text = f"{GOOD}\n[options]\n{line}\n"
    with pytest.raises(FileError, match=re.escape(says)) as problem:
        network.loads(text, "n.toml")
    assert problem.value.line == text.splitlines().index(line) + 1


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("a = " + "[" * 100_000, "nested too deeply"),
        (
            'name = "n"\n[[brokers]]\nid = "a"\naddress = { host = "xn--\u00fc..b" }\n',
            "is not accepted: write a name",
        ),
    ],
)
def test_what_nobody_can_mean_is_refused_when_it_is_read(
    tmp_path: Path, text: str, told: str
) -> None:
    path = tmp_path / "n.toml"
    path.write_text(text)
    with pytest.raises(FileError, match=told):
        network.load(path)
