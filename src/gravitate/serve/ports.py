"""Free loopback ports for tests, demos and benchmarks, also when many processes ask at once.

A port that is free when looked at may be taken before it is used. So every process takes a block
of ports for itself, shown by a socket that listens on the block's first port for as long as the
process lives, and hands out the rest in turn. The blocks lie outside the range from which systems
dial out.
"""

from __future__ import annotations

import os
import random
import socket
from typing import Final

from gravitate.errors import InputError

LOWEST: Final = 28_000
HIGHEST: Final = 32_000
BLOCK: Final = 250


class _Block:
    """The ports of one process on one host."""

    def __init__(self, host: str) -> None:
        self.process = os.getpid()
        self._host = host
        self._guards: list[socket.socket] = []
        self._ports: list[int] = []
        self._next = 0

    def take(self, count: int) -> list[int]:
        """`count` ports that nobody listens on, those longest out of use first."""
        taken: list[int] = []
        looked_at = 0
        while len(taken) < count:
            if looked_at == len(self._ports):
                self._grow()
            port = self._ports[self._next % len(self._ports)]
            self._next += 1
            looked_at += 1
            if port not in taken and self._is_free(port):
                taken.append(port)
        return taken

    def _grow(self) -> None:
        firsts = list(range(LOWEST, HIGHEST, BLOCK))
        random.SystemRandom().shuffle(firsts)
        for first in firsts:
            guard = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
            try:
                guard.bind((self._host, first))
                guard.listen(1)
            except OSError:
                guard.close()
                continue
            self._guards.append(guard)
            self._next = len(self._ports)
            self._ports += range(first + 1, first + BLOCK)
            return
        raise InputError(
            f"no free ports on {self._host} between {LOWEST} and {HIGHEST}: end other brokers"
        )

    def _is_free(self, port: int) -> bool:
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((self._host, port))
            except OSError:
                return False
            return True


_blocks: dict[str, _Block] = {}


def free_ports(count: int, host: str = "127.0.0.1") -> list[int]:
    """Ports nobody listens on, all different, that no other process is given meanwhile."""
    block = _blocks.get(host)
    if block is None or block.process != os.getpid():
        block = _blocks[host] = _Block(host)
    return block.take(count)
