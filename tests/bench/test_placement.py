"""The placement benchmark times a selection that agrees with the algorithms it is compared to."""

from __future__ import annotations

import pytest

from gravitate.bench import placement
from gravitate.errors import InputError
from gravitate.plan.placement.grape import select


def test_it_reports_milliseconds_beside_the_literal_algorithm() -> None:
    (record,) = placement.run(["grape-63"], rounds=3)
    assert (record.bench, record.case, record.unit) == ("placement", "grape-63", "ms")
    assert record.baseline is not None
    assert record.ratio == record.baseline / record.value


def test_the_largest_case_has_no_baseline() -> None:
    (record,) = placement.run(["grape-10000"], rounds=1)
    assert (record.baseline, record.ratio) == (None, None)


@pytest.mark.parametrize("count", placement.CASES.values())
def test_every_broker_answers_with_100_bits_and_something_is_to_be_gained(count: int) -> None:
    given = placement.answers(count)
    assert len(given) == count
    assert all(int.from_bytes(answer.delivered, "little").bit_length() <= 100 for answer in given)
    choice = select(given, placement.CURRENT, placement.SETTING)
    assert len(choice.candidates()) == count
    assert choice.best != placement.CURRENT


def test_an_unknown_case_is_refused_by_name() -> None:
    with pytest.raises(InputError, match="grape-9"):
        placement.run(["grape-9"])
