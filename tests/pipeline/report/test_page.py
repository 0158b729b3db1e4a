"""The page: whole, self-contained, escaped, with the numbers that `--json` prints."""

from __future__ import annotations

import json
import re
from collections import Counter
from html.parser import HTMLParser

import msgspec
import plotly.graph_objects as go
import pytest
from tests.support.reports import HOSTILE, double, run_figures, single

from gravitate.pipeline.report.answers import ANSWERS
from gravitate.pipeline.report.figures import Report
from gravitate.pipeline.report.page import render
from gravitate.pipeline.report.section import named_runs


class Elements(HTMLParser):
    """What a page consists of: every start tag with its attributes, and the text of tables."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self._within: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self._within.append(tag)

    def handle_endtag(self, tag: str) -> None:
        while self._within and self._within.pop() != tag:
            pass

    def handle_data(self, data: str) -> None:
        if not self._within or self._within[-1] not in {"script", "style"}:
            self.text.append(data)


REPORTS = {"one run": single(), "two runs": double()}


@pytest.fixture(params=REPORTS, scope="module")
def report(request: pytest.FixtureRequest) -> Report:
    return REPORTS[request.param]


@pytest.fixture(scope="module")
def page(report: Report) -> str:
    return render(report)


def embedded(page: str, name: str) -> str:
    found = re.search(rf'<script type="application/json" id="{name}">(.*?)</script>', page, re.S)
    assert found is not None
    return found[1]


def test_the_numbers_in_the_page_are_those_of_the_report(report: Report, page: str) -> None:
    assert json.loads(embedded(page, "report")) == json.loads(msgspec.json.encode(report))
    assert msgspec.json.decode(embedded(page, "report"), type=Report) == report


def test_what_outsiders_wrote_makes_no_elements(page: str) -> None:
    elements = Elements(page)
    assert "img" not in {tag for tag, _ in elements.tags}
    # The two of data, Plotly and the page's own.
    assert Counter(tag for tag, _ in elements.tags)["script"] == 4
    assert "<img src=x onerror=alert(1)>" in "".join(elements.text)
    assert not any(name.startswith("on") for _, attributes in elements.tags for name in attributes)


def test_what_outsiders_wrote_is_not_markup_for_plotly_and_invisible_characters_show(
    page: str,
) -> None:
    plots = embedded(page, "plots")
    shown = json.dumps(json.loads(plots), ensure_ascii=False)
    assert "&lt;img" in shown
    assert "<img" not in shown
    assert "\u202e" not in shown
    assert "\u202e" not in "".join(Elements(page).text)


def test_nothing_is_fetched(page: str) -> None:
    for tag, attributes in Elements(page).tags:
        for name in ("src", "href", "action"):
            target = attributes.get(name)
            assert target is None or target.startswith(("#", "data:")), (tag, target)
    policy = next(
        str(attributes["content"])
        for _, attributes in Elements(page).tags
        if attributes.get("http-equiv") == "Content-Security-Policy"
    )
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert "@import" not in page[: page.index("</style>")]
    assert "url(" not in page[: page.index("</style>")]


def test_ids_are_unique_and_every_plot_has_its_place(page: str) -> None:
    ids = Counter(attributes["id"] for _, attributes in Elements(page).tags if "id" in attributes)
    assert set(ids.values()) == {1}
    plots = json.loads(embedded(page, "plots"))
    assert {plot["id"] for plot in plots} <= ids.keys()
    assert len(plots) >= 9


def test_links_of_the_contents_lead_to_sections(page: str) -> None:
    elements = Elements(page)
    ids = {attributes.get("id") for _, attributes in elements.tags}
    targets = [attributes["href"] for tag, attributes in elements.tags if tag == "a"]
    assert len(targets) > len(ANSWERS)
    assert all(target and target[1:] in ids for target in targets)


def test_plotly_accepts_every_figure(page: str) -> None:
    """Its Python side checks names and kinds of all properties; roles stand for colours."""
    for plot in json.loads(re.sub(r"var\(--[a-z0-9]+\)", "#123456", embedded(page, "plots"))):
        figure = go.Figure({"data": plot["data"], "layout": plot["layout"]})
        assert len(figure.data) == len(plot["data"])


def test_every_colour_role_has_a_value_in_light_and_in_dark(page: str) -> None:
    roles = set(re.findall(r"var\((--[a-z0-9]+)\)", embedded(page, "plots")))
    style = page[page.index("<style>") : page.index("</style>")]
    light, dark = style.split("@media (prefers-color-scheme: dark)")[:2]
    assert {"--ink", "--blue", "--warm4"} <= roles
    for role in roles:
        assert f"{role}:" in light
        assert f"{role}:" in dark


def test_every_plot_has_a_label_and_a_table_with_its_numbers(report: Report, page: str) -> None:
    for answer in ANSWERS:
        section = answer(named_runs(report))
        assert section.question.endswith("?")
        assert section.reading.endswith(".")
        assert not section.plots or any(table.rows for table in section.tables), section.id
    for tag, attributes in Elements(page).tags:
        if attributes.get("class") == "plot":
            assert (tag, attributes["role"]) == ("div", "img")
            assert attributes["aria-label"]


def test_two_runs_are_told_apart_and_their_differences_judged() -> None:
    text = " ".join(Elements(render(double())).text)
    assert "before → after" in text
    assert "40 ms → 20 ms" in text
    assert "✓ better" in text
    assert "−50.0 %" in text
    assert "There were no moves in B: after." in text
    assert "The seed differs: 1 and 7." in text


def test_overlays_of_two_runs_have_the_same_scales() -> None:
    busy = run_figures("busy")
    brokers = [msgspec.structs.replace(one, in_links_msgs_per_s=50.0) for one in busy.brokers]
    busy = msgspec.structs.replace(busy, brokers=tuple(brokers))
    report = Report(gravitate_version="0", run=run_figures("calm"), compared=busy)
    calm_plot, busy_plot = ANSWERS[0](named_runs(report)).plots
    assert calm_plot.layout["xaxis"] == busy_plot.layout["xaxis"]
    largest = [max(plot.data[-1]["marker"]["size"]) for plot in (calm_plot, busy_plot)]
    assert largest[0] < largest[1] / 2
    assert calm_plot.data[-1]["marker"]["cmax"] == busy_plot.data[-1]["marker"]["cmax"]


def test_what_did_not_happen_is_said_plainly() -> None:
    run = msgspec.structs.replace(
        run_figures(), delays=(), hops=(), moves=(), move_counts=(), quarantined=(), links=()
    )
    page = render(Report(gravitate_version="0", run=run))
    text = " ".join(Elements(page).text)
    assert "There were no moves: the network kept its shape for the whole run." in text
    assert "none was quarantined" in text
    assert "Nothing was delivered." in text
    assert "This network has no links." in text
    assert "plot-delay-spread" not in page


def test_a_client_id_that_looks_like_a_number_stays_a_name() -> None:
    run = run_figures()
    publisher = msgspec.structs.replace(run.publishers[0], publisher="007")
    report = Report(
        gravitate_version="0", run=msgspec.structs.replace(run, publishers=(publisher,))
    )
    (plot,) = next(
        section.plots
        for section in (answer(named_runs(report)) for answer in ANSWERS)
        if section.id == "publishers"
    )
    assert plot.layout["yaxis"]["ticktext"] == ["007"]
    assert HOSTILE not in json.dumps(plot.data)
