"""Writing Chat Completions bodies on the shortest way.

The messages of that way are encoded as they are; what is left is to check that calls are answered in order.
"""

from __future__ import annotations

from typing import Any

from msgspec import UNSET, Raw, Struct

from cannery.dialects.openai_chat.turns import are_legal
from cannery.messages.absence import absent
from cannery.wire.losses import Notes
from cannery.wire.markers import media_label
from cannery.wire.slices import (
    MODEL,
    TOOL,
    Around,
    JoinedUserSlice,
    PlacedToolSlice,
    Sliced,
    SystemSlice,
    TextPart,
    ToolSlice,
    UserSlice,
    encode_structs,
    sliced_messages,
    spoken,
)


class _Body(Struct, frozen=True, gc=False):
    model: str
    max_completion_tokens: Any
    temperature: Any
    top_p: Any
    stream: Any
    messages: list[Any]


def write_slices(sliced: Sliced, around: Around | None, notes: Notes) -> bytes | None:
    """The body; None for requests that need a repair."""
    messages: list[Any] | None = sliced.messages
    model = sliced.model
    # Where the model is meant to go on, the general way has something to say.
    if not messages or (messages[-1].speaker is MODEL and messages[-1].tool_calls is UNSET):
        return None
    if sliced.calls is not None:
        if not are_legal(*sliced.calls):
            return None
    elif sliced.short is None:
        placed: list[Any] = []
        if not _is_paired(messages, placed):
            return None
        if placed:
            messages = None if notes else _moved(sliced_messages(sliced), notes)
            if messages is None:
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


def _is_paired(messages: list[Any], placed: list[Any]) -> bool:
    """Whether every call is answered right behind its turn, in call order, under ids and names that may stay.

    Answers with more than text are placed.
    """
    identifiers: list[str] = []
    names: set[str] = set()
    following = iter(messages)
    for message in following:
        speaker = message.speaker
        if speaker is TOOL:
            return False
        if speaker is not MODEL or message.tool_calls is UNSET:
            continue
        for call in message.tool_calls:
            names.add(call.function.name)
            identifiers.append(call.id)
        for call in message.tool_calls:
            answer = next(following, None)
            if answer is None or answer.speaker is not TOOL or answer.tool_call_id != call.id:
                return False
            if type(answer) is PlacedToolSlice:
                placed.append(answer)
    return are_legal(identifiers, names)


def _moved(messages: list[Any], notes: Notes) -> list[Any] | None:
    """The messages with images of results in a user message behind them; None where a result is otherwise odd."""
    written: list[Any] = []
    images: list[Any] = []
    for message in messages:
        if message.speaker is not TOOL:
            if images:
                is_joined = type(message) is JoinedUserSlice
                said = _said(message.content) if is_joined else ()
                if said is None:
                    return None
                written.append(UserSlice([*images, *said]))
                images = []
                if is_joined:
                    continue
        elif type(message) is PlacedToolSlice:
            text, *moved = spoken(message.content) or (None,)
            if type(text) is not TextPart or TextPart in map(type, moved):
                return None
            label = TextPart(Raw(encode_structs(media_label(message.tool_call_id))))
            images += (label, *moved)
            notes.append(("MEDIA_MOVED", message.place[0], "", message.place[1]))
            message = ToolSlice(message.tool_call_id, text.text)  # noqa: PLW2901 - what is left of it
        written.append(message)
    return [*written, UserSlice(images)] if images else written


def _said(content: Raw) -> Any:
    """What a user says as parts; None for what has to be looked at."""
    said = spoken(content)
    return said if said is None or type(said) is list else (TextPart(said),)
