"""What answers of Google's two APIs count and date alike.

Thoughts are counted beside the output and prompts of tools beside the input; in our usage they belong to them.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from msgspec import Struct

from cannery.messages.absence import absent
from cannery.messages.requests import Usage, new_usage
from cannery.wire.bodies import Object


class Counts(Struct, frozen=True):
    """The names of token counts."""

    input: str
    tools: str
    output: str
    thoughts: str
    cached: str
    total: str

    @property
    def read_names(self) -> tuple[str, ...]:
        """The names of what is read; the total is the sum of it."""
        return (self.input, self.tools, self.output, self.thoughts, self.cached)

    def read(self, known: Mapping[str, int]) -> Any:
        """The usage that known counts give, or absent where there are none."""
        if not known:
            return absent
        thoughts: Any = known.get(self.thoughts, absent)
        return new_usage(
            known.get(self.input, 0) + known.get(self.tools, 0),
            known.get(self.output, 0) + (thoughts or 0),
            cache_read=known.get(self.cached, absent),
            reasoning=thoughts,
        )

    def write(self, usage: Usage) -> Object:
        """Token counts in the usual form."""
        thoughts = usage.reasoning if isinstance(usage.reasoning, int) else 0
        body: Object = {
            self.input: usage.input,
            self.output: max(0, usage.output - thoughts),
            self.total: usage.total,
        }
        if usage.reasoning is not absent:
            body[self.thoughts] = usage.reasoning
        if usage.cache_read is not absent:
            body[self.cached] = usage.cache_read
        return body


def read_time(value: Any) -> Any:
    """The seconds since 1970 of a time in words, or absent."""
    try:
        moment = datetime.fromisoformat(value)
        return absent if moment.tzinfo is None else int(moment.timestamp())
    except (TypeError, ValueError, OverflowError):
        return absent
