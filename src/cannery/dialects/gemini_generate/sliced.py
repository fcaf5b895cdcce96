"""Writing generateContent bodies on the shortest way."""

from __future__ import annotations

from typing import Any

from msgspec import UNSET, Raw, Struct

from cannery.dialects.gemini_generate.fast import usual_settings
from cannery.dialects.gemini_generate.frames import write_long
from cannery.messages.absence import absent
from cannery.messages.requests import Request
from cannery.wire.bodies import Turns, encode_body
from cannery.wire.contract import Notes
from cannery.wire.slices import (
    MODEL,
    USER,
    Sliced,
    as_turns,
    encode_structs,
)


class _Text(Struct, frozen=True, gc=False):
    text: Any


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
    if not sliced.is_short:
        return write_long(sliced)
    temperature = sliced.temperature
    if temperature is not absent and not 0 <= temperature <= 2:
        return None
    given = sliced.messages
    contents = _spoken(given)
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
