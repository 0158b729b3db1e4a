"""The page as a browser sees it: every plot is drawn and nothing complains."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.pipeline.report.browser import NAMES, browser, opened
from tests.support.reports import Reported, double

from gravitate.pipeline.report.page import render
from gravitate.pipeline.report.write import write_page

pytestmark = pytest.mark.skipif(
    browser() is None, reason=f"none of {', '.join(NAMES)} is on the path"
)


def plots_of(page: Path) -> list[str]:
    return re.findall(r'<div class="plot" id="([^"]+)"', page.read_text())


def drawn(dom: str) -> list[str]:
    """Places of plots that have a drawing in them."""
    places = dom.split('<div class="plot js-plotly-plot" id="')[1:]
    return [place.split('"', 1)[0] for place in places if '<svg class="main-svg"' in place]


def test_the_page_of_a_simulated_run_is_drawn_without_a_complaint(
    reported: Reported, tmp_path: Path
) -> None:
    dom, complaints = opened(reported.page, tmp_path / "profile")
    assert complaints == []
    assert len(plots_of(reported.page)) >= 12
    assert drawn(dom) == plots_of(reported.page)


def test_the_page_of_two_hostile_runs_is_drawn_in_the_dark_without_a_complaint(
    tmp_path: Path,
) -> None:
    page = tmp_path / "report.html"
    write_page(double(), page)
    dom, complaints = opened(page, tmp_path / "profile", "--blink-settings=preferredColorScheme=0")
    assert complaints == []
    assert drawn(dom) == plots_of(page)
    assert "<img src=x" not in dom


def test_the_page_of_a_run_without_deliveries_is_drawn_without_a_complaint(
    lonely: Reported, tmp_path: Path
) -> None:
    dom, complaints = opened(lonely.page, tmp_path / "profile")
    assert complaints == []
    assert "plot-overlay-0" in drawn(dom)
    assert "Nothing was delivered." in dom


def test_a_script_that_fails_would_be_noticed(tmp_path: Path) -> None:
    page = tmp_path / "broken.html"
    page.write_text(render(double()).replace('getElementById("plots")', 'getElementById("no")'))
    blocked = opened(page, tmp_path / "one")
    assert any("Content Security Policy" in complaint for complaint in blocked.complaints)
    assert drawn(blocked.dom) == []
    page.write_text(re.sub(r'<meta http-equiv="Content-Sec[^>]*>', "", page.read_text()))
    failed = opened(page, tmp_path / "two")
    assert any("TypeError" in complaint for complaint in failed.complaints)
    assert drawn(failed.dom) == []
