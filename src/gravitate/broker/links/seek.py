"""The way along the tree to another broker, sought when it is needed and kept nowhere.

Whoever asks is answered by a call that may come later. As long as nothing changes the tree it comes
at once, from the tree that the broker was started with.
"""

from collections.abc import Callable

Seek = Callable[[str, Callable[[tuple[str, ...] | None], None]], None]
"""Given a broker, and what is told the way to it, both ends included; None: there is none."""
