"""`gravitate pub` and `gravitate sub`: one client on the command line.

Where to connect is `--host` and `--port`, or a broker of a network file (`--network FILE`, with
`--at ID`; else its first broker).
"""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from gravitate.cli import output
from gravitate.cli.options import from_structs
from gravitate.errors import InputError

if TYPE_CHECKING:
    from gravitate.client import Client, Message, Subscription


class Joining(msgspec.Struct, frozen=True):
    """How a client takes part, as options of a command."""

    qos: Annotated[
        int, typer.Option("--qos", "-q", help="Quality of service, 0 or 1.", min=0, max=1)
    ] = 1
    host: Annotated[str, typer.Option(help="Where the broker listens.")] = "127.0.0.1"
    port: Annotated[int, typer.Option("--port", "-p", help="Its MQTT port.", min=1, max=65535)] = (
        18830
    )
    network: Annotated[
        Path | None, typer.Option("--network", "-n", help="Take the address from a network file.")
    ] = None
    at: Annotated[str, typer.Option(help="Which broker of it; else the first.")] = ""
    client_id: Annotated[
        str | None, typer.Option("--id", "-i", help="Client id; else a fresh one.")
    ] = None

    def client(self) -> Client:
        """Not connected yet."""
        from gravitate.client import Client

        return Client(*self._address(), self.client_id)

    def _address(self) -> tuple[str, int]:
        if self.network is None:
            if self.at:
                raise InputError("--at names a broker of a network file: give --network too")
            return self.host, self.port
        from gravitate.cli.networks import load
        from gravitate.serve.control.network import broker_spec

        loaded = load(self.network)
        spec = broker_spec(loaded, self.at or loaded.brokers[0].id)
        if not spec.address.mqtt:
            raise InputError(f"broker '{spec.id}' of {self.network} offers no MQTT port")
        return spec.address.host, spec.address.mqtt


@from_structs
def pub(
    topic: Annotated[str, typer.Argument(help="Topic to publish to.")],
    payload: Annotated[str, typer.Argument(help="What to publish.")] = "",
    attribute: Annotated[
        list[str] | None,
        typer.Option("--attribute", "-a", metavar="NAME=VALUE", help="May be repeated."),
    ] = None,
    lines: Annotated[
        bool, typer.Option("--lines", "-l", help="Publish every line of standard input.")
    ] = False,
    count: Annotated[int, typer.Option("--count", "-c", help="Publish so often.", min=1)] = 1,
    rate: Annotated[
        float, typer.Option(help="Publications a second; 0: as fast as may be.", min=0.0)
    ] = 0.0,
    joining: Joining = Joining(),
    json: output.AsJsonLines = False,
) -> None:
    """Publish events; attributes are what conditions see."""
    if lines and (payload or count > 1):
        raise InputError("--lines takes what to publish from standard input: write no payload")
    attributes = dict(_pair(text) for text in attribute or [])

    async def publish() -> None:
        import asyncio

        async with joining.client() as client:
            loop = asyncio.get_running_loop()
            started_at, sent = loop.time(), 0
            async for content in _payloads(payload, count, lines):
                if rate:
                    await asyncio.sleep(max(0.0, started_at + sent / rate - loop.time()))
                event = await client.publish(topic, content, attributes, joining.qos)
                sent += 1
                if json:
                    output.show_json_line(msgspec.structs.asdict(event))

    _run(publish())


@from_structs
def sub(
    topic: Annotated[str, typer.Argument(help="Topic filter, with + and #.")] = "#",
    where: Annotated[
        str | None, typer.Option("--where", "-w", help="A condition: volume > 1000000")
    ] = None,
    count: Annotated[
        int, typer.Option("--count", "-c", help="End after so many events; 0: never.", min=0)
    ] = 0,
    joining: Joining = Joining(),
    json: output.AsJsonLines = False,
) -> None:
    """Subscribe and print what arrives, until Ctrl-C; with --json one object a line."""
    if where is not None:
        # Checked here, where the error can point at the column.
        from gravitate.model.language import parse

        parse(where)

    async def subscribe() -> None:
        import asyncio

        async with joining.client() as client:
            received = 0
            subscription = await client.subscribe(topic, where, joining.qos)
            output.say(f"subscribed at {client.host}:{client.port} as {client.client_id}")
            telling = asyncio.create_task(_tell_settled(subscription))
            try:
                async for message in subscription:
                    _print(message, json)
                    received += 1
                    if received == count:
                        break
            finally:
                telling.cancel()

    _run(subscribe())


async def _tell_settled(subscription: Subscription) -> None:
    await subscription.settled()
    output.say("settled: every matching event of the whole network arrives from now on")


async def _payloads(payload: str, count: int, lines: bool) -> AsyncIterator[str]:
    import asyncio

    if not lines:
        for _ in range(count):
            yield payload
        return
    loop = asyncio.get_running_loop()
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        yield line.rstrip("\n")


def _print(message: Message, json: bool) -> None:
    text = message.payload.decode("utf-8", "backslashreplace")
    if json:
        output.show_json_line(
            {
                "topic": message.topic,
                "attributes": message.attributes,
                "payload": text,
                "qos": message.qos,
            }
        )
    else:
        shown = " ".join(f"{name}={value}" for name, value in message.attributes.items())
        typer.echo("  ".join(part for part in (message.topic, shown, text) if part))
    sys.stdout.flush()


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not (name and equals):
        raise InputError(f"attribute {text!r} is not accepted: write NAME=VALUE")
    return name, value


def _run(work: Coroutine[Any, Any, None]) -> None:
    import logging

    import uvloop

    class Notices(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            output.say(record.getMessage())

    # Connections that are lost and renewed.
    logger = logging.getLogger("gravitate.client")
    logger.setLevel(logging.INFO)
    logger.addHandler(Notices())
    uvloop.run(work)
