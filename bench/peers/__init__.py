"""How each contender is called: every module here is one, and runs in an environment of its own name.

A module has what its package can do, under these names, and leaves out the rest:

    PACKAGE, EXTRAS       the distribution that a user installs, for its size and its dependencies
    NOTE                  what a reader of the tables has to know
    translations()        pair of dialects -> a function from bytes to bytes, JSON parsing included
    PARTIAL               pair of dialects -> what its translation leaves as it is
    source(body, pair)    the bytes that it reads, when it reads no body of that dialect
    reported(body, pair)  the codes of the losses that a translation reports, when it reports any
    appending(body)       target dialect -> a function that adds one message to a conversation and writes it again
    bulk()                a function from one ShareGPT line to one line of OpenAI's
    bulk_file()           the same from a whole file into another, where it has a way of its own
    held(count)           so many messages in its own types
    storage(folder)       a Storage, see ``peers.storing``

Whatever it converts with is its package's own function. Parsing and writing JSON around it is orjson's for everybody,
which is faster than what most of them use.
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
    """From bytes to bytes through a function over dicts."""

    def translate(body: bytes) -> bytes:
        return orjson.dumps(convert(orjson.loads(body)))

    return translate


def renamed(line: Json) -> list[Json]:
    """The turns of a ShareGPT record as Chat messages: what a user writes before a library that cannot read it."""
    roles = {"human": "user", "gpt": "assistant", "system": "system"}
    return [
        {"role": roles[turn["from"]], "content": turn["value"]} for turn in line["conversations"]
    ]
