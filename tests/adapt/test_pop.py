"""POP's tracing: tags, profiles and requests are what the page says, and nothing stays behind."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gravitate.adapt.pop import Pop, PopSettings, Profile, RelocationRequest
from gravitate.broker.interface.inputs import ClientConnected, ClientPublished
from gravitate.model.events import Batch, Event, PlainBodies
from gravitate.model.moves import Rationale
from gravitate.overlay.shapes import random_tree
from gravitate.overlay.tree import neighbours, path
from gravitate.plan.flow.flow import rooted
from gravitate.plan.placement.placement import closest_brokers, network_of, profiles_of
from gravitate.plan.placement.pop import next_hop
from tests.support.wired import Wired, at

EVERYTHING = PopSettings(traced_max=1_000_000, traces_min=4, answer_s_max=5.0, profile_s_max=30.0)
"""Practically every publication is tagged."""


class Recording(Pop):
    """Keeps the paths that are found instead of acting on them."""

    def __init__(self, settings: PopSettings) -> None:
        super().__init__(settings)
        self.found: list[tuple[str, ...]] = []

    def selected(
        self,
        publisher: str,
        path: tuple[str, ...],
        why: Callable[[str], Rationale | None],
        now: float,
    ) -> None:
        self.found.append(path)


class Scene:
    """A publisher at b0 of a tree, and subscribers of everything, so many at each broker."""

    def __init__(
        self, links: list[tuple[int, int]], subscribers: list[int], settings: PopSettings
    ) -> None:
        names = [(f"b{one}", f"b{other}") for one, other in links]
        self.mechanisms = {f"b{n}": Recording(settings) for n in range(len(subscribers))}
        self.wired = Wired(names, mechanisms={n: [m] for n, m in self.mechanisms.items()})
        for broker, count in enumerate(subscribers):
            for number in range(count):
                self.wired.connect(f"b{broker}", f"s{broker}.{number}")
                self.wired.subscribe(f"b{broker}", f"s{broker}.{number}", "x > 0")
        self.wired.tell("b0", ClientConnected(at("pub"), "pub", 1, 65535, True, 1, follows=True))
        self.published = 0

    def publish(self, count: int = 1, x: int = 1) -> None:
        for _ in range(count):
            self.published += 1
            bodies = PlainBodies((Event({"topic": "t", "x": x}),))
            self.wired.tell("b0", ClientPublished(at("pub"), bodies, 1, self.published))

    def profile(self, broker: str) -> tuple[dict[str, float], float]:
        return self.mechanisms[broker]._profiles["pub"].counts()

    def is_idle(self) -> bool:
        return all(mechanism.is_idle() for mechanism in self.mechanisms.values())


def tree_and_subscribers() -> st.SearchStrategy[tuple[list[tuple[int, int]], list[int]]]:
    return st.integers(2, 9).flatmap(
        lambda count: st.tuples(
            st.integers(0, 1000).map(lambda seed: random_tree(count, seed)),
            st.lists(st.integers(0, 3), min_size=count, max_size=count),
        )
    )


@settings(max_examples=40, deadline=None)
@given(tree_and_subscribers())
def test_profiles_count_the_subscribers_behind_each_neighbour(
    drawn: tuple[list[tuple[int, int]], list[int]],
) -> None:
    links, subscribers = drawn
    scene = Scene(links, subscribers, EVERYTHING)
    scene.publish(2)
    near = neighbours(range(len(subscribers)), links)  # type: ignore[type-var]
    for broker in range(len(subscribers)):
        mechanism = scene.mechanisms[f"b{broker}"]
        if "pub" not in mechanism._profiles:
            continue
        downstream, local = scene.profile(f"b{broker}")
        assert local == subscribers[broker]
        for other in near[broker]:  # type: ignore[index]
            behind = sum(
                count
                for far, count in enumerate(subscribers)
                if other in path(near, broker, far) and far != broker  # type: ignore[arg-type, operator]
            )
            is_upstream = other in path(near, broker, 0)  # type: ignore[arg-type, operator]
            if not is_upstream:
                assert downstream.get(f"b{other}", 0.0) == behind


@settings(max_examples=40, deadline=None)
@given(tree_and_subscribers())
def test_requests_end_where_the_plan_for_all_publishers_says(
    drawn: tuple[list[tuple[int, int]], list[int]],
) -> None:
    links, subscribers = drawn
    scene = Scene(links, subscribers, EVERYTHING)
    scene.publish(4)
    tree = rooted(len(subscribers), links)
    places = [broker for broker, count in enumerate(subscribers) if count] or [0]
    rows = len(places)
    profiles = profiles_of(
        [0],
        [0] * rows,
        places,
        [0] * rows,
        [1] * rows,
        [float(subscribers[broker]) for broker in places],
    )
    (target,) = closest_brokers(network_of(tree), profiles)
    (found,) = scene.mechanisms["b0"].found
    assert found[0] == "b0"
    assert found[-1] == f"b{target}"
    near = neighbours(range(len(subscribers)), links)  # type: ignore[type-var]
    assert [f"b{n}" for n in path(near, 0, int(target)) or ()] == list(found)  # type: ignore[arg-type]
    scene.wired.pass_time(60)
    assert scene.is_idle()


def test_newer_values_weigh_a_quarter_and_what_was_not_sent_counts_nothing() -> None:
    scene = Scene([(0, 1)], [0, 2], EVERYTHING)
    scene.publish()
    assert scene.profile("b0") == ({"b1": 2.0}, 0.0)
    scene.publish(x=0)
    assert scene.profile("b0") == ({"b1": 1.5}, 0.0)


def test_tags_thin_out_within_a_window_and_begin_anew_with_the_next() -> None:
    mechanism = Scene([(0, 1)], [0, 0], PopSettings(traced_max=10, traces_min=10_000))
    first = mechanism.mechanisms["b0"]

    def tags(count: int, at: float, first_counter: int) -> list[bool]:
        return [
            first.mark(
                Batch("pub", 1, range(n, n + 1), PlainBodies((Event({}),))),
                at,
            )
            == n
            for n in range(first_counter, first_counter + count)
        ]

    found = tags(2000, 0.0, 1)
    assert found[0]
    assert sum(found) == 10
    assert sum(found[:10]) > sum(found[10:20])
    again = tags(2000, 60.0, 3000)
    assert again[0]
    assert sum(again) == 10


def test_one_publication_of_a_batch_is_tagged_and_only_it_is_answered() -> None:
    scene = Scene([(0, 1)], [0, 1], EVERYTHING)
    bodies = PlainBodies([Event({"topic": "t", "x": x}) for x in (0, 1, 1)])
    scene.wired.tell("b0", ClientPublished(at("pub"), bodies, 1, 1))
    # The first was tagged, and nobody wanted it.
    assert scene.profile("b0") == ({}, 0.0)


def test_a_trace_without_an_answer_is_dropped_and_not_counted() -> None:
    scene = Scene([(0, 1), (1, 2)], [0, 0, 1], EVERYTHING)
    scene.publish(3)
    scene.wired.lose("b1", "b2")
    scene.publish(1)
    assert scene.mechanisms["b0"].found == []
    scene.wired.pass_time(6)
    assert scene.profile("b0") == ({"b1": 1.0}, 0.0)
    assert scene.mechanisms["b0"].found == []
    scene.wired.heal("b1", "b2")
    scene.publish(1)
    assert scene.mechanisms["b0"].found == [("b0", "b1", "b2")]


def test_a_broker_without_a_profile_finds_nothing() -> None:
    scene = Scene([(0, 1), (1, 2)], [0, 0, 1], EVERYTHING)
    scene.publish(3)
    scene.mechanisms["b1"].forget("pub")
    scene.mechanisms["b2"].forget("pub")
    first = scene.mechanisms["b0"]
    first._profiles["pub"].add(0, {"b1": 1}, 1.0)
    first._publishers["pub"].traced = 4
    first._may_select("pub", first._publishers["pub"], scene.wired.now)
    scene.wired.tell("b0")
    assert first.found == []
    assert first._publishers["pub"].traced == 0


@pytest.mark.parametrize("seconds", [31, 100])
def test_profiles_that_nothing_is_added_to_go(seconds: float) -> None:
    scene = Scene([(0, 1)], [0, 1], EVERYTHING)
    scene.publish(2)
    assert not scene.is_idle()
    scene.wired.pass_time(seconds)
    assert scene.is_idle()


def test_a_broker_reached_by_few_publications_counts_in_the_measure_of_all() -> None:
    """Nine subscribers behind b1 want one publication in ten, and it sees no others; elsewhere two
    want every one. By what b1 alone sees, a request that came to it would go on."""
    profile = Profile(1, "b0")
    profile.add(0, {"b2": 9}, 0.25)
    request = RelocationRequest("pub", 1, ("b0",), behind=2.0, ahead=0.9)
    downstream, local = profile.counts(request)
    assert downstream == {"b2": pytest.approx(0.9)}
    assert next_hop(downstream, local, "b0", request.behind) is None
