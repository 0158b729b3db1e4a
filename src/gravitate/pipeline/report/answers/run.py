"""What the run was: its moves, what is missing from the figures, the facts."""

from __future__ import annotations

from typing import Final

from gravitate.pipeline.report.figures import RunFigures
from gravitate.pipeline.report.section import NamedRuns, Section, Table, captioned
from gravitate.pipeline.report.words import ABSENT, count, figure, percent

REASON_CHARACTERS_MAX: Final = 300


def moves(runs: NamedRuns) -> Section:
    tables = []
    for name, run in runs:
        if not run.moves:
            continue
        tables.append(
            Table(
                captioned("Moves by kind and outcome", name),
                ("kind", "outcome", "moves"),
                [(one.kind, one.outcome, count(one.moves)) for one in run.move_counts],
                text_columns=2,
                open=True,
            )
        )
        tables.append(
            Table(
                captioned(f"The latest {len(run.moves)} moves, newest first", name),
                ("move", "kind", "decided at", "outcome", "reason", "when", "gain", "cost"),
                [
                    (
                        one.move,
                        one.kind,
                        one.broker,
                        one.outcome,
                        one.reason[:REASON_CHARACTERS_MAX],
                        f"{one.at_s:,.1f} s",
                        figure(one.gain),
                        figure(one.cost),
                    )
                    for one in run.moves
                ],
                text_columns=5,
                open=True,
            )
        )
    without = [name for name, run in runs if not run.moves]
    if len(without) == len(runs):
        empty = "There were no moves: the network kept its shape for the whole run."
    else:
        empty = f"There were no moves in {without[0]}." if without else ""
    return Section(
        "moves",
        "Moves",
        "How did the network change itself, and why?",
        "A move relocates a publisher, a subscriber or a link. Each was proposed for a reason with "
        "a predicted gain and cost, and ended done, refused or rolled back.",
        [],
        tables,
        empty=empty,
    )


def quarantined(runs: NamedRuns) -> Section:
    return Section(
        "quarantined",
        "Quarantined files",
        "Is anything missing from these figures?",
        "Trace files that could not be read were left out and everything else was counted.",
        [],
        [
            Table(
                captioned("Files left out", name),
                ("file", "reason"),
                [(one.file, one.reason) for one in run.quarantined],
                text_columns=2,
                open=True,
            )
            for name, run in runs
            if run.quarantined
        ],
        empty=""
        if any(run.quarantined for _, run in runs)
        else "No: every trace file was read, and none was quarantined.",
    )


def facts(runs: NamedRuns) -> Section:
    columns = [_run_facts(run) for _, run in runs]
    return Section(
        "facts",
        "Run",
        "What was measured?",
        "The run behind the numbers. Where only a sample of the events was traced, counts and "
        "rates are scaled up to all events; links count every event.",
        [],
        [
            Table(
                "Facts",
                ("", *(name or "this run" for name, _ in runs)),
                [(label, *(column[label] for column in columns)) for label in columns[0]],
                text_columns=1 + len(runs),
                open=True,
            )
        ],
    )


def _run_facts(run: RunFigures) -> dict[str, str]:
    facts = run.facts
    return {
        "folder": facts.run,
        "network": facts.network,
        "brokers": count(facts.brokers),
        "primary links": count(facts.primary_links),
        "scenario": facts.scenario or ABSENT,
        "seed": ABSENT if facts.seed is None else str(facts.seed),
        "clock": "virtual (simulated)" if facts.clock == "virtual" else "Unix time (real brokers)",
        "observed": f"{facts.observed_s:,.1f} s",
        "sampled": "all events" if facts.sampling_rate == 1 else percent(facts.sampling_rate),
        "period": f"{figure(facts.period_s)} s",
        "traced by Gravitate": facts.gravitate_version or ABSENT,
        "rows": ", ".join(f"{count(rows)} {table}" for table, rows in facts.rows.items()) or ABSENT,
    }
