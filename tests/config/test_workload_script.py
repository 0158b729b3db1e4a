"""A workload's folder becomes the script it stands for, or an error that names file and row."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gravitate.config import scenario, workload_script
from gravitate.config.build import broker_ids, shaped
from gravitate.config.script import ScriptClient, Subscription
from gravitate.config.stock_tables import (
    StockQuotes,
    StockWorkload,
    publications,
    publishers,
    subscriptions,
)
from gravitate.config.workload import stock_quotes
from gravitate.config.workload_tables import TABLES, WorkloadManifest
from gravitate.errors import FileError

Row = dict[str, Any]

PUBLISHER: Row = {
    "publisher": "p",
    "broker": "b01",
    "advertisement": "topic = 't'",
    "rate_msgs_per_s": 1.0,
}
PUBLICATION: Row = {
    "publisher": "p",
    "number": 1,
    "at_s": 0.5,
    "topic": "t",
    "attributes": '{"x":1}',
    "payload_bytes": 20,
    "broker": None,
}
SUBSCRIPTION: Row = {
    "subscriber": "s",
    "subscription": "all",
    "broker": "b02",
    "topic": "t/#",
    "condition": "x > 0",
    "from_s": 0.0,
    "until_s": None,
}


def save(directory: Path, tables: dict[str, pa.Table], parameters: Row | None = None) -> Path:
    """A workload's folder with two files a table, as Spark would leave it."""
    for name, rows in tables.items():
        folder = directory / name
        folder.mkdir(parents=True)
        half = (rows.num_rows + 1) // 2
        pq.write_table(rows.slice(0, half), folder / "part-00000.parquet")
        pq.write_table(rows.slice(half), folder / "part-00001.parquet")
    WorkloadManifest(
        workload="toy",
        seed=9,
        parameters=parameters or {},
        source="by hand",
        rows={name: rows.num_rows for name, rows in tables.items()},
    ).save(directory)
    return directory


def toy(directory: Path, **changes: Row | list[Row]) -> Path:
    """One publisher, one publication, one subscription; some rows changed or replaced."""
    rows: dict[str, Row] = {
        "publishers": PUBLISHER,
        "publications": PUBLICATION,
        "subscriptions": SUBSCRIPTION,
    }
    tables = {}
    for name, row in rows.items():
        change = changes.get(name, {})
        chosen = change if isinstance(change, list) else [row | change]
        tables[name] = pa.Table.from_pylist(chosen, schema=TABLES[name])
    return save(directory, tables)


def read(directory: Path, duration_s: float = 10.0) -> Any:
    return workload_script.read(directory, broker_ids(3), duration_s)


def test_a_folder_of_stock_quotes_is_the_same_as_stock_quotes_in_a_scenario(
    tmp_path: Path,
) -> None:
    brokers = broker_ids(7)
    options = StockQuotes(publishers=3, subscribers=20, rate_msgs_per_s=5.0, payload_bytes=50)
    whole = StockWorkload(options, tuple(brokers), 4.0, seed=3)
    folder = save(
        tmp_path / "quotes",
        {
            "publishers": publishers(whole, 0, 3),
            "publications": publications(whole, 0, 3),
            "subscriptions": subscriptions(whole, 0, 3).rows,
        },
    )
    assert workload_script.read(folder, brokers, 4.0) == stock_quotes(options, brokers, 4.0, 3)
    head = 'name = "n"\nseed = 3\nduration_s = 4.0\n[network]\nshape = "line"\nbrokers = 7\n'
    by_folder = scenario.loads(
        head + '[workload]\ndirectory = "quotes"\nqos = 0\n', str(tmp_path / "scenario.toml")
    )
    by_parameters = scenario.loads(
        head + "[workload]\npublishers = 3\nsubscribers = 20\nrate_msgs_per_s = 5.0\n"
        "payload_bytes = 50\nqos = 0\n"
    )
    assert by_folder == by_parameters
    assert by_folder.publications[0].qos == 0


def test_a_folder_is_a_script_by_itself(tmp_path: Path) -> None:
    script = workload_script.load(toy(tmp_path / "toy"), shaped("line", 3))
    assert (script.name, script.seed, script.duration_s) == ("toy", 9, 0.5)
    (publication,) = script.publications
    assert publication.event.attributes == {"topic": "t", "x": 1}
    assert publication.event.payload == b"p/1 " + 16 * b"."
    assert script.clients == (
        ScriptClient("p", "b01", advertisements=("topic = 't'",)),
        ScriptClient("s", "b02", (Subscription("t/#", "x > 0", "all"),)),
    )
    assert workload_script.load(tmp_path / "toy", shaped("line", 3), 3.0).duration_s == 3.0


def test_the_duration_is_the_one_that_the_workload_was_made_with(tmp_path: Path) -> None:
    tables = {
        name: pa.Table.from_pylist([row], schema=TABLES[name])
        for name, row in (
            ("publishers", PUBLISHER),
            ("publications", PUBLICATION),
            ("subscriptions", SUBSCRIPTION),
        )
    }
    folder = save(tmp_path / "toy", tables, {"duration_s": 7.5})
    assert workload_script.load(folder, shaped("line", 3)).duration_s == 7.5


def test_who_publishes_and_subscribes_is_one_client_with_all_its_subscriptions(
    tmp_path: Path,
) -> None:
    own = [
        SUBSCRIPTION | {"subscriber": "p", "broker": "b01", "subscription": name}
        for name in ("one", "two")
    ]
    clients, _ = read(toy(tmp_path / "toy", subscriptions=own))
    (client,) = clients
    assert client.advertisements == ("topic = 't'",)
    assert [subscription.name for subscription in client.subscriptions] == ["one", "two"]


def test_publications_are_put_in_the_order_of_time(tmp_path: Path) -> None:
    numbered = [PUBLICATION | {"number": number, "at_s": float(number)} for number in (2, 3, 1)]
    _, published = read(toy(tmp_path / "toy", publications=numbered))
    assert [publication.number for publication in published] == [1, 2, 3]


@pytest.mark.parametrize(
    ("table", "change", "said"),
    [
        ("publishers", {"broker": "b9"}, "client 'p' is on broker 'b9', which the network lacks"),
        ("publishers", {"broker": None}, "client 'p' is on no broker"),
        ("publishers", {"advertisement": "x >"}, "advertisement of 'p'"),
        ("subscriptions", {"broker": "b9"}, "client 's' is on broker 'b9'"),
        ("subscriptions", {"broker": None}, "client 's' is on no broker"),
        ("subscriptions", {"condition": "x >"}, "subscription of 's'"),
        ("subscriptions", {"from_s": 1.0}, "held from 1 s to the end: a script takes only those"),
        ("subscriptions", {"until_s": 9.0}, "held from 0 s to 9 s: a script takes only those"),
        ("publications", {"publisher": "q"}, "table 'publishers' has no 'q'"),
        ("publications", {"broker": "b02"}, "is at broker 'b02' and its publisher at 'b01'"),
        ("publications", {"at_s": -0.1}, "is at -0.1 s: the run is from 0 to 10 s"),
        ("publications", {"at_s": 10.1}, "is at 10.1 s: the run is from 0 to 10 s"),
        ("publications", {"at_s": float("nan")}, "is at nan s"),
        ("publications", {"payload_bytes": -1}, "a payload of -1 bytes"),
        ("publications", {"attributes": "{"}, "are no JSON object of plain values"),
        ("publications", {"attributes": '{"x":[1]}'}, "are no JSON object of plain values"),
        ("publications", {"attributes": '{"topic":"u"}'}, "has an attribute 'topic'"),
    ],
)
def test_a_row_that_does_not_fit_is_refused_with_its_file(
    tmp_path: Path, table: str, change: Row, said: str
) -> None:
    folder = toy(tmp_path / "toy", **{table: change})
    with pytest.raises(FileError, match="row 1") as caught:
        read(folder)
    assert said in str(caught.value)
    assert caught.value.path == str(folder / table / "part-00000.parquet")


@pytest.mark.parametrize(
    ("table", "rows", "said"),
    [
        ("publishers", [PUBLISHER, PUBLISHER], "two publishers 'p'"),
        ("subscriptions", [SUBSCRIPTION, SUBSCRIPTION], "'s' has two subscriptions 'all'"),
        (
            "subscriptions",
            [SUBSCRIPTION, SUBSCRIPTION | {"subscription": "b", "broker": "b03"}],
            "client 's' is on brokers 'b02' and 'b03'",
        ),
        ("publications", [PUBLICATION | {"number": 2}], "publication 2 of 'p' follows after 0"),
        (
            "publications",
            [PUBLICATION, PUBLICATION | {"number": 2, "at_s": 0.4}],
            "publication 2 of 'p' follows after 0",
        ),
        ("publications", [PUBLICATION, PUBLICATION], "publication 1 of 'p' follows after 1"),
    ],
)
def test_rows_that_do_not_fit_together_are_refused(
    tmp_path: Path, table: str, rows: list[Row], said: str
) -> None:
    with pytest.raises(FileError) as caught:
        read(toy(tmp_path / "toy", **{table: rows}))
    assert said in str(caught.value)


def test_a_subscription_held_beyond_the_end_is_held_to_the_end(tmp_path: Path) -> None:
    clients, _ = read(toy(tmp_path / "toy", subscriptions={"until_s": 10.0}))
    assert len(clients) == 2


def test_a_file_with_another_schema_is_refused_with_the_column(tmp_path: Path) -> None:
    folder = toy(tmp_path / "toy")
    path = folder / "publishers" / "part-00000.parquet"
    rows = pq.read_table(path)
    for changed, said in (
        (rows.drop_columns(["broker"]), "column 'broker' of table 'publishers' is missing"),
        (rows.append_column("colour", pa.array(["red"])), "column 'colour' is not part"),
        (
            rows.set_column(3, "rate_msgs_per_s", pa.array(["1"])),
            "column 'rate_msgs_per_s' of table 'publishers' is string, expected double",
        ),
    ):
        pq.write_table(changed, path)
        with pytest.raises(FileError) as caught:
            read(folder)
        assert said in str(caught.value)
        assert caught.value.path == str(path)
    path.write_bytes(b"PAR1 and nothing")
    with pytest.raises(FileError, match="cannot be read as Parquet"):
        read(folder)


def test_a_missing_value_is_refused_with_its_file(tmp_path: Path) -> None:
    folder = toy(tmp_path / "toy")
    path = folder / "publishers" / "part-00000.parquet"
    rows = pq.read_table(path)
    pq.write_table(rows.set_column(0, "publisher", pa.nulls(1, pa.string())), path)
    with pytest.raises(FileError, match="publisher") as caught:
        read(folder)
    assert caught.value.path == str(path)


def test_a_folder_that_lacks_something_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FileError, match=r"nowhere: has no workload\.json"):
        read(tmp_path / "nowhere")
    folder = toy(tmp_path / "toy")
    (folder / "subscriptions" / "part-00000.parquet").unlink()
    with pytest.raises(FileError, match="has 0 rows and its manifest says 1"):
        read(folder)
    interests = {"interests": TABLES["interests"].empty_table()}
    with pytest.raises(FileError, match="has no table 'publishers' and cannot be run"):
        read(save(tmp_path / "set1", interests))


def test_a_scenario_names_a_folder_or_parameters_not_both(tmp_path: Path) -> None:
    toy(tmp_path / "toy")
    text = (
        'name = "n"\nduration_s = 4.0\n[network]\nshape = "line"\nbrokers = 3\n'
        '[workload]\ndirectory = "toy"\n'
    )
    script = scenario.loads(text, str(tmp_path / "s.toml"))
    assert len(script.clients) == 2
    with pytest.raises(FileError, match="'directory' and 'mix' exclude each other") as caught:
        scenario.loads(text + 'mix = "random"\n', str(tmp_path / "s.toml"))
    assert caught.value.line == 8
