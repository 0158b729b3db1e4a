"""What tests see of a broker that runs in a process of its own."""

from __future__ import annotations

import http.client
import json
from typing import Any

import psutil

from gravitate.config.network import Address


def memory_mb(pid: int) -> float:
    return float(psutil.Process(pid).memory_info().rss) / 1e6


def asked(address: Address, path: str) -> bytes | None:
    """A page of its, None when there is no answer."""
    connection = http.client.HTTPConnection(address.host, address.http, timeout=5)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.read() if answer.status == 200 else None
    except (OSError, http.client.HTTPException):
        return None
    finally:
        connection.close()


def status(address: Address) -> Any:
    page = asked(address, "/status")
    assert page is not None, "no status"
    return json.loads(page)
