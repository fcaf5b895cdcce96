"""The creation time in responses of Google's two APIs."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from cannery.messages.absence import absent


def read_time(value: Any) -> Any:
    """A time text as seconds since 1970, or absent."""
    try:
        moment = datetime.fromisoformat(value)
        return absent if moment.tzinfo is None else int(moment.timestamp())
    except (TypeError, ValueError, OverflowError):
        return absent
