"""What the server that broker processes are forked from imports: everything, loaded and warm.

Importing this module has an effect, so nothing but that server does.
"""

from __future__ import annotations

from gravitate.serve.control import processes
from gravitate.serve.warm import warm_up

__all__ = ["processes"]

warm_up()
