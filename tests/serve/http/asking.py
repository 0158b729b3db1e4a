"""Requests as a page gets them, without a connection."""

from __future__ import annotations

from starlette.requests import Request
from starlette.types import Message


def request(
    path: str, method: str = "GET", body: bytes = b"", content_type: str = "application/json"
) -> Request:
    path, _, query = path.partition("?")

    async def receive() -> Message:
        return {"type": "http.request", "body": body}

    return Request(
        {
            "type": "http",
            "method": method,
            "path": path,
            "query_string": query.encode(),
            "headers": [(b"content-type", content_type.encode())],
        },
        receive,
    )
