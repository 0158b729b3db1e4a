"""What happened is written down as it happened."""

from __future__ import annotations

import math

from gravitate.torture.ledger import (
    EXTRA,
    STAYING,
    STEADY,
    VISITING,
    ClientSpec,
    Ledger,
    Role,
    link,
)


def test_publications_are_numbered_by_their_publisher() -> None:
    ledger = Ledger([ClientSpec("p", Role.PUBLISHER, "b1"), ClientSpec("q", Role.PUBLISHER, "b2")])
    numbers = [ledger.published(who, STEADY[0], 1, 0.0).number for who in ("p", "q", "p")]
    assert numbers == [1, 1, 2]
    assert len(list(ledger.all_publications())) == 3


def test_what_is_sent_anew_counts_from_then_on() -> None:
    ledger = Ledger([ClientSpec("p", Role.PUBLISHER, "b1")])
    one = ledger.published("p", STEADY[0], 1, 5.0)
    assert one.acknowledged_at == math.inf
    ledger.sent_anew(one, 2, 7.0)
    ledger.acknowledged(one, 7.5)
    assert (one.resent, one.connection, one.sent_at, one.acknowledged_at) == (True, 2, 7.0, 7.5)


def test_what_visitors_want_nobody_wants_who_stays() -> None:
    assert {*STAYING, *VISITING} == {*STEADY, EXTRA}
    assert not {*STAYING} & {*VISITING}


def test_a_link_is_the_same_from_both_ends() -> None:
    assert link("b2", "b1") == link("b1", "b2") == ("b1", "b2")
