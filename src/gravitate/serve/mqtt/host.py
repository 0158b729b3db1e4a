"""What MQTT connections need of the node that they bring clients to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

from gravitate.broker.interface.inputs import Input

if TYPE_CHECKING:
    from gravitate.serve.mqtt.connection import Connection


class Host(Protocol):
    """What a connection needs of its node."""

    @property
    def mqtt_addresses(self) -> Mapping[str, tuple[str, int]]:
        """Where brokers take clients."""
        ...

    def submit(self, input: Input) -> None: ...

    def hurry(self, tick: float) -> None:
        """Everything that a read at the loop's time `tick` brought has been submitted."""
        ...

    def attach(self, client: Connection) -> int:
        """The number of its connection."""
        ...

    def detach(self, connection: int) -> None: ...

    def next_incarnation(self) -> int: ...

    def client_failed(self, client: Connection, error: Exception) -> None:
        """Something raised that is no fault of the client; it is closed."""
        ...
