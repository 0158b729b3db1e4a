"""What a run of a script delivered, judged against what it had to; the same on every driver."""

from __future__ import annotations

from collections.abc import Set

import msgspec

from gravitate.config.script import Delivery, Script


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """Counts of deliveries. Drivers add what else they know."""

    scenario: str
    seed: int
    expected: int
    delivered: int
    missing: int
    unexpected: int
    duplicates: int
    out_of_order: int

    def is_sound(self) -> bool:
        """All that was expected came, once, in order, and nothing else."""
        return not (self.missing or self.unexpected or self.duplicates or self.out_of_order)


def judged(
    script: Script,
    wanted: Set[Delivery],
    received: Set[Delivery],
    duplicates: int,
    out_of_order: int,
) -> Outcome:
    """The counts of a run that should have delivered `wanted` and did deliver `received`."""
    return Outcome(
        scenario=script.name,
        seed=script.seed,
        expected=len(wanted),
        delivered=len(received),
        missing=len(wanted - received),
        unexpected=len(received - wanted),
        duplicates=duplicates,
        out_of_order=out_of_order,
    )
