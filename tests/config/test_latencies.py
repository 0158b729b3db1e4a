"""Latencies of made networks: drawn, by distance, or measured."""

from __future__ import annotations

import gzip
import math
from pathlib import Path

import pytest

from gravitate.config import latencies
from gravitate.config.build import shaped
from gravitate.config.scenario import load
from gravitate.errors import FileError, InputError

HEAD = 'name = "t"\nduration_s = 1.0\n[network]\nshape = "line"\nbrokers = 3\n'


def link_ms(text: str, folder: Path) -> list[float]:
    path = folder / "scenario.toml"
    path.write_text(HEAD + text)
    return [link.latency_ms for link in load(path).network.links]


def test_a_range_of_one_value_is_a_constant(tmp_path: Path) -> None:
    assert link_ms("latency_ms = [7.0, 7.0]\n", tmp_path) == [7.0, 7.0]


def test_a_range_is_drawn_from(tmp_path: Path) -> None:
    drawn = link_ms("latency_ms = [5.0, 9.0]\n", tmp_path)
    assert all(5.0 <= latency_ms <= 9.0 for latency_ms in drawn)
    assert len(set(drawn)) == 2


def test_scattered_brokers_are_as_far_apart_as_their_coordinates(tmp_path: Path) -> None:
    path = tmp_path / "scenario.toml"
    path.write_text(HEAD + "extent_ms = 100.0\n")
    network = load(path).network
    places = {broker.id: broker.coordinates for broker in network.brokers}
    for link in network.links:
        a, b = link.between
        assert link.latency_ms == pytest.approx(math.dist(places[a], places[b]), abs=0.001)


def test_measured_latencies_are_half_a_round_trip_of_both_directions() -> None:
    network = shaped("line", 2)
    (link,) = latencies.measured(network, [[0.0, 80.0], [60.0, 0.0]], seed=1).links
    assert link.latency_ms == 35.0


def test_what_was_not_measured_comes_from_the_other_direction_or_the_median() -> None:
    nan = math.nan
    one_way = latencies.measured(shaped("line", 2), [[0.0, 80.0], [nan, 0.0]], seed=1)
    assert one_way.links[0].latency_ms == 40.0
    matrix = [[0.0, nan, 20.0], [nan, 0.0, 20.0], [20.0, 20.0, 0.0]]
    filled = latencies.measured(shaped("star", 3), matrix, seed=1)
    assert [link.latency_ms for link in filled.links] == [10.0, 10.0]


@pytest.mark.parametrize("name", ["rtt.tsv", "rtt.tsv.gz"])
def test_a_matrix_is_read_from_beside_the_scenario(tmp_path: Path, name: str) -> None:
    text = "\n".join("\t".join("0" if i == j else "30" for i in range(4)) for j in range(4))
    content = text.encode()
    (tmp_path / name).write_bytes(gzip.compress(content) if name.endswith("gz") else content)
    assert link_ms(f'rtt_matrix = "{name}"\n', tmp_path) == [15.0, 15.0]


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("0 1\n2 0 3\n", "m.tsv:2: 3 numbers in a matrix of 2 lines"),
        ("0 far\n1 0\n", "m.tsv:1: 'far' is no time"),
        ("0 -1\n1 0\n", "m.tsv:1: '-1' is no time"),
    ],
)
def test_a_matrix_that_is_none_is_refused_with_its_line(
    tmp_path: Path, content: str, says: str
) -> None:
    (tmp_path / "m.tsv").write_text(content)
    with pytest.raises(FileError, match=says):
        latencies.read_matrix(tmp_path / "m.tsv")


def test_too_few_measured_hosts_are_refused() -> None:
    with pytest.raises(InputError, match="3 brokers need as many measured hosts: there are 1"):
        latencies.measured(shaped("line", 3), [[0.0]], seed=1)
