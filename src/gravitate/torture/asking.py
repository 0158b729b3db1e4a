"""One HTTP request to a broker, without blocking anybody else.

Owns as much of HTTP/1.1 as asking brokers needs: one request a connection, the answer read to its
end within a bounded time.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

import msgspec

from gravitate.config.network import Address
from gravitate.model.decoding import decode_json

ANSWER_S_MAX: Final = 2.0


class NoAnswer(Exception):
    """A broker does not answer, or not what can be read."""


async def ask(
    address: Address, path: str, what: Any, body: Any = None, wait_s: float = 0.0
) -> tuple[int, Any]:
    """The status and the answer as `what`, None where the status is 4xx; with a body it is a POST.

    `wait_s` is how much longer than usual the answer may take."""
    try:
        async with asyncio.timeout(ANSWER_S_MAX + wait_s):
            answer = await _exchange(address, path, body)
    except (OSError, TimeoutError) as problem:
        raise NoAnswer(str(problem) or type(problem).__name__) from None
    head, _, content = answer.partition(b"\r\n\r\n")
    words = head.split(b" ", 2)
    if len(words) < 2 or not words[1].isdigit():
        raise NoAnswer(f"no answer of HTTP: {answer[:40]!r}")
    status = int(words[1])
    if 400 <= status < 500:
        return status, None
    try:
        return status, decode_json(content, what)
    except msgspec.DecodeError as problem:
        raise NoAnswer(str(problem)) from None


async def _exchange(address: Address, path: str, body: Any) -> bytes:
    reader, writer = await asyncio.open_connection(address.host, address.http)
    try:
        content = b"" if body is None else msgspec.json.encode(body)
        method = "GET" if body is None else "POST"
        writer.write(
            f"{method} {path} HTTP/1.1\r\nHost: {address.host}\r\n"
            "Content-Type: application/json\r\n"
            f"Content-Length: {len(content)}\r\n\r\n".encode()
            + content
        )
        return await reader.read()
    finally:
        writer.transport.abort()
