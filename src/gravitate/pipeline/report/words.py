"""Numbers and outside text as a reader sees them.

Client ids, topics, reasons and file names come from outside: `plain` makes invisible characters
visible, and whoever puts the result into HTML or Plotly text escapes it.
"""

from __future__ import annotations

import html
from typing import Final

ABSENT: Final = "–"


def figure(value: float | None) -> str:
    """A number with three significant digits, whole numbers and large ones in full."""
    if value is None:
        return ABSENT
    if value == round(value) or abs(value) >= 1000:
        return f"{value:,.0f}"
    if abs(value) >= 100:
        return f"{value:.0f}"
    if abs(value) >= 10:
        return f"{value:.1f}"
    return f"{value:.2f}" if abs(value) >= 1 else f"{value:.3g}"


def with_unit(value: float | None, unit: str) -> str:
    """A number with its unit; a unit of % takes a share."""
    if value is None:
        return ABSENT
    if unit == "%":
        return percent(value)
    if unit == "B/s":
        return bandwidth(value)
    if unit == "x":
        return f"{value:.2f} ×"
    if unit == "/s":
        return rate(value)
    return f"{figure(value)} {unit}" if unit else figure(value)


def count(value: float) -> str:
    return f"{value:,.0f}"


def ms(value: float | None) -> str:
    return ABSENT if value is None else f"{figure(value)} ms"


def percent(share: float | None) -> str:
    return ABSENT if share is None else f"{100 * share:.1f} %"


def rate(value: float | None) -> str:
    return ABSENT if value is None else f"{figure(value)}/s"


def bandwidth(value: float | None) -> str:
    if value is None:
        return ABSENT
    for unit in ("B/s", "kB/s", "MB/s"):
        if abs(value) < 1000:
            return f"{figure(value)} {unit}"
        value /= 1000
    return f"{figure(value)} GB/s"


def signed(text: str, value: float) -> str:
    """`text`, the magnitude of `value` in words, with the sign of `value`."""
    return f"+{text}" if value > 0 else f"−{text}" if value < 0 else text


def plain(text: str, longest: int = 0) -> str:
    """`text` with invisible characters spelt out, cut to `longest` characters if given."""
    shown = "".join(
        character if character.isprintable() else f"\\u{ord(character):04x}" for character in text
    )
    return f"{shown[: longest - 1]}…" if longest and len(shown) > longest else shown


def escaped(text: str, longest: int = 0) -> str:
    """`plain` text, fit for HTML."""
    return html.escape(plain(text, longest))


def plot_text(text: str, longest: int = 0) -> str:
    """`plain` text, fit for Plotly, which knows some tags but not the entities of quotes."""
    return html.escape(plain(text, longest), quote=False)
