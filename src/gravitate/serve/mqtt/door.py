"""The MQTT listener of a node.

Owns the listening socket and the set of open connections; each connection looks after itself.
"""

from __future__ import annotations

import asyncio

import msgspec

from gravitate.serve.mqtt.connection import Connection
from gravitate.serve.mqtt.host import Host
from gravitate.serve.mqtt.options import DoorOptions
from gravitate.serve.warm import warm_up


class MqttDoor:
    """Lets MQTT clients in to a node. Made by `serve_mqtt`, closed with the node."""

    def __init__(self, host: Host, options: DoorOptions) -> None:
        self.options = options
        self.connections: set[Connection] = set()
        self._host = host
        self._server: asyncio.Server | None = None

    async def listen(self, address: str, port: int) -> None:
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(
            lambda: Connection(self._host, self.options, self.connections),
            address,
            port,
            backlog=1024,
        )

    @property
    def port(self) -> int:
        """The port that is listened on."""
        assert self._server is not None, "the door is not open"
        return int(self._server.sockets[0].getsockname()[1])

    async def close(self) -> None:
        """Take nobody in any more and close every connection; returns when all are closed."""
        if self._server is not None:
            self._server.close()
        for connection in list(self.connections):
            connection.shut_down()
        gone = [connection.gone for connection in self.connections]
        if gone:
            await asyncio.wait(gone)


async def serve_mqtt(
    host: Host,
    address: str,
    port: int,
    *,
    payload_fields: bool = True,
    options: DoorOptions | None = None,
) -> MqttDoor:
    """Open an MQTT listener for a node; port 0 takes a free one."""
    options = options or DoorOptions()
    options = msgspec.structs.replace(options, payload_fields=payload_fields)
    warm_up()
    door = MqttDoor(host, options)
    await door.listen(address, port)
    return door
