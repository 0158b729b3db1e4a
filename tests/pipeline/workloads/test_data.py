"""Readers of measurements: what is in the file, and what is wrong with it."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from gravitate.errors import FileError
from gravitate.pipeline.workloads import data, interactions, psoop
from gravitate.pipeline.workloads.generate import in_process
from gravitate.pipeline.workloads.making import parameters_of

GRAPH = """GRAPH (#nodes #edges id uu vv ww xx yy zz):
3 4 transtub(0,3,0,0) 89 2 5 0

VERTICES (index name u v w x y z):
0 T:0.0 77 6
1 S:0.0/0.0 61 17
2 S:0.0/0.1 79 42

EDGES (from-node to-node length a b):
0 1 5 3
1 2 7 3
2 1 7 3
"""


def zipped(folder: Path, name: str, text: str) -> None:
    with gzip.open(folder / name, "wt") as file:
        file.write(text)


def test_a_transit_stub_graph_has_its_edges_once_and_knows_its_stubs(tmp_path: Path) -> None:
    (tmp_path / data.TRANSIT_STUB).write_text(GRAPH)
    graph = data.transit_stub(tmp_path)
    assert graph.nodes == 3
    assert graph.edges.tolist() == [[0, 1], [1, 2]]
    assert graph.lengths.tolist() == [5.0, 7.0]
    assert graph.stubs.tolist() == [1, 2]
    made = psoop.make(
        parameters_of(psoop.DEFINITION, {"brokers": 2, "subscriber_brokers": 1}), 1, tmp_path
    )
    assert made.source.startswith("transit-stub graph topo-0-big")


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ("1 2 7 3", "1 9 7 3", r":11: '1 9 7 3' is no line of EDGES: nodes are 0 to 2"),
        ("1 2 7 3", "1 2", r":11: '1 2' is no line of EDGES"),
        ("S:", "X:", "no stub nodes"),
    ],
)
def test_a_wrong_graph_is_refused_with_its_line(
    tmp_path: Path, before: str, after: str, message: str
) -> None:
    (tmp_path / data.TRANSIT_STUB).write_text(GRAPH.replace(before, after))
    with pytest.raises(FileError, match=message):
        data.transit_stub(tmp_path)


def test_wall_posts_come_in_order_and_users_are_numbered(tmp_path: Path) -> None:
    zipped(tmp_path, data.WALL_POSTS, "src,dst,timestamp,year\n40,7,1010,2007\n7,90,1000,2007\n")
    posts = data.wall_posts(tmp_path)
    assert posts.users == 3
    assert posts.author.tolist() == [0, 1]
    assert posts.owner.tolist() == [2, 0]
    assert posts.at_s.tolist() == [0.0, 10.0]


def test_measured_posts_are_replayed_at_the_rate(tmp_path: Path) -> None:
    rows = [f"{n % 5},{5 + n % 7},{1000 + 10 * n}" for n in range(100)]
    zipped(tmp_path, data.WALL_POSTS, "\n".join(["src,dst,timestamp", *rows]) + "\n")
    parameters = parameters_of(
        interactions.DEFINITION,
        {"subscribers": 200, "brokers": 5, "matching_share": 0.3, "duration_s": 1},
    )
    made = interactions.make(parameters, 1, tmp_path)
    assert made.source.startswith("Facebook wall subset")
    tables = {plan.table: in_process(plan, 1).to_pylist() for plan in made.plans}
    posts = sorted(tables["publications"], key=lambda row: row["at_s"])
    assert len(posts) == 60  # the first of them, 60 a second
    assert [row["publisher"] for row in posts] == [f"user-{n % 5 + 1:02}" for n in range(60)]
    assert posts[-1]["at_s"] == pytest.approx(1.0)
    assert [row["number"] for row in posts] == [n // 5 + 1 for n in range(60)]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("src,dst\n1,2\n", "needs the columns src, dst, timestamp"),
        ("src,dst,timestamp\n1,x,3\n", "needs the columns"),
        ("src,dst,timestamp\n1,,3\n", "column 'dst' has empty values"),
        ("src,dst,timestamp\n", "holds no rows"),
    ],
)
def test_a_file_with_other_columns_is_refused_by_name(
    tmp_path: Path, text: str, message: str
) -> None:
    zipped(tmp_path, data.WALL_POSTS, text)
    with pytest.raises(FileError, match=message) as caught:
        data.wall_posts(tmp_path)
    assert data.WALL_POSTS in str(caught.value)


def test_a_missing_or_broken_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileError, match=r"foursquare.*is missing"):
        data.checkins(tmp_path)
    (tmp_path / data.CHECKINS).write_bytes(b"no gzip at all")
    with pytest.raises(FileError, match=r"foursquare"):
        data.checkins(tmp_path)
