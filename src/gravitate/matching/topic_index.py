"""Which of many topic patterns a topic matches: a trie over levels.

The cost of a look-up depends on how many patterns fit the topic's beginning, not on how many
there are. Knows patterns and the cells they stand for; what a valid pattern is, `topics` says.
"""

from __future__ import annotations


class _Node:
    __slots__ = ("cell", "children", "plus", "rest")

    def __init__(self) -> None:
        self.children: dict[str, _Node] = {}
        self.plus: _Node | None = None
        self.cell = -1
        self.rest = -1

    def is_bare(self) -> bool:
        return not self.children and self.plus is None and self.cell < 0 and self.rest < 0


class TopicIndex:
    """Topic patterns with wildcards, each with its cell."""

    def __init__(self) -> None:
        self._root = _Node()

    def add(self, pattern: str, cell: int) -> None:
        node = self._root
        levels = pattern.split("/")
        ends_open = levels[-1] == "#"
        for level in levels[:-1] if ends_open else levels:
            if level == "+":
                if node.plus is None:
                    node.plus = _Node()
                node = node.plus
            else:
                node = node.children.setdefault(level, _Node())
        if ends_open:
            node.rest = cell
        else:
            node.cell = cell

    def remove(self, pattern: str) -> None:
        """Forget a pattern that was added; branches that lead nowhere go with it."""
        node = self._root
        path = []
        levels = pattern.split("/")
        ends_open = levels[-1] == "#"
        for level in levels[:-1] if ends_open else levels:
            path.append((node, level))
            following = node.plus if level == "+" else node.children[level]
            assert following is not None, pattern
            node = following
        if ends_open:
            node.rest = -1
        else:
            node.cell = -1
        for parent, level in reversed(path):
            if not node.is_bare():
                return
            if level == "+":
                parent.plus = None
            else:
                del parent.children[level]
            node = parent

    def cells(self, topic: str) -> list[int]:
        """The cells of the patterns that the topic matches."""
        found: list[int] = []
        levels = topic.split("/")
        root = self._root
        front = []
        child = root.children.get(levels[0])
        if child is not None:
            front.append(child)
        # A pattern that starts with a wildcard does not see topics that start with `$`.
        if not topic.startswith("$"):
            if root.rest >= 0:
                found.append(root.rest)
            if root.plus is not None:
                front.append(root.plus)
        for level in levels[1:]:
            following = []
            for node in front:
                if node.rest >= 0:
                    found.append(node.rest)
                child = node.children.get(level)
                if child is not None:
                    following.append(child)
                if node.plus is not None:
                    following.append(node.plus)
            front = following
        for node in front:
            if node.cell >= 0:
                found.append(node.cell)
            if node.rest >= 0:
                found.append(node.rest)
        return found
