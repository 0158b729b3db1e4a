"""The names of routing and forwarding strategies, for network files, brokers and the flow model.

What a name stands for is said where it is done: `broker/routing/registry`,
`broker/forwarding/strategy`, `plan/flow`.
"""

from __future__ import annotations

from typing import Final, Literal, get_args

from gravitate.errors import InputError

Routing = Literal["content"]
"""How brokers get to know who wants an event."""
CONTENT: Final[Routing] = "content"

Forwarding = Literal["S0"]
"""Which links an event takes."""
S0: Final[Forwarding] = "S0"
"""Those of the primary tree alone."""


def forwarding_named(name: str) -> Forwarding:
    """An `InputError` tells of a name that there is not."""
    known: tuple[Forwarding, ...] = get_args(Forwarding)
    for forwarding in known:
        if forwarding == name:
            return forwarding
    raise InputError(f"unknown forwarding strategy '{name}': write one of {', '.join(known)}")
