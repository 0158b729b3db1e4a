from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gravitate.config import toml
from gravitate.errors import FileError

TRICKY = '''\
a = 1
b.c = "x # not a comment"
"quoted key" = \'\'\'
two lines\'\'\'

[table]  # comment ]
list = [1,
  2, # with ] and , in a comment
  { inner = 3, deep = ["]", """q
"""] }]
after = 1979-05-27T07:32:00Z

[[brokers]]
id = 'one'
[brokers.address]
mqtt = 3
[[brokers]]
id = "t\\"wo"
address = { mqtt = 2, peer = 4 }
[[brokers.extras]]
x = 1
'''


def test_every_value_knows_its_line() -> None:
    document = toml.parse(TRICKY)
    assert document.data == tomllib.loads(TRICKY)
    expected: dict[toml.Place, int] = {
        ("a",): 1,
        ("b", "c"): 2,
        ("quoted key",): 3,
        ("table",): 6,
        ("table", "list", 0): 7,
        ("table", "list", 1): 8,
        ("table", "list", 2, "inner"): 9,
        ("table", "list", 2, "deep", 1): 9,
        ("table", "after"): 11,
        ("brokers", 0): 13,
        ("brokers", 0, "id"): 14,
        ("brokers", 0, "address"): 15,
        ("brokers", 0, "address", "mqtt"): 16,
        ("brokers", 1, "id"): 18,
        ("brokers", 1, "address", "peer"): 19,
        ("brokers", 1, "extras", 0): 20,
        ("brokers", 1, "extras", 0, "x"): 21,
    }
    assert {place: document.line_of(place) for place in expected} == expected


def test_what_has_no_line_has_that_of_what_surrounds_it() -> None:
    document = toml.parse(TRICKY)
    assert document.line_of(("brokers", 0, "missing")) == 13
    assert document.line_of(("nowhere",)) == 1


@pytest.mark.parametrize(
    ("text", "place"),
    [("a = 1\nb = \n", ":2:"), ("a = 1\na = 2\n", ":2:"), ('a = 1\nb = "x', ":2:"), ("[a", ":1:")],
)
def test_broken_syntax_is_refused_with_its_line(text: str, place: str) -> None:
    with pytest.raises(FileError, match="not TOML") as caught:
        toml.parse(text, "file.toml")
    assert f"file.toml{place}" in str(caught.value)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileError, match=r"missing\.toml: cannot be read: No such file"):
        toml.read(tmp_path / "missing.toml")
    binary = tmp_path / "binary.toml"
    binary.write_bytes(b"\xff\xfe")
    with pytest.raises(FileError, match="not UTF-8"):
        toml.read(binary)


keys = st.text(st.characters(codec="utf-8", exclude_categories=["Cs", "Cc"]), max_size=8)
plain = st.recursive(
    st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False)
    | st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), max_size=12),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(keys, inner, max_size=4),
    max_leaves=12,
)


@given(st.dictionaries(keys, plain, max_size=5))
def test_what_is_written_reads_back_the_same_and_every_part_has_its_line(
    table: dict[str, Any],
) -> None:
    text = "".join(
        f"{toml.render_key(key)} = {toml.render_value(value)}\n" for key, value in table.items()
    )
    document = toml.parse(text)
    assert document.data == table
    for number, (key, value) in enumerate(table.items(), start=1):
        for place in _places((key,), value):
            assert document.line_of(place) == number


def _places(place: toml.Place, value: object) -> list[toml.Place]:
    found = [place]
    if isinstance(value, dict):
        for key, inner in value.items():
            found += _places((*place, key), inner)
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            found += _places((*place, index), inner)
    return found


def test_what_toml_cannot_hold_is_not_written() -> None:
    with pytest.raises(TypeError, match="NoneType"):
        toml.render_value(None)
