"""GRAPE chooses what Algorithms 1 to 3 of the paper choose, whatever the tree."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Mapping
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.plan.placement import literal_grape

from gravitate.errors import InputError
from gravitate.overlay.shapes import balanced_tree, random_tree
from gravitate.overlay.tree import neighbours, path
from gravitate.plan.placement.grape import METRICS, Answer, GrapeParameters, Measured, select

SETTINGS = [
    GrapeParameters(metric, weight, margin_percent=0)
    for metric in METRICS
    for weight in (0, 1, 25, 50, 75, 99, 100)
]


class Case:
    """A delivery tree within a larger network. Figures are multiples of 1/1024, so that sums are
    exact in whatever order they are taken, and equal is equal."""

    def __init__(self, draw: st.DrawFn) -> None:
        count = draw(st.integers(1, 9))
        self.names = draw(st.permutations([f"b{index}" for index in range(count)]))
        links = [
            (self.names[draw(st.integers(0, index - 1))], self.names[index])
            for index in range(1, count)
        ]
        self.near = neighbours(self.names, links)
        words = draw(st.integers(1, 3))
        ticks = st.integers(0, 7).map(lambda ticks: ticks / 1024)
        self.answers = []
        for name in self.names:
            near = draw(st.permutations([*self.near[name], f"{name}-silent"]))
            link_s = {other: draw(ticks) for other in near if draw(st.booleans())}
            bits = draw(st.one_of(st.just(0), st.integers(0, 2 ** (64 * words) - 1)))
            measured = Measured(
                deliveries=draw(st.integers(0, 20)),
                queue_s={other: draw(ticks) for other in near},
                input_queue_s=draw(ticks),
                matching_s=draw(ticks),
                client_queue_s=draw(ticks),
                link_s=link_s,
            )
            self.answers.append(Answer.of(name, bits.to_bytes(8 * words, "little"), measured))
        self.current = draw(st.sampled_from(self.names))
        self.to_publisher_s: dict[str, float] | None = None
        if draw(st.booleans()):
            known = draw(st.sets(st.sampled_from(self.names)))
            self.to_publisher_s = {name: draw(ticks) for name in sorted(known)}

    def candidates(self) -> set[str]:
        known = self.names if self.to_publisher_s is None else self.to_publisher_s
        return {self.current, *known}


cases = st.composite(Case)()


def tree(
    links: list[tuple[int, int]],
    deliveries: Mapping[str, int],
    hop_s: float = 1 / 64,
    bits: Mapping[str, int] | None = None,
) -> list[Answer]:
    """Answers of brokers that all take the same time; deliveries are of as many publications."""
    count = len(links) + 1
    names = [f"b{index}" for index in range(count)]
    near = neighbours(names, [(f"b{one}", f"b{other}") for one, other in links])
    found = []
    for name in names:
        number = deliveries.get(name, 0)
        vector = (bits or {}).get(name, 2**number - 1)
        measured = Measured(number, dict.fromkeys(near[name], hop_s))
        found.append(Answer.of(name, vector.to_bytes(16, "little"), measured))
    return found


@given(cases)
def test_every_candidate_has_the_metrics_of_the_literal_algorithms(case: Case) -> None:
    choice = select(case.answers, case.current, to_publisher_s=case.to_publisher_s)
    literal = literal_grape.metrics(case.answers, case.to_publisher_s)
    found = choice.candidates()
    assert found.keys() == case.candidates()
    for broker, figures in found.items():
        delay_s, messages = literal[broker]
        assert figures.delay_s == pytest.approx(float(delay_s), rel=1e-12)
        assert figures.messages == messages
        assert choice.figures(broker) == figures


@given(cases, st.sampled_from(SETTINGS))
def test_the_choice_is_that_of_the_literal_selection(case: Case, setting: GrapeParameters) -> None:
    choice = select(case.answers, case.current, setting, case.to_publisher_s)
    literal = literal_grape.metrics(case.answers, case.to_publisher_s)
    candidates = {broker: literal[broker] for broker in case.candidates()}
    assert choice.best == literal_grape.chosen(
        candidates, case.current, setting.prioritised, int(setting.weight_percent)
    )


@given(cases)
def test_the_metrics_are_those_of_every_event_followed_on_its_way(case: Case) -> None:
    found = select(case.answers, case.current).candidates()
    answers = {answer.broker: answer for answer in case.answers}
    measured = {name: answer.measured() for name, answer in answers.items()}
    vectors = {n: int.from_bytes(a.delivered, "little") for n, a in answers.items()}

    def hop_s(one: str, other: str) -> float:
        link_s = measured[one].link_s.get(other, measured[other].link_s.get(one, 0.0))
        here = measured[one]
        return here.input_queue_s + here.matching_s + here.queue_s[other] + link_s

    for candidate, figures in found.items():
        ways = {name: path(case.near, candidate, name) or [] for name in case.names}
        visits = 0
        for event in range(192):
            wanted_at = [name for name in case.names if vectors[name] >> event & 1]
            visits += len({broker for name in wanted_at for broker in ways[name]})
        assert figures.messages == visits
        total_s, deliveries = 0.0, 0
        for name, way in ways.items():
            here = measured[name]
            last_s = here.input_queue_s + here.matching_s + here.client_queue_s
            way_s = sum(itertools.starmap(hop_s, itertools.pairwise(way)))
            total_s += here.deliveries * (way_s + last_s)
            deliveries += here.deliveries
        assert figures.delay_s == pytest.approx(total_s / deliveries if deliveries else 0.0)


@given(cases, st.sampled_from(SETTINGS), st.randoms())
def test_the_order_of_answers_does_not_matter(
    case: Case, setting: GrapeParameters, order: random.Random
) -> None:
    choice = select(case.answers, case.current, setting)
    order.shuffle(case.answers)
    assert select(case.answers, case.current, setting).best == choice.best


@given(cases)
def test_nothing_has_less_load_than_load_100_nor_less_delay_than_delay_100(case: Case) -> None:
    choices = {setting: select(case.answers, case.current, setting) for setting in SETTINGS}
    predicted = {setting: choice.figures(choice.best) for setting, choice in choices.items()}
    least = predicted[GrapeParameters("load", 100, margin_percent=0)]
    soonest = predicted[GrapeParameters("delay", 100, margin_percent=0)]
    for figures in predicted.values():
        assert least.messages <= figures.messages
        assert soonest.delay_s <= figures.delay_s + 1e-12


@given(cases, st.sampled_from(SETTINGS))
def test_a_move_never_raises_the_prioritised_metric(case: Case, setting: GrapeParameters) -> None:
    choice = select(case.answers, case.current, setting, case.to_publisher_s)
    before, after = choice.figures(case.current), choice.figures(choice.target)
    if choice.target != case.current:
        assert choice.target == choice.best
        if setting.prioritised == "delay":
            assert after.delay_s < before.delay_s
        else:
            assert after.messages < before.messages


@pytest.mark.parametrize("setting", SETTINGS, ids=str)
def test_with_all_subscribers_at_one_broker_every_setting_chooses_it(
    setting: GrapeParameters,
) -> None:
    links = balanced_tree(15)
    for lone in ("b0", "b4", "b14"):
        answers = tree(links, {lone: 30})
        for current in (f"b{index}" for index in range(15)):
            assert select(answers, current, setting).target == lone


def test_delay_goes_to_the_many_and_load_to_the_one_that_wants_all() -> None:
    # b0 - b1 - b2 - b3 - b4: at b0 one subscriber takes everything, at b3 and b4 many take little.
    answers = tree(
        [(0, 1), (1, 2), (2, 3), (3, 4)],
        {"b0": 100, "b3": 300, "b4": 300},
        bits={"b0": 2**100 - 1, "b3": 0b11, "b4": 0b11},
    )
    by_load = select(answers, "b2", GrapeParameters("load", 100))
    by_delay = select(answers, "b2", GrapeParameters("delay", 100))
    assert (by_load.target, by_delay.target) == ("b0", "b3")
    assert by_load.figures("b0").messages == 100 + 4 * 2
    assert by_load.figures("b3").messages == 4 * 100 + 2
    # Half of the range of load may be spent on delay, and the other way round. With the
    # publisher at b0, b1, ... the load is 108, 206, 304, 402, 500: b2 is just not above half.
    assert select(answers, "b2", GrapeParameters("load", 50)).best == "b2"
    assert select(answers, "b2", GrapeParameters("delay", 50)).best == "b2"
    assert select(answers, "b2", GrapeParameters("load", 0)).best == "b3"
    assert select(answers, "b2", GrapeParameters("delay", 0)).best == "b0"


def test_a_gain_of_no_more_than_the_margin_moves_nobody() -> None:
    # From b0 there come 20 publications to each broker, from b1 20 and 19: 2.5 % less.
    answers = tree([(0, 1)], {"b0": 19, "b1": 20})
    assert select(answers, "b0", GrapeParameters("load")).figures("b0").messages == 40
    assert select(answers, "b0", GrapeParameters("load")).figures("b1").messages == 39

    def target(margin_percent: float) -> str:
        return select(answers, "b0", GrapeParameters("load", margin_percent=margin_percent)).target

    assert GrapeParameters().margin_percent == 5
    assert [target(5), target(2.5), target(2.4), target(0)] == ["b0", "b0", "b1", "b1"]
    choice = select(answers, "b0", GrapeParameters("load"))
    assert (choice.current, choice.best, choice.target) == ("b0", "b1", "b0")


def test_ties_go_to_the_current_broker_and_then_to_the_id() -> None:
    links = [(0, 3), (3, 1), (3, 2)]
    answers = tree(links, {"b0": 5, "b1": 5, "b2": 5}, bits=dict.fromkeys(("b0", "b1", "b2"), 1))
    # One event is wanted at three leaves: wherever the publisher is, four brokers get it.
    by_load = GrapeParameters("load", 0, margin_percent=0)
    assert select(answers, "b2", by_load).best == "b3"
    for order in (answers, answers[::-1]):
        leaves = [answer for answer in order if answer.broker != "b3"]
        star = [*leaves, next(answer for answer in answers if answer.broker == "b3")]
        pings = {"b0": 0.5, "b1": 0.5, "b2": 0.5}
        assert select(star, "b2", by_load, pings).best == "b2"
        assert select(star, "b3", by_load, {**pings, "b3": 9.0}).best == "b0"


def test_equal_loads_are_separated_by_the_delays_that_answers_tell() -> None:
    answers = tree([(0, 1), (1, 2)], {"b0": 1, "b2": 9}, bits={"b0": 1, "b2": 1})
    choice = select(answers, "b0", GrapeParameters("load", 100))
    assert choice.best == "b2"
    assert choice.target == "b0", "the load does not fall"


def test_rounding_does_not_separate_what_is_equal() -> None:
    # Tenths are not exact: sums differ in the last bits by the order they are taken in.
    for seed in range(50):
        links = [(0, 1), (0, 2), (0, 3), *((leaf, leaf + 3) for leaf in (1, 2, 3))]
        answers = tree(links, {"b4": 7, "b5": 7, "b6": 7}, hop_s=0.1)
        random.Random(seed).shuffle(answers)
        far = dict.fromkeys(("b4", "b5", "b6"), 0.3)
        near = dict.fromkeys(("b0", "b1", "b2", "b3"), 9.0)
        pings = {**far, **near}
        assert select(answers, "b5", GrapeParameters("delay"), pings).best == "b5"
        assert select(answers, "b0", GrapeParameters("delay"), pings).best == "b4"


def test_without_deliveries_the_publisher_stays() -> None:
    answers = tree(balanced_tree(7), {})
    for setting in SETTINGS:
        choice = select(answers, "b5", setting, {"b0": 0.1, "b5": 9.0})
        assert (choice.best, choice.target) == ("b5", "b5")
        assert choice.figures("b5").delay_s == 0


def test_the_way_of_the_publisher_to_its_broker_counts() -> None:
    answers = tree([(0, 1)], {"b0": 10, "b1": 10}, hop_s=0.01)
    choice = select(answers, "b0", GrapeParameters("delay"), {"b0": 0.02, "b1": 0.001})
    assert choice.target == "b1"
    assert choice.figures("b0").delay_s == pytest.approx(0.02 + 0.005)
    assert choice.figures("b1").delay_s == pytest.approx(0.001 + 0.005)


def test_a_broker_that_the_publisher_cannot_reach_is_no_candidate() -> None:
    answers = tree([(0, 1), (1, 2)], {"b2": 10})
    choice = select(answers, "b0", GrapeParameters("delay"), {"b0": 0.0, "b1": 0.0})
    assert choice.target == "b1"
    assert choice.candidates().keys() == {"b0", "b1"}


def test_the_current_broker_is_a_candidate_even_without_a_latency() -> None:
    answers = tree([(0, 1)], {"b0": 10})
    choice = select(answers, "b0", GrapeParameters("delay"), {"b1": 0.001})
    assert choice.target == "b0"


def test_a_latency_that_one_end_knows_serves_both_ways() -> None:
    one = Answer.of("a", bytes(8), Measured(1, {"b": 0.0}, link_s={"b": 0.25}))
    other = Answer.of("b", bytes(8), Measured(1, {"a": 0.0}))
    found = select([one, other], "a").candidates()
    assert [found[name].delay_s for name in ("a", "b")] == [0.125, 0.125]


def test_answers_that_nothing_joins_to_the_current_broker_are_left_out() -> None:
    answers = tree([(0, 1), (1, 2)], {"b2": 10})
    del answers[1]
    assert select(answers, "b0").candidates().keys() == {"b0"}


def test_shorter_bit_vectors_end_in_zeros() -> None:
    one = Answer.of("a", b"\x01", Measured(1, {"b": 0.0}))
    other = Answer.of("b", bytes(8) + b"\xff", Measured(8, {"a": 0.0}))
    assert select([one, other], "a").figures("a").messages == 9 + 8


def test_without_bits_there_is_no_load() -> None:
    answers = [Answer.of("a", b"", Measured(1, {"b": 0.5})), Answer.of("b", b"", Measured(2, {}))]
    assert [f.messages for f in select(answers, "a").candidates().values()] == [0, 0]


def test_a_chain_of_thousands_is_no_deeper_than_any_tree() -> None:
    links = [(index, index + 1) for index in range(3000)]
    assert select(tree(links, {"b3000": 3}), "b0", GrapeParameters("load")).target == "b3000"


def test_one_golden_seed() -> None:
    generator = random.Random(7)
    names = [f"b{index}" for index in range(40)]
    deliveries = {name: generator.randrange(60) for name in names}
    bits = {name: sum(1 << generator.randrange(100) for _ in range(3)) for name in names}
    bits["b22"] = 2**100 - 1
    answers = tree(random_tree(40, seed=7), deliveries, hop_s=0.01, bits=bits)
    by_load = select(answers, "b31", GrapeParameters("load", 100))
    by_delay = select(answers, "b31", GrapeParameters("delay", 100))
    before, least = by_load.figures("b31"), by_load.figures("b22")
    soonest = by_delay.figures("b0")
    assert (by_load.target, by_delay.target) == ("b22", "b0")
    assert [f.messages for f in (before, least, soonest)] == [814, 524, 623]
    assert [f.delay_s for f in (before, least, soonest)] == pytest.approx(
        [0.0413370787, 0.0444382022, 0.0243033708]
    )


@given(cases)
def test_an_answer_packs_and_unpacks_what_was_measured(case: Case) -> None:
    for answer in case.answers:
        assert Answer.of(answer.broker, answer.delivered, answer.measured()) == answer
        encoded = msgspec.msgpack.encode(answer)
        assert msgspec.msgpack.decode(encoded, type=Answer) == answer


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"input_queue_s": -1.0}, "answers -1.0 for input_queue_s"),
        ({"matching_s": math.nan}, "answers nan for matching_s"),
        ({"client_queue_s": math.inf}, "answers inf for client_queue_s"),
        ({"deliveries": -3}, "answers -3 for deliveries"),
        ({"queue_s": {"b0": -0.5}}, "answers -0.5 for queue_s of 'b0'"),
        ({"link_s": {"b0": math.inf}}, "answers inf for link_s of 'b0'"),
    ],
)
def test_a_figure_that_nobody_can_have_measured_is_refused(
    change: dict[str, Any], named: str
) -> None:
    answers = tree([(0, 1)], {"b0": 1, "b1": 1})
    wrong = msgspec.structs.replace(answers[1].measured(), **change)
    answers[1] = Answer.of("b1", answers[1].delivered, wrong)
    with pytest.raises(InputError, match=f"broker 'b1' {named}"):
        select(answers, "b0")


def test_answers_that_do_not_fit_together_are_refused() -> None:
    answers = tree([(0, 1), (1, 2)], {"b2": 1})
    closing = Answer.of("b2", bytes(8), Measured(1, {"b1": 0.0, "b0": 0.0}))
    with pytest.raises(InputError, match="link 'b2' - 'b0' closes a cycle"):
        select([*answers[:2], closing], "b0")
    with pytest.raises(InputError, match="two answers from broker 'b1'"):
        select([*answers, answers[1]], "b0")
    with pytest.raises(InputError, match="no answer from 'b9'"):
        select(answers, "b9")
    with pytest.raises(InputError, match="no answer from 'b0'"):
        select([], "b0")
    for size in (0, 7, 8, 40 + 24 + 16, 40 + 48 - 1):
        cut = msgspec.structs.replace(answers[1], record=answers[1].record[:size])
        with pytest.raises(InputError, match=f"broker 'b1' answers with a record of {size} bytes"):
            select([answers[0], cut, answers[2]], "b0")
        with pytest.raises(InputError, match="for 2 neighbours"):
            cut.measured()
    with pytest.raises(InputError, match="latency nan s between the publisher and broker 'b1'"):
        select(answers, "b0", to_publisher_s={"b1": math.nan})


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"prioritised": "hops"}, "'hops': write one of delay, load"),
        ({"weight_percent": 101}, "weight 101 %"),
        ({"session_publications": 0}, "session of 0 publications"),
        ({"margin_percent": -1}, "margin -1 %"),
    ],
)
def test_parameters_out_of_range_are_refused(change: dict[str, Any], named: str) -> None:
    with pytest.raises(InputError, match=named):
        GrapeParameters(**change)


def test_a_session_is_as_long_as_in_the_paper() -> None:
    assert GrapeParameters().session_publications == 100
