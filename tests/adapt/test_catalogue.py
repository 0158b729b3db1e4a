"""Mechanisms by name, with their parameters."""

from __future__ import annotations

import pytest

from gravitate.adapt.catalogue import KINDS, mechanisms, settings
from gravitate.adapt.grape import GrapeSettings
from gravitate.adapt.pop import PopSettings
from gravitate.errors import InputError


@pytest.mark.parametrize("name", sorted(KINDS))
def test_every_mechanism_can_be_switched_on_without_parameters(name: str) -> None:
    (made,) = mechanisms({name: {}})
    assert made.name == name


def test_brokers_do_not_share_mechanisms() -> None:
    named = {"grape": {}}
    assert mechanisms(named)[0] is not mechanisms(named)[0]


def test_parameters_are_those_of_the_page_by_default() -> None:
    grape, pop = settings("grape", {}), settings("pop", {})
    assert isinstance(grape, GrapeSettings)
    assert isinstance(pop, PopSettings)
    assert (grape.session_publications, grape.margin_percent, grape.confirmations) == (100, 5.0, 2)
    assert (pop.traced_max, pop.window_s, pop.newest_weight, pop.traces_min) == (
        50,
        60.0,
        0.25,
        100,
    )


@pytest.mark.parametrize(
    ("name", "given", "says"),
    [
        ("plum", {}, "write one of grape, pop"),
        ("grape", {"weight": 3}, "weight"),
        ("grape", {"session_publications": "many"}, "Expected `int`"),
        ("grape", {"weight_percent": 200.0}, "write 0 to 100"),
        ("grape", {"answer_s_max": 0.0}, "answer_s_max 0.0 is not accepted"),
        ("grape", {"confirmations": 0}, "0 confirmations"),
        ("pop", {"traced_max": 0}, "traced_max 0 is not accepted"),
        ("pop", {"profile_s_max": float("inf")}, "profile_s_max inf is not accepted"),
    ],
)
def test_nonsense_is_refused(name: str, given: dict[str, object], says: str) -> None:
    with pytest.raises(InputError, match=says):
        settings(name, given)


def test_two_that_move_publishers_exclude_each_other() -> None:
    with pytest.raises(InputError, match="'grape' and 'pop' exclude each other"):
        mechanisms({"pop": {}, "grape": {}})
