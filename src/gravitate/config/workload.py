"""Synthetic workloads, drawn from a seed: stock quotes and the subscribers that want them.

Owns what clients ask for and publish; on which brokers they sit is decided here too, because the
mixes of the publisher-placement study are about exactly that (spec/1, *Workloads*). It does not
know how a workload is run.

Every publisher quotes one symbol on the topic `stocks/SYMBOL`. Prices follow a random walk; the
attributes are those of daily quotes. A subscriber follows one symbol: *high-rated* ones take all
of it, *medium* and *low* ones about half and a tenth, by a condition on one attribute whose bound
is a quantile of what the publisher will really publish.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Literal

import msgspec

from gravitate.config.script import Publication, ScriptClient, Subscription, payload_of
from gravitate.model.events import TOPIC, Event, Value

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
RANKED = ("volume", "close", "highLow%Diff", "openClose%Diff")
"""Attributes that conditions are drawn over."""


class StockQuotes(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Parameters of the stock-quote workload; rates are per publisher.

    The paper's own table of rates is unreadable; spec/1 settles for 70 a minute."""

    publishers: int = 40
    subscribers: int = 1000
    rate_msgs_per_s: float = 70 / 60
    mix: Literal["random", "enterprise"] = "random"
    qos: Literal[0, 1] = 1
    payload_bytes: int = 0


def symbols(count: int, generator: random.Random) -> list[str]:
    """Distinct symbols of four letters."""
    found: dict[str, None] = {}
    while len(found) < count:
        found["".join(generator.choice(LETTERS) for _ in range(4))] = None
    return list(found)


def quotes(symbol: str, count: int, generator: random.Random) -> list[dict[str, Value]]:
    """`count` successive quotes of one symbol."""
    price = generator.uniform(10.0, 200.0)
    volume_mean = generator.uniform(2e5, 5e6)
    found: list[dict[str, Value]] = []
    for number in range(count):
        opening = price
        close = max(1.0, opening * (1.0 + generator.gauss(0.0, 0.02)))
        high = max(opening, close) * (1.0 + abs(generator.gauss(0.0, 0.006)))
        low = min(opening, close) * (1.0 - abs(generator.gauss(0.0, 0.006)))
        if generator.random() < 0.1:
            high = max(opening, close)
        if generator.random() < 0.1:
            low = min(opening, close)
        opening, high, low, close = (round(value, 2) for value in (opening, high, low, close))
        found.append(
            {
                TOPIC: f"stocks/{symbol}",
                "class": "STOCK",
                "symbol": symbol,
                "open": opening,
                "high": high,
                "low": low,
                "close": close,
                "volume": int(generator.lognormvariate(0.0, 0.6) * volume_mean),
                "date": f"2026-{number // 28 % 12 + 1:02}-{number % 28 + 1:02}",
                "openClose%Diff": round(100.0 * (close - opening) / opening, 4),
                "highLow%Diff": round(100.0 * (high - low) / low, 4),
                "closeEqualsLow": close == low,
                "closeEqualsHigh": close == high,
            }
        )
        price = close
    return found


def stock_quotes(
    options: StockQuotes, brokers: Sequence[str], duration_s: float, seed: int
) -> tuple[list[ScriptClient], list[Publication]]:
    """The clients of the workload on `brokers`, and what they publish, in time order."""
    generator = random.Random(f"stock-quotes/{seed}")
    publishers: list[ScriptClient] = []
    publications: list[Publication] = []
    quoted: dict[str, list[dict[str, Value]]] = {}
    interval_s = 1.0 / options.rate_msgs_per_s
    count = int(duration_s * options.rate_msgs_per_s)
    for index, symbol in enumerate(symbols(options.publishers, generator)):
        client = f"pub-{index + 1:0{len(str(options.publishers))}}"
        advertisement = f"topic = 'stocks/{symbol}'"
        publishers.append(
            ScriptClient(client, generator.choice(brokers), advertisements=(advertisement,))
        )
        quoted[symbol] = quotes(symbol, count, generator)
        phase_s = generator.uniform(0.0, interval_s)
        for number, attributes in enumerate(quoted[symbol], 1):
            at_s = round(phase_s + (number - 1) * interval_s, 6)
            event = Event(attributes, payload_of(client, number, options.payload_bytes))
            publications.append(Publication(at_s, client, number, event, options.qos))
    publications.sort(key=lambda publication: (publication.at_s, publication.client))
    subscribers = _subscribers(options, brokers, quoted, generator)
    return [*publishers, *subscribers], publications


def _subscribers(
    options: StockQuotes,
    brokers: Sequence[str],
    quoted: dict[str, list[dict[str, Value]]],
    generator: random.Random,
) -> list[ScriptClient]:
    """Subscribers over the symbols in turn, rated and placed as the mix says.

    *enterprise*: 95 % low on any broker but one, 5 % high, all on that one. *random*: 70 % low,
    25 % medium, 5 % high, anywhere."""
    high_broker = generator.choice(brokers)
    others = [broker for broker in brokers if broker != high_broker] or list(brokers)
    names = list(quoted)
    width = len(str(options.subscribers))
    found = []
    for index in range(options.subscribers):
        symbol = names[index % len(names)]
        drawn = generator.random()
        if options.mix == "enterprise":
            share = 1.0 if drawn < 0.05 else 0.1
            broker = high_broker if share == 1.0 else generator.choice(others)
        else:
            share = 1.0 if drawn < 0.05 else 0.5 if drawn < 0.30 else 0.1
            broker = generator.choice(brokers)
        subscription = Subscription(
            topic=f"stocks/{symbol}",
            where=_condition(share, quoted[symbol], generator),
            name="quotes",
            qos=options.qos,
        )
        found.append(ScriptClient(f"sub-{index + 1:0{width}}", broker, (subscription,)))
    return found


def _condition(share: float, quoted: Sequence[dict[str, Value]], generator: random.Random) -> str:
    """A condition that about `share` of the quotes meet; empty when all do."""
    attribute = generator.choice(RANKED)
    share *= generator.uniform(0.8, 1.2)
    above = generator.random() < 0.5
    if share >= 0.8 or not quoted:
        return ""
    ranked = sorted(float(quote[attribute]) for quote in quoted)
    place = (1.0 - share if above else share) * (len(ranked) - 1)
    bound = ranked[round(place)]
    return f'"{attribute}" {">=" if above else "<="} {bound!r}'
