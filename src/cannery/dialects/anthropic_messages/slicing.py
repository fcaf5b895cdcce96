"""Reading Messages bodies on the shortest way."""

from __future__ import annotations

import struct
from typing import Any

import msgspec
from msgspec import UNSET, Raw, Struct
from orjson import dumps

from cannery.dialects.anthropic_messages.fast_reading import (
    ODD,
    OddError,
    argument_text,
    make_request,
)
from cannery.dialects.anthropic_messages.shapes import Never, Settings
from cannery.messages.absence import absent
from cannery.messages.canisters import new_supervisor
from cannery.messages.checked import now
from cannery.wire.slices import (
    SHORT,
    CallSlice,
    FunctionSlice,
    ModelSlice,
    Sliced,
    ToolSlice,
    UserSlice,
    head,
    is_said,
    is_utf8,
)

# Only a body with calls soon is worth slicing: messages of nothing but text are quick to decode.
_SOON = 65_536
_NULL = Raw(b"null")
_QUOTE = ord('"')
_EMPTY = b'""'


class _Text(Struct, frozen=True, gc=False, tag="text", forbid_unknown_fields=True):
    text: Raw


class _ToolUse(Struct, frozen=True, gc=False, tag="tool_use", forbid_unknown_fields=True):
    id: str
    name: str
    input: Raw


class _ToolResult(Struct, frozen=True, gc=False, tag="tool_result", forbid_unknown_fields=True):
    tool_use_id: str
    content: Raw


class _User(
    Struct, frozen=True, gc=False, tag_field="role", tag="user", forbid_unknown_fields=True
):
    content: str | list[_Text | _ToolResult]


class _Assistant(
    Struct, frozen=True, gc=False, tag_field="role", tag="assistant", forbid_unknown_fields=True
):
    content: str | list[_Text | _ToolUse]


class _Body(Settings, frozen=True, gc=False, forbid_unknown_fields=True, kw_only=True):
    messages: list[_User | _Assistant]
    system: str = absent  # type: ignore[assignment]


class _ShortUser(
    UserSlice, frozen=True, gc=False, tag_field="role", tag="user", forbid_unknown_fields=True
):
    content: str


class _ShortAssistant(
    ModelSlice,
    frozen=True,
    gc=False,
    tag_field="role",
    tag="assistant",
    forbid_unknown_fields=True,
    rename={"tool_calls": "\ue000tool_calls"},
):
    content: str


class _ShortBody(Settings, frozen=True, gc=False, forbid_unknown_fields=True, kw_only=True):
    messages: list[_ShortUser | _ShortAssistant]
    system: str = absent  # type: ignore[assignment]


class _ListedText(Struct, frozen=True, gc=False, tag="text", forbid_unknown_fields=True):
    text: str


class _ListedUser(
    Struct, frozen=True, gc=False, tag_field="role", tag="user", forbid_unknown_fields=True
):
    content: str | list[_ListedText | Never]


class _ListedAssistant(_ListedUser, frozen=True, gc=False, tag="assistant"):
    pass


class _ListedBody(_ShortBody, frozen=True, gc=False, forbid_unknown_fields=True, kw_only=True):
    messages: list[_ListedUser | _ListedAssistant]  # type: ignore[assignment]
    system: str | list[_ListedText | Never] = absent  # type: ignore[assignment]


_decode = msgspec.json.Decoder(_Body).decode
_decode_texts = msgspec.json.Decoder(list[_Text | Never]).decode
_decode_listed = msgspec.json.Decoder(_ListedBody).decode
_decode_short = msgspec.json.Decoder(_ShortBody).decode


def read_slices(body: bytes) -> Sliced | None:
    """A request of common shape; None for any other."""
    try:
        if len(body) < SHORT:
            return _read_short(body)
        if body.find(b'"tool_use"', 0, _SOON) < 0 or not is_utf8(body):
            return None
        found: Any = _decode(body)
        system = None if found.system is absent else Raw(dumps(found.system))
        if system is not None and not is_said(system):
            return None
        return _sliced(found, _messages(found.messages), system, found.system, is_short=False)
    except (struct.error, *ODD):
        return None


def _read_short(body: bytes) -> Sliced | None:
    try:
        found: Any = _decode_short(body)
        messages, system = found.messages, found.system
    except msgspec.ValidationError:
        found = _decode_listed(body)
        messages = [
            (UserSlice if type(message) is _ListedUser else ModelSlice)(_text(message.content))
            for message in found.messages
        ]
        system = found.system if found.system is absent else _text(found.system)
    if system is absent:
        return _sliced(found, messages, None, None, is_short=True)
    if not system or system.isspace():
        return None
    return _sliced(found, messages, system, system, is_short=True)


def _text(content: Any) -> str:
    """Text that is a string or alone in a list."""
    if type(content) is str:
        return content
    if len(content) != 1:
        raise OddError
    text: str = content[0].text
    return text


def _sliced(found: Any, messages: list[Any], system: Any, said: Any, *, is_short: bool) -> Sliced:
    request = None
    if not (
        found.tools
        is found.tool_choice
        is found.top_k
        is found.stop_sequences
        is found.metadata
        is found.thinking
        is found.output_config
    ):
        leading: Any = ()
        if system is not None:
            leading = (new_supervisor(said, now(), False, None, None, "system"),)
        request = make_request(found, leading)
    return Sliced(
        messages,
        is_short,
        system,
        found.model,
        found.max_tokens,
        found.temperature,
        found.top_p,
        found.stream,
        request,
    )


def _messages(messages: list[Any]) -> list[Any]:
    """The messages as the shortest way has them: each text and each result for itself."""
    sliced: list[Any] = []
    take = sliced.append
    for message in messages:
        content = message.content
        if type(content) is str:
            text = Raw(dumps(content))
            take(UserSlice(text) if type(message) is _User else ModelSlice(text))
            continue
        kind = type(content[0]) if len(content) == 1 else None
        if kind is _ToolResult:
            block = content[0]
            literal = block.content
            if head(literal)[0][0] != _QUOTE:
                literal = _only_text(literal)
            take(ToolSlice(block.tool_use_id, literal))
        elif kind is _ToolUse:
            block = content[0]
            given = str(block.input, "utf-8")
            # Whatever begins like this is an object, and wraps nothing.
            if given[0] != "{" or given[1] != '"' or given[2] == "_":
                given = argument_text(block.input)
            function = FunctionSlice(block.name, given)
            take(ModelSlice(_NULL, [CallSlice(block.id, "function", function)]))
        elif type(message) is _User:
            _take_user(content, sliced)
        else:
            _take_assistant(content, sliced)
    return sliced


def _only_text(literal: Raw) -> Raw:
    """The one text of a list."""
    blocks: list[Any] = _decode_texts(literal)
    if len(blocks) != 1 or head(blocks[0].text)[0][0] != _QUOTE:
        raise OddError
    text: Raw = blocks[0].text
    return text


def _call(block: _ToolUse) -> CallSlice:
    function = FunctionSlice(block.name, argument_text(block.input))
    return CallSlice(block.id, "function", function)


def _take_user(content: list[Any], sliced: list[Any]) -> None:
    is_spoken = False
    for block in content:
        if is_spoken:
            raise OddError
        is_spoken = type(block) is _Text
        literal = block.text if is_spoken else block.content
        if head(literal)[0][0] != _QUOTE:
            literal = _only_text(literal)
        sliced.append(UserSlice(literal) if is_spoken else ToolSlice(block.tool_use_id, literal))
    if not content:
        raise OddError


def _take_assistant(content: list[Any], sliced: list[Any]) -> None:
    text = None
    calls: list[CallSlice] = []
    for block in content:
        if type(block) is _ToolUse:
            calls.append(_call(block))
        elif text is None and not calls and head(block.text)[0][0] == _QUOTE:
            text = block.text
        else:
            raise OddError
    if not content or (calls and text is not None and head(text)[0] == _EMPTY):
        raise OddError
    sliced.append(ModelSlice(_NULL if text is None else text, calls or UNSET))
