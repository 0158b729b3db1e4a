"""Daily stock quotes as columns: drawn from a model, or taken from a history that was recorded.

Owns what a quote's attributes are and how series of them come about. It does not know who
publishes them, when, or who wants them.

A drawn series is a function of the seed and the publisher's index alone; a longer one begins with
the shorter. The model has as many parts as subscribers can tell apart: symbols differ in price,
trading volume and volatility; within a symbol, prices walk with fat-tailed steps overnight and
over the day, and volume has a memory. Its constants were measured on the daily quotes of the
S&P 500's 505 stocks from February 2013 to February 2018.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

import msgspec
import numpy as np
import numpy.typing as npt

from gravitate.model.seeds import generator

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

FITTED_TO: Final = "S&P 500 daily quotes 2013-2018"
RANKED: Final = ("volume", "close", "highLow%Diff", "openClose%Diff")
"""Attributes that conditions are drawn over."""

# Over symbols: geometric mean, and standard deviation of the logarithm.
PRICE, PRICE_SPREAD = 46.4, 0.66
"""First close of a symbol."""
VOLUME, VOLUME_SPREAD = 2_230_000.0, 0.95
"""A symbol's trading volume on a typical day."""
DAY_MOVE, DAY_MOVE_SPREAD = 0.0124, 0.257
"""Standard deviation of log(close / open)."""
NIGHT_MOVE, NIGHT_MOVE_SPREAD = 0.0086, 0.336
"""Standard deviation of log(open / close of the day before)."""
PRICE_AND_VOLUME: Final = -0.49
"""Correlation of a symbol's log price with its log volume."""
DAY_AND_NIGHT: Final = 0.76
"""Correlation of a symbol's log volatilities by day and by night."""

# Within a symbol, from day to day.
DAY_TAIL, NIGHT_TAIL = 5, 3
"""Degrees of freedom of Student's t: as fat as the tails by day (excess kurtosis 7) and by night
(middle half of the moves half as wide as a normal distribution's)."""
VOLUME_DAILY: Final = 0.45
"""Standard deviation of log volume around its symbol's level."""
VOLUME_MEMORY: Final = 0.60
"""Correlation of log volume with that of the day before."""
WICK: Final = 0.40
"""Mean distance of high and low from open and close, in standard deviations of the day's move."""
NO_WICK_AT_OPEN, NO_WICK_AT_CLOSE = 0.050, 0.0
"""How often the day's extreme is the open, or the close, where that is on this side; rounding to
cents makes 2 % equal beside."""

WALK_MAX: Final = 2.0
"""How far the log price goes from its start before it is turned back: a walk without an end would
leave every price range in long workloads."""
NIGHT_MAX: Final = 0.5
MEMORY_DAYS: Final = 24
"""After so many days nothing is left of a day's volume."""
FIRST_DAY: Final = np.datetime64("2013-02-08")
DAYS: Final = 5200
"""Weekdays, some twenty years, after which drawn dates begin again."""
LETTERS: Final = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


class Quotes(msgspec.Struct, frozen=True, eq=False):
    """Successive quotes of one symbol, a column each; `day` counts from 1970-01-01."""

    day: Integers
    open: Floats
    high: Floats
    low: Floats
    close: Floats
    volume: Integers

    def __len__(self) -> int:
        return len(self.day)

    @property
    def open_close_diff(self) -> Floats:
        """`openClose%Diff`: the day's move in percent of the open."""
        return np.round(100.0 * (self.close - self.open) / self.open, 4)

    @property
    def high_low_diff(self) -> Floats:
        """`highLow%Diff`: the day's range in percent of the low."""
        return np.round(100.0 * (self.high - self.low) / self.low, 4)

    def ranked(self) -> tuple[Floats, ...]:
        """The columns of `RANKED`, each in ascending order."""
        columns = (self.volume.astype(float), self.close, self.high_low_diff, self.open_close_diff)
        return tuple(np.sort(column) for column in columns)


class History(msgspec.Struct, frozen=True, eq=False):
    """Recorded quotes of several symbols; symbol `i` has rows `starts[i]` to `starts[i + 1]`.

    Prices are in ten-thousandths. Small enough to be sent to the workers of a cluster."""

    symbols: tuple[str, ...]
    starts: Integers
    day: npt.NDArray[Any]
    open: npt.NDArray[Any]
    high: npt.NDArray[Any]
    low: npt.NDArray[Any]
    close: npt.NDArray[Any]
    volume: npt.NDArray[Any]

    def quotes(self, index: int, count: int) -> Quotes:
        """`count` quotes of symbol `index` from its first day; a series that is too short is
        begun again."""
        first, end = int(self.starts[index]), int(self.starts[index + 1])
        rows = first + np.arange(count) % (end - first)
        opening, high, low, close = (
            column[rows] / 10_000.0 for column in (self.open, self.high, self.low, self.close)
        )
        return Quotes(
            self.day[rows].astype(np.int64),
            opening,
            # Some recorded extremes are inside the day's own range.
            np.maximum(high, np.maximum(opening, close)),
            np.minimum(low, np.minimum(opening, close)),
            close,
            self.volume[rows].astype(np.int64),
        )


def symbol(seed: int, index: int) -> str:
    """The symbol of a drawn publisher; others have others. Four letters while there are enough."""
    width, rest = 4, index
    while rest >= 26**width:
        rest -= 26**width
        width += 1
    step, shift = generator(seed, "stocks", "symbols", width).integers(0, 26**width, 2).tolist()
    # A step prime to 26 goes round all words before it comes back to one.
    while step % 2 == 0 or step % 13 == 0:
        step += 1
    place = (rest * step + shift) % 26**width
    return "".join(LETTERS[place // 26**digit % 26] for digit in range(width))


def drawn(seed: int, index: int, count: int) -> Quotes:
    """`count` quotes of publisher `index` from the model."""
    of_symbol = generator(seed, "stocks", "symbol", index).standard_normal(4)
    price = PRICE * np.exp(PRICE_SPREAD * of_symbol[0])
    volume = VOLUME * np.exp(VOLUME_SPREAD * _with(PRICE_AND_VOLUME, of_symbol[0], of_symbol[1]))
    day_sd = DAY_MOVE * np.exp(DAY_MOVE_SPREAD * of_symbol[2])
    both = _with(DAY_AND_NIGHT, of_symbol[2], of_symbol[3])
    night_sd = NIGHT_MOVE * np.exp(NIGHT_MOVE_SPREAD * both)

    day_move = day_sd * _fat_tailed(DAY_TAIL, count, seed, "day", index)
    night_move = night_sd * _fat_tailed(NIGHT_TAIL, count, seed, "night", index)
    night_move = np.clip(night_move, -NIGHT_MAX, NIGHT_MAX)
    closes = np.cumsum(night_move + day_move)
    opening, close = _turned_back(closes - day_move), _turned_back(closes)
    chances = generator(seed, "stocks", "wicks", index).random((count, 2))
    rises = close >= opening
    high = np.maximum(opening, close) + _wicks(chances[:, 0], rises, day_sd)
    low = np.minimum(opening, close) - _wicks(chances[:, 1], ~rises, day_sd)
    opening, high, low, close = (
        np.maximum(np.round(price * np.exp(level), 2), 0.01)
        for level in (opening, high, low, close)
    )
    return Quotes(
        _days(count),
        opening,
        high,
        low,
        close,
        np.rint(volume * np.exp(_volume_walk(count, seed, index))).astype(np.int64),
    )


_NAMES: Final = {
    "kind": "class",
    "open_close_diff": "openClose%Diff",
    "high_low_diff": "highLow%Diff",
    "close_equals_low": "closeEqualsLow",
    "close_equals_high": "closeEqualsHigh",
}


class _Attributes(msgspec.Struct, rename=_NAMES.get):
    """What one event says, but for its topic, in the order in which it is written."""

    kind: str
    symbol: str
    open: float
    high: float
    low: float
    close: float
    volume: int
    date: str
    open_close_diff: float
    high_low_diff: float
    close_equals_low: bool
    close_equals_high: bool


def attributes_json(symbols: Sequence[str], lengths: Sequence[int], quotes: Quotes) -> list[bytes]:
    """The attributes of each quote but its topic, as JSON objects.

    `quotes` may join several symbols, `symbols[i]` with `lengths[i]` quotes."""
    encode = msgspec.json.Encoder().encode
    columns = zip(
        np.repeat(np.array(symbols, dtype=object), lengths).tolist(),
        quotes.open.tolist(),
        quotes.high.tolist(),
        quotes.low.tolist(),
        quotes.close.tolist(),
        quotes.volume.tolist(),
        np.datetime_as_string(quotes.day.astype("datetime64[D]")).tolist(),
        quotes.open_close_diff.tolist(),
        quotes.high_low_diff.tolist(),
        (quotes.close == quotes.low).tolist(),
        (quotes.close == quotes.high).tolist(),
        strict=True,
    )
    return [encode(_Attributes("STOCK", *row)) for row in columns]


def joined(parts: Sequence[Quotes]) -> Quotes:
    """Several series, one after another."""
    if not parts:
        return Quotes(*(np.zeros(0, kind) for kind in (int, float, float, float, float, int)))
    return Quotes(
        *(
            np.concatenate([getattr(part, name) for part in parts])
            for name in Quotes.__struct_fields__
        )
    )


# --- parts of the model ---------------------------------------------------------------------------


def _with(correlation: float, one: float, other: float) -> float:
    """A standard normal number that has `correlation` with `one`, from an independent other."""
    return correlation * one + math.sqrt(1.0 - correlation**2) * other


def _fat_tailed(freedom: int, count: int, seed: int, about: str, index: int) -> Floats:
    """Student's t scaled to a standard deviation of 1."""
    numbers: Floats = generator(seed, "stocks", about, index).standard_t(freedom, count)
    return numbers / math.sqrt(freedom / (freedom - 2.0))


def _turned_back(level: Floats) -> Floats:
    """A walk folded into `-WALK_MAX` to `WALK_MAX`: at the ends it goes on the other way."""
    return WALK_MAX - np.abs((level + WALK_MAX) % (4 * WALK_MAX) - 2 * WALK_MAX)


def _wicks(chances: Floats, at_close: npt.NDArray[np.bool_], day_sd: float) -> Floats:
    """How far the day went beyond open and close, from uniform chances: sometimes not at all,
    else exponentially distributed."""
    none = np.where(at_close, NO_WICK_AT_CLOSE, NO_WICK_AT_OPEN)
    beyond = np.maximum(chances - none, 0.0) / (1.0 - none)
    return -WICK * day_sd * np.log1p(-beyond)


def _volume_walk(count: int, seed: int, index: int) -> Floats:
    """Log volume around its level, each day remembering the one before."""
    news = generator(seed, "stocks", "volume", index).standard_normal(count)
    if not count:
        return news
    kernel = (
        VOLUME_DAILY * np.sqrt(1.0 - VOLUME_MEMORY**2) * VOLUME_MEMORY ** np.arange(MEMORY_DAYS)
    )
    news[0] /= np.sqrt(1.0 - VOLUME_MEMORY**2)  # as if there had been days before
    return np.convolve(news, kernel)[:count]


def _days(count: int) -> Integers:
    days = np.busday_offset(FIRST_DAY, np.arange(min(count, DAYS)), roll="forward")
    return np.resize(days.astype(np.int64), count) if count else np.zeros(0, np.int64)
