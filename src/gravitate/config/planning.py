"""What can be set when plans are made: for publishers, and for subscribers.

Each field says what it means; the command line makes its options from that. Owns names, defaults
and what is refused. Importing this is cheap: algorithms are looked up when options are made.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec
from msgspec import Meta

from gravitate.errors import InputError

if TYPE_CHECKING:
    from gravitate.plan.placement.grape import GrapeParameters

MECHANISMS: Final = ("grape", "pop")


def _algorithms() -> tuple[str, ...]:
    from gravitate.plan.assignment.algorithms import ALGORITHMS

    return tuple(ALGORITHMS)


def _one_of(description: str, names: Any, **others: Any) -> Meta:
    return Meta(description=description, extra={"names": names, **others})


class PublisherOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How a broker is chosen for a publisher."""

    mechanism: Annotated[str, _one_of("grape or pop.", lambda: MECHANISMS)] = "grape"
    prioritise: Annotated[
        str, _one_of("What GRAPE minimises first: delay or load.", lambda: ("delay", "load"))
    ] = "load"
    """Of POP too gains are told in it."""
    weight: Annotated[
        float, Meta(description="How far, in percent, before the other one has its say.")
    ] = 100.0
    margin: Annotated[
        float, Meta(description="A gain below so many percent moves nobody (GRAPE).")
    ] = 5.0
    at_least: Annotated[
        int, Meta(description="Publishers with fewer recorded publications stay.", ge=1)
    ] = 10

    def __post_init__(self) -> None:
        if self.mechanism not in MECHANISMS:
            raise InputError(
                f"unknown mechanism '{self.mechanism}' for publishers: write one of "
                f"{', '.join(MECHANISMS)}"
            )
        _ = self.grape

    @property
    def grape(self) -> GrapeParameters:
        from gravitate.plan.placement.grape import GrapeParameters

        return GrapeParameters(self.prioritise, self.weight, margin_percent=self.margin)  # type: ignore[arg-type]

    def parameters(self) -> dict[str, str | float]:
        """What a plan tells about it."""
        told: dict[str, str | float] = {
            "mechanism": self.mechanism,
            "publications_min": float(self.at_least),
        }
        if self.mechanism == "grape":
            told |= {
                "prioritise": self.prioritise,
                "weight_percent": self.weight,
                "margin_percent": self.margin,
            }
        return told


class SubscriberOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How brokers are chosen for subscribers; bounds are those of paper 4, section 6, set 1."""

    algorithm: Annotated[
        str,
        _one_of(
            "Gr, Gr*, SLP, ...; default: best, a local search from the better of Gr* and SLP.",
            _algorithms,
            show_default=False,
        ),
    ] = "best"
    delay_max: Annotated[
        float, Meta(description="How much longer than the shortest a way may be, as a share of it.")
    ] = 0.3
    delay_ms_max: Annotated[
        float,
        Meta(
            description="So much longer is accepted whatever the share is.", extra={"metavar": "MS"}
        ),
    ] = 0.0
    beta: Annotated[
        float, Meta(description="How many times its share of subscribers a broker should have.")
    ] = 1.5
    beta_max: Annotated[float, Meta(description="How many times it may have at most.")] = 1.8
    complexity: Annotated[
        int, Meta(description="Of how many boxes a broker's filter is reckoned to be.")
    ] = 3
    axes: Annotated[
        int, Meta(description="Dimensions of interests: topic, then most constrained attributes.")
    ] = 2
    seed: Annotated[int, Meta(description="What the algorithm draws from.", ge=0)] = 0
    moves_max: Annotated[
        int | None, Meta(description="At most so many moves, those that bring most.")
    ] = None
    rounds: Annotated[
        int, Meta(description="Of improving the choice on the recorded events; 0: none.")
    ] = 8
    at_least: Annotated[
        int, Meta(description="Subscribers with fewer recorded deliveries stay.")
    ] = 10

    def __post_init__(self) -> None:
        if self.algorithm not in _algorithms():
            raise InputError(
                f"algorithm {self.algorithm!r} is not known: write one of "
                f"{', '.join(_algorithms())}"
            )
        for name in ("axes", "complexity", "at_least", "moves_max", "rounds", "seed"):
            least = 0 if name in ("rounds", "seed") else 1
            value = getattr(self, name)
            if value is not None and value < least:
                raise InputError(f"{name} = {value} is not accepted: write {least} or more")
        for name in ("delay_max", "delay_ms_max"):
            value = getattr(self, name)
            if not 0 <= value < math.inf:
                raise InputError(f"{name} = {value:g} is not accepted: write a number from 0")
        if not 0 < self.beta <= self.beta_max < math.inf:
            raise InputError(
                f"beta = {self.beta:g} and beta_max = {self.beta_max:g} are not accepted: "
                "write 0 < beta <= beta_max, both finite"
            )

    def parameters(self) -> dict[str, str | float]:
        """What a plan tells about it."""
        told = msgspec.structs.asdict(self)
        told["deliveries_min"] = told.pop("at_least")
        del told["axes"]  # a plan tells which they are
        return {
            name: value if isinstance(value, str) else float(value)
            for name, value in told.items()
            if value is not None
        }
