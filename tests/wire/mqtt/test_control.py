"""What Gravitate clients and brokers say beyond MQTT comes across as it was meant."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gravitate.errors import MqttError
from gravitate.wire.mqtt.codec import PacketReader, encode
from gravitate.wire.mqtt.codes import V5, ReasonCode
from gravitate.wire.mqtt.control import (
    ATTACHMENT_MAX,
    ClientMark,
    client_mark,
    parse_server_reference,
    server_reference,
)
from gravitate.wire.mqtt.packets import Disconnect
from gravitate.wire.mqtt.properties import Property

marks = st.builds(
    ClientMark,
    st.integers(1, 10**18 - 1),
    st.integers(1, 10**18 - 1),
    st.integers(0, ATTACHMENT_MAX),
    st.booleans(),
)


@given(marks)
def test_a_mark_is_read_as_it_was_written(mark: ClientMark) -> None:
    assert client_mark({Property.USER_PROPERTY: mark.user_properties()}) == mark


def test_a_mark_that_does_not_say_so_does_not_follow() -> None:
    told = ClientMark(7).user_properties()
    assert client_mark({Property.USER_PROPERTY: told}) == ClientMark(7, 1, 0, False)
    assert client_mark({}) is None


@pytest.mark.parametrize(
    "attachment", ["0", "-1", "many", "", str(ATTACHMENT_MAX + 1), "9" * 18, "1" * 5000]
)
def test_an_attachment_is_a_number_that_brokers_can_count_on_from(attachment: str) -> None:
    told = (*ClientMark(7).user_properties(), ("$attachment", attachment))
    with pytest.raises(MqttError, match=rf"\$attachment .* from 1 to {ATTACHMENT_MAX}"):
        client_mark({Property.USER_PROPERTY: told})


@given(
    st.one_of(st.from_regex(r"[a-z0-9.-]{1,30}", fullmatch=True), st.ip_addresses().map(str)),
    st.integers(1, 65535),
)
def test_a_server_reference_names_host_and_port(host: str, port: int) -> None:
    assert parse_server_reference(server_reference(host, port)) == (host, port)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("broker.example", ("broker.example", 1883)),
        ("broker.example:1884 other:1885", ("broker.example", 1884)),
        ("[2001:db8::1]", ("2001:db8::1", 1883)),
    ],
)
def test_the_first_server_is_taken_and_a_port_may_be_left_out(
    text: str, found: tuple[str, int]
) -> None:
    assert parse_server_reference(text) == found


@pytest.mark.parametrize("text", ["", ":1883", "host:", "host:0", "host:65536", "a:b:1", "[::1"])
def test_what_is_no_host_and_port_is_refused(text: str) -> None:
    with pytest.raises(MqttError, match="no host and port"):
        parse_server_reference(text)


def test_a_farewell_carries_the_server_reference_in_the_bytes_of_the_specification() -> None:
    packet = Disconnect(ReasonCode.SERVER_MOVED, {Property.SERVER_REFERENCE: "b:1"})
    data = encode(packet, V5)
    assert data == bytes((0xE0, 8, 0x9D, 6, 0x1C, 0, 3)) + b"b:1"
    assert PacketReader().feed(data) == [packet]
