"""Writing Chat Completions bodies on the shortest way.

The messages of that way are encoded as they are; what is left is to check that calls are answered in order.
"""

from __future__ import annotations

from typing import Any

from msgspec import UNSET, Struct

from cannery.dialects.openai_chat.turns import are_legal
from cannery.messages.absence import absent
from cannery.wire.contract import Notes
from cannery.wire.slices import MODEL, TOOL, Around, Sliced, SystemSlice, encode_structs, is_list


class _Body(Struct, frozen=True, gc=False):
    model: str
    max_completion_tokens: Any
    temperature: Any
    top_p: Any
    stream: Any
    messages: list[Any]


def write_slices(sliced: Sliced, around: Around | None, _notes: Notes) -> bytes | None:
    """The body; None for requests that need a repair."""
    messages, model = sliced.messages, sliced.model
    if not messages or not (sliced.is_short or _is_paired(messages)):
        return None
    if sliced.system is not None:
        messages = [SystemSlice(sliced.system), *messages]
    if around is not None:
        return encode_structs({**around, "messages": messages})
    if not model:
        return None
    limit, temperature, top_p, stream = (
        sliced.limit,
        sliced.temperature,
        sliced.top_p,
        sliced.stream,
    )
    return encode_structs(
        _Body(
            model,
            UNSET if limit is absent else limit,
            UNSET if temperature is absent else temperature,
            UNSET if top_p is absent else top_p,
            UNSET if stream is absent else stream,
            messages,
        )
    )


def _is_paired(messages: list[Any]) -> bool:
    """Whether every call is answered right behind its turn, in call order, under ids and names that may stay."""
    identifiers: list[str] = []
    names: set[str] = set()
    waiting: list[str] = []
    for message in messages:
        speaker = message.speaker
        if speaker is TOOL:
            # Images of a result have to be moved.
            if not waiting or message.tool_call_id != waiting.pop() or is_list(message.content):
                return False
            continue
        if waiting:
            return False
        if speaker is MODEL and message.tool_calls is not UNSET:
            for call in message.tool_calls:
                waiting.append(call.id)
                names.add(call.function.name)
            identifiers += waiting
            waiting.reverse()
    return not waiting and are_legal(identifiers, names)
