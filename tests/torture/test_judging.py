"""What was promised and not kept: each kind is found, and nothing else is."""

from __future__ import annotations

import pytest

from gravitate.torture.judging import SETTLE_S, SILENCE_S_MAX, TRANSIT_S
from gravitate.torture.ledger import EXTRA, KILLED, RESTARTED, STEADY, Spot
from tests.torture.scenes import Story

# --- owed and lost ------------------------------------------------------------------------------


def test_a_run_in_which_everything_came_is_kept() -> None:
    story = Story()
    s = story.subscribed(0.0)
    for at in (10.0, 11.0, 12.0):
        story.arrived(s, story.published(at), at + 0.01)
    judgement = story.judged()
    assert judgement.is_kept()
    assert (judgement.owed, judgement.delivered, judgement.lost) == (3, 3, 0)
    assert judgement.longest_silence_s == pytest.approx(0.01)
    assert judgement.examples == ()


def test_what_never_came_is_lost() -> None:
    story = Story()
    story.subscribed(0.0)
    story.published(10.0)
    judgement = story.judged()
    assert judgement.lost == 1
    assert not judgement.is_kept()
    (example,) = judgement.examples
    assert "p/1 of p at b01" in example
    assert "s at b03" in example


def test_what_came_is_counted_as_owed_only_where_it_was() -> None:
    """Not what was sent before the subscription had settled, nor what was never acknowledged, and
    nothing twice."""
    story = Story()
    story.disturbed(("b01", "b02"), 5.0, 20.0)
    s = story.subscribed(10.0)
    early = story.published(20.1)
    late = story.published(20.0 + SETTLE_S + 0.1)
    unacknowledged = story.published(30.0, acknowledged=False)
    for publication in (early, late, late, unacknowledged):
        story.arrived(s, publication, 30.1)
    story.published(40.0)
    judgement = story.judged()
    assert (judgement.owed, judgement.delivered, judgement.lost) == (2, 4, 1)


def test_what_is_owed_goes_by_the_ways_there_had_been_when_it_was_sent() -> None:
    """A second broker that is disturbed concerns nothing that was sent before anybody was there."""
    story = Story()
    story.ledger.seen("s", "b04", 50.0)
    story.disturbed("b04", 5.0, 90.0)
    s = story.subscribed(10.0)
    for at in (20.0, 60.0):
        story.arrived(s, story.published(at), at + 0.1)
    assert story.judged().owed == 1


def test_what_was_not_acknowledged_is_owed_to_nobody() -> None:
    story = Story()
    story.subscribed(0.0)
    story.published(10.0, acknowledged=False)
    assert story.judged().is_kept()


def test_a_subscriber_is_owed_what_it_wants() -> None:
    story = Story()
    story.subscribed(0.0, who="visitor")
    story.published(10.0, lane=STEADY[0])
    story.published(11.0, lane=EXTRA)
    assert story.judged().lost == 0
    story.published(12.0, lane=STEADY[1])
    assert story.judged().lost == 1


def test_what_a_subscriber_had_not_got_when_it_left_is_not_lost() -> None:
    story = Story()
    s = story.subscribed(0.0)
    story.arrived(s, story.published(10.0), 10.1)
    story.published(10.2)
    s.ended_at = 10.3
    assert story.judged().is_kept()


def test_a_gap_is_a_loss_also_for_who_has_left() -> None:
    story = Story()
    s = story.subscribed(0.0)
    story.published(10.0)
    story.arrived(s, story.published(10.2), 10.25)
    s.ended_at = 10.3
    assert story.judged().lost == 1


def test_what_came_of_another_connection_of_the_publisher_makes_no_gap() -> None:
    story = Story()
    s = story.subscribed(0.0)
    story.published(10.0)
    story.arrived(s, story.published(10.2, connection=2), 10.25)
    s.ended_at = 10.3
    assert story.judged().lost == 0


def test_nothing_is_owed_to_who_was_not_there() -> None:
    story = Story()
    story.published(5.0)
    story.subscribed(10.0)
    story.subscribed(0.0).ended_at = 6.0
    assert story.judged().lost == 0


def test_what_was_published_before_the_broker_was_ready_is_not_owed() -> None:
    story = Story()
    story.disturbed("b03", 5.0, 10.0, RESTARTED)
    story.subscribed(9.0, ready_at=10.0)
    story.published(9.5)
    assert story.judged().lost == 0


def test_from_the_moment_that_the_broker_is_ready_everything_is_owed() -> None:
    story = Story()
    story.disturbed("b03", 5.0, 10.0, RESTARTED)
    story.subscribed(9.0, ready_at=10.0)
    story.published(10.01)
    assert story.judged().lost == 1


@pytest.mark.parametrize(("after_s", "lost"), [(SETTLE_S - 0.1, 0), (SETTLE_S + 0.1, 1)])
def test_a_subscription_made_behind_a_cut_settles_a_moment_after_it(
    after_s: float, lost: int
) -> None:
    story = Story()
    story.disturbed(("b01", "b02"), 5.0, 20.0)
    story.subscribed(10.0)
    story.published(20.0 + after_s)
    assert story.judged().lost == lost


def test_a_cut_elsewhere_does_not_keep_a_subscription_from_settling() -> None:
    story = Story()
    story.disturbed(("b03", "b04"), 5.0, 90.0)
    story.subscribed(10.0, ready_at=float("inf"))
    story.published(10.0 + SETTLE_S + 0.1)
    assert story.judged().lost == 1


def test_a_cut_excuses_no_loss() -> None:
    story = Story()
    story.subscribed(0.0)
    story.disturbed(("b01", "b02"), 9.0, 20.0)
    story.published(10.0)
    assert story.judged().lost == 1


# --- kills --------------------------------------------------------------------------------------


def test_what_a_killed_broker_may_have_had_alone_is_taken_by_the_kill() -> None:
    story = Story()
    story.subscribed(0.0)
    story.published(10.0)
    story.killed("b02", 10.05, 13.0)
    judgement = story.judged()
    assert (judgement.taken_by_kills, judgement.lost) == (1, 0)
    assert judgement.is_kept()


@pytest.mark.parametrize(
    ("broker", "at"),
    [
        ("b02", 10.0 + TRANSIT_S + 0.1),  # it had long passed
        ("b02", 9.9),  # it was not there yet
        ("b04", 10.05),  # it does not come past it
    ],
)
def test_a_kill_excuses_nothing_that_the_broker_cannot_have_had_alone(
    broker: str, at: float
) -> None:
    story = Story()
    story.subscribed(0.0)
    story.published(10.0)
    story.killed(broker, at, at + 3.0)
    judgement = story.judged()
    assert (judgement.taken_by_kills, judgement.lost) == (0, 1)


def test_what_waited_for_a_broker_that_was_away_may_be_taken_by_a_later_kill() -> None:
    story = Story()
    story.subscribed(0.0)
    story.killed("b03", 9.0, 20.0)
    story.published(10.0)
    story.killed("b02", 19.0, 23.0)
    assert story.judged().taken_by_kills == 1


def test_a_restart_excuses_no_loss() -> None:
    story = Story()
    story.subscribed(0.0)
    story.published(10.0)
    story.disturbed("b02", 10.05, 13.0, RESTARTED)
    assert story.judged().lost == 1


def test_the_second_broker_of_a_moved_client_may_have_had_it_alone() -> None:
    story = Story()
    story.subscribed(0.0)
    story.ledger.seen("s", "b04", 9.0)
    story.published(10.0)
    story.killed("b04", 10.05, 13.0)
    assert story.judged().taken_by_kills == 1


def test_where_a_client_was_long_ago_is_no_excuse() -> None:
    story = Story()
    story.subscribed(0.0)
    story.ledger.seen("s", "b04", 2.0)
    story.published(10.0)
    story.killed("b04", 10.05, 13.0)
    assert story.judged().lost == 1


# --- doubled and reordered ----------------------------------------------------------------------


def test_what_comes_twice_is_doubled() -> None:
    story = Story()
    s = story.subscribed(0.0)
    one = story.published(10.0)
    story.arrived(s, one, 10.1)
    story.arrived(s, one, 10.2)
    judgement = story.judged()
    assert (judgement.doubled, judgement.reordered) == (1, 0)
    assert not judgement.is_kept()


def test_what_was_sent_twice_may_come_twice() -> None:
    story = Story()
    s = story.subscribed(0.0)
    one = story.published(10.0, acknowledged=False)
    story.arrived(s, one, 10.1)
    story.ledger.sent_anew(one, 2, 12.0)
    story.ledger.acknowledged(one, 12.0)
    story.arrived(s, one, 12.1)
    assert story.judged().is_kept()


def test_another_connection_may_be_given_it_again() -> None:
    story = Story()
    former, later = story.subscribed(0.0), story.subscribed(20.0)
    one = story.published(10.0)
    story.arrived(former, one, 10.1)
    former.ended_at = 15.0
    story.arrived(later, one, 20.1)
    assert story.judged().is_kept()


def test_what_comes_after_a_later_one_is_reordered() -> None:
    story = Story()
    s = story.subscribed(0.0)
    one, two = story.published(10.0), story.published(11.0)
    story.arrived(s, two, 11.1)
    story.arrived(s, one, 11.2)
    judgement = story.judged()
    assert (judgement.reordered, judgement.doubled) == (1, 0)
    assert not judgement.is_kept()


def test_order_is_that_of_one_connection_of_the_publisher() -> None:
    story = Story()
    s = story.subscribed(0.0)
    one, two = story.published(10.0, connection=1), story.published(11.0, connection=2)
    story.arrived(s, two, 11.1)
    story.arrived(s, one, 11.2)
    assert story.judged().is_kept()


# --- silence ------------------------------------------------------------------------------------


def test_what_comes_too_late_for_no_reason_breaks_a_promise() -> None:
    story = Story()
    s = story.subscribed(0.0)
    story.arrived(s, story.published(10.0), 10.0 + SILENCE_S_MAX + 0.1)
    judgement = story.judged()
    assert judgement.longest_silence_s == pytest.approx(SILENCE_S_MAX + 0.1)
    assert not judgement.is_kept()
    assert "p/1" in judgement.examples[0]


def test_a_disturbance_on_the_way_is_a_reason() -> None:
    story = Story()
    s = story.subscribed(0.0)
    story.disturbed(("b02", "b03"), 9.0, 29.0)
    story.arrived(s, story.published(10.0), 30.0)
    judgement = story.judged()
    assert judgement.longest_silence_s == pytest.approx(1.0)
    assert judgement.longest_wait_s == pytest.approx(20.0)
    assert judgement.is_kept()


def test_a_disturbance_elsewhere_is_none() -> None:
    story = Story(end="b02")
    s = story.subscribed(0.0)
    story.disturbed("b03", 9.0, 29.0)
    story.arrived(s, story.published(10.0), 30.0)
    assert story.judged().longest_silence_s == pytest.approx(20.0)


def test_silence_until_the_subscriber_leaves_counts_too() -> None:
    story = Story()
    story.subscribed(0.0).ended_at = 30.0
    story.published(10.0)
    judgement = story.judged()
    assert judgement.lost == 0
    assert judgement.longest_silence_s == pytest.approx(20.0)


def test_a_second_broker_that_is_away_is_no_reason() -> None:
    story = Story(home="b01", end="b01")
    s = story.subscribed(0.0)
    story.ledger.seen("s", "b03", 9.5)
    story.disturbed("b03", 9.0, 29.0)
    story.arrived(s, story.published(10.0), 30.0)
    assert story.judged().longest_silence_s == pytest.approx(20.0)


def test_but_it_may_be_alone_in_having_what_came_before() -> None:
    story = Story(home="b01", end="b01")
    s = story.subscribed(0.0)
    story.ledger.seen("s", "b03", 9.5)
    story.disturbed("b03", 10.05, 29.0, "paused")
    story.arrived(s, story.published(10.0), 30.0)
    assert story.judged().longest_silence_s == pytest.approx(1.0)


@pytest.mark.parametrize("spot", ["b03", ("b01", "b03")])
def test_who_is_killed_or_cut_off_is_alone_in_having_nothing_that_comes_later(spot: Spot) -> None:
    story = Story(home="b01", end="b01")
    s = story.subscribed(0.0)
    story.ledger.seen("s", "b03", 9.5)
    story.disturbed(spot, 10.05, 29.0, KILLED)
    story.arrived(s, story.published(10.0), 30.0)
    assert story.judged().longest_silence_s == pytest.approx(20.0)


def test_nor_is_the_link_to_it() -> None:
    story = Story(home="b01", end="b01")
    s = story.subscribed(0.0)
    story.ledger.seen("s", "b03", 9.5)
    story.disturbed(("b01", "b03"), 9.0, 29.0)
    story.arrived(s, story.published(10.0), 30.0)
    assert story.judged().longest_silence_s == pytest.approx(20.0)


def test_what_lies_between_is_a_reason_and_told_apart() -> None:
    story = Story(home="b01", end="b01")
    s = story.subscribed(0.0)
    for at in (9.5, 14.0, 19.0, 24.0, 29.0):
        story.ledger.seen("s", "b03", at)
    story.disturbed("b02", 9.0, 29.0)
    story.arrived(s, story.published(10.0), 30.0)
    judgement = story.judged()
    assert judgement.longest_silence_s == pytest.approx(1.0)
    assert judgement.longest_detour_s == pytest.approx(20.0)


# --- closed -------------------------------------------------------------------------------------


def test_a_client_may_be_closed_when_its_broker_is_ended() -> None:
    story = Story()
    story.disturbed("b03", 9.0, 12.0, RESTARTED)
    story.ledger.closed("s", 9.1, "DISCONNECT SERVER_SHUTTING_DOWN")
    assert story.judged().is_kept()


@pytest.mark.parametrize(("broker", "what"), [("b03", "paused"), ("b02", RESTARTED)])
def test_a_client_that_is_closed_for_anything_else_breaks_a_promise(broker: str, what: str) -> None:
    story = Story()
    story.disturbed(broker, 9.0, 12.0, what)
    story.ledger.closed("s", 9.1, "DISCONNECT KEEP_ALIVE_TIMEOUT")
    judgement = story.judged()
    assert judgement.closed_without_cause == 1
    assert not judgement.is_kept()
    assert judgement.examples == ("s at b03 was closed at 9.100 s: DISCONNECT KEEP_ALIVE_TIMEOUT",)
