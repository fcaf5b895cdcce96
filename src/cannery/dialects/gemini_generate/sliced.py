"""Writing generateContent bodies on the shortest way."""

from __future__ import annotations

from typing import Any

from msgspec import UNSET, Raw, Struct

from cannery.dialects.gemini_generate.fast import usual_settings
from cannery.dialects.gemini_generate.models import generation
from cannery.dialects.gemini_generate.outputs import wrap_text
from cannery.messages.absence import absent
from cannery.messages.requests import Request
from cannery.wire.arguments import is_plain_identifier, is_plain_name, object_slice
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
    said_before,
    text_of,
)


class _Text(Struct, frozen=True, gc=False):
    text: Any


class _FunctionCall(Struct, frozen=True, gc=False):
    id: str
    name: str
    args: Raw


class _Call(Struct, frozen=True, gc=False):
    functionCall: _FunctionCall  # noqa: N815 - the wire's spelling


class _Output(Struct, frozen=True, gc=False):
    output: Raw


class _FunctionResponse(Struct, frozen=True, gc=False):
    id: str
    name: str
    response: Any


class _Response(Struct, frozen=True, gc=False):
    functionResponse: _FunctionResponse  # noqa: N815 - the wire's spelling


class _User(Struct, frozen=True, gc=False, tag_field="role", tag="user"):
    parts: Any


class _Model(Struct, frozen=True, gc=False, tag_field="role", tag="model"):
    parts: Any


class _Instruction(Struct, frozen=True, gc=False):
    parts: tuple[_Text]


class _Config(Struct, frozen=True, gc=False):
    maxOutputTokens: Any  # noqa: N815 - the wire's spelling
    temperature: Any
    topP: Any  # noqa: N815 - the wire's spelling


class _Body(Struct, frozen=True, gc=False):
    generationConfig: Any  # noqa: N815 - the wire's spelling
    systemInstruction: Any  # noqa: N815 - the wire's spelling
    contents: list[Any]


def write_slices(sliced: Sliced, _notes: Notes) -> Turns | bytes | None:
    """The body, or just its contents where there are other settings than the commonest; None for other requests."""
    temperature = sliced.temperature
    if temperature is not absent and not 0 <= temperature <= 2:
        return None
    given = sliced.messages
    contents = _spoken(given) if sliced.is_short else _contents(given, sliced.model)
    if contents is None:
        return None
    if sliced.request is not None:
        return _with_settings(sliced.request, sliced.system, contents)
    limit, top_p = sliced.limit, sliced.top_p
    config: Any = UNSET
    if not limit is temperature is top_p is absent:
        config = _Config(
            UNSET if limit is absent else limit,
            UNSET if temperature is absent else temperature,
            UNSET if top_p is absent else top_p,
        )
    system: Any = UNSET if sliced.system is None else _Instruction((_Text(sliced.system),))
    return encode_structs(_Body(config, system, contents))


def _with_settings(request: Request, system: Any, contents: list[Any]) -> Turns | bytes:
    """The body with the settings of a request, or just its contents where some have to be reported."""
    body = usual_settings(request)
    if body is None:
        return as_turns(contents)
    if system is not None:
        body["systemInstruction"] = Raw(encode_structs(_Instruction((_Text(system),))))
    body["contents"] = as_turns(contents)
    return encode_body(body)


def _spoken(messages: list[Any]) -> list[Any] | None:
    """The contents of texts that alternate, begin and end with the user and say something; None for others."""
    written: list[Any] = []
    take = written.append
    is_user = True
    for message in messages:
        text = message.content
        if not text or text.isspace():
            return None
        if is_user:
            if message.speaker is not USER:
                return None
            take(_User((_Text(text),)))
            is_user = False
        else:
            if message.speaker is not MODEL:
                return None
            take(_Model((_Text(text),)))
            is_user = True
    return None if is_user else written


def _contents(messages: list[Any], model: Any) -> list[Any] | None:  # noqa: C901 - one loop
    """The contents of a conversation that needs no repair."""
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
            take(_User((_Text(text),)))
            continue
        if speaker is not MODEL or not after_user:
            return None
        calls = message.tool_calls
        if calls is UNSET:
            if head(text)[0] not in SAID and not is_said(text):
                return None
            after_user = False
            take(_Model((_Text(text),)))
            continue
        said = _calls(text, calls, used, names)
        # A model of Google's own may want signatures.
        if said is None or (type(model) is str and generation(model) is not None):
            return None
        take(_Model(said))
        heard: list[Any] = []
        for call in calls:
            answer = messages[index] if index < count else message
            if answer.speaker is not TOOL or answer.tool_call_id != call.id:
                return None
            response = _response(answer.content)
            if response is None:
                return None
            heard.append(_Response(_FunctionResponse(call.id, call.function.name, response)))
            index += 1
        if index < count and messages[index].speaker is USER:
            text = messages[index].content
            if not is_said(text):
                return None
            heard.append(_Text(text))
            index += 1
        take(_User(heard))
    return written if after_user else None


def _calls(content: Raw, calls: list[Any], used: set[str], names: set[str]) -> list[Any] | None:
    text = said_before(content)
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
        said.append(_Call(_FunctionCall(identifier, name, given)))
    return said


def _response(text: Raw) -> Any:
    """The response object of a result; None for what has nothing to say."""
    start = head(text)[0]
    if start in SAID and start != b'"{':
        return _Output(text)
    return wrap_text(text_of(text)) if is_said(text) else None
