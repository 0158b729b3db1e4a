"""What the documents show is what the program takes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gravitate.config import network, scenario
from gravitate.errors import FileError
from gravitate.pipeline.evaluate.registry import METRICS
from gravitate.trace.schemas import TABLES

ROOT = Path(__file__).parent.parent


def block(name: str, language: str) -> str:
    found = re.search(rf"```{language}\n(.*?)```", (ROOT / "docs" / name).read_text(), re.DOTALL)
    assert found is not None
    return found[1]


def test_the_network_file_of_the_how_to_is_sound() -> None:
    loaded = network.loads(block("howto-network.md", "toml"))
    assert [link.latency_ms for link in loaded.links] == [50.0, 25.0]


def test_the_error_that_the_how_to_shows_is_the_one_that_is_raised() -> None:
    text = block("howto-network.md", "toml") + '\n[[links]]\nbetween = ["south", "north"]\n'
    with pytest.raises(FileError) as caught:
        network.loads(text, "network.toml")
    assert f"gravitate: {caught.value}" in (ROOT / "docs" / "howto-network.md").read_text()


def test_the_scenario_of_the_how_to_loads() -> None:
    assert len(scenario.loads(block("howto-simulate.md", "toml")).faults) == 1


def test_the_page_on_traces_names_every_table() -> None:
    text = (ROOT / "docs" / "traces.md").read_text()
    assert all(f"  {table}/" in text for table in TABLES)


def test_the_page_on_the_flow_model_lists_every_metric() -> None:
    """Stale? Put what is expected between the two headings."""
    lines = ["| metric | unit | better | what it is | in a run from |", "|---|---|---|---|---|"]
    for metric in METRICS:
        source = f"`{metric.source}`" if metric.source else ""
        cells = [f"`{metric.name}`", metric.unit, metric.better, metric.meaning, source]
        lines.append(f"| {' | '.join(cells)} |".replace("  ", " "))
    text = (ROOT / "docs" / "flow-model.md").read_text()
    listed = text.split("## The metrics\n\n")[1].split("\n\n")[0]
    assert listed == "\n".join(lines)


@pytest.mark.parametrize("page", ["README.md", *(f"docs/{p.name}" for p in ROOT.glob("docs/*.md"))])
def test_links_between_pages_lead_somewhere(page: str) -> None:
    path = ROOT / page
    for target in re.findall(r"\]\(([^)#:]+)\)", path.read_text()):
        assert (path.parent / target).exists(), target
