"""Writing Responses bodies on the shortest way."""

from __future__ import annotations

from typing import Any

from msgspec import UNSET, Raw, Struct

from cannery.messages.absence import absent
from cannery.wire.arguments import are_plain_calls
from cannery.wire.losses import Notes
from cannery.wire.slices import (
    MODEL,
    NULL,
    SAID,
    TOOL,
    USER,
    Around,
    Sliced,
    SystemSlice,
    TextPart,
    UserSlice,
    encode_structs,
    head,
    is_detailed,
    is_spoken,
    is_talk,
    read_image,
    said_before,
    sliced_messages,
    spoken,
)


class _Assistant(Struct, frozen=True, gc=False, tag_field="role", tag="assistant"):
    content: Any


class _Text(Struct, frozen=True, gc=False, tag="input_text"):
    text: Raw


class _Image(Struct, frozen=True, gc=False, tag="input_image"):
    detail: str
    image_url: str


class _Call(Struct, frozen=True, gc=False, tag="function_call"):
    call_id: str
    name: str
    arguments: str


class _Output(Struct, frozen=True, gc=False, tag="function_call_output"):
    call_id: str
    output: Any


class _Body(Struct, frozen=True, gc=False):
    model: str
    max_output_tokens: Any
    temperature: Any
    top_p: Any
    stream: Any
    instructions: Any
    input: list[Any]


def write_slices(sliced: Sliced, around: Around | None, _notes: Notes) -> bytes | None:
    """The body; None for requests that need a repair."""
    items: list[Any] | None = sliced.messages
    if sliced.short is None:
        items = sliced_messages(sliced)
        items = items if is_talk(items) else _items(items)
    elif not is_spoken(sliced.messages):
        return None
    if items is None:
        return None
    system = sliced.system
    if type(system) is list:
        parts = _parts(system)
        if parts is None or any(type(part) is _Image for part in parts):
            return None
        items.insert(0, SystemSlice(parts))
        system = None
    if around is not None:
        said = {} if system is None else {"instructions": system}
        return encode_structs({**around, **said, "input": items})
    if not sliced.model:
        return None
    return encode_structs(
        _Body(
            sliced.model,
            UNSET if sliced.limit is absent else sliced.limit,
            UNSET if sliced.temperature is absent else sliced.temperature,
            UNSET if sliced.top_p is absent else sliced.top_p,
            UNSET if sliced.stream is absent else sliced.stream,
            UNSET if system is None else system,
            items,
        )
    )


def _items(  # noqa: C901 - one loop: a call for each message is what it saves
    messages: list[Any],
) -> list[Any] | None:
    """The items of a conversation that needs no repair."""
    written: list[Any] = []
    take = written.append
    ids: list[str] = []
    names: set[str] = set()
    after_user = False
    index, count = 0, len(messages)
    while index < count:
        message = messages[index]
        index += 1
        speaker = message.speaker
        text = message.content
        if speaker is USER:
            if head(text)[0] not in SAID:
                text = _content(text)
                if text is None:
                    return None
                message = UserSlice(text)
            after_user = True
            take(message)
            continue
        if speaker is not MODEL or not after_user:
            return None
        calls = message.tool_calls
        if calls is UNSET:
            if head(text)[0] not in SAID:
                text = spoken(text)
                if type(text) is not Raw:
                    return None
                message = _Assistant(text)
            after_user = False
            take(message)
            continue
        text = None if text == NULL else said_before(text)
        if text is UNSET or not calls:
            return None
        if text is not None:
            take(_Assistant(text))
        for call in calls:
            identifier, function = call.id, call.function
            name, given = function.name, function.arguments
            ids.append(identifier)
            names.add(name)
            take(_Call(identifier, name, given if given and not given.isspace() else "{}"))
        for call in calls:
            answer = messages[index] if index < count else message
            text = answer.content
            if head(text)[0] not in SAID:
                text = _content(text, is_answer=True)
            if text is None or answer.speaker is not TOOL or answer.tool_call_id != call.id:
                return None
            take(_Output(call.id, text))
            index += 1
    return written if after_user and are_plain_calls(ids, names) else None


def _content(content: Raw, *, is_answer: bool = False) -> Any:
    """What a user or a tool says: a text, or several parts; None for what has to be looked at."""
    said = spoken(content)
    if type(said) is not list:
        return said
    return None if is_answer and is_detailed(said) else _parts(said)


def _parts(parts: list[Any]) -> list[Any] | None:
    written: list[Any] = []
    for part in parts:
        if type(part) is TextPart:
            written.append(_Text(part.text))
        elif read_image(part) is None:
            return None
        else:
            image = part.image_url
            written.append(_Image("auto" if image.detail is UNSET else image.detail, image.url))
    return written
