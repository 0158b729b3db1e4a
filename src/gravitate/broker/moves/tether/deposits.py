"""What neighbours remember for a broker: whom it serves for others.

A subscriber that is served by one broker and connected to another is known to the first alone. If
that one is killed, nobody would want what comes for it until its client's broker has noticed and
subscribed at home. So a broker *entrusts* its neighbours with what such a subscriber wants, and
when it comes back without memory they remind it, ahead of the events they have queued for it: it
goes on keeping what comes, and has it when it is asked.

Owns what neighbours have entrusted this broker with, and what becomes of those that it is reminded
of: it keeps what comes for them until somebody asks for it.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from gravitate.broker.messages.guests import Entrusted, GuestAnswer, Reminder
from gravitate.broker.messages.parcels import weight_bytes
from gravitate.broker.moves.salvage import wanted_by_each
from gravitate.broker.moves.tether.remote import Key, Remote
from gravitate.broker.moves.tether.served import TetheredSubscriber, TetheredSubscribers
from gravitate.broker.sessions.states import Owed
from gravitate.broker.sessions.subscriptions import Subscriptions


@dataclass(eq=False)
class Deposits:
    _subscriptions: Subscriptions
    _remote: Remote
    _tethered: TetheredSubscribers
    _by_neighbour: dict[str, dict[Key, Entrusted]] = field(default_factory=dict)
    _bytes: Counter[str] = field(default_factory=Counter)
    """What these weigh, by neighbour."""
    refused: int = 0
    _reminded: list[tuple[TetheredSubscriber, Entrusted]] = field(default_factory=list)
    """Of whom this broker was reminded in this step."""

    def heard(self, peer: str, entrusted: Entrusted) -> None:
        """A neighbour serves somebody, or no longer does."""
        known = self._by_neighbour.setdefault(peer, {})
        key = (entrusted.origin, entrusted.number)
        former = known.pop(key, None)
        if former is not None:
            self._bytes[peer] -= weight_bytes(former)
        if entrusted.subscriptions:
            weight = weight_bytes(entrusted)
            if self._bytes[peer] + weight <= self._remote.context.options.deposits_bytes_max:
                known[key] = entrusted
                self._bytes[peer] += weight
            else:
                self.refused += 1
        if not known:
            self.forget(peer)

    def heard_of(self, peer: str, answer: GuestAnswer) -> int:
        """As of when it is known here what somebody wants whom a neighbour serves: what waits for
        that one was matched by it, whatever it was told since."""
        entrusted = self._by_neighbour.get(peer, {}).get((answer.origin, answer.number))
        return answer.version if entrusted is None else min(answer.version, entrusted.version)

    def reset(self, peer: str) -> None:
        """A link starts anew: remind a neighbour that has lost its memory, and say all again. What
        it is reminded of it entrusts again, or is done with; until then it may be killed again."""
        send = self._remote.dispatch.send_control
        if self._remote.links[peer].has_forgotten:
            for entrusted in self._by_neighbour.get(peer, {}).values():
                send(peer, Reminder(entrusted))
        else:
            self.forget(peer)
        for subscriber in self._tethered.visitors():
            send(peer, self._tethered.served(subscriber))

    def forget(self, peer: str) -> None:
        self._by_neighbour.pop(peer, None)
        self._bytes.pop(peer, None)

    def reminded(self, peer: str, reminder: Reminder) -> None:
        """A neighbour says what it was entrusted with before this broker lost its memory."""
        said = reminder.entrusted
        key = (said.origin, said.number)
        if said.origin == self._remote.context.broker_id or self._remote.get(key) is not None:
            known = self._tethered.get(key)
            nobody = Entrusted(said.number, said.attachment, said.origin)
            self._tethered.entrust(nobody if known is None else self._tethered.served(known))
            return
        life = (said.subscriber, said.incarnation)
        subscriber = TetheredSubscriber(self._tethered, key, *life, Owed.REMINDED)
        subscriber.attachment = said.attachment
        subscriber.version = subscriber.wants = said.version
        subscriber.series = f"r{subscriber.serial}."
        self._remote.add(subscriber)
        self._tethered.set_lease(subscriber)
        for wanted in said.subscriptions:
            self._subscriptions.subscribe(subscriber, wanted, is_renewed=True)
        self._reminded.append((subscriber, said))
        self._tethered.tell_served(subscriber)

    def look_back(self) -> None:
        """What came before this broker was reminded, for all that it was reminded of lately."""
        if self._reminded:
            reminded, self._reminded = self._reminded, []
            wanted = [(one.id, said.subscriptions) for one, said in reminded]
            missed = wanted_by_each(self._remote.dispatch.recent or (), wanted)
            for (subscriber, said), backlog in zip(reminded, missed, strict=True):
                if self._remote.has(subscriber):
                    subscriber.cut((), backlog, said.version)
                    if subscriber.kept.exceeds(2):
                        self._remote.dispatch.overloaded[subscriber] = None
