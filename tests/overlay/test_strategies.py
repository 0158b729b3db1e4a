from __future__ import annotations

from typing import get_args

import pytest

from gravitate.broker.forwarding.destinations import FORWARDERS
from gravitate.broker.routing.registry import ROUTERS
from gravitate.errors import InputError
from gravitate.overlay.strategies import Forwarding, Routing, forwarding_named
from gravitate.plan.flow.flow import STRATEGIES


def test_every_strategy_that_has_a_name_can_be_run_and_modelled() -> None:
    assert set(get_args(Routing)) == set(ROUTERS)
    assert set(get_args(Forwarding)) == set(FORWARDERS) == set(STRATEGIES)
    assert {forwarding_named(name) for name in FORWARDERS} == set(FORWARDERS)


def test_an_unknown_strategy_is_refused_with_those_there_are() -> None:
    with pytest.raises(InputError, match="unknown forwarding strategy 'S9': write one of S0"):
        forwarding_named("S9")
