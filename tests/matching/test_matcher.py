"""The matcher answers as the semantics do, whatever was added and removed before."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence

import hypothesis.strategies as st
import pytest
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from tests.support.strategies import events, filters, raw_filters

from gravitate.matching import Matcher
from gravitate.model.events import Attributes, Value
from gravitate.model.filters import EVERYTHING, NOTHING, Filter, Op, Predicate
from gravitate.model.semantics import matches

Live = dict[int, tuple[Filter, int]]


def expected(live: Live, event: Attributes) -> tuple[int, ...]:
    return tuple(sorted({to for filter, to in live.values() if matches(filter, event)}))


def answers_of_all_paths(
    matcher: Matcher, batch: Sequence[Attributes]
) -> list[list[tuple[int, ...]]]:
    """One event at a time, in turn within one call, and block by block."""
    in_turn: list[tuple[int, ...]] = []
    blockwise: list[tuple[int, ...]] = []
    matcher._match_many(batch, in_turn, blockwise_from=1 << 60)
    matcher._match_many(batch, blockwise, blockwise_from=0)
    one_by_one = [answer for event in batch for answer in matcher.match([event])]
    return [one_by_one, in_turn, blockwise]


class MatcherAgainstSemantics(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.matcher = Matcher()
        self.live: Live = {}
        self.next_key = 0

    @rule(filter=filters | raw_filters, destination=st.integers(0, 5))
    def add(self, filter: Filter, destination: int) -> None:
        version = self.matcher.version
        self.matcher.add(self.next_key, filter, destination)
        self.live[self.next_key] = (filter, destination)
        self.next_key += 1
        assert self.matcher.version > version

    @precondition(lambda self: self.live)
    @rule(data=st.data())
    def remove(self, data: st.DataObject) -> None:
        key = data.draw(st.sampled_from(sorted(self.live)))
        version = self.matcher.version
        self.matcher.remove(key)
        del self.live[key]
        assert self.matcher.version > version

    @precondition(lambda self: self.live)
    @rule()
    def rearrange(self) -> None:
        self.matcher._rearrange()

    @rule(batch=st.lists(events, min_size=1, max_size=4))
    def match(self, batch: list[dict[str, Value]]) -> None:
        wanted = [expected(self.live, event) for event in batch]
        for answers in answers_of_all_paths(self.matcher, batch):
            assert answers == wanted

    @invariant()
    def counts_live_filters(self) -> None:
        assert len(self.matcher) == len(self.live)

    def teardown(self) -> None:
        for key in self.live:
            self.matcher.remove(key)
        assert self.matcher.attributes == frozenset()
        assert self.matcher.match([{"x": 5.0, "topic": "a/b"}]) == [()]


TestMatcherAgainstSemantics = MatcherAgainstSemantics.TestCase
TestMatcherAgainstSemantics.settings = settings(max_examples=60, stateful_step_count=40)


def interval(name: str, low: float, high: float) -> tuple[Predicate, Predicate]:
    return Predicate(name, Op.GE, low), Predicate(name, Op.LT, high)


def random_filter(rng: random.Random) -> Filter:
    """Ranges narrow and wide, symbols and topics: enough alike to fill blocks."""
    conjunction: list[Predicate] = []
    for name in rng.sample([f"n{i}" for i in range(20)], rng.randrange(1, 5)):
        low = rng.random()
        conjunction += interval(name, low, low + rng.choice((0.01, 0.1, 0.5)))
    if rng.random() < 0.4:
        conjunction.append(Predicate("symbol", Op.EQ, rng.choice("ABCD")))
    if rng.random() < 0.3:
        pattern = "/".join(rng.choice(("a", "b", "+")) for _ in range(3))
        conjunction.append(Predicate("topic", Op.TOPIC, pattern))
    if rng.random() < 0.1:
        conjunction.append(Predicate("symbol", Op.LIKE, "%A%"))
    return Filter((tuple(conjunction),))


def random_event(rng: random.Random) -> dict[str, Value]:
    event: dict[str, Value] = {f"n{i}": rng.random() for i in range(20) if rng.random() < 0.9}
    event["symbol"] = rng.choice("ABCDE")
    event["topic"] = "/".join(rng.choice("ab") for _ in range(3))
    return event


@pytest.mark.parametrize("seed", range(3))
def test_large_tables_with_churn_answer_as_the_semantics_do(seed: int) -> None:
    rng = random.Random(seed)
    matcher = Matcher()
    live: Live = {}
    for key in range(6000):
        filter = random_filter(rng)
        live[key] = (filter, rng.randrange(3000))
        matcher.add(key, *live[key])
        if key % 3 == 2:
            gone = rng.choice(list(live)) if key % 300 == 2 else key - 1
            if gone in live:
                matcher.remove(gone)
                del live[gone]
    batch = [random_event(rng) for _ in range(40)]
    wanted = [expected(live, event) for event in batch]
    assert sum(map(len, wanted)) > 100
    for answers in answers_of_all_paths(matcher, batch):
        assert answers == wanted


def test_removed_filters_leave_their_room_to_new_ones() -> None:
    rng = random.Random(5)
    matcher = Matcher()
    filters = [random_filter(rng) for _ in range(500)]
    for key, filter in enumerate(filters):
        matcher.add(key, filter, 0)
    capacities = []
    for _ in range(20):
        for key, filter in enumerate(filters):
            matcher.remove(key)
            matcher.add(key, filter, 0)
        capacities.append(list(matcher._arena.capacity))
    assert capacities[4] == capacities[-1]


def test_texts_and_names_nobody_asks_for_any_more_are_forgotten() -> None:
    matcher = Matcher()
    capacities = []
    for key in range(2000):
        predicate = Predicate(f"name{key}", Op.EQ, f"text{key}")
        numeric = Predicate(f"name{key}", Op.LT, float(key))
        matcher.add(key, Filter(((predicate,), (numeric,))), 0)
        matcher.remove(key)
        capacities.append(list(matcher._arena.capacity))
    assert capacities[100] == capacities[-1]


def test_everything_and_nothing() -> None:
    matcher = Matcher()
    matcher.add(0, EVERYTHING, 7)
    matcher.add(1, NOTHING, 8)
    assert matcher.match([{}, {"x": 1}]) == [(7,), (7,)]
    assert matcher.match([{}]) == [(7,)]
    assert matcher.match([]) == []
    assert len(matcher) == 2
    assert matcher.attributes == frozenset()


def test_unsatisfiable_conjunctions_never_match() -> None:
    matcher = Matcher()
    never = (
        (Predicate("x", Op.GT, 5.0), Predicate("x", Op.LT, 5.0)),
        (Predicate("x", Op.IN, ()),),
        (Predicate("x", Op.GT, math.inf),),
        (Predicate("x", Op.LT, True),),
    )
    for key, conjunction in enumerate(never):
        matcher.add(key, Filter((conjunction,)), key)
    assert matcher.match([{"x": 5.0}]) == [()]
    assert matcher.match([{"x": math.inf}, {"x": True}, {"x": "5"}]) == [(), (), ()]


def test_a_destination_is_named_once_however_many_filters_match() -> None:
    matcher = Matcher()
    for key in range(100):
        matcher.add(key, Filter((interval("x", 0.0, float(key)),)), key % 3)
    assert matcher.match([{"x": 1.0}]) == [(0, 1, 2)]
    assert matcher.match([{"x": 1.0}, {"x": 98.5}]) == [(0, 1, 2), (0,)]


def test_truth_and_number_literals_in_sets_are_told_apart() -> None:
    matcher = Matcher()
    matcher.add(0, Filter(((Predicate("x", Op.IN, (True, "a")),),)), 0)
    matcher.add(1, Filter(((Predicate("x", Op.IN, (1.0, "a")),),)), 1)
    events: list[dict[str, Value]] = [{"x": True}, {"x": 1}, {"x": "1"}, {"x": "a"}]
    assert matcher.match(events) == [(0,), (1,), (1,), (0, 1)]


def test_attributes_are_those_of_live_filters() -> None:
    matcher = Matcher()
    matcher.add(0, Filter(((Predicate("a", Op.LIKE, "%x%"), Predicate("b", Op.LT, 1.0)),)), 0)
    matcher.add(1, Filter(((Predicate("b", Op.MISSING),), (Predicate("c", Op.EXISTS),))), 0)
    assert matcher.attributes == {"a", "b", "c"}
    matcher.remove(0)
    assert matcher.attributes == {"b", "c"}
    matcher.remove(1)
    assert matcher.attributes == frozenset()


def test_more_hits_than_a_batch_has_room_for_are_all_answered() -> None:
    matcher = Matcher()
    for key in range(5000):
        matcher.add(key, EVERYTHING, key)
    batch: list[dict[str, Value]] = [{} for _ in range(20)]
    assert matcher.match(batch) == [tuple(range(5000))] * 20
