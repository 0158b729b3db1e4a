"""The answers of a report, a module for each kind of question: section, plots and table."""

from gravitate.pipeline.report.answers.delays import delays, hops
from gravitate.pipeline.report.answers.interest import interest, publishers, topics
from gravitate.pipeline.report.answers.loads import links, loads, yields
from gravitate.pipeline.report.answers.overlay import overlay
from gravitate.pipeline.report.answers.run import facts, moves, quarantined
from gravitate.pipeline.report.answers.time import time

ANSWERS = (
    overlay,
    delays,
    hops,
    loads,
    yields,
    links,
    time,
    topics,
    publishers,
    interest,
    moves,
    quarantined,
    facts,
)
"""In the order in which they stand on the page."""
