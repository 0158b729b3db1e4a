"""Every mechanism by the name that network files use, with the parameters it takes.

    mechanisms({"grape": {"prioritised": "load"}})

Owns which mechanisms exist and which exclude each other. Network files name them below
`[mechanisms.NAME]`; a broker gets its own instance of each.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

import msgspec

from gravitate.adapt.grape import Grape, GrapeSettings
from gravitate.adapt.pop import Pop, PopSettings
from gravitate.broker.mechanisms.mechanism import Mechanism
from gravitate.errors import InputError


class Kind(NamedTuple):
    """One mechanism: what it takes, and how it is made."""

    settings: type[msgspec.Struct]
    make: Callable[[Any], Mechanism]


KINDS: Final[dict[str, Kind]] = {
    Grape.name: Kind(GrapeSettings, Grape),
    Pop.name: Kind(PopSettings, Pop),
}

EXCLUSIVE: Final = frozenset({Grape.name, Pop.name})
"""Of these only one may be switched on: they move the same publishers and share the trace mark."""


def settings(name: str, given: Mapping[str, Any]) -> msgspec.Struct:
    """The parameters of a mechanism as its network file gives them."""
    if name not in KINDS:
        raise InputError(f"unknown mechanism '{name}': write one of {', '.join(sorted(KINDS))}")
    try:
        return msgspec.convert(dict(given), KINDS[name].settings)
    except msgspec.ValidationError as problem:
        raise InputError(f"mechanism '{name}': {problem}") from None


def mechanisms(named: Mapping[str, Mapping[str, Any]]) -> list[Mechanism]:
    """New mechanisms for one broker, as `Network.mechanisms` has them."""
    check_together(named)
    return [KINDS[name].make(settings(name, given)) for name, given in named.items()]


def check_together(names: Mapping[str, object]) -> None:
    both = sorted(EXCLUSIVE & names.keys())
    if len(both) > 1:
        raise InputError(f"mechanisms '{both[0]}' and '{both[1]}' exclude each other: write one")
