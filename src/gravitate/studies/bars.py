"""Grouped bars as an SVG picture, for the figures of studies.

    svg(Panel("message rate, % of static", ("X = 1", "X = 4"), {"POP": (Bar(20.0), Bar(60.0))}))

Text in, text out: the same panels, the same picture. Knows nothing of what is drawn.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final
from xml.sax.saxutils import escape

import msgspec

COLOURS: Final = ("#4477aa", "#66ccee", "#228833", "#ccbb44", "#ee6677", "#aa3377")
"""Told apart by people who see few colours too (Paul Tol's bright scheme)."""
_WIDTH: Final = 760
_HEIGHT: Final = 240
_LEFT: Final = 46
_TOP: Final = 44
_BOTTOM: Final = 30
_GAP: Final = 0.25
"""Between groups, as a share of one."""


class Bar(msgspec.Struct, frozen=True):
    value: float
    half: float = 0.0
    """Half the width of the confidence interval; 0: none is drawn."""


class Panel(msgspec.Struct, frozen=True):
    """One diagram: a bar for each series in each group."""

    title: str
    groups: tuple[str, ...]
    series: Mapping[str, Sequence[Bar | None]]
    """By name, a bar for each group; None where there is none."""


def svg(*panels: Panel) -> str:
    """The panels, one below the other."""
    parts = [_panel(panel, number * _HEIGHT) for number, panel in enumerate(panels)]
    height = _HEIGHT * len(panels)
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" '
            'font-family="sans-serif" font-size="12">',
            f'<rect width="{_WIDTH}" height="{height}" fill="#ffffff"/>',
            *parts,
            "</svg>",
            "",
        ]
    )


def _panel(panel: Panel, top: int) -> str:
    bars = [bar for series in panel.series.values() for bar in series if bar is not None]
    most = _round_up(max((bar.value + bar.half for bar in bars), default=1.0))
    floor = top + _HEIGHT - _BOTTOM
    scale = (floor - top - _TOP) / most
    parts = [_text(_LEFT, top + 16, panel.title, weight="bold"), *_legend(panel, top + 32)]
    for step in range(5):
        value = most * step / 4
        y = floor - value * scale
        parts.append(f'<path d="M{_LEFT} {y:.1f}H{_WIDTH - 8}" stroke="#dddddd"/>')
        parts.append(_text(_LEFT - 6, y + 4, f"{value:g}", anchor="end"))
    wide = (_WIDTH - _LEFT - 8) / max(len(panel.groups), 1)
    each = wide * (1 - _GAP) / max(len(panel.series), 1)
    for position, group in enumerate(panel.groups):
        left = _LEFT + position * wide + wide * _GAP / 2
        parts.append(_text(left + wide * (1 - _GAP) / 2, floor + 18, group, anchor="middle"))
        for number, series in enumerate(panel.series.values()):
            bar = series[position]
            if bar is not None:
                parts += _bar(bar, left + number * each, each, floor, scale, number)
    return "\n".join(parts)


def _bar(bar: Bar, left: float, wide: float, floor: float, scale: float, number: int) -> list[str]:
    high = bar.value * scale
    parts = [
        f'<rect x="{left + 1:.1f}" y="{floor - high:.1f}" width="{wide - 2:.1f}" '
        f'height="{high:.1f}" fill="{COLOURS[number % len(COLOURS)]}"/>'
    ]
    if bar.half:
        middle, reach = left + wide / 2, bar.half * scale
        parts.append(
            f'<path d="M{middle:.1f} {floor - high - reach:.1f}v{2 * reach:.1f}" stroke="#222222"/>'
        )
    return parts


def _legend(panel: Panel, y: float) -> list[str]:
    parts, x = [], float(_LEFT)
    for number, name in enumerate(panel.series):
        colour = COLOURS[number % len(COLOURS)]
        parts.append(f'<rect x="{x:.0f}" y="{y - 9}" width="10" height="10" fill="{colour}"/>')
        parts.append(_text(x + 14, y, name))
        x += 34 + 7 * len(name)
    return parts


def _text(x: float, y: float, text: str, anchor: str = "start", weight: str = "normal") -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-weight="{weight}" '
        f'fill="#222222">{escape(text)}</text>'
    )


def _round_up(value: float) -> float:
    """The next of 1, 2, 4, 5, 8, 10, 12 times a power of ten, so that quarters are short."""
    if value <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(value))
    return next(step * power for step in (1, 1.2, 2, 4, 5, 8, 10, 12) if step * power >= value)
