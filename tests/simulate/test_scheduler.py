"""The clock runs what is due, in time order, ties in the order of priority and scheduling."""

from __future__ import annotations

import random

from gravitate.simulate.scheduler import FIRST, Scheduler


def test_actions_run_in_time_order_and_the_clock_follows() -> None:
    scheduler, seen = Scheduler(), list[tuple[float, str]]()
    for at_s, name in ((3.0, "c"), (1.0, "a"), (2.0, "b")):
        scheduler.at(at_s, lambda name: seen.append((scheduler.now, name)), name)
    assert scheduler.run() == 3
    assert seen == [(1.0, "a"), (2.0, "b"), (3.0, "c")]


def test_ties_go_by_priority_then_by_the_order_of_scheduling() -> None:
    scheduler, seen = Scheduler(), list[str]()
    scheduler.at(1.0, seen.append, "second")
    scheduler.at(1.0, seen.append, "third")
    scheduler.at(1.0, seen.append, "first", FIRST)
    scheduler.run()
    assert seen == ["first", "second", "third"]


def test_an_action_may_schedule_at_the_present_and_a_past_time_means_now() -> None:
    scheduler, seen = Scheduler(), list[tuple[float, str]]()

    def act(_: None) -> None:
        scheduler.at(0.5, lambda name: seen.append((scheduler.now, name)), "late")
        scheduler.after(0.0, lambda name: seen.append((scheduler.now, name)), "now")

    scheduler.at(1.0, act, None)
    scheduler.run()
    assert seen == [(1.0, "late"), (1.0, "now")]


def test_running_until_a_time_includes_it_and_leaves_the_rest() -> None:
    scheduler, seen = Scheduler(), list[int]()
    for at_s in (1, 2, 3):
        scheduler.at(float(at_s), seen.append, at_s)
    scheduler.run(until_s=2.0)
    assert (seen, scheduler.now, len(scheduler)) == ([1, 2], 2.0, 1)
    scheduler.run(until_s=10.0)
    assert (seen, scheduler.now, len(scheduler)) == ([1, 2, 3], 10.0, 0)


def test_a_bound_on_actions_stops_the_clock_where_it_is() -> None:
    scheduler, seen = Scheduler(), list[int]()
    for number in range(5):
        scheduler.at(float(number), seen.append, number)
    assert scheduler.run(until_s=100.0, actions_max=2) == 2
    assert (seen, scheduler.now) == ([0, 1], 1.0)


def test_random_schedules_come_out_sorted() -> None:
    generator, scheduler, seen = random.Random(1), Scheduler(), list[tuple[float, int]]()
    for number in range(500):
        at_s = generator.choice((1.0, 2.0, generator.random()))
        scheduler.at(at_s, seen.append, (at_s, number))
    scheduler.run()
    assert seen == sorted(seen)
