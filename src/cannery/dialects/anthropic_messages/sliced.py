"""Writing Messages bodies on the shortest way."""

from __future__ import annotations

from typing import Any

from msgspec import UNSET, Raw, Struct, UnsetType

from cannery.dialects.anthropic_messages.fast import DEFAULTED
from cannery.dialects.anthropic_messages.settings import DEFAULT_MAX_TOKENS
from cannery.messages.absence import absent
from cannery.wire.arguments import is_plain_identifier, is_plain_name, object_slice
from cannery.wire.bodies import Turns
from cannery.wire.contract import Notes
from cannery.wire.slices import (
    MODEL,
    SAID,
    TOOL,
    USER,
    Sliced,
    as_turns,
    encode_structs,
    head,
    is_said,
    is_spoken,
    said_before,
)


class _Text(Struct, frozen=True, gc=False, tag="text"):
    text: Any


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


def write_slices(sliced: Sliced, notes: Notes) -> Turns | bytes | None:
    """The body, or just its messages where there are other settings than the commonest; None for other requests."""
    temperature, model, limit = sliced.temperature, sliced.model, sliced.limit
    if not model or (temperature is not absent and temperature > 1):
        return None
    given = sliced.messages
    # Texts are said here as Chat says them.
    messages = _messages(given) if not sliced.is_short else given if is_spoken(given) else None
    if messages is None or sliced.request is not None:
        return None if messages is None else as_turns(messages)
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
            UNSET if sliced.system is None else sliced.system,
            messages,
        )
    )


def _messages(messages: list[Any]) -> list[Any] | None:
    """The messages of a conversation that needs no repair."""
    written: list[Any] = []
    take = written.append
    used: set[str] = set()
    names: set[str] = set()
    after_user = False
    index, count = 0, len(messages)
    while index < count:
        message = messages[index]
        index += 1
        speaker = message.speaker
        text = message.content
        if speaker is USER:
            if after_user or (head(text)[0] not in SAID and not is_said(text)):
                return None
            after_user = True
            take(message)
            continue
        if speaker is not MODEL or not after_user:
            return None
        calls = message.tool_calls
        if calls is UNSET:
            if head(text)[0] not in SAID and not is_said(text):
                return None
            after_user = False
            take(message)
            continue
        # What agents do all day: one call and nothing said, then its result and the model again.
        if len(calls) == 1 and index < count and head(text)[0] == b"nu":
            answer, call = messages[index], calls[0]
            identifier, function = call.id, call.function
            if index + 1 == count or messages[index + 1].speaker is MODEL:
                name, text = function.name, answer.content
                given = object_slice(function.arguments)
                if (
                    given is None
                    or identifier in used
                    or not (
                        (
                            identifier.isidentifier()
                            and identifier.isascii()
                            and len(identifier) < 40
                        )
                        or is_plain_identifier(identifier)
                    )
                    or not (name in names or is_plain_name(name))
                    or answer.speaker is not TOOL
                    or answer.tool_call_id != identifier
                    or (head(text)[0] not in SAID and not is_said(text))
                ):
                    return None
                used.add(identifier)
                names.add(name)
                take(_Assistant((_ToolUse(identifier, name, given),)))
                take(_User((_ToolResult(identifier, text),)))
                index += 1
                continue
        said = _calls(message, calls, used, names)
        if said is None:
            return None
        take(_Assistant(said))
        heard = _heard(messages, index, calls)
        if heard is None:
            return None
        index += len(heard)
        take(_User(heard))
    return written if after_user else None


def _heard(messages: list[Any], index: int, calls: list[Any]) -> list[Any] | None:
    """The answers to calls, in call order, and what the user says behind them."""
    heard: list[Any] = []
    for call in calls:
        answer = messages[index] if index < len(messages) else None
        if answer is None or answer.speaker is not TOOL or answer.tool_call_id != call.id:
            return None
        if not is_said(answer.content):
            return None
        heard.append(_ToolResult(call.id, answer.content))
        index += 1
    if index < len(messages) and messages[index].speaker is USER:
        text = messages[index].content
        if not is_said(text):
            return None
        heard.append(_Text(text))
    return heard


def _calls(message: Any, calls: list[Any], used: set[str], names: set[str]) -> list[Any] | None:
    text = said_before(message.content)
    if text is UNSET or not calls:
        return None
    said: list[Any] = [] if text is None else [_Text(text)]
    for call in calls:
        identifier, function = call.id, call.function
        name, given = function.name, object_slice(function.arguments)
        if given is None or identifier in used or not is_plain_identifier(identifier):
            return None
        if name not in names:
            if not is_plain_name(name):
                return None
            names.add(name)
        used.add(identifier)
        said.append(_ToolUse(identifier, name, given))
    return said
