"""The MQTT listener of a node.

Owns the listening socket, the set of open connections and the desk that they share; each
connection looks after itself.
"""

from __future__ import annotations

import asyncio

import msgspec

from gravitate.serve.descriptors import Doorkeeper, Kind
from gravitate.serve.mqtt.connection import Connection
from gravitate.serve.mqtt.desk import Desk
from gravitate.serve.mqtt.host import Host
from gravitate.serve.mqtt.options import DoorOptions
from gravitate.serve.warm import warm_up


class MqttDoor:
    """Lets MQTT clients in to a node. Made by `serve_mqtt`, closed with the node."""

    def __init__(
        self, host: Host, options: DoorOptions, doorkeeper: Doorkeeper | None = None
    ) -> None:
        self.options = options
        self.connections: set[Connection] = set()
        self.desk = Desk(options.unread_bytes_max)
        self._host = host
        self._doorkeeper = doorkeeper or Doorkeeper("mqtt")
        self._server: asyncio.Server | None = None

    async def listen(self, address: str, port: int) -> None:
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(
            self._doorkeeper.guard(
                Kind.CLIENT,
                lambda: Connection(self._host, self.options, self.connections, self.desk),
            ),
            address,
            port,
            backlog=1024,
        )

    @property
    def port(self) -> int:
        """The port that is listened on."""
        assert self._server is not None, "the door is not open"
        return int(self._server.sockets[0].getsockname()[1])

    def counters(self) -> dict[str, int]:
        """What has happened here, for whoever shows it."""
        return {"clients_without_room": self.desk.refused}

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
    doorkeeper: Doorkeeper | None = None,
) -> MqttDoor:
    """Open an MQTT listener for a node; port 0 takes a free one."""
    options = options or DoorOptions()
    options = msgspec.structs.replace(options, payload_fields=payload_fields)
    warm_up()
    door = MqttDoor(host, options, doorkeeper)
    await door.listen(address, port)
    return door
