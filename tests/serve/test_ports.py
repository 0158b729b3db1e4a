"""Ports are free, and no two processes are given the same."""

from __future__ import annotations

import socket
import subprocess
import sys

from gravitate.serve.ports import BLOCK, free_ports

ASK = "from gravitate.serve.ports import free_ports; print(*free_ports(100))"


def test_ports_can_be_listened_on_and_are_not_given_out_again_at_once() -> None:
    first, second = free_ports(20), free_ports(20)
    assert len({*first, *second}) == 40
    for port in first:
        with socket.create_server(("127.0.0.1", port)):
            pass


def test_a_port_that_is_taken_is_left_out() -> None:
    (port,) = free_ports(1)
    with socket.create_server(("127.0.0.1", port)):
        assert port not in free_ports(BLOCK)


def test_another_process_is_given_other_ports() -> None:
    ours = free_ports(100)
    done = subprocess.run([sys.executable, "-c", ASK], capture_output=True, text=True, check=True)
    theirs = {int(port) for port in done.stdout.split()}
    assert len(theirs) == 100
    assert not theirs & set(ours)
