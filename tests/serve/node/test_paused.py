"""A broker whose process was paused goes on as if nothing had been: it reads before it judges."""

from __future__ import annotations

import asyncio
import os
import signal

from tests.serve.mqtt.talk import Raw, on_loop

from gravitate.config.network import BrokerSpec, LinkSpec, Network
from gravitate.serve.control.network import on_free_ports
from gravitate.serve.control.processes import Supervisor
from gravitate.wire.mqtt import packets as p

KEEP_ALIVE_S = 1
PAUSED_S = 3.5
"""Longer than clients may be silent, and longer than neighbours may."""


def test_clients_that_pinged_all_the_time_are_kept() -> None:
    network = on_free_ports(
        Network("lab", (BrokerSpec("b1"), BrokerSpec("b2")), (LinkSpec(("b1", "b2")),))
    )
    address = network.brokers[0].address

    async def body() -> None:
        clients = []
        for number in range(5):
            raw = Raw(*await asyncio.open_connection(address.host, address.mqtt))
            assert (await raw.connect(f"c{number}", keep_alive_s=KEEP_ALIVE_S)).reason == 0
            clients.append(raw)
        os.kill(pid, signal.SIGSTOP)
        try:
            for _ in range(round(PAUSED_S / 0.25)):
                for raw in clients:
                    raw.send(p.Pingreq())
                await asyncio.sleep(0.25)
        finally:
            os.kill(pid, signal.SIGCONT)
        for raw in clients:
            raw.send(p.Pingreq())
            await raw.get(p.Pingresp)
            raw.close()

    with Supervisor(network) as supervisor:
        pid = supervisor.processes["b1"].pid
        assert pid is not None
        on_loop(body)
