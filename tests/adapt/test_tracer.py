"""Gatherings end exactly once, whatever happens to neighbours, and none stays for ever."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gravitate.adapt.tracer import Gathering, Gatherings, Trace

PATIENCE_S = 10.0


class Ends:
    """Gatherings, and how they ended."""

    def __init__(self) -> None:
        self.ended: list[tuple[Trace, bool, int]] = []
        self.gatherings: Gatherings[int] = Gatherings(PATIENCE_S, self._complete, self._given_up)

    def _complete(self, trace: Trace, gathering: Gathering[int], now: float) -> None:
        total = gathering.own + sum(gathering.parts.values())
        self.ended.append((trace, True, total))

    def _given_up(self, trace: Trace, gathering: Gathering[int], now: float) -> None:
        self.ended.append((trace, False, 0))


T1, T2 = Trace("p", 1, 1), Trace("p", 1, 2)


def test_with_nobody_to_wait_for_it_is_complete_at_once() -> None:
    ends = Ends()
    ends.gatherings.open(T1, "up", 3, (), 0.0)
    assert ends.ended == [(T1, True, 3)]


def test_it_is_complete_with_the_last_answer() -> None:
    ends = Ends()
    ends.gatherings.open(T1, "up", 1, ("b", "c"), 0.0)
    ends.gatherings.answered(T1, "b", 2, 1.0)
    ends.gatherings.answered(T1, "b", 100, 1.0)
    ends.gatherings.answered(T1, "stranger", 100, 1.0)
    assert ends.ended == []
    ends.gatherings.answered(T1, "c", 4, 2.0)
    assert ends.ended == [(T1, True, 7)]


def test_who_does_not_answer_is_not_counted_as_nothing() -> None:
    ends = Ends()
    ends.gatherings.open(T1, None, 1, ("b",), 0.0)
    ends.gatherings.open(T2, None, 1, ("b",), 5.0)
    ends.gatherings.expire(10.0)
    assert ends.ended == [(T1, False, 0)]
    assert ends.gatherings.next_at() == 15.0


def test_a_lost_neighbour_ends_what_waits_for_it_and_drops_what_it_asked_for() -> None:
    ends = Ends()
    ends.gatherings.open(T1, "up", 1, ("b",), 0.0)
    ends.gatherings.open(T2, "b", 1, ("c",), 0.0)
    ends.gatherings.lost("b", 1.0)
    assert ends.ended == [(T1, False, 0)]
    assert len(ends.gatherings) == 0


steps = st.lists(
    st.one_of(
        st.tuples(st.just("open"), st.integers(1, 4), st.sets(st.sampled_from("bcd")).map(sorted)),
        st.tuples(st.just("answer"), st.integers(1, 4), st.sampled_from("bcd")),
        st.tuples(st.just("refuse"), st.integers(1, 4), st.sampled_from("bcd")),
        st.tuples(st.just("lose"), st.just(0), st.sampled_from("bcd")),
        st.tuples(st.just("wait"), st.integers(1, 12), st.just("")),
    ),
    max_size=40,
)


@given(steps)
def test_they_end_as_a_plain_model_says(actions: list[tuple[str, int, object]]) -> None:
    ends = Ends()
    model: dict[Trace, tuple[float, set[str]]] = {}
    expected: list[tuple[Trace, bool]] = []
    now = 0.0
    for what, number, argument in actions:
        trace = Trace("p", 1, number)
        match what:
            case "open":
                assert isinstance(argument, list)
                ends.gatherings.open(trace, "up", 0, argument, now)
                model.pop(trace, None)
                if argument:
                    model[trace] = (now + PATIENCE_S, set(argument))
                else:
                    expected.append((trace, True))
            case "answer":
                ends.gatherings.answered(trace, str(argument), 1, now)
                if trace in model and argument in model[trace][1]:
                    model[trace][1].remove(str(argument))
                    if not model[trace][1]:
                        del model[trace]
                        expected.append((trace, True))
            case "refuse":
                ends.gatherings.refused(trace, str(argument), now)
                if trace in model and argument in model[trace][1]:
                    del model[trace]
                    expected.append((trace, False))
            case "lose":
                ends.gatherings.lost(str(argument), now)
                for gone in [t for t, (_, awaited) in model.items() if argument in awaited]:
                    del model[gone]
                    expected.append((gone, False))
            case "wait":
                now += number
                ends.gatherings.expire(now)
                for late in [t for t, (until, _) in model.items() if until <= now]:
                    del model[late]
                    expected.append((late, False))
        assert [(trace, complete) for trace, complete, _ in ends.ended] == expected
        assert len(ends.gatherings) == len(model)
    ends.gatherings.expire(now + PATIENCE_S)
    assert len(ends.gatherings) == 0


def test_what_is_forgotten_ends_without_a_word() -> None:
    ends = Ends()
    ends.gatherings.open(T1, "up", 1, ("b",), 0.0)
    ends.gatherings.open(Trace("q", 1, 1), "up", 1, ("b",), 0.0)
    ends.gatherings.forget("p")
    assert (ends.ended, len(ends.gatherings)) == ([], 1)
