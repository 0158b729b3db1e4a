"""Clients moved at random while they are used, and where they are seen.

Asks brokers over HTTP for moves of publishers and subscribers, some at the same time, never two of
one client, and looks every second who is attached and served where: brokers take clients home by
themselves. Whatever is asked or seen is noted. Moves may be refused and may fail; that is no fault.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping, Sequence
from typing import Final
from urllib.parse import urlencode

from gravitate.config.network import Address
from gravitate.model.moves import ClientMove, Rationale, ReassignSubscriber, RelocatePublisher
from gravitate.serve.http.client_pages import ClientList
from gravitate.serve.node.moves import MoveRecord
from gravitate.torture.asking import NoAnswer, ask
from gravitate.torture.clients import Clock
from gravitate.torture.ledger import ClientSpec, Ledger, Role

EVERY_S: Final = 0.4
AT_ONCE_MAX: Final = 4
LOOK_EVERY_S: Final = 1.0
WAIT_S: Final = 40.0
PAGES: Final = {Role.PUBLISHER: "/clients", Role.SUBSCRIBER: "/subscribers"}
UNANSWERED: Final = "unanswered"
NOT_TAKEN: Final = "not taken"


class Mover:
    """`moved` are those that are moved; everybody else stays."""

    def __init__(
        self,
        moved: Sequence[ClientSpec],
        addresses: Mapping[str, Address],
        ledger: Ledger,
        clock: Clock,
        generator: random.Random,
    ) -> None:
        self._moved = moved
        self._addresses = addresses
        self._ledger = ledger
        self._clock = clock
        self._generator = generator
        self._places = {spec.name: spec.home for spec in moved}
        self._under_way: dict[str, asyncio.Task[None]] = {}

    async def run(self, until: float) -> None:
        """Move clients until a time; returns when the last move has ended."""
        if not self._moved:
            return
        looking = asyncio.create_task(self._look())
        try:
            number = 0
            while self._clock() < until:
                number += 1
                spec = self._generator.choice(self._moved)
                target = self._generator.choice(list(self._addresses))
                self._begin(number, spec, target)
                await asyncio.sleep(EVERY_S)
            if self._under_way:
                await asyncio.wait(list(self._under_way.values()))
        finally:
            looking.cancel()

    def _begin(self, number: int, spec: ClientSpec, target: str) -> None:
        source = self._places[spec.name]
        if target == source or spec.name in self._under_way or len(self._under_way) >= AT_ONCE_MAX:
            return
        move = _move(f"torture-{number}", spec, source, target)
        task = asyncio.create_task(self._carry_out(spec, move))
        self._under_way[spec.name] = task
        task.add_done_callback(lambda _: self._under_way.pop(spec.name))

    async def _carry_out(self, spec: ClientSpec, move: ClientMove) -> None:
        self._ledger.seen(spec.name, move.target, self._clock())
        query = urlencode({"wait_s": f"{WAIT_S:g}"})
        try:
            _, record = await ask(
                self._addresses[move.source], f"/moves?{query}", MoveRecord, move, WAIT_S
            )
        except NoAnswer:
            self._ledger.moved(UNANSWERED)
        else:
            ended = record is not None and record.outcome is not None
            self._ledger.moved(record.outcome.value if ended else NOT_TAKEN)
        self._ledger.seen(spec.name, move.target, self._clock())
        self._ledger.seen(spec.name, move.source, self._clock())

    async def _look(self) -> None:
        """Note where clients are, over and over."""
        while True:
            await asyncio.gather(
                *(
                    self._look_at(broker, address, role)
                    for broker, address in self._addresses.items()
                    for role in Role
                )
            )
            await asyncio.sleep(LOOK_EVERY_S)

    async def _look_at(self, broker: str, address: Address, role: Role) -> None:
        try:
            _, told = await ask(address, PAGES[role], ClientList)
        except NoAnswer:
            return
        now = self._clock()
        for name in told.clients:
            spec = self._ledger.clients.get(name)
            if spec is not None and spec.role is role and name in self._places:
                self._ledger.seen(name, broker, now)
                if name not in self._under_way:
                    self._places[name] = broker


def _move(id: str, spec: ClientSpec, source: str, target: str) -> ClientMove:
    why = Rationale("torture")
    if spec.role is Role.PUBLISHER:
        return RelocatePublisher(id, spec.name, source, target, why)
    return ReassignSubscriber(id, spec.name, source, target, why)
