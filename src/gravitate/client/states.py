"""The states of a client, and what leads from one to the other.

    AT_HOME --redirected--> PAUSED --moved--> LEAVING --opened--> ARRIVING --attached--> AT_HOME
       ^                      |                  |                   |
       '--------stay----------'                  '---late, lost------'--> RETURNING --> JOINING

A client that is sent away and not told where (`astray`) goes back at once.

PAUSED and LEAVING: nothing is said; whatever is published is kept (`Outgoing.hold`). ARRIVING: all
of it is said, and still kept. A client that is not attached in time connects where it came from,
with a greater attachment, and goes on there: the network recognises what it has seen. A subscriber
says that it has arrived once it is attached, at either end; nothing is delivered to it before, so
that it can go back as if it had not left.

What is done on the way is named after the methods of `Core`.
"""

from __future__ import annotations

import enum
from typing import Final

from gravitate.model.machines import Machine, Row


class State(enum.Enum):
    OFFLINE = "offline"
    CONNECTING = "connecting"
    JOINING = "joining"
    """Connected, and not attached yet."""
    AT_HOME = "at home"
    PAUSED = "paused"
    LEAVING = "leaving"
    ARRIVING = "arriving"
    """Connected where it was sent, and not attached yet."""
    RETURNING = "returning"
    """Connecting where it came from."""


_S = State
_CONNECTED = (_S.JOINING, _S.AT_HOME, _S.PAUSED)
MACHINE: Final = Machine(
    "client",
    State,
    (
        Row(None, "made", _S.OFFLINE),
        Row(_S.OFFLINE, "start", _S.CONNECTING, "connect_at_once"),
        Row(_S.CONNECTING, "opened", _S.JOINING, "join"),
        Row(_S.CONNECTING, "lost", _S.CONNECTING, "try_again"),
        Row(_S.JOINING, "attached", _S.AT_HOME, "arrive"),
        Row(_S.AT_HOME, "redirected", _S.PAUSED, "pause"),
        Row(_S.PAUSED, "stay", _S.AT_HOME, "go_on"),
        *(Row(one, "moved", _S.LEAVING, "leave") for one in _CONNECTED),
        *(Row(one, "astray", _S.RETURNING, "turn_back") for one in _CONNECTED),
        *(Row(one, "lost", _S.CONNECTING, "connect_again") for one in _CONNECTED),
        Row(_S.LEAVING, "opened", _S.ARRIVING, "say_all"),
        *(Row(_S.LEAVING, one, _S.RETURNING, "go_back") for one in ("lost", "refused", "late")),
        Row(_S.ARRIVING, "attached", _S.AT_HOME, "arrive_elsewhere"),
        *(
            Row(_S.ARRIVING, one, _S.RETURNING, "go_back")
            for one in ("lost", "refused", "late", "moved", "astray")
        ),
        Row(_S.RETURNING, "opened", _S.JOINING, "say_all"),
        Row(_S.RETURNING, "lost", _S.RETURNING, "try_again"),
        *(
            Row(one, "refused", _S.OFFLINE, "fail")
            for one in (_S.CONNECTING, *_CONNECTED, _S.RETURNING)
        ),
        *(Row(one, "stop", _S.OFFLINE, "leave_for_good") for one in _S if one is not _S.OFFLINE),
    ),
)
