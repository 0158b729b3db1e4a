"""Pictures of studies."""

from __future__ import annotations

from xml.etree import ElementTree

from gravitate.studies.bars import Bar, Panel, svg

SVG = "{http://www.w3.org/2000/svg}"


def drawn(*panels: Panel) -> ElementTree.Element:
    return ElementTree.fromstring(svg(*panels))


def test_bars_are_as_high_as_their_values() -> None:
    picture = drawn(
        Panel("p", ("a", "b"), {"one": (Bar(50.0), None), "two": (Bar(25.0), Bar(0.0))})
    )
    heights = [
        float(rect.get("height") or 0)
        for rect in picture.iter(f"{SVG}rect")
        if rect.get("x") and rect.get("width") != "10"
    ]
    assert len(heights) == 3
    assert abs(heights[0] - 2 * heights[1]) < 0.2
    assert heights[2] == 0.0


def test_an_interval_is_drawn_where_there_is_one() -> None:
    plain, wide = (drawn(Panel("p", ("a",), {"one": (Bar(5.0, half),)})) for half in (0.0, 2.0))
    assert len(list(wide.iter(f"{SVG}path"))) == len(list(plain.iter(f"{SVG}path"))) + 1


def test_what_is_written_is_escaped() -> None:
    texts = [
        text.text for text in drawn(Panel("a < b", ("&",), {"<>": (None,)})).iter(f"{SVG}text")
    ]
    assert {"a < b", "&", "<>"} <= set(texts)
