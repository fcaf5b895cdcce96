"""Adapters of the contenders: every module here is one, and runs in the environment with its name.

A module defines the functions that its package supports, under these names:

    PACKAGE, EXTRAS       the distribution that a user installs, for its size and its dependencies
    NOTE                  a note for readers of the tables
    translations()        pair of dialects -> a function from bytes to bytes, JSON parsing included
    PARTIAL               pair of dialects -> the part that its translation does not convert
    source(body, pair)    the bytes that it reads, if it does not read bodies of that dialect
    reported(body, pair)  the codes of the losses that a translation reports, if it reports any
    appending(body)       target dialect -> a function that adds one message to a conversation and writes it again
    bulk()                a function from one ShareGPT line to one line of OpenAI's
    bulk_file()           the same from a whole file into another, if the package supports it
    held(count)           a number of messages in its own types
    storage(folder)       a Storage, see ``peers.storing``

The conversion is always the package's own function. JSON is parsed and written with orjson for all contenders, which is
faster than the parser that most of them use.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import orjson

Pair = tuple[str, str]
Translation = Callable[[bytes], bytes]
Json = dict[str, Any]

DIALECTS = ("openai_chat", "openai_responses", "anthropic_messages", "gemini_generate")
PAIRS: tuple[Pair, ...] = tuple(
    (source, target) for source in DIALECTS for target in DIALECTS if source != target
)
TO_ANTHROPIC: Pair = ("openai_chat", "anthropic_messages")
TO_GEMINI: Pair = ("openai_chat", "gemini_generate")
TO_RESPONSES: Pair = ("openai_chat", "openai_responses")
FROM_ANTHROPIC: Pair = ("anthropic_messages", "openai_chat")
FROM_RESPONSES: Pair = ("openai_responses", "openai_chat")
FROM_GEMINI: Pair = ("gemini_generate", "openai_chat")


def through(convert: Callable[[Json], Any]) -> Translation:
    """Make a function from bytes to bytes of a function over dicts."""

    def translate(body: bytes) -> bytes:
        return orjson.dumps(convert(orjson.loads(body)))

    return translate


def renamed(line: Json) -> list[Json]:
    """The turns of a ShareGPT record as Chat messages, for libraries that cannot read the record."""
    roles = {"human": "user", "gpt": "assistant", "system": "system"}
    return [
        {"role": roles[turn["from"]], "content": turn["value"]} for turn in line["conversations"]
    ]
