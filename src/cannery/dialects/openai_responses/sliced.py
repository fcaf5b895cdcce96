"""Writing Responses bodies on the shortest way."""

from __future__ import annotations

from typing import Any

from msgspec import UNSET, Struct

from cannery.dialects.openai_responses.fast import usual_settings
from cannery.messages.absence import absent
from cannery.messages.requests import Request
from cannery.wire.arguments import is_plain_identifier, is_plain_name
from cannery.wire.bodies import Turns, encode_body
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


class _Assistant(Struct, frozen=True, gc=False, tag_field="role", tag="assistant"):
    content: Any


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


def write_slices(sliced: Sliced, _notes: Notes) -> Turns | bytes | None:
    """The body, or just its input where there are other settings than the commonest; None for other requests."""
    if not sliced.model:
        return None
    given = sliced.messages
    # Texts are said here as Chat says them.
    items = _items(given) if not sliced.is_short else given if is_spoken(given) else None
    if items is None:
        return None
    if sliced.request is not None:
        return _with_settings(sliced.request, sliced.system, items)
    return encode_structs(
        _Body(
            sliced.model,
            UNSET if sliced.limit is absent else sliced.limit,
            UNSET if sliced.temperature is absent else sliced.temperature,
            UNSET if sliced.top_p is absent else sliced.top_p,
            UNSET if sliced.stream is absent else sliced.stream,
            UNSET if sliced.system is None else sliced.system,
            items,
        )
    )


def _with_settings(request: Request, system: Any, items: list[Any]) -> Turns | bytes:
    """The body with the settings of a request, or just its items where some have to be reported."""
    body = usual_settings(request)
    if body is None:
        return as_turns(items)
    if system is not None:
        body["instructions"] = system
    body["input"] = as_turns(items)
    return encode_body(body)


def _items(messages: list[Any]) -> list[Any] | None:
    """The items of a conversation that needs no repair."""
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
            if head(text)[0] not in SAID and not is_said(text):
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
        text = said_before(text)
        if text is UNSET or not calls:
            return None
        if text is not None:
            take(_Assistant(text))
        if not _take_calls(calls, written, used, names):
            return None
        for call in calls:
            answer = messages[index] if index < count else message
            text = answer.content
            if (
                answer.speaker is not TOOL
                or answer.tool_call_id != call.id
                or (head(text)[0] not in SAID and not is_said(text))
            ):
                return None
            take(_Output(call.id, text))
            index += 1
    return written if after_user else None


def _take_calls(calls: list[Any], written: list[Any], used: set[str], names: set[str]) -> bool:
    for call in calls:
        identifier, function = call.id, call.function
        name, given = function.name, function.arguments
        if identifier in used or not is_plain_identifier(identifier):
            return False
        if name not in names:
            if not is_plain_name(name):
                return False
            names.add(name)
        used.add(identifier)
        written.append(_Call(identifier, name, given if given and not given.isspace() else "{}"))
    return True
