"""Every error Gravitate raises on purpose, and whose fault it was.

    GravitateError
    +-- InputError            what a person wrote is wrong: a file, an option, a condition
    |   +-- FilterError       a condition or topic filter does not parse (column, what was expected)
    |   +-- FileError         a network, scenario or plan file is wrong (path, line, value)
    +-- RemoteProtocolError   the other side broke the protocol (MQTT client or peer broker)
    |   +-- MqttError         carries the reason code to answer with
    |   +-- PeerError         carries the named error to answer a peer broker with
    +-- EnvironmentLack       this machine or cluster cannot do it: no Java, no master, no memory
    +-- LocalProtocolError    this side would break the protocol: our mistake or a caller's

`broker.mechanisms.guards.CoreBroken` is none of these: it carries what a broken invariant raised
out of a mechanism that must not catch it.

Expected outcomes are return values, not errors; a broken invariant asserts.
"""

from __future__ import annotations


class GravitateError(Exception):
    """Base of all errors raised on purpose; `str()` is a sentence fit for a user."""


class InputError(GravitateError):
    """What a person wrote is wrong; the message names the value and what would be accepted."""


class FilterError(InputError):
    """A condition or topic filter that does not parse."""

    def __init__(self, message: str, text: str = "", column: int = 0) -> None:
        self.text = text
        self.column = column
        where = f" at column {column}" if column else ""
        super().__init__(f"{message}{where}")

    def pointed(self) -> str:
        """The condition with a caret under the offending column, for a terminal."""
        return f"{self.text}\n{' ' * (self.column - 1)}^ {self}" if self.column else str(self)


class FileError(InputError):
    """A network, scenario or plan file that cannot be accepted."""

    def __init__(self, message: str, path: str = "", line: int = 0) -> None:
        self.path = path
        self.line = line
        place = f"{path}:{line}: " if line else f"{path}: " if path else ""
        super().__init__(f"{place}{message}")


class RemoteProtocolError(GravitateError):
    """The other side of a connection broke its protocol."""


class MqttError(RemoteProtocolError):
    """An MQTT client broke the protocol; `reason_code` is what it is told."""

    def __init__(self, message: str, reason_code: int) -> None:
        self.reason_code = reason_code
        super().__init__(message)


class PeerError(RemoteProtocolError):
    """A peer broker broke the link protocol; `name` is what it is told."""

    def __init__(self, name: str, reason: str) -> None:
        self.name = name
        self.reason = reason
        super().__init__(f"{name}: {reason}")


class LocalProtocolError(GravitateError):
    """This side was about to break a protocol."""


class EnvironmentLack(GravitateError):
    """The machine or the cluster lacks what is needed; the message says what, and what helps."""
