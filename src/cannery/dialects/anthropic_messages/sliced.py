"""Writing Messages bodies on the shortest way."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec import UNSET, Raw, Struct, UnsetType

from cannery.dialects.anthropic_messages.fast import DEFAULTED
from cannery.dialects.anthropic_messages.settings import DEFAULT_MAX_TOKENS
from cannery.messages.absence import absent
from cannery.wire.arguments import are_plain_calls, object_slice, read_slice
from cannery.wire.contract import Notes
from cannery.wire.slices import (
    MODEL,
    NULL,
    SAID,
    TOOL,
    USER,
    Around,
    Sliced,
    TextPart,
    encode_structs,
    head,
    is_spoken,
    read_image,
    said_before,
    sliced_messages,
    spoken,
)


class _Source(Struct, frozen=True, gc=False, tag="base64"):
    media_type: str
    data: str


class _Image(Struct, frozen=True, gc=False, tag="image"):
    source: _Source


class _ToolUse(Struct, frozen=True, gc=False, tag="tool_use"):
    id: str
    name: str
    input: Raw


class _ToolResult(Struct, frozen=True, gc=False, tag="tool_result"):
    tool_use_id: str
    content: Any


class _User(Struct, frozen=True, gc=False, tag_field="role", tag="user"):
    content: Any


class _Assistant(Struct, frozen=True, gc=False, tag_field="role", tag="assistant"):
    content: Any


class _Body(Struct, frozen=True, gc=False):
    model: str
    max_tokens: int
    temperature: Any
    top_p: Any
    stream: Any
    system: Any
    messages: list[Any] | UnsetType


def write_slices(sliced: Sliced, around: Around | None, notes: Notes) -> bytes | None:
    """The body; None for requests that need a repair."""
    messages: list[Any] | None = sliced.messages
    if sliced.short is None:
        messages = _messages(sliced_messages(sliced))
    elif not is_spoken(sliced.messages):
        return None
    if messages is None:
        return None
    system = sliced.system
    if type(system) is list:
        system = _blocks(system)
        if system is None or _has_image(system):
            return None
    if around is not None:
        said = {} if system is None else {"system": system}
        return encode_structs({**around, **said, "messages": messages})
    temperature, model, limit = sliced.temperature, sliced.model, sliced.limit
    if not model or (temperature is not absent and temperature > 1):
        return None
    if limit is absent:
        notes.append(DEFAULTED)
        limit = DEFAULT_MAX_TOKENS
    return encode_structs(
        _Body(
            model,
            limit,
            UNSET if temperature is absent else temperature,
            UNSET if sliced.top_p is absent else sliced.top_p,
            UNSET if sliced.stream is absent else sliced.stream,
            UNSET if system is None else system,
            messages,
        )
    )


def _messages(  # noqa: C901 - one loop: a call for each message is what it saves
    messages: list[Any],
) -> list[Any] | None:
    """The messages of a conversation that needs no repair."""
    written: list[Any] = []
    take = written.append
    ids: list[str] = []
    names: set[str] = set()
    after_user = is_answered = False
    rest = iter(messages)
    for message in rest:
        speaker = message.speaker
        text = message.content
        if speaker is USER:
            if head(text)[0] not in SAID:
                text = _content(text)
                if text is None:
                    return None
            if is_answered:
                # What the user says behind results is said in the same turn.
                is_answered = False
                heard = written.pop().content
                text = (*heard, *((TextPart(text),) if type(text) is Raw else text))
            elif after_user:
                return None
            after_user = True
            take(message if text is message.content else _User(text))
            continue
        if speaker is not MODEL or not after_user:
            return None
        calls = message.tool_calls
        if calls is UNSET:
            if head(text)[0] not in SAID:
                text = spoken(text)
                if type(text) is not Raw:
                    return None
            after_user = is_answered = False
            take(message if text is message.content else _Assistant(text))
            continue
        is_answered = True
        # What agents do all day: one call, and nothing said.
        if len(calls) == 1 and text == NULL:
            call = calls[0]
            answer = next(rest, message)
            identifier, function = call.id, call.function
            name, given, text = function.name, function.arguments, answer.content
            given = read_slice(given) if given[:1] == "{" else object_slice(given)
            if head(text)[0] not in SAID:
                text = _content(text)
            if (
                given is None
                or text is None
                or answer.speaker is not TOOL
                or answer.tool_call_id != identifier
            ):
                return None
            ids.append(identifier)
            names.add(name)
            take(_Assistant((_ToolUse(identifier, name, given),)))
            take(_User((_ToolResult(identifier, text),)))
            continue
        said = _calls(message, calls, ids, names)
        heard = _heard(rest, calls)
        if said is None or heard is None:
            return None
        take(_Assistant(said))
        take(_User(heard))
    return written if after_user and are_plain_calls(ids, names) else None


def _heard(rest: Iterator[Any], calls: list[Any]) -> list[Any] | None:
    """The answers to calls, in call order."""
    heard: list[Any] = []
    for call in calls:
        answer = next(rest, None)
        if answer is None or answer.speaker is not TOOL or answer.tool_call_id != call.id:
            return None
        content = _content(answer.content)
        if content is None:
            return None
        heard.append(_ToolResult(call.id, content))
    return heard


def _calls(message: Any, calls: list[Any], ids: list[str], names: set[str]) -> list[Any] | None:
    text = said_before(message.content)
    if text is UNSET or not calls:
        return None
    said: list[Any] = [] if text is None else [TextPart(text)]
    for call in calls:
        function = call.function
        given = object_slice(function.arguments)
        if given is None:
            return None
        ids.append(call.id)
        names.add(function.name)
        said.append(_ToolUse(call.id, function.name, given))
    return said


def _content(content: Raw) -> Any:
    """What a user or a tool says: a text, or the blocks of several parts; None for what has to be looked at."""
    said = spoken(content)
    return _blocks(said) if type(said) is list else said


def _blocks(parts: list[Any]) -> list[Any] | None:
    blocks: list[Any] = []
    for part in parts:
        if type(part) is TextPart:
            blocks.append(part)
            continue
        image = read_image(part)
        if image is None:
            return None
        blocks.append(_Image(_Source(*image)))
    return blocks


def _has_image(blocks: list[Any]) -> bool:
    return any(type(block) is _Image for block in blocks)
