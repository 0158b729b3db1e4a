"""Many publishers at once are placed as each of them would be from the answers of its brokers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gravitate.errors import InputError
from gravitate.overlay.shapes import balanced_tree
from gravitate.overlay.tree import neighbours, path
from gravitate.plan.flow.flow import FRAME_BYTES, rooted
from gravitate.plan.placement.grape import METRICS, Answer, GrapeParameters, Measured, select
from gravitate.plan.placement.placement import (
    best_brokers,
    closest_brokers,
    network_of,
    profiles_of,
)

Row = tuple[int, int, int, int, int]


class Case:
    """A network with publishers; delays are multiples of 1/1024, exact in any order of sums."""

    def __init__(self, draw: st.DrawFn) -> None:
        self.count = count = draw(st.integers(1, 9))
        numbers = draw(st.permutations(range(count)))
        self.links = [
            (numbers[draw(st.integers(0, index - 1))], numbers[index]) for index in range(1, count)
        ]
        ticks = st.integers(0, 7).map(lambda ticks: ticks / 1024)
        each = st.lists(ticks, min_size=count, max_size=count)
        self.latency_s = draw(each)[1:]
        self.inside_s, self.clients_s, self.down_s, self.up_s = (draw(each) for _ in range(4))
        publishers = draw(st.integers(1, 4))
        broker = st.integers(0, count - 1)
        self.current = draw(st.lists(broker, min_size=publishers, max_size=publishers))
        self.rows: list[Row] = draw(
            st.lists(
                st.tuples(
                    st.integers(0, publishers - 1),
                    broker,
                    st.sampled_from((-5, 0, 3, 10**12)),
                    st.integers(-(2**63), 2**63 - 1),
                    st.integers(0, 20),
                ),
                max_size=12,
            )
        )
        self.latencies = None
        if draw(st.booleans()):
            way = st.one_of(st.just(float("nan")), ticks)
            row = st.lists(way, min_size=count, max_size=count)
            self.latencies = draw(st.lists(row, min_size=publishers, max_size=publishers))

    def network(self):  # type: ignore[no-untyped-def]
        tree = rooted(self.count, self.links, self.latency_s)
        return network_of(tree, self.inside_s, self.clients_s, self.down_s, self.up_s)

    def profiles(self):  # type: ignore[no-untyped-def]
        columns = [[row[field] for row in self.rows] for field in range(5)]
        return profiles_of(self.current, *columns)

    def answers(self, publisher: int) -> list[Answer]:
        """What the brokers between the publisher and its subscribers would answer."""
        names = [f"b{number}" for number in range(self.count)]
        near = neighbours(names, [(f"b{one}", f"b{other}") for one, other in self.links])
        parent = self.network().parent
        latency = {frozenset(link): s for link, s in zip(self.links, self.latency_s, strict=True)}
        own = [row for row in self.rows if row[0] == publisher]
        start = f"b{self.current[publisher]}"
        seen = {start, *(broker for row in own for broker in path(near, start, f"b{row[1]}") or [])}
        words = sorted({row[2] for row in own})
        found = []
        for name in sorted(seen):
            number = int(name[1:])
            vector = [0] * max(1, len(words))
            for _, broker, word, bits, _ in own:
                if broker == number:
                    vector[words.index(word)] |= bits % 2**64
            others = [int(other[1:]) for other in near[name]]
            measured = Measured(
                deliveries=sum(row[4] for row in own if row[1] == number),
                queue_s={
                    f"b{other}": self.up_s[number]
                    if parent[number] == other
                    else self.down_s[other]
                    for other in others
                },
                input_queue_s=self.inside_s[number],
                client_queue_s=self.clients_s[number],
                link_s={f"b{other}": latency[frozenset((number, other))] for other in others},
            )
            delivered = b"".join(word.to_bytes(8, "little") for word in vector)
            found.append(Answer.of(name, delivered, measured))
        return found

    def to_publisher_s(self, publisher: int) -> dict[str, float] | None:
        if self.latencies is None:
            return None
        row = enumerate(self.latencies[publisher])
        return {f"b{number}": s for number, s in row if s == s}


cases = st.composite(Case)()


@given(
    cases,
    st.sampled_from(METRICS),
    st.sampled_from((0, 1, 50, 99, 100)),
    st.sampled_from((0.0, 5.0)),
)
def test_each_publisher_is_placed_as_its_answers_would_place_it(
    case: Case, metric: str, weight: int, margin: float
) -> None:
    parameters = GrapeParameters(metric, weight, margin_percent=margin)  # type: ignore[arg-type]
    placements = best_brokers(case.network(), case.profiles(), parameters, case.latencies)
    for publisher, current in enumerate(case.current):
        choice = select(
            case.answers(publisher), f"b{current}", parameters, case.to_publisher_s(publisher)
        )
        before, after = choice.figures(f"b{current}"), choice.figures(choice.best)
        assert f"b{placements.best[publisher]}" == choice.best
        assert f"b{placements.target[publisher]}" == choice.target
        assert placements.delay_s[:, publisher].tolist() == pytest.approx(
            [before.delay_s, after.delay_s]
        )
        assert placements.messages[:, publisher].tolist() == [before.messages, after.messages]


def test_rows_of_one_word_are_joined_and_their_order_does_not_matter() -> None:
    rows = [(1, 4, 7, 0b01, 3), (0, 2, 0, -1, 5), (1, 4, 7, 0b10, 4), (1, 3, 9, 1, 1)]
    for ordered in (rows, rows[::-1]):
        profiles = profiles_of([0, 0], *zip(*ordered, strict=True))
        assert profiles.first.tolist() == [0, 1, 3]
        assert profiles.broker.tolist() == [2, 3, 4]
        assert profiles.deliveries.tolist() == [5, 1, 7]
        assert profiles.words.tolist() == [1, 2]
        assert profiles.first_word.tolist() == [0, 1]
        assert profiles.bits.tolist() == [2**64 - 1, 0, 1, 0b11, 0]


def test_publishers_that_nobody_listens_to_stay() -> None:
    network = network_of(rooted(7, balanced_tree(7)))
    profiles = profiles_of([3, 5], [], [], [], [], [])
    for metric in METRICS:
        placements = best_brokers(network, profiles, GrapeParameters(metric, margin_percent=0))
        assert placements.target.tolist() == [3, 5]
        assert placements.messages.tolist() == [[0, 0], [0, 0]]
    assert closest_brokers(network, profiles).tolist() == [3, 5]
    assert len(best_brokers(network, profiles_of([], [], [], [], [], [])).best) == 0


def test_links_take_their_latency_and_what_a_frame_weighs() -> None:
    tree = rooted(2, [(0, 1)], 0.25, bandwidth_bytes_per_s=FRAME_BYTES * 4, service_s=0.125)
    profiles = profiles_of([0], [0], [1], [0], [1], [1])
    placements = best_brokers(network_of(tree), profiles)
    assert placements.delay_s[:, 0].tolist() == [0.125 + 0.25 + 0.25 + 0.125, 0.125]


def test_what_is_not_in_the_network_is_refused() -> None:
    network = network_of(rooted(3, balanced_tree(3)))
    with pytest.raises(InputError, match="broker 3 is not in the network: write 0 to 2"):
        best_brokers(network, profiles_of([0], [0], [3], [0], [1], [1]))
    with pytest.raises(InputError, match="broker -1 is not in the network"):
        closest_brokers(network, profiles_of([-1], [], [], [], [], []))
    with pytest.raises(InputError, match="beyond the 1 that are given"):
        profiles_of([0], [1], [0], [0], [1], [1])
    with pytest.raises(InputError, match=r"latencies of shape \(1, 2\) are not accepted"):
        best_brokers(network, profiles_of([0], [], [], [], [], []), to_publisher_s=[[0.0, 0.0]])
    with pytest.raises(InputError, match=r"-1\.0 in up_queue_s is not accepted"):
        network_of(rooted(3, balanced_tree(3)), up_queue_s=-1)
    with pytest.raises(InputError, match=r"nan in inside_s is not accepted"):
        network_of(rooted(3, balanced_tree(3)), inside_s=[0, 0, np.nan])
