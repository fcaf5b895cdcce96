"""Writing Chat Completions bodies on the shortest way.

The messages of that way are encoded as they are; what is left is to check that calls are answered in order.
"""

from __future__ import annotations

from typing import Any

from msgspec import UNSET, Raw, Struct

from cannery.dialects.openai_chat.fast_writing import write_common_settings
from cannery.dialects.openai_chat.turns import UnusualError, are_legal
from cannery.messages.absence import absent
from cannery.wire.bodies import encode
from cannery.wire.contract import Notes
from cannery.wire.slices import MODEL, TOOL, Sliced, SystemSlice, encode_structs


class _Body(Struct, frozen=True, gc=False):
    model: str
    max_completion_tokens: Any
    temperature: Any
    top_p: Any
    stream: Any
    messages: list[Any]


def write_slices(sliced: Sliced, notes: Notes) -> bytes | None:
    """The body; None for other requests."""
    messages, model = sliced.messages, sliced.model
    if not messages or not model or not (sliced.is_short or _is_paired(messages)):
        return None
    if sliced.system is not None:
        messages = [SystemSlice(sliced.system), *messages]
    if sliced.request is not None:
        try:
            body = write_common_settings(sliced.request, notes)
        except UnusualError:
            return None
        if "tools" in body:
            body["tools"] = Raw(encode(body["tools"]))
        body["messages"] = messages
        return encode_structs(body)
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
            if not waiting or message.tool_call_id != waiting.pop():
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
