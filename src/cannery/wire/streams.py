"""What stream readers share: one JSON object a frame, and errors that name the dialect."""

from __future__ import annotations

from typing import Any

import msgspec

from cannery.errors import DialectError
from cannery.wire.bodies import read_value

_decode = msgspec.json.Decoder().decode


def read_chunk(dialect: str, data: str) -> dict[str, Any]:
    """The JSON object of one frame."""
    try:
        value = _decode(data)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        value = read_value(dialect, data.encode("utf-8", "replace"))
    if type(value) is not dict:
        raise DialectError(dialect, "$", "expected a JSON object in a stream event")
    return value
