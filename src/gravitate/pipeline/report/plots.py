"""What all plots share: their struct, colours by role, axes, hover text.

A plot is plain data in the form Plotly's JavaScript takes. Colours are named by role, as
`var(--name)`; the page's stylesheet gives them a value for light, dark and print, and its script
puts the values in. Text from outside is made fit for Plotly here, by `words.plot_text`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from gravitate.pipeline.report.words import plot_text

Trace = dict[str, Any]

INK: Final = "var(--ink)"
MUTED: Final = "var(--muted)"
GRID: Final = "var(--grid)"
SERIES: Final = ("var(--blue)", "var(--orange)", "var(--green)", "var(--purple)")
"""Told apart with every kind of colour vision; the first two are also those of two runs."""
SEQUENTIAL: Final = [[step / 4, f"var(--cool{step})"] for step in range(5)]
"""From little to much."""
WASTE: Final = [[step / 4, f"var(--warm{step})"] for step in range(5)]
"""From none to all."""

LABEL_CHARACTERS_MAX: Final = 28


class Plot(msgspec.Struct, frozen=True):
    id: str
    label: str
    """What a reader who cannot see it is told."""
    data: list[Trace]
    layout: dict[str, Any]
    height_px: int


def plot(
    id: str,
    label: str,
    data: list[Trace],
    *,
    x: dict[str, Any],
    y: dict[str, Any],
    height_px: int = 360,
    title: str = "",
    **layout: Any,
) -> Plot:
    """A plot with two axes; `title` tells runs apart where there are two."""
    return Plot(
        f"plot-{id}",
        label,
        data,
        {
            "xaxis": x,
            "yaxis": y,
            "margin": {"l": 8, "r": 8, "t": 34 if title else 12, "b": 8},
            "title": {"text": title, "font": {"size": 14}, "x": 0, "xref": "paper"},
            "legend": {
                "orientation": "h",
                "y": 1.0,
                "yanchor": "bottom",
                "x": 1,
                "xanchor": "right",
            },
            "showlegend": sum(trace.get("showlegend", True) for trace in data) > 1,
            "hoverlabel": {"align": "left"},
            "dragmode": False,
            "bargap": 0.25,
            **layout,
        },
        height_px,
    )


def axis(title: str, **more: Any) -> dict[str, Any]:
    """An axis of numbers."""
    return {
        "title": {"text": title, "standoff": 8},
        "automargin": True,
        "gridcolor": GRID,
        "zerolinecolor": GRID,
        "linecolor": GRID,
        **more,
    }


def names_axis(names: Sequence[str], title: str = "", **more: Any) -> dict[str, Any]:
    """An axis of names, at positions 0, 1, 2, ...

    Names are tick labels, not positions: Plotly would read `007` or `2024-01-01` as it likes."""
    return axis(
        title,
        tickmode="array",
        tickvals=list(range(len(names))),
        ticktext=[plot_text(name, LABEL_CHARACTERS_MAX) for name in names],
        showgrid=False,
        zeroline=False,
        range=[-0.6, len(names) - 0.4],
        **more,
    )


def reversed_names_axis(names: Sequence[str], **more: Any) -> dict[str, Any]:
    """The same with the first name on top."""
    shown = names_axis(names, **more)
    return shown | {"range": shown["range"][::-1]}


def bars(
    name: str,
    values: Sequence[float | None],
    hover: Sequence[str],
    colour: str,
    *,
    horizontal: bool = False,
    **more: Any,
) -> Trace:
    """Bars at positions 0, 1, 2, ... with a hover text each."""
    positions = list(range(len(values)))
    along, across = ("y", "x") if horizontal else ("x", "y")
    return {
        "type": "bar",
        "name": plot_text(name),
        "orientation": "h" if horizontal else "v",
        along: positions,
        across: list(values),
        "marker": {"color": colour, "line": {"width": 0}},
        "hovertext": list(hover),
        "hoverinfo": "text",
        "textposition": "none",
        **more,
    }


def line(
    name: str,
    x: Sequence[float],
    y: Sequence[float | None],
    hover: Sequence[str],
    colour: str,
    **more: Any,
) -> Trace:
    return {
        "type": "scatter",
        "mode": "lines+markers" if len(x) <= 60 else "lines",
        "name": plot_text(name),
        "x": list(x),
        "y": list(y),
        "line": {"color": colour, "width": 2},
        "marker": {"size": 5},
        "hovertext": list(hover),
        "hoverinfo": "text",
        **more,
    }


def heatmap(
    columns: int,
    values: Sequence[Sequence[float | None]],
    hover: Sequence[Sequence[str]],
    title: str,
    **more: Any,
) -> Trace:
    """Cells by row; absent values stay empty."""
    return {
        "type": "heatmap",
        "x": list(range(columns)),
        "y": list(range(len(values))),
        "z": [list(row) for row in values],
        "hovertext": [list(row) for row in hover],
        "hoverinfo": "text",
        "colorscale": SEQUENTIAL,
        "xgap": 1,
        "ygap": 1,
        "colorbar": colour_bar(title),
        **more,
    }


def colour_bar(title: str, **more: Any) -> dict[str, Any]:
    return {
        "title": {"text": title, "side": "right"},
        "thickness": 12,
        "outlinewidth": 0,
        "len": 0.9,
        **more,
    }


def hover(heading: str, *facts: tuple[str, str]) -> str:
    """A hover text: a heading from the run and lines of name and value."""
    lines = [f"<b>{plot_text(heading)}</b>"]
    lines += [f"{name}: {plot_text(value)}" for name, value in facts]
    return "<br>".join(lines)
