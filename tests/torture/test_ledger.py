"""What happened is written down as it happened."""

from __future__ import annotations

import math

from gravitate.torture.ledger import EXTRA, STEADY, ClientSpec, Ledger, Role, link


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


def test_wide_subscribers_want_everything_and_narrow_ones_one_lane() -> None:
    wide = ClientSpec("w", Role.SUBSCRIBER, "b1")
    narrow = ClientSpec("n", Role.SUBSCRIBER, "b1", wide=False)
    assert all(wide.wants(lane) for lane in (*STEADY, EXTRA))
    assert [narrow.wants(lane) for lane in (*STEADY, EXTRA)] == [False, True, False]


def test_a_link_is_the_same_from_both_ends() -> None:
    assert link("b2", "b1") == link("b1", "b2") == ("b1", "b2")
