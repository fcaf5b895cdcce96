"""What answers of Google's two APIs date alike."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from cannery.messages.absence import absent


def read_time(value: Any) -> Any:
    """The seconds since 1970 of a time in words, or absent."""
    try:
        moment = datetime.fromisoformat(value)
        return absent if moment.tzinfo is None else int(moment.timestamp())
    except (TypeError, ValueError, OverflowError):
        return absent
