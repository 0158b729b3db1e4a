"""Stock quotes from Spark are those of a scenario, with measured shares, drawn or recorded."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gravitate.config import workload_script
from gravitate.config.build import broker_ids, shaped
from gravitate.config.script import expected
from gravitate.config.stock_tables import StockQuotes
from gravitate.config.workload import stock_quotes
from gravitate.errors import FileError, InputError
from gravitate.pipeline.workloads import stocks
from gravitate.pipeline.workloads.generate import in_process
from gravitate.pipeline.workloads.making import make_workload, parameters_of
from gravitate.pipeline.workloads.stocks import DATA_FILE, DEFINITION, StockParameters

SMALL = {"publishers": 7, "subscribers": 60, "brokers": 5, "duration_s": 20.0, "mix": "enterprise"}


def test_spark_makes_the_rows_that_a_scenario_with_these_parameters_has(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stocks, "ROWS_PER_BLOCK", 5)  # several blocks of every table
    made = make_workload(spark, "stocks", tmp_path / "one", SMALL, seed=4, tasks=1)
    make_workload(spark, "stocks", tmp_path / "eight", SMALL, seed=4, tasks=8)
    names = sorted(path.relative_to(tmp_path / "one") for path in tmp_path.glob("one/*/*"))
    assert len(names) > 9
    for name in names:
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "eight" / name).read_bytes()

    brokers = broker_ids(5)
    options = StockQuotes(publishers=7, subscribers=60, mix="enterprise")
    assert workload_script.read(tmp_path / "one", brokers, 20.0) == stock_quotes(
        options, brokers, 20.0, seed=4
    )

    script = workload_script.load(tmp_path / "one", shaped("balanced-tree", 5))
    assert (script.name, script.seed, script.duration_s) == ("stocks", 4, 20.0)
    assert made.rows == {"publishers": 7, "publications": 7 * 23, "subscriptions": 60}
    assert made.source.startswith("synthetic, fitted to S&P 500 daily quotes")
    high = made.statistics["subscribers_high_share"] * 60
    low = made.statistics["subscribers_low_share"] * 60
    assert high + low == pytest.approx(60)
    deliveries = 23 * (
        high * made.statistics["traffic_high_share"] + low * made.statistics["traffic_low_share"]
    )
    assert deliveries == pytest.approx(len(expected(script)))


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"brokers": 0}, "'brokers' is 0: write a whole number from 1"),
        ({"publishers": -1}, "'publishers' is -1"),
        ({"publishers": 0}, "at least 1 publisher"),
        ({"duration_s": -1.0}, "'duration_s' is -1"),
        ({"duration_s": "inf"}, "'duration_s' is inf"),
        ({"rate_msgs_per_s": 0}, "'rate_msgs_per_s' is 0"),
        ({"subscriber_brokers": 64}, "there are 63 brokers"),
        ({"mix": "odd"}, 'write "random" or "enterprise"'),
    ],
)
def test_parameters_out_of_range_are_refused(given: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        parameters_of(DEFINITION, given)


def test_nobody_and_nothing_is_a_workload_too() -> None:
    for parameters in (
        StockParameters(publishers=0, subscribers=0),
        StockParameters(publishers=2, subscribers=3, duration_s=0.0),
    ):
        made = stocks.make(parameters, 1, None)
        rows = {plan.table: in_process(plan, 1).num_rows for plan in made.plans}
        assert rows == {
            "publishers": parameters.publishers,
            "publications": 0,
            "subscriptions": parameters.subscribers,
        }
        assert made.measured is not None
        assert made.measured({}) == {}


# --- recorded quotes ------------------------------------------------------------------------------


def record(folder: Path, **replaced: pa.Array) -> Path:
    """Three symbols over four days: BUSY, MID and QUIET; one of MID's days is incomplete."""
    days = [datetime.datetime(2013, 2, 8) + datetime.timedelta(number) for number in range(4)]
    nan = float("nan")
    rows = {
        "date": pa.array(days * 3, pa.timestamp("us")),
        "symbol": pa.array(["MID"] * 4 + ["QUIET"] * 4 + ["BUSY"] * 4).dictionary_encode(),
        "open": [10.0, nan, 12.0, 13.0] + [5.0] * 4 + [1.5] * 4,
        "high": [11.0, 12.0, 13.0, 14.0] + [6.0] * 4 + [1.25] * 4,
        "low": [9.0, 10.0, 11.0, 12.0] + [4.0] * 4 + [1.0] * 4,
        "close": [10.5, 11.5, 12.5, 13.5] + [5.5] * 4 + [1.0] * 4,
        "volume": pa.array([200] * 4 + [100] * 4 + [900] * 4, pa.int64()),
    }
    folder.mkdir(exist_ok=True)
    pq.write_table(pa.table(rows | replaced), folder / DATA_FILE)
    return folder


def publications_of(data: Path, publishers: int = 3) -> list[dict[str, Any]]:
    parameters = StockParameters(
        publishers=publishers, subscribers=0, rate_msgs_per_s=1.0, duration_s=5.0
    )
    made = stocks.make(parameters, 1, data)
    assert made.source == "S&P 500 daily quotes 2013-2018"
    rows = in_process(made.plans[1], 1)
    return [msgspec.json.decode(text) for text in rows["attributes"].to_pylist()]


def test_recorded_quotes_are_published_most_traded_symbols_first(tmp_path: Path) -> None:
    found = publications_of(record(tmp_path))
    assert [quote["symbol"] for quote in found] == ["BUSY"] * 5 + ["MID"] * 5 + ["QUIET"] * 5
    busy, mid = found[0], found[5:10]
    assert busy["high"] == busy["open"] == 1.5  # recorded as 1.25, below the open
    assert busy["closeEqualsLow"] is True
    assert [quote["open"] for quote in mid] == [10.0, 12.0, 13.0, 10.0, 12.0]
    assert [quote["date"] for quote in mid[:3]] == ["2013-02-08", "2013-02-10", "2013-02-11"]
    assert mid[0]["openClose%Diff"] == 5.0


def test_only_as_many_symbols_and_days_travel_as_are_published(tmp_path: Path) -> None:
    history = stocks.read_history(record(tmp_path) / DATA_FILE, symbols=2, days_max=2)
    assert history.symbols == ("BUSY", "MID")
    assert history.starts.tolist() == [0, 2, 4]
    assert history.volume.tolist() == [900, 900, 200, 200]


def test_more_publishers_than_symbols_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="has quotes of 3 symbols: write at most 3"):
        publications_of(record(tmp_path), publishers=4)


def test_data_that_is_not_quotes_is_refused_with_its_name(tmp_path: Path) -> None:
    with pytest.raises(FileError, match=f"{DATA_FILE}: cannot be read as quotes"):
        publications_of(tmp_path)
    record(tmp_path, open=pa.array(["much"] * 12))
    with pytest.raises(FileError, match=f"{DATA_FILE}: cannot be read as quotes"):
        publications_of(tmp_path)
    path = tmp_path / DATA_FILE
    pq.write_table(pq.read_table(path).drop_columns(["close"]), path)
    with pytest.raises(FileError, match="has no column 'close'"):
        publications_of(tmp_path)
