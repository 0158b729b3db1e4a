"""A node tells how it is over HTTP, and takes nothing else from there."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from gravitate.serve.http import serve_status
from gravitate.serve.ports import free_ports
from gravitate.serve.status import NodeStatus


async def _asked(port: int, request: bytes) -> tuple[str, dict[str, str], bytes]:
    async with asyncio.timeout(10):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(request)
        answer = await reader.read()
        writer.close()
    head, _, body = answer.partition(b"\r\n\r\n")
    status, *lines = head.decode().split("\r\n")
    return status, dict(line.split(": ", 1) for line in lines), body


async def _open_page(lab: Any) -> int:
    """b1 - b2 with a session on b1, and the port where b1 tells about itself."""
    one, _ = await lab.start(lab.chain(2))
    subscriber = await lab.subscriber(one, "subscriber")
    publisher = lab.Client(one, "publisher")
    publisher.publish(b"1", b"2")
    await lab.eventually(lambda: len(subscriber.payloads) == 2)
    (port,) = free_ports(1)
    one.doors.append(await serve_status(one.status, "127.0.0.1", port))
    return port


def test_status_tells_links_sessions_tables_and_counters(run: Any) -> None:
    async def body(lab: Any) -> None:
        port = await _open_page(lab)
        line, headers, page = await _asked(port, b"GET /status HTTP/1.1\r\nHost: x\r\n\r\n")
        assert line == "HTTP/1.1 200 OK"
        assert headers["Content-Type"] == "application/json"
        assert headers["Content-Length"] == str(len(page))
        status = msgspec.json.decode(page, type=NodeStatus)
        assert (status.broker, status.network, status.sessions) == ("b1", "lab", 2)
        assert [(link.peer, link.state) for link in status.links] == [("b2", "up")]
        assert status.tables["subscriptions"] == 1
        assert status.counters["events_delivered"] == 2

    run(body)


def test_metrics_are_in_the_format_of_prometheus(run: Any) -> None:
    async def body(lab: Any) -> None:
        port = await _open_page(lab)
        line, _, page = await _asked(port, b"GET /metrics HTTP/1.1\r\n\r\n")
        assert line == "HTTP/1.1 200 OK"
        lines = page.decode().splitlines()
        assert 'gravitate_sessions{broker="b1"} 2.0' in lines
        assert 'gravitate_events_delivered_total{broker="b1"} 2.0' in lines
        assert 'gravitate_link_up{broker="b1",peer="b2"} 1.0' in lines

    run(body)


@pytest.mark.parametrize(
    ("request_line", "status"),
    [
        (b"GET /health HTTP/1.1", "200 OK"),
        (b"HEAD /status HTTP/1.1", "200 OK"),
        (b"GET /health?verbose HTTP/1.0", "200 OK"),
        (b"GET / HTTP/1.1", "404 Not Found"),
        (b"POST /status HTTP/1.1", "405 Method Not Allowed"),
        (b"nonsense", "400 Bad Request"),
        (b"\xff\xfe\x00", "400 Bad Request"),
    ],
)
def test_every_request_gets_its_answer(run: Any, request_line: bytes, status: str) -> None:
    async def body(lab: Any) -> None:
        port = await _open_page(lab)
        line, _, page = await _asked(port, request_line + b"\r\n\r\n")
        assert line == f"HTTP/1.1 {status}"
        assert (page == b"") == request_line.startswith(b"HEAD")

    run(body)


def test_a_length_without_end_is_a_body_too_large(run: Any) -> None:
    async def body(lab: Any) -> None:
        port = await _open_page(lab)
        for digits in (20, 5000):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            head = b"POST /moves HTTP/1.1\r\nContent-Length: %s\r\n\r\n" % (b"7" * digits)
            writer.write(head)
            writer.write_eof()
            async with asyncio.timeout(10):
                answer = await reader.read()
            writer.close()
            assert answer.startswith(b"HTTP/1.1 413 Content Too Large\r\n")
            assert b"a body of 777777... bytes, 1048576 are taken" in answer

    run(body)


def test_a_request_without_end_gets_no_answer_and_harms_nobody(run: Any) -> None:
    async def body(lab: Any) -> None:
        port = await _open_page(lab)
        assert await _asked(port, b"x" * 100_000) == ("", {}, b"")
        line, _, _ = await _asked(port, b"GET /health HTTP/1.1\r\n\r\n")
        assert line == "HTTP/1.1 200 OK"

    run(body)
