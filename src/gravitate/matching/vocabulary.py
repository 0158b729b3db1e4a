"""The vocabulary: attribute names, texts and patterns as the numbers that kernels work with.

Owns which lane an attribute's numbers are on, which *conditions* on it have a cell (a set of
literals, a topic pattern, a prefix, mere existence, or a predicate that has to be tried value by
value), and how an event is written in lanes and cells. Everything is counted and goes when the
last filter that mentions it goes. It does not know conjunctions.

The cells and the number of a text are remembered per attribute. Invalidated by: a condition on
that attribute that appears or disappears, and its attribute getting a lane.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import msgspec

from gravitate.matching import arena as arenas
from gravitate.matching import layout
from gravitate.matching.arena import Arena
from gravitate.matching.topic_index import TopicIndex
from gravitate.model.events import Attributes, Value
from gravitate.model.filters import Op, Predicate
from gravitate.model.semantics import TRUTH_TEXTS, compile_predicate, double, text_number

TEXTS_REMEMBERED_MAX: Final = 1 << 15
TEXT_LENGTH_REMEMBERED_MAX: Final = 256


class Condition(msgspec.Struct, frozen=True):
    """What a cell stands for: a predicate without negation, on a present value."""

    attribute: str
    op: Op
    operand: Any = None
    kinds: tuple[type, ...] = ()
    """The types of a set's literals: to Python, 1.0 and True are the same literal."""

    def weight(self) -> float:
        """How many times likelier than one literal of the attribute it is, roughly."""
        if self.op is Op.IN:
            return float(len(self.operand))
        if self.op is Op.TOPIC:
            levels = self.operand.split("/")
            return float(4 ** (min(8, levels.count("+") + 2 * levels.count("#"))))
        return 4.0 if self.op is Op.PREFIX else 1e9


class AttributeIndex:
    """One attribute's lane, conditions and remembered texts."""

    __slots__ = (
        "by_literal",
        "by_number",
        "cells",
        "exists",
        "group",
        "lane",
        "prefixes",
        "references",
        "texts",
        "topics",
        "tried",
    )

    def __init__(self, group: int) -> None:
        self.group = group
        self.references = 0
        self.lane = -1
        self.cells: dict[Condition, int] = {}
        self.exists = -1
        self.by_literal: dict[str | bool, list[int]] = {}
        self.by_number: dict[float, list[int]] = {}
        self.topics: TopicIndex | None = None
        self.prefixes: dict[int, dict[str, int]] = {}
        self.tried: dict[int, Callable[[Any], bool]] = {}
        self.texts: dict[str, tuple[tuple[float, ...], tuple[int, ...]]] = {}

    def install(self, condition: Condition, cell: int) -> None:
        op, operand = condition.op, condition.operand
        self.cells[condition] = cell
        self.texts.clear()
        if op is Op.IN:
            for literal in _literals(operand):
                self._members(literal).setdefault(literal, []).append(cell)
        elif op is Op.TOPIC:
            self.topics = self.topics or TopicIndex()
            self.topics.add(operand, cell)
        elif op is Op.PREFIX:
            self.prefixes.setdefault(len(operand), {})[operand] = cell
        elif op is Op.EXISTS:
            self.exists = cell
        else:
            self.tried[cell] = compile_predicate(Predicate(condition.attribute, op, operand))

    def uninstall(self, condition: Condition) -> None:
        op, operand = condition.op, condition.operand
        cell = self.cells.pop(condition)
        self.texts.clear()
        if op is Op.IN:
            for literal in _literals(operand):
                members = self._members(literal)
                members[literal].remove(cell)
                if not members[literal]:
                    del members[literal]
        elif op is Op.TOPIC:
            assert self.topics is not None
            self.topics.remove(operand)
        elif op is Op.PREFIX:
            del self.prefixes[len(operand)][operand]
            if not self.prefixes[len(operand)]:
                del self.prefixes[len(operand)]
        elif op is Op.EXISTS:
            self.exists = -1
        else:
            del self.tried[cell]

    def text(self, text: str) -> tuple[tuple[float, ...], tuple[int, ...]]:
        """A text's entry on the lane (lane and number, or nothing), and its cells."""
        cells = list(self.by_literal.get(text, ()))
        number = text_number(text) if self.lane >= 0 or self.by_number else None
        if number is not None:
            cells += self.by_number.get(number, ())
        if self.topics is not None:
            cells += self.topics.cells(text)
        for length, prefixes in self.prefixes.items():
            cell = prefixes.get(text[:length])
            if cell is not None:
                cells.append(cell)
        self._add_general(text, cells)
        pair = () if number is None or self.lane < 0 else (self.lane, number)
        # A set may hold both a text and the number that it reads as.
        known = (pair, tuple(dict.fromkeys(cells)))
        if len(text) <= TEXT_LENGTH_REMEMBERED_MAX:
            if len(self.texts) >= TEXTS_REMEMBERED_MAX:
                self.texts.clear()
            self.texts[text] = known
        return known

    def number_cells(self, number: float) -> list[int]:
        cells = list(self.by_number.get(number, ()))
        self._add_general(number, cells)
        return cells

    def truth_cells(self, truth: bool) -> list[int]:
        cells = list(self.by_literal.get(truth, ()))
        self._add_general(truth, cells)
        return cells

    def _add_general(self, value: Value, cells: list[int]) -> None:
        if self.exists >= 0:
            cells.append(self.exists)
        for cell, holds in self.tried.items():
            if holds(value):
                cells.append(cell)

    def _members(self, literal: Any) -> dict[Any, list[int]]:
        return self.by_literal if isinstance(literal, str | bool) else self.by_number


def _literals(operand: tuple[Any, ...]) -> list[Any]:
    """A set's literals, with the texts that read as its truth values."""
    texts = {text for text, truth in TRUTH_TEXTS.items() if any(truth is one for one in operand)}
    kept = [one for one in operand if not (isinstance(one, str) and one in texts) and one == one]
    return kept + sorted(texts)


class Vocabulary:
    """All attributes that live filters mention."""

    def __init__(self, arena: Arena) -> None:
        self.attributes: dict[str, AttributeIndex] = {}
        self._arena = arena
        self._lane_owner: list[str] = []
        self._lanes_free: list[int] = []
        self._group_count = 0
        self._groups_free: list[int] = []
        # Cell 0 is the one that every event visits; grid cells have no condition either.
        self._conditions: list[Condition | None] = [None]
        self._references: list[int] = [0]
        self._cells_free: list[int] = []
        arena.header[layout.CELLS_USED] = 1

    def mention(self, name: str) -> AttributeIndex:
        """Count one more mention of an attribute."""
        attribute = self.attributes.get(name)
        if attribute is None:
            if self._groups_free:
                group = self._groups_free.pop()
            else:
                group = self._group_count
                self._group_count += 1
                self._arena.reserve(arenas.GROUPS, self._group_count)
            attribute = self.attributes[name] = AttributeIndex(group)
        attribute.references += 1
        return attribute

    def forget(self, name: str) -> None:
        """Take one mention back; an attribute without mentions goes."""
        attribute = self.attributes[name]
        attribute.references -= 1
        if attribute.references == 0:
            assert not attribute.cells, name
            del self.attributes[name]
            self._groups_free.append(attribute.group)
            if attribute.lane >= 0:
                self._lanes_free.append(attribute.lane)

    def lane(self, name: str) -> int:
        """Mention an attribute for its numbers."""
        attribute = self.mention(name)
        if attribute.lane < 0:
            attribute.lane = self._new_lane(name)
            attribute.texts.clear()
        return attribute.lane

    def cell(self, condition: Condition) -> int:
        """Mention a condition."""
        attribute = self.mention(condition.attribute)
        cell = attribute.cells.get(condition)
        if cell is None:
            if self._cells_free:
                cell = self._cells_free.pop()
            else:
                (cell,) = self._new_cells(1)
            self._conditions[cell] = condition
            arrays = self._arena.arrays
            arrays[layout.CELL_WEIGHT][cell] = condition.weight()
            arrays[layout.CELL_GROUP][cell] = attribute.group
            attribute.install(condition, cell)
            arrays[layout.GROUP_SIZE][attribute.group] = len(attribute.cells)
        self._references[cell] += 1
        return cell

    def forget_lane(self, lane: int) -> None:
        self.forget(self._lane_owner[lane])

    def forget_cell(self, cell: int) -> None:
        condition = self._conditions[cell]
        assert condition is not None, cell
        self._references[cell] -= 1
        if self._references[cell] == 0:
            attribute = self.attributes[condition.attribute]
            attribute.uninstall(condition)
            self._conditions[cell] = None
            self._cells_free.append(cell)
            size = max(1, len(attribute.cells))
            self._arena.arrays[layout.GROUP_SIZE][attribute.group] = size
        self.forget(condition.attribute)

    def encode(self, event: Attributes, flat: list[float]) -> tuple[int, int]:
        """Append an event, its lanes' pairs and then its cells; returns how many of each."""
        cells: list[int] = []
        start = len(flat)
        attributes = self.attributes
        if len(event) <= 2 * len(attributes):
            for name, value in event.items():
                attribute = attributes.get(name)
                if attribute is None:
                    continue
                kind = type(value)
                if kind is int:
                    value = double(value)  # type: ignore[arg-type]
                    kind = float
                if kind is float:
                    if attribute.lane >= 0:
                        flat.append(attribute.lane)
                        flat.append(value)  # type: ignore[arg-type]
                    if attribute.cells:
                        cells += attribute.number_cells(value)  # type: ignore[arg-type]
                elif kind is str:
                    known = attribute.texts.get(value)  # type: ignore[arg-type]
                    if known is None:
                        known = attribute.text(value)  # type: ignore[arg-type]
                    flat += known[0]
                    cells += known[1]
                else:
                    _encode_other(attribute, value, flat, cells)
        else:
            for name, attribute in attributes.items():
                value = event.get(name)  # type: ignore[assignment]
                if value is not None:
                    _encode_other(attribute, value, flat, cells)
        pairs = (len(flat) - start) >> 1
        flat += cells
        return pairs, len(cells)

    def _new_lane(self, name: str) -> int:
        if self._lanes_free:
            lane = self._lanes_free.pop()
            self._lane_owner[lane] = name
            return lane
        lane = len(self._lane_owner)
        self._lane_owner.append(name)
        self._arena.reserve(arenas.LANES, lane + 1)
        self._arena.arrays[layout.LANE_GRID][lane] = self._new_cells(layout.GRID_CELLS)[0]
        self._arena.header[layout.LANES_USED] = lane + 1
        return lane

    def _new_cells(self, count: int) -> range:
        first = len(self._conditions)
        self._conditions += [None] * count
        self._references += [0] * count
        self._arena.reserve(arenas.CELLS, first + count)
        self._arena.header[layout.CELLS_USED] = first + count
        return range(first, first + count)


def _encode_other(
    attribute: AttributeIndex, value: Value | None, flat: list[float], cells: list[int]
) -> None:
    """Encode a value of any type; None counts as missing."""
    if value is None:
        return
    if isinstance(value, bool):
        if attribute.cells:
            cells += attribute.truth_cells(value)
    elif isinstance(value, str):
        known = attribute.texts.get(value) or attribute.text(value)
        flat += known[0]
        cells += known[1]
    else:
        number = double(value)
        if attribute.lane >= 0:
            flat.append(attribute.lane)
            flat.append(number)
        if attribute.cells:
            cells += attribute.number_cells(number)
