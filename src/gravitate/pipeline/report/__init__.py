"""The report of a run: one self-contained page, and the same numbers as JSON.

    write_report(spark, Path("traces"), Path("report.html"))

`gather` makes the numbers (`figures`) on Spark, `drawing` makes plots of them, `sections` says
what each answers, `page` makes HTML of it all. Only `gather` and `timeline` know Spark.
"""

from gravitate.pipeline.report.figures import Report
from gravitate.pipeline.report.write import make_report, write_page, write_report

__all__ = ["Report", "make_report", "write_page", "write_report"]
