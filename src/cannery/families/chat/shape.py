"""The differences between dialects of the Chat Completions family in responses and streams, as a row of facts.

Requests differ by the classes that read and write messages; a dialect overrides their methods.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from msgspec import Struct

from cannery.families.chat.reading import ChatReader
from cannery.families.chat.writing import ChatWriter
from cannery.families.openai.errors import read_openai_failure
from cannery.messages.events import Failure
from cannery.messages.requests import FinishReason
from cannery.wire.answers import Answers, Fact
from cannery.wire.bodies import Object
from cannery.wire.contract import Piece
from cannery.wire.counts import Counts
from cannery.wire.endings import Finishes

WORDS: Mapping[str, FinishReason] = MappingProxyType(
    {
        "stop": FinishReason.Stop,
        "length": FinishReason.Length,
        "tool_calls": FinishReason.Tool,
        "function_call": FinishReason.Tool,
        "content_filter": FinishReason.Filter,
    }
)
FINISHES = Finishes(
    WORDS, {FinishReason.Refusal: "content_filter", FinishReason.ContextWindow: "length"}
)
TOKENS: Mapping[str, str] = MappingProxyType(
    {"input": "prompt_tokens", "output": "completion_tokens", "total": "total_tokens"}
)
COUNTS = Counts(
    {
        **TOKENS,
        "cache_read": "prompt_tokens_details.cached_tokens",
        "cache_write": "prompt_tokens_details.cache_write_tokens",
        "reasoning": "completion_tokens_details.reasoning_tokens",
    }
)


class Shape(Struct, frozen=True):
    """One dialect of the family.

    ``made_id`` is the id of a response without one. ``beside`` are fields that every choice has beside its message,
    with their usual values. ``complete`` adds to a message the fields that responses have and requests lack.
    """

    name: str
    made_id: str
    complete: Callable[[Object, list[Piece]], None]
    reader: type[ChatReader] = ChatReader
    writer: type[ChatWriter] = ChatWriter
    finishes: Finishes = FINISHES
    counts: Counts = COUNTS
    beside: Mapping[str, Any] = {}
    read_failure: Callable[[str, Object | str, str], Failure] = read_openai_failure
    # Whether a response always reports usage.
    always_counts: bool = False

    @property
    def answers(self) -> Answers:
        """The fields around the choices of a response."""
        facts = (
            Fact("id", "identifier", self.made_id),
            Fact("object", usual="chat.completion"),
            Fact("created", "created", 0, int),
            Fact("model", "model", ""),
        )
        return Answers(
            self.name, self.finishes, self.counts, facts, always_counts=self.always_counts
        )
