from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gravitate.broker.observers import LinkChange, Matched
from gravitate.errors import FileError, InputError
from gravitate.model.events import Batch, Event, PlainBodies
from gravitate.model.language import parse
from gravitate.model.moves import MoveOutcome, Rationale, RelocatePublisher
from gravitate.trace import manifest, reader
from gravitate.trace.sampling import Sampler
from gravitate.trace.schemas import TABLES
from gravitate.trace.writer import TraceWriter


def batch(
    first: int, count: int, publisher: str = "p", covered: tuple[str, ...] = (), at: float = 1.0
) -> Batch:
    events = [Event({"topic": f"t/{first + i}", "x": 1.0}, b"12345678") for i in range(count)]
    counters = range(first, first + count)
    return Batch(
        publisher, 3, counters, PlainBodies(events), qos=1, published_at=at, covered=covered
    )


def test_an_event_leaves_a_row_at_every_step_of_its_way(tmp_path: Path) -> None:
    with TraceWriter(tmp_path, "b1") as writer:
        writer.on_published("b1", batch(5, 2), 1.0)
        writer.on_hop(Matched("b1", None, batch(5, 2), [["s"], []], [["b2", "b3"], ["b2"]]), 1.0)
        writer.on_delivered("b1", "s", batch(5, 1), 1, 1.25)
        writer.on_hop(Matched("b2", "b1", batch(5, 2, covered=("b1",)), [[], []], [[], []]), 1.5)
    assert reader.read(tmp_path, "publications").to_pylist() == [
        {
            "publisher": "p",
            "incarnation": 3,
            "counter": counter,
            "broker": "b1",
            "at_s": 1.0,
            "topic": f"t/{counter}",
            "qos": 1,
            "size_bytes": 72,
            "attributes": '{"x":1.0}',
        }
        for counter in (5, 6)
    ]
    hops = reader.read(tmp_path, "hops", ["counter", "broker", "came_from", "hops", "links"])
    assert hops.to_pylist() == [
        {"counter": 5, "broker": "b1", "came_from": None, "hops": 0, "links": ["b2", "b3"]},
        {"counter": 6, "broker": "b1", "came_from": None, "hops": 0, "links": ["b2"]},
        {"counter": 5, "broker": "b2", "came_from": "b1", "hops": 1, "links": []},
        {"counter": 6, "broker": "b2", "came_from": "b1", "hops": 1, "links": []},
    ]
    assert reader.read(tmp_path, "hops")["local_deliveries"].to_pylist() == [1, 0, 0, 0]
    (delivery,) = reader.read(tmp_path, "deliveries").to_pylist()
    assert (delivery["session"], delivery["delay_s"], delivery["qos"]) == ("s", 0.25, 1)


def test_hops_are_links_whether_or_not_the_path_ends_here(tmp_path: Path) -> None:
    with TraceWriter(tmp_path, "b3") as writer:
        writer.on_delivered("b3", "s", batch(0, 1, covered=("b1", "b2")), 1, 1.0)
        writer.on_delivered("b3", "s", batch(1, 1, covered=("b1", "b2", "b3")), 1, 1.0)
        writer.on_delivered("b3", "s", batch(2, 1), 1, 1.0)
    assert reader.read(tmp_path, "deliveries")["hops"].to_pylist() == [2, 2, 0]


def test_subscriptions_tell_their_condition_and_their_fate(tmp_path: Path) -> None:
    with TraceWriter(tmp_path, "b1") as writer:
        writer.on_subscribed("b1", "s", "quotes", parse("volume > 10"), 1.0)
        writer.on_settled("b1", "s", "quotes", 2.0)
        writer.on_unsubscribed("b1", "s", "quotes", 3.0)
    rows = reader.read(tmp_path, "subscriptions").to_pylist()
    assert [row["change"] for row in rows] == ["subscribed", "settled", "unsubscribed"]
    assert parse(rows[0]["filter"]) == parse("volume > 10")
    assert [row["filter"] for row in rows[1:]] == [None, None]


def test_what_goes_over_a_tether_counts_for_its_link_and_is_no_hop(tmp_path: Path) -> None:
    with TraceWriter(tmp_path, "b1") as writer:
        writer.on_handed_over("b1", "b9", batch(5, 2), 1.0)
        writer.on_published("b9", batch(5, 2), 1.5)
    (link,) = reader.read(tmp_path, "links").to_pylist()
    assert (link["broker"], link["peer"], link["events"]) == ("b1", "b9", 2)
    assert reader.read(tmp_path, "hops").num_rows == 0
    assert set(reader.read(tmp_path, "publications")["broker"].to_pylist()) == {"b9"}


def test_links_count_every_event_whatever_the_sample(tmp_path: Path) -> None:
    with TraceWriter(tmp_path, "b1", rate=0.0, link_period_s=1.0) as writer:
        writer.on_link("b1", "b2", LinkChange.RESET, 0.0)
        writer.note_rtt("b1", "b2", 0.012)
        for second in range(4):
            at = float(second)
            writer.on_hop(Matched("b1", None, batch(10 * second, 10), [[]] * 10, [["b2"]] * 10), at)
        writer.on_link("b1", "b2", LinkChange.DOWN, 4.0)
    rows = reader.read(tmp_path, "links").to_pylist()
    assert sum(row["events"] for row in rows) == 40
    assert sum(row["size_bytes"] for row in rows) == 40 * 72
    assert rows[0]["state"] == "reset"
    assert rows[-1]["state"] == "down"
    assert rows[-1]["rtt_s"] == 0.012
    assert reader.read(tmp_path, "hops").num_rows == 0


def test_moves_are_kept_whole(tmp_path: Path) -> None:
    move = RelocatePublisher("m1", "p", "b1", "b2", Rationale("nearer to its audience", 3.0, 1.0))
    with TraceWriter(tmp_path, "b1") as writer:
        writer.on_move("b1", move, MoveOutcome.ROLLED_BACK, 9.0)
    (row,) = reader.read(tmp_path, "moves").to_pylist()
    assert (row["kind"], row["outcome"]) == ("relocate-publisher", "rolled back")
    assert '"target":"b2"' in row["details"]


def test_all_tables_of_an_event_keep_the_same_sample(tmp_path: Path) -> None:
    sampler = Sampler(0.25)
    expected = list(sampler.kept("p", 3, range(1000)))
    with TraceWriter(tmp_path, "w", rate=0.25) as writer:
        for first in range(0, 1000, 20):
            made = batch(first, 20)
            writer.on_published("b1", made, 1.0)
            writer.on_hop(Matched("b1", None, made, [["s"]] * 20, [[]] * 20), 1.0)
            writer.on_delivered("b1", "s", made, 0, 1.0)
    for table in ("publications", "hops", "deliveries"):
        assert reader.read(tmp_path, table)["counter"].to_pylist() == expected


def test_files_roll_and_later_runs_go_on_counting(tmp_path: Path) -> None:
    for _ in range(2):
        with TraceWriter(tmp_path, "b/1", rows_per_group=5, rows_per_file=10) as writer:
            for first in range(0, 25, 5):
                writer.on_delivered("b/1", "s", batch(first, 5), 0, 1.0)
    names = [path.name for path in reader.files(tmp_path, "deliveries")]
    assert names == [f"part-b_1-{number:05d}.parquet" for number in range(6)]
    assert reader.read(tmp_path, "deliveries").num_rows == 50


def test_an_unfinished_file_is_not_read(tmp_path: Path) -> None:
    writer = TraceWriter(tmp_path, "b1", rows_per_group=1)
    writer.on_delivered("b1", "s", batch(0, 5), 0, 1.0)
    assert reader.files(tmp_path, "deliveries") == []
    writer.close()
    assert len(reader.files(tmp_path, "deliveries")) == 1


def test_nothing_seen_leaves_no_files_and_reads_as_empty_tables(tmp_path: Path) -> None:
    TraceWriter(tmp_path, "b1").close()
    assert list(tmp_path.iterdir()) == []
    for table, schema in TABLES.items():
        assert reader.read(tmp_path, table).schema == schema


@pytest.mark.parametrize(
    ("columns", "says"),
    [
        ({"drop": "qos"}, "column 'qos' of table 'deliveries' is missing"),
        ({"retype": "hops"}, "column 'hops' of table 'deliveries' is string, expected int16"),
        ({"add": "extra"}, "column 'extra' is not part of table 'deliveries'"),
    ],
)
def test_a_file_with_other_columns_is_refused_by_name(
    tmp_path: Path, columns: dict[str, str], says: str
) -> None:
    table = TABLES["deliveries"].empty_table()
    if "drop" in columns:
        table = table.drop_columns([columns["drop"]])
    if "add" in columns:
        table = table.append_column(columns["add"], pa.array([], pa.int32()))
    if "retype" in columns:
        index = table.schema.get_field_index(columns["retype"])
        table = table.set_column(index, columns["retype"], pa.array([], pa.string()))
    path = tmp_path / "deliveries" / "part-x-00000.parquet"
    path.parent.mkdir()
    pq.write_table(table, path)
    with pytest.raises(FileError, match=says) as caught:
        reader.read(tmp_path, "deliveries")
    assert caught.value.path == str(path)


def test_a_corrupt_file_is_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "hops" / "part-x-00000.parquet"
    path.parent.mkdir()
    path.write_bytes(b"PAR1 this is not a table PAR1")
    with pytest.raises(FileError, match=r"part-x-00000\.parquet: cannot be read as Parquet"):
        reader.read(tmp_path, "hops")


def test_an_unknown_table_column_or_directory_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="unknown table 'hop': write one of publications, hops"):
        reader.read(tmp_path, "hop")
    with pytest.raises(InputError, match="table 'hops' has no column 'hop': write some of publis"):
        reader.read(tmp_path, "hops", ["hop"])
    with pytest.raises(FileError, match="not a directory with traces"):
        reader.read(tmp_path / "none", "hops")


def test_every_column_says_what_it_means() -> None:
    for schema in TABLES.values():
        assert all(field.metadata[b"description"] for field in schema)


def test_a_manifest_reads_back(tmp_path: Path) -> None:
    written = manifest.RunManifest(network="name = 'n'", clock="virtual", scenario="demo", seed=4)
    written.save(tmp_path / "run")
    assert manifest.load(tmp_path / "run") == written
    with pytest.raises(FileError, match=r"has no run\.json"):
        manifest.load(tmp_path)
    (tmp_path / manifest.NAME).write_text("{}")
    with pytest.raises(FileError, match="not a run manifest"):
        manifest.load(tmp_path)
