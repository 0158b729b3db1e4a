"""The report of a run: one self-contained page, and the same numbers as JSON.

    write_report(spark, Path("traces"), Path("report.html"))

`gather` and its siblings, with `timeline`, make the numbers (`figures`) on Spark; nothing else here
knows it. `answers` has a module a question, with its plots and its table; `page` makes HTML of all.
"""

from gravitate.pipeline.report.figures import Report
from gravitate.pipeline.report.write import make_report, write_page, write_report

__all__ = ["Report", "make_report", "write_page", "write_report"]
