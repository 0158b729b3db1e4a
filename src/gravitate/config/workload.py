"""The stock-quote workload made for a scenario: clients and publications from a seed.

The rows are those of `stock_tables`, the same that a workload with these parameters has on disk.
"""

from __future__ import annotations

from collections.abc import Sequence

from gravitate.config import stock_tables
from gravitate.config.script import Publication, ScriptClient
from gravitate.config.stock_tables import StockQuotes as StockQuotes
from gravitate.config.workload_script import as_clients, as_publications


def stock_quotes(
    options: StockQuotes, brokers: Sequence[str], duration_s: float, seed: int
) -> tuple[list[ScriptClient], list[Publication]]:
    """The clients of the workload on `brokers`, and what they publish, in time order."""
    workload = stock_tables.StockWorkload(options, tuple(brokers), duration_s, seed)
    everybody = (workload, 0, options.publishers)
    clients = as_clients(
        stock_tables.publishers(*everybody),
        stock_tables.subscriptions(*everybody).rows,
        options.qos,
    )
    return clients, as_publications(stock_tables.publications(*everybody), options.qos)
