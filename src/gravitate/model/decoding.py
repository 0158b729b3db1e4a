"""Reading what others have encoded: whatever is wrong with it comes as one error.

Decoders raise more than their own error, for text that is not UTF-8 and for nesting without end.
Whoever reads bytes from elsewhere would otherwise have to know that in each place.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

UNREADABLE: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""All that a decoder of JSON or msgpack raises for bytes that cannot be meant."""


def decode_json(content: bytes | bytearray | memoryview | str, kind: Any) -> Any:
    """A value of `kind`; `msgspec.DecodeError` where the text is none, whatever its fault."""
    try:
        return msgspec.json.decode(content, type=kind)
    except UNREADABLE as problem:
        raise msgspec.DecodeError(str(problem)) from None
