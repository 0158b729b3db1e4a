"""The report as one HTML page that needs no network: style, script, Plotly and numbers inside.

Everything from the run is escaped on its way into the page, as text or as JSON, and the browser is
told to run nothing but the page's own two scripts and to fetch nothing. The page holds
the numbers of the report as JSON (`#report`), the same that `--json` prints.
"""

from __future__ import annotations

import base64
import hashlib
from importlib import resources
from typing import Any

import msgspec

from gravitate.pipeline.evaluate.registry import GROUPS, NAMED, Metric
from gravitate.pipeline.report.answers import ANSWERS
from gravitate.pipeline.report.figures import Difference, Report
from gravitate.pipeline.report.section import Section, Table, named_runs
from gravitate.pipeline.report.words import ABSENT, escaped, percent, signed, with_unit

TILES = {
    "delivered": "deliveries",
    "delay_ms_p50": "median delay",
    "delay_ms_p99": "99 % are delivered within",
    "hops_mean": "links a delivery passes",
    "broker_rate_msgs_per_s_max": "messages at the busiest broker",
    "yield_share": "yield",
    "bandwidth_bytes_per_s": "bandwidth of all links",
    "load_balance_messages": "busiest broker over the mean",
}
"""The metrics that are shown large, with what they are called there."""
_VERDICTS = {"better": "✓ better", "worse": "✗ worse", "same": "same", "": ""}


def render(report: Report) -> str:
    """The whole page."""
    runs = named_runs(report)
    parts = [answer(runs) for answer in ANSWERS]
    plots = [
        {"id": plot.id, "data": plot.data, "layout": plot.layout}
        for part in parts
        if not _is_empty(part)
        for plot in part.plots
    ]
    scripts = (_plotly(), _resource("page.js"))
    title = " and ".join(run.facts.run for run in report.runs)
    return "\n".join(
        [
            "<!doctype html>",
            '<html lang="en">',
            "<head>",
            '<meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f'<meta http-equiv="Content-Security-Policy" content="{_policy(*scripts)}">',
            '<meta name="color-scheme" content="light dark">',
            '<link rel="icon" href="data:,">',
            f"<title>Gravitate report: {escaped(title)}</title>",
            f"<style>{_resource('page.css')}</style>",
            "</head>",
            "<body>",
            '<a class="skip" href="#numbers">Skip to the numbers</a>',
            _header(report),
            _contents(parts),
            "<main>",
            _headline(report),
            *(_section(part) for part in parts),
            "</main>",
            f"<footer>Written by Gravitate {escaped(report.gravitate_version)}. "
            "The numbers are in this page as JSON, too "
            "(element <code>#report</code>).</footer>",
            f'<script type="application/json" id="report">{_json(report)}</script>',
            f'<script type="application/json" id="plots">{_json(plots)}</script>',
            *(f"<script>{script}</script>" for script in scripts),
            "</body>",
            "</html>",
            "",
        ]
    )


def _json(what: Any) -> str:
    """JSON that can stand inside a script element whatever its strings hold."""
    text = msgspec.json.encode(what).decode()
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def _policy(*scripts: str) -> str:
    """What a browser may do for this page: run these scripts, fetch nothing."""
    allowed = " ".join(
        f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"
        for script in scripts
    )
    return (
        f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; img-src data: blob:"
    )


def _plotly() -> str:
    from plotly.offline import get_plotlyjs

    return str(get_plotlyjs()).replace("</script", "<\\/script")


def _resource(name: str) -> str:
    return (resources.files("gravitate.pipeline.report") / name).read_text(encoding="utf-8")


# --- the top --------------------------------------------------------------------------------------


def _header(report: Report) -> str:
    first = report.run.facts
    if report.compared is None:
        heading = first.run
        about = (
            f"{first.network}: {first.brokers} brokers, {first.primary_links} links, observed for "
            f"{first.observed_s:,.0f} s"
        )
    else:
        second = report.compared.facts
        heading = f"{first.run} → {second.run}"
        about = (
            f"A: {first.network}, {first.brokers} brokers. B: {second.network}, "
            f"{second.brokers} brokers. Changes are from A to B."
        )
    return (
        f'<header><p class="kind">Gravitate report</p><h1>{escaped(heading)}</h1>'
        f"<p>{escaped(about)}</p></header>"
    )


def _contents(parts: list[Section]) -> str:
    links = "".join(f'<li><a href="#{part.id}">{escaped(part.name)}</a></li>' for part in parts)
    return (
        f'<nav aria-label="Contents"><ul><li><a href="#numbers">Numbers</a></li>{links}</ul></nav>'
    )


def _headline(report: Report) -> str:
    return "\n".join(
        [
            '<section id="numbers" aria-labelledby="numbers-heading">',
            '<h2 id="numbers-heading">How did the network do?</h2>',
            _tiles(report),
            *_notes(report),
            _metrics_tables(report),
            "</section>",
        ]
    )


def _tiles(report: Report) -> str:
    changes = {change.metric: change for change in report.differences}
    shown = []
    for name, label in TILES.items():
        metric = NAMED[name]
        values = [run.headline[name] for run in report.runs]
        value = " → ".join(with_unit(value, metric.unit) for value in values)
        change = changes.get(name)
        verdict = ""
        if change is not None and change.change_share is not None:
            verdict = (
                f'<span class="change {change.verdict}">{_share(change)} '
                f"{_VERDICTS[change.verdict] if change.verdict != 'same' else ''}</span>"
            )
        shown.append(
            f'<li><span class="label">{escaped(label)}</span>'
            f'<span class="value">{escaped(value)}</span>{verdict}</li>'
        )
    kind = "tiles two" if report.compared is not None else "tiles"
    return f'<ul class="{kind}">{"".join(shown)}</ul>'


def _notes(report: Report) -> list[str]:
    found = []
    if report.caveats:
        items = "".join(f"<li>{escaped(sentence)}</li>" for sentence in report.caveats)
        found.append(
            f'<div class="caveats" role="note"><p>Compare with care:</p><ul>{items}</ul></div>'
        )
    for name, run in named_runs(report):
        items = "".join(f"<li>{escaped(sentence)}</li>" for sentence in run.findings)
        heading = f"What stands out in {name}" if name else "What stands out"
        found.append(f"<h3>{escaped(heading)}</h3><ul>{items}</ul>")
    return found


def _metrics_tables(report: Report) -> str:
    """All metrics, a small table for each group: side by side for one run, in line for two."""
    kind = "groups compared" if report.differences else "groups"
    tables = "".join(_group_table(report, group) for group in GROUPS)
    return f'<h3>All metrics</h3><div class="{kind}">{tables}</div>'


def _group_table(report: Report, group: str) -> str:
    head = [group, *(name or "" for name, _ in named_runs(report))]
    if report.differences:
        head += ["change", "in %", "verdict"]
    columns = "".join(
        f'<th scope="col">{escaped(column)}</th>' if column else "<td></td>" for column in head
    )
    rows = "".join(_metric_row(report, metric) for metric in GROUPS[group])
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{escaped(group)}">'
        f'<table class="metrics"><thead><tr>{columns}</tr></thead><tbody>{rows}</tbody></table>'
        "</div>"
    )


def _metric_row(report: Report, metric: Metric) -> str:
    cells = [
        f'<th scope="row">{escaped(metric.label)}'
        f'<span class="meaning">{escaped(metric.meaning)}</span></th>'
    ]
    cells += [
        f"<td>{escaped(with_unit(run.headline[metric.name], metric.unit))}</td>"
        for run in report.runs
    ]
    for change in report.differences:
        if change.metric == metric.name:
            cells.append(f"<td>{_change(metric, change)}</td>")
            cells.append(f"<td>{_share(change)}</td>")
            cells.append(f'<td class="{change.verdict}">{_VERDICTS[change.verdict]}</td>')
    return f"<tr>{''.join(cells)}</tr>"


def _change(metric: Metric, difference: Difference) -> str:
    change = difference.change
    if change is None:
        return ABSENT
    if difference.verdict == "same":
        return "≈ 0" if change else "0"
    if metric.unit == "%":
        return signed(f"{abs(100 * change):.1f} points", change)
    return signed(escaped(with_unit(abs(change), metric.unit)), change)


def _share(difference: Difference) -> str:
    share = difference.change_share
    if share is None:
        return ABSENT
    return "≈ 0 %" if difference.verdict == "same" else signed(percent(abs(share)), share)


# --- sections -------------------------------------------------------------------------------------


def _is_empty(part: Section) -> bool:
    return bool(part.empty) and not any(table.rows for table in part.tables if table.open)


def _section(part: Section) -> str:
    heading = f"{part.id}-heading"
    lines = [
        f'<section id="{part.id}" aria-labelledby="{heading}">',
        f'<h2 id="{heading}">{escaped(part.question)}</h2>',
    ]
    if _is_empty(part):
        lines.append(f'<p class="empty">{escaped(part.empty)}</p>')
    else:
        lines.append(f'<p class="reading">{escaped(part.reading)}</p>')
        if part.empty:
            lines.append(f'<p class="empty">{escaped(part.empty)}</p>')
        kind = "plots beside" if part.side_by_side and len(part.plots) > 1 else "plots"
        lines.append(f'<div class="{kind}">')
        lines += [
            f'<div class="plot" id="{plot.id}" role="img" aria-label="{escaped(plot.label)}; '
            f'its numbers are in the table below" style="height:{plot.height_px}px"></div>'
            for plot in part.plots
        ]
        lines.append("</div>")
        lines += [_table(table) for table in part.tables if table.rows]
    lines.append("</section>")
    return "\n".join(lines)


def _table(table: Table) -> str:
    columns = "".join(
        f'<th scope="col"{_kind(index, table)}>{escaped(column)}</th>'
        for index, column in enumerate(table.columns)
    )
    rows = "".join(
        "<tr>"
        + "".join(
            f'<th scope="row">{escaped(cell)}</th>'
            if index == 0
            else f"<td{_kind(index, table)}>{escaped(cell)}</td>"
            for index, cell in enumerate(row)
        )
        + "</tr>"
        for row in table.rows
    )
    caption = escaped(table.caption)
    body = (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{caption}"><table>'
        f"<thead><tr>{columns}</tr></thead><tbody>{rows}</tbody></table></div>"
    )
    if table.open:
        return f"<h3>{caption}</h3>{body}"
    return f"<details><summary>{caption} as a table</summary>{body}</details>"


def _kind(index: int, table: Table) -> str:
    return ' class="text"' if index < table.text_columns else ""
