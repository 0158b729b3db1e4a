"""GRAPE: which broker a publisher should connect to, by delay, by load, or by a mix of both.

    choice = select(answers, current="b7", parameters=GrapeParameters("load", 75))
    if choice.target != choice.current: ...

After a trace session the publisher's first broker has an answer from each broker that saw one of
the traced publications, itself included. From these follow, for the publisher at each of them,

- the *average delivery delay*: over all deliveries, the way from the publisher's broker to the
  delivering one (at each broker on it input queueing, matching and output queueing, and the
  latency of links where it is known), what the delivering broker itself takes up to its clients,
  and the publisher's own way to its broker where it is known (Algorithm 1);
- the *total message rate*: over all brokers, how many of the traced publications come to it
  because somebody there or behind wants them (Algorithms 2 and 3).

Both are computed for all candidates at once (`rerooting`). Owns the parameters, the answers and
the choice; knows neither how answers are collected nor how a publisher moves.

Deviations from the paper: the current broker is a candidate too, and a move needs a gain; ties
are settled (section IV-B leaves them open); latencies of links count when brokers know them.

Reference: Cheung and Jacobsen, "Publisher Placement Algorithms in Content-based
Publish/Subscribe", ICDCS 2010, section IV.
"""

from __future__ import annotations

import functools
import hashlib
import math
import struct
from collections.abc import Mapping, Sequence
from typing import Final, Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from gravitate.errors import InputError
from gravitate.plan.placement import grape_kernels as kernels

Metric = Literal["delay", "load"]
METRICS: Final[tuple[Metric, ...]] = ("delay", "load")

Floats = NDArray[np.float64]

_NOTHING: Final[Floats] = np.empty(0)


class GrapeParameters(msgspec.Struct, frozen=True):
    """What can be set; the names in brackets are the paper's."""

    prioritised: Metric = "delay"
    """The metric that is minimised first (section IV-B; the paper has no default)."""
    weight_percent: float = 100.0
    """How far it is minimised before the other one has its say [P] (section IV-B)."""
    session_publications: int = 100
    """Publications traced before a selection [G_threshold] (section IV-A)."""
    margin_percent: float = 5.0
    """By how much of the current broker's value the prioritised metric must fall for a move."""

    def __post_init__(self) -> None:
        if self.prioritised not in METRICS:
            raise InputError(
                f"GRAPE cannot prioritise '{self.prioritised}': write one of {', '.join(METRICS)}"
            )
        if not 0 <= self.weight_percent <= 100:
            raise InputError(f"weight {self.weight_percent} % is not accepted: write 0 to 100")
        if self.session_publications < 1:
            raise InputError(
                f"a trace session of {self.session_publications} publications is not accepted: "
                "write a whole number from 1"
            )
        if not 0 <= self.margin_percent < math.inf:
            raise InputError(f"margin {self.margin_percent} % is not accepted: write 0 or more")

    def is_gain(self, current: float, best: float) -> bool:
        """Whether a prioritised metric of `best` instead of `current` is worth a move."""
        return current - best > current * self.margin_percent / 100


DEFAULTS: Final = GrapeParameters()


class Measured(msgspec.Struct, frozen=True):
    """What one broker has measured in a trace session of one publisher."""

    deliveries: int
    """To local subscribers."""
    queue_s: dict[str, float]
    """Output queueing delay to each neighbour; the keys are all neighbours there are."""
    input_queue_s: float = 0.0
    matching_s: float = 0.0
    client_queue_s: float = 0.0
    """Output queueing delay to clients."""
    link_s: dict[str, float] = {}
    """Latency of the links to neighbours, one way, as far as it is known."""


class Answer(msgspec.Struct, frozen=True, gc=False):
    """What one broker says about a trace session of one publisher (its part of a TIA).

    What a selection needs is packed as it travels: among thousands of brokers it is taken over
    without looking at one of them in Python."""

    broker: str
    neighbours: tuple[str, ...]
    delivered: bytes
    """The bit vector of publications delivered to local subscribers, in 64-bit words."""
    record: bytes
    """`Measured` in the layout that `grape_kernels` tells, brokers by their keys."""

    @classmethod
    def of(cls, broker: str, delivered: bytes, measured: Measured) -> Answer:
        """The answer of a broker."""
        record = _OF_BROKER.pack(
            _key(broker),
            measured.deliveries,
            measured.input_queue_s,
            measured.matching_s,
            measured.client_queue_s,
        ) + b"".join(
            _OF_NEIGHBOUR.pack(_key(near), queue_s, measured.link_s.get(near, math.nan))
            for near, queue_s in measured.queue_s.items()
        )
        return cls(broker, tuple(measured.queue_s), delivered, record)

    def measured(self) -> Measured:
        """What the broker has measured."""
        if len(self.record) != _OF_BROKER.size + _OF_NEIGHBOUR.size * len(self.neighbours):
            raise _misfit(self)
        _, deliveries, input_queue_s, matching_s, client_queue_s = _OF_BROKER.unpack_from(
            self.record
        )
        links = _OF_NEIGHBOUR.iter_unpack(self.record[_OF_BROKER.size :])
        named = list(zip(self.neighbours, links, strict=True))
        return Measured(
            deliveries=int(deliveries) if math.isfinite(deliveries) else deliveries,
            queue_s={near: queue_s for near, (_, queue_s, _) in named},
            input_queue_s=input_queue_s,
            matching_s=matching_s,
            client_queue_s=client_queue_s,
            link_s={near: link_s for near, (_, _, link_s) in named if not math.isnan(link_s)},
        )


_OF_BROKER: Final = struct.Struct("<Q4d")
_OF_NEIGHBOUR: Final = struct.Struct("<Q2d")


@functools.lru_cache(maxsize=1 << 16)
def _key(broker: str) -> int:
    """A broker's id as a number to pack: a digest, so that two ids practically never share one."""
    digest = hashlib.blake2b(broker.encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little")


class Figures(msgspec.Struct, frozen=True):
    """Both metrics with the publisher at one broker."""

    delay_s: float
    """Average delivery delay."""
    messages: float
    """Of the traced publications, how many brokers take in all told."""


class Choice(msgspec.Struct, frozen=True, eq=False):
    """Where the publisher should be, and the figures this was decided on."""

    current: str
    best: str
    """The best candidate by metric and weight."""
    target: str
    """`best` when it is worth a move, or else `current`."""
    _answers: Sequence[Answer]
    _delay_s: Floats
    _messages: Floats

    def figures(self, broker: str) -> Figures:
        """What is predicted with the publisher at a candidate."""
        at = next(at for at, answer in enumerate(self._answers) if answer.broker == broker)
        return Figures(float(self._delay_s[at]), float(self._messages[at]))

    def candidates(self) -> dict[str, Figures]:
        """What is predicted with the publisher at each of the candidates, in order of answers."""
        columns = zip(self._answers, self._delay_s.tolist(), self._messages.tolist(), strict=True)
        return {
            answer.broker: Figures(delay_s, messages)
            for answer, delay_s, messages in columns
            if messages >= 0
        }


def select(
    answers: Sequence[Answer],
    current: str,
    parameters: GrapeParameters = DEFAULTS,
    to_publisher_s: Mapping[str, float] | None = None,
) -> Choice:
    """The best broker for a publisher that is at `current`, from answers that include its own.

    `to_publisher_s` is the latency between the publisher and each candidate. Where it is given, a
    broker it does not name is no candidate (the publisher could not reach it), except the current
    one, which then counts as next to the publisher. Answers of brokers that no chain of answers
    joins to the current one are left out. An answer that no broker can have given, or that
    contradicts others, raises `InputError`."""
    count = len(answers)
    records = [answer.record for answer in answers]
    sizes = np.fromiter(map(len, records), np.int64, count)
    joined = b"".join(records)
    whole = memoryview(joined)[: len(joined) // 8 * 8]
    delay_s = np.full(count, math.nan)
    messages = np.full(count, -1.0)
    is_tied = np.zeros(count, dtype=np.bool_)
    found, one, other, ties = kernels.select(
        sizes,
        np.frombuffer(whole, np.float64),
        np.frombuffer(whole, np.uint64),
        _words([answer.delivered for answer in answers]),
        _NOTHING if to_publisher_s is None else _way_to(answers, to_publisher_s),
        np.uint64(_key(current)),
        parameters.prioritised == "delay",
        float(parameters.weight_percent),
        delay_s,
        messages,
        is_tied,
    )
    if found != kernels.FINE:
        raise _refused(found, answers, one, other, current)
    best = other
    if ties > 1 and best != one:
        best = min(np.flatnonzero(is_tied).tolist(), key=lambda at: answers[at].broker)
    metric = delay_s if parameters.prioritised == "delay" else messages
    is_worth_it = parameters.is_gain(metric[one], metric[best])
    best_broker = answers[best].broker
    target = best_broker if is_worth_it else current
    return Choice(current, best_broker, target, answers, delay_s, messages)


def warm() -> None:
    """Compile the kernel ahead of its first use."""
    select([Answer.of("b0", bytes(8), Measured(0, {}))], "b0")


def _words(vectors: list[bytes]) -> NDArray[np.uint64]:
    """Bit vectors as rows of words; a shorter one ends in zeros."""
    sizes = set(map(len, vectors))
    size = max(sizes, default=0)
    if len(sizes) > 1 or size % 8:
        size = -(-size // 8) * 8
        vectors = [vector.ljust(size, b"\0") for vector in vectors]
    return np.frombuffer(b"".join(vectors), np.uint64).reshape(len(vectors), size // 8)


def _way_to(answers: Sequence[Answer], to_publisher_s: Mapping[str, float]) -> Floats:
    for broker, latency_s in to_publisher_s.items():
        if not 0 <= latency_s < math.inf:
            raise InputError(
                f"latency {latency_s} s between the publisher and broker '{broker}' is not "
                "accepted: write a number from 0"
            )
    return np.array([to_publisher_s.get(answer.broker, math.nan) for answer in answers])


def _misfit(answer: Answer) -> InputError:
    return InputError(
        f"broker '{answer.broker}' answers with a record of {len(answer.record)} bytes for "
        f"{len(answer.neighbours)} neighbours: {_OF_BROKER.size} and {_OF_NEIGHBOUR.size} for each "
        "neighbour are accepted"
    )


def _refused(
    found: int, answers: Sequence[Answer], one: int, other: int, current: str
) -> InputError:
    if found == kernels.NO_CURRENT:
        return InputError(f"no answer from '{current}', the publisher's own broker")
    answer = answers[one]
    if found == kernels.TWICE:
        return InputError(f"two answers from broker '{answer.broker}': send one each")
    if found == kernels.NOT_A_TREE:
        return InputError(
            f"the link '{answer.broker}' - '{answers[other].broker}' closes a cycle: answers must "
            "come from a tree of brokers"
        )
    if found == kernels.NOT_A_RECORD:
        return _misfit(answer)
    measured = answer.measured()
    named = {
        "deliveries": measured.deliveries,
        "input_queue_s": measured.input_queue_s,
        "matching_s": measured.matching_s,
        "client_queue_s": measured.client_queue_s,
        **{f"queue_s of '{near}'": s for near, s in measured.queue_s.items()},
        **{f"link_s of '{near}'": s for near, s in measured.link_s.items()},
    }
    name, value = next((n, v) for n, v in named.items() if not 0 <= v < math.inf)
    return InputError(
        f"broker '{answer.broker}' answers {value} for {name}: a number from 0 is accepted"
    )
