"""Stock quotes with the *enterprise* and *random* subscriber mixes, made on Spark (paper 1).

The rows are those of `config.stock_tables`, so that a scenario with the same parameters and a
network of as many brokers has the same clients and publications. Owns cutting them into blocks of
publishers, the statistics, and reading recorded quotes.
"""

from __future__ import annotations

import math
from functools import partial
from pathlib import Path
from typing import Any, Final, Literal

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from gravitate.config import quotes, stock_tables
from gravitate.config.build import broker_ids
from gravitate.config.stock_tables import CLASSES, StockQuotes, StockWorkload
from gravitate.errors import FileError, InputError
from gravitate.pipeline.workloads.definition import Definition, Made
from gravitate.pipeline.workloads.generate import ROWS_PER_BLOCK, Block, TablePlan, Tallied

DATA_FILE: Final = "sp500_daily_2013-2018.parquet"
DATA_NAME: Final = "S&P 500 daily quotes 2013-2018"
DATA_COLUMNS: Final = ("date", "symbol", "open", "high", "low", "close", "volume")


class StockParameters(msgspec.Struct, frozen=True):
    """Parameters of the publisher-placement study (paper 1); rates are per publisher."""

    publishers: int = 40
    subscribers: int = 1000
    brokers: int = 63
    """Named as in a made network of that many."""
    mix: Literal["random", "enterprise"] = "random"
    subscriber_brokers: int = 0
    """On how many brokers subscribers are (the paper's X); 0: on all."""
    rate_msgs_per_s: float = 70 / 60
    duration_s: float = 1080.0
    payload_bytes: int = 0

    def options(self) -> StockQuotes:
        """The part that scenarios have too."""
        shared = set(StockQuotes.__struct_fields__) & set(self.__struct_fields__)
        return StockQuotes(**{name: getattr(self, name) for name in shared})


def check(parameters: StockParameters) -> None:
    if parameters.brokers < 1:
        raise InputError(f"'brokers' is {parameters.brokers}: write a whole number from 1")
    if not 0 <= parameters.duration_s < math.inf:
        raise InputError(f"'duration_s' is {parameters.duration_s:g}: write a number from 0")
    if problem := stock_tables.problem(parameters.options(), parameters.brokers):
        raise InputError(problem[1])


def make(parameters: StockParameters, seed: int, data: Path | None) -> Made:
    """The three tables; each block has the publishers from its start to its stop."""
    workload = StockWorkload(
        parameters.options(), tuple(broker_ids(parameters.brokers)), parameters.duration_s, seed
    )
    source = f"synthetic, fitted to {quotes.FITTED_TO}: spread of prices, volumes and volatility"
    if data is not None:
        history = read_history(data / DATA_FILE, parameters.publishers, workload.publications_each)
        workload = msgspec.structs.replace(workload, history=history)
        source = DATA_NAME

    def plan(table: str, make_block: Any, rows_each: int) -> TablePlan:
        per_block = max(1, ROWS_PER_BLOCK // max(rows_each, 1))
        return TablePlan(table, parameters.publishers, partial(make_block, workload), per_block)

    return Made(
        (
            plan("publishers", publishers, 1),
            plan("publications", publications, workload.publications_each),
            plan("subscriptions", subscriptions, workload.subscribers_each_max),
        ),
        source,
        measured=partial(shares, publications_each=workload.publications_each),
    )


# --- blocks ---------------------------------------------------------------------------------------


def publishers(workload: StockWorkload, block: Block) -> pa.Table:
    return stock_tables.publishers(workload, block.start, block.stop)


def publications(workload: StockWorkload, block: Block) -> pa.Table:
    return stock_tables.publications(workload, block.start, block.stop)


def subscriptions(workload: StockWorkload, block: Block) -> Tallied:
    """The rows, and of each class how many subscribers there are and what they will get."""
    made = stock_tables.subscriptions(workload, block.start, block.stop)
    counts = {}
    for number, name in enumerate(CLASSES):
        here = made.classes == number
        counts[f"subscribers_{name}"] = int(here.sum())
        counts[f"deliveries_{name}"] = int(made.deliveries[here].sum())
    return Tallied(made.rows, counts)


def shares(counts: dict[str, int], publications_each: int) -> dict[str, float]:
    """Of each class: its share of the subscribers, and the share of its symbol's publications
    that one of them gets."""
    everybody = sum(counts.get(f"subscribers_{name}", 0) for name in CLASSES)
    found = {}
    for name in CLASSES:
        subscribers = counts.get(f"subscribers_{name}", 0)
        offered = subscribers * publications_each
        if subscribers:
            found[f"subscribers_{name}_share"] = subscribers / everybody
        if offered:
            found[f"traffic_{name}_share"] = counts[f"deliveries_{name}"] / offered
    return found


# --- recorded quotes ------------------------------------------------------------------------------


def read_history(path: Path, symbols: int, days_max: int) -> quotes.History:
    """The quotes of the most traded `symbols`, the first `days_max` days of each.

    Rows with a missing figure are left out."""
    rows = _read(path)
    volumes = rows.group_by("symbol").aggregate([("volume", "mean")])
    volumes = volumes.sort_by([("volume_mean", "descending"), ("symbol", "ascending")])
    if volumes.num_rows < symbols:
        raise InputError(
            f"'publishers' is {symbols} and {path.name} has quotes of {volumes.num_rows} symbols: "
            f"write at most {volumes.num_rows}, or leave out --data"
        )
    chosen = volumes["symbol"].to_pylist()[:symbols]
    rank = pc.index_in(rows["symbol"], value_set=pa.array(chosen, pa.string()))
    rows = rows.append_column("rank", rank).filter(pc.is_valid(rank))
    rows = rows.sort_by([("rank", "ascending"), ("date", "ascending")])
    ranks = rows["rank"].to_numpy()
    first = np.searchsorted(ranks, np.arange(symbols))
    rows = rows.filter(pa.array(np.arange(len(ranks)) - first[ranks] < max(days_max, 1)))
    starts = np.searchsorted(rows["rank"].to_numpy(), np.arange(symbols + 1))

    def price(name: str) -> npt.NDArray[Any]:
        return _compact(np.rint(rows[name].to_numpy() * 10_000))

    return quotes.History(
        tuple(chosen),
        starts.astype(np.int64),
        _compact(rows["date"].cast(pa.date32()).cast(pa.int32()).to_numpy()),
        price("open"),
        price("high"),
        price("low"),
        price("close"),
        _compact(rows["volume"].to_numpy()),
    )


def _read(path: Path) -> pa.Table:
    try:
        with pq.ParquetFile(path) as file:
            for name in DATA_COLUMNS:
                if name not in file.schema_arrow.names:
                    raise FileError(
                        f"has no column '{name}': expected {', '.join(DATA_COLUMNS)}", str(path)
                    )
            rows = file.read(columns=list(DATA_COLUMNS))
        figures = {name: pc.cast(rows[name], pa.float64()) for name in DATA_COLUMNS[2:]}
        texts = {"symbol": pc.cast(rows["symbol"], pa.string()), "date": rows["date"]}
        dates = pc.cast(texts["date"], pa.date32())
    except (pa.ArrowException, OSError) as problem:
        reason = str(problem).splitlines()[0]
        raise FileError(f"cannot be read as quotes: {reason}", str(path)) from None
    complete = pc.and_(pc.is_valid(texts["symbol"]), pc.is_valid(dates))
    for column in figures.values():
        complete = pc.and_(complete, pc.fill_null(pc.is_finite(column), False))
    for name in ("open", "high", "low", "close"):
        complete = pc.and_(complete, pc.fill_null(pc.greater(figures[name], 0.0), False))
    return pa.table(texts | {"date": dates} | figures).filter(complete)


def _compact(whole: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Whole numbers from 0 in the smallest type that holds them."""
    largest = int(whole.max()) if len(whole) else 0
    compact: npt.NDArray[Any] = np.maximum(whole, 0).astype(np.min_scalar_type(largest))
    return compact


DEFINITION: Final = Definition(
    name="stocks",
    summary="stock quotes, subscribers in the mixes enterprise and random (publisher placement)",
    parameters=StockParameters,
    make=make,
    check=check,
)
