"""What a filter fixes: the topics and the values without which no event matches it.

Two filters that fix different topics, or different values of one attribute, cannot intersect. So
filters are found by what they fix instead of being compared one by one.

Topics are told as *paths*, the levels of topic filters: a `+` stands for any level, a final `#` for
any that follow, none included; longer ones are cut. Values are told as what they read as, so that
`x = '10'` is found under `x = 10`. Both may tell too much, never too little: whatever matches a
filter has a topic on one of its paths, and of every attribute that it fixes one of the values.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple, cast

from gravitate.model.events import TOPIC
from gravitate.model.filters import Filter
from gravitate.model.regions import (
    ATOM_FALSE,
    ATOM_MISSING,
    ATOM_NAN,
    ATOM_TRUE,
    Region,
    filter_regions,
)
from gravitate.model.semantics import value_number, value_truth
from gravitate.model.texts import common_prefix

Path = tuple[str, ...]
FixedValue = float | str | bool | None
"""What a value reads as. Python takes `True` for `1.0`: as a key that tells too much, not less."""

LEVELS_MAX: Final = 8
"""Levels of a path; deeper topics are told apart as values."""
_NO_VALUES: Final[Mapping[str, tuple[FixedValue, ...]]] = {}
_ANYWHERE: Final[tuple[Path, ...]] = (("#",),)
_NAN: Final = "\0nan"
_ATOMS: Final[tuple[tuple[int, FixedValue], ...]] = (
    (ATOM_MISSING, None),
    (ATOM_NAN, _NAN),
    (ATOM_TRUE, True),
    (ATOM_FALSE, False),
)


class Fixed(NamedTuple):
    """Of all conjunctions of a filter together."""

    paths: tuple[Path, ...]
    """Empty when no event matches."""
    values: Mapping[str, tuple[FixedValue, ...]]
    """Attributes that have one of finitely many values, whichever conjunction matches; the topic
    only where paths do not tell it."""


def fixed(filter: Filter) -> Fixed:
    """What a filter fixes. Kept with the filter, which is immutable: nothing invalidates it."""
    known = filter.__dict__.get("fixed")
    if known is None:
        known = filter.__dict__["fixed"] = _fixed(filter)
    return cast(Fixed, known)


def _fixed(filter: Filter) -> Fixed:
    conjunctions = [region.by_attribute for region in filter_regions(filter)]
    paths: dict[Path, None] = {}
    for regions in conjunctions:
        paths.update(dict.fromkeys(_paths(regions.get(TOPIC))))
    values: dict[str, dict[FixedValue, None]] = {}
    for index, regions in enumerate(conjunctions):
        of_this = {name: _values(region) for name, region in regions.items()}
        names = of_this if index == 0 else values.keys() & of_this.keys()
        values = {
            name: {**values.get(name, {}), **dict.fromkeys(found)}
            for name in names
            if (found := of_this[name]) is not None
        }
    if all(len(path) <= LEVELS_MAX for path in paths):
        values.pop(TOPIC, None)
    told = {name: tuple(found) for name, found in values.items()}
    return Fixed(tuple(paths), told or _NO_VALUES)


def _paths(topic: Region | None) -> tuple[Path, ...]:
    """Paths of the topics in a region; None: any."""
    if topic is None or topic.atoms or topic.numbers:
        return _ANYWHERE
    paths = [_path(text) for text in topic.texts]
    rest = topic.open_texts
    if rest is not None:
        pattern = next((shape.topic for shape in rest.shapes if shape.topic is not None), None)
        if pattern is None:
            *whole, _ = common_prefix(rest.low, rest.high).split("/")
            pattern = "/".join((*whole, "#"))
        paths.append(_path(pattern))
    return tuple(paths)


def _path(pattern: str) -> Path:
    levels = pattern.split("/", LEVELS_MAX)
    if len(levels) > LEVELS_MAX:
        levels[LEVELS_MAX] = "#"
    if "#" in levels:
        del levels[levels.index("#") + 1 :]
    return tuple(levels)


def _values(region: Region) -> tuple[FixedValue, ...] | None:
    """The values of a region as they read; None when there is no end of them."""
    numbers = region.numbers.points
    rest = region.open_texts
    if numbers is None or (rest is not None and not (rest.numeric and rest.numbers.points)):
        return None
    found: list[FixedValue] = [value for atom, value in _ATOMS if region.atoms & atom]
    found += map(_reading, region.texts)
    found += numbers
    if rest is not None:
        found += rest.numbers.points or ()
    return tuple(dict.fromkeys(found))


def _reading(text: str) -> FixedValue:
    """What a text reads as."""
    for reads_as in (value_number(text), value_truth(text)):
        if reads_as is not None:
            return reads_as
    return text
