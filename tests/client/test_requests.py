"""What a client says in bytes: no packet id is in use twice."""

from __future__ import annotations

from gravitate.client.messages import Subscription
from gravitate.client.outgoing import Outgoing
from gravitate.client.requests import Dropped, Frame, Requests
from gravitate.wire.mqtt.codes import ReasonCode
from gravitate.wire.mqtt.emit import PACKET_IDS
from gravitate.wire.mqtt.packets import Suback

WANTED = Subscription("a/#", None, 1, False, None, lambda: None)
FRAME = Frame(b"", None)


def said(requests: Requests, word: object) -> int:
    """The packet id of a request in bytes: behind its type and length, of one byte each."""
    return int.from_bytes(requests.encoded(word)[2:4])


def test_requests_and_publications_are_numbered_together() -> None:
    outgoing: Outgoing[Frame] = Outgoing()
    requests = Requests({}, {}, outgoing)
    published = outgoing.add(FRAME, 1, 0).packet_id
    assert said(requests, WANTED) == 2
    assert said(requests, Dropped(WANTED)) == 3
    requests.granted(Suback(2, (ReasonCode.SUCCESS,)))
    for _ in range(PACKET_IDS - 3):
        number = outgoing.add(FRAME, 1, 0).packet_id
        assert outgoing.acknowledge(number) is not None
    assert number == PACKET_IDS
    assert published == 1
    assert said(requests, WANTED) == 2
    assert outgoing.add(FRAME, 1, 0).packet_id == 4


def test_requests_give_their_numbers_back_with_their_connection() -> None:
    outgoing: Outgoing[Frame] = Outgoing()
    requests = Requests({}, {}, outgoing)
    for _ in range(2):
        numbers = {said(requests, WANTED) for _ in range(PACKET_IDS)}
        assert len(numbers) == PACKET_IDS
        requests.renew()
