"""What tells one dialect of the Chat Completions family from another, in its answers and streams: a row of facts.

Requests differ by the classes that read and write messages; a dialect overrides what it says otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from msgspec import Struct

from cannery.families.chat.reading import ChatReader
from cannery.families.chat.writing import ChatWriter
from cannery.families.openai.errors import read_openai_failure
from cannery.families.openai.settings import Details
from cannery.messages.absence import absent
from cannery.messages.events import Failure
from cannery.messages.requests import FinishReason
from cannery.wire.bodies import Object
from cannery.wire.contract import Piece

FINISHES: Mapping[str, FinishReason] = MappingProxyType(
    {
        "stop": FinishReason.Stop,
        "length": FinishReason.Length,
        "tool_calls": FinishReason.Tool,
        "function_call": FinishReason.Tool,
        "content_filter": FinishReason.Filter,
    }
)
FINISH_WORDS: Mapping[FinishReason, str] = MappingProxyType(
    {
        FinishReason.Stop: "stop",
        FinishReason.Length: "length",
        FinishReason.Tool: "tool_calls",
        FinishReason.StopSequence: "stop",
        FinishReason.Refusal: "content_filter",
        FinishReason.Filter: "content_filter",
        FinishReason.Pause: "stop",
        FinishReason.ContextWindow: "length",
        FinishReason.Malformed: "stop",
        FinishReason.Error: "stop",
        FinishReason.Other: "stop",
    }
)
DETAILS: Details = MappingProxyType(
    {
        "cache_read": ("prompt_tokens_details", "cached_tokens"),
        "cache_write": ("prompt_tokens_details", "cache_write_tokens"),
        "reasoning": ("completion_tokens_details", "reasoning_tokens"),
    }
)


class Shape(Struct, frozen=True):
    """One dialect of the family.

    ``made_id`` is the id of an answer that has none. ``beside`` are fields that every choice has beside its message,
    with their usual values. ``complete`` adds to a message what answers have and requests have not.
    """

    name: str
    made_id: str
    complete: Callable[[Object, list[Piece]], None]
    reader: type[ChatReader] = ChatReader
    writer: type[ChatWriter] = ChatWriter
    finishes: Mapping[str, FinishReason] = FINISHES
    finish_words: Mapping[FinishReason, str] = FINISH_WORDS
    details: Details = DETAILS
    beside: Mapping[str, Any] = {}
    read_failure: Callable[[str, Object | str, str], Failure] = read_openai_failure
    # Whether an answer always counts its tokens.
    always_counts: bool = False
    # Names that some answers have for a detail of their counts, beside these.
    older_counts: Mapping[str, str] = {}

    def finish(self, word: Any) -> Any:
        """Why the model stopped, or absent."""
        if type(word) is not str or not word:
            return absent
        return self.finishes.get(word, FinishReason.Other)

    def finish_word(self, finish: Any, *, has_calls: bool) -> str:
        """The finish reason that clients rely on: calls show in it, also where the source gives no reason."""
        if isinstance(finish, FinishReason) and not (has_calls and finish is FinishReason.Stop):
            return self.finish_words[finish]
        return self.finish_words[FinishReason.Tool if has_calls else FinishReason.Stop]
