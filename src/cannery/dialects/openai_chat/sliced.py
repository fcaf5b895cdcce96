"""Reading Chat Completions bodies on the shortest way."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from cannery.messages.absence import absent
from cannery.wire.losses import Notes
from cannery.wire.slices import (
    MODEL,
    NULL,
    ODD,
    SHORT,
    SYSTEM,
    TOOL,
    USER,
    Sliced,
    UnusualError,
    encode_structs,
    is_utf8,
    settings_text,
    spoken,
)
from cannery.wire.strays import Strays


class _Function(Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    name: str
    arguments: str


class _Call(Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    id: str
    type: Literal["function"]
    function: _Function


class _Said(Struct, frozen=True, gc=False, forbid_unknown_fields=True, tag_field="role"):
    content: str


class _System(_Said, frozen=True, gc=False, tag="system"):
    speaker: ClassVar[str] = SYSTEM


class _User(_Said, frozen=True, gc=False, tag="user"):
    speaker: ClassVar[str] = USER


class _Assistant(_Said, frozen=True, gc=False, tag="assistant"):
    speaker: ClassVar[str] = MODEL


class _Sliced(Struct, frozen=True, gc=False, forbid_unknown_fields=True, tag_field="role"):
    content: Raw


class _SlicedSystem(_Sliced, frozen=True, gc=False, tag="system"):
    speaker: ClassVar[str] = SYSTEM


class _SlicedUser(_Sliced, frozen=True, gc=False, tag="user"):
    speaker: ClassVar[str] = USER


class _SlicedAssistant(
    Struct, frozen=True, gc=False, forbid_unknown_fields=True, tag_field="role", tag="assistant"
):
    speaker: ClassVar[str] = MODEL
    content: Raw = NULL
    tool_calls: list[_Call] | UnsetType = UNSET


class _SlicedTool(_Sliced, frozen=True, gc=False, tag="tool"):
    speaker: ClassVar[str] = TOOL
    tool_call_id: str = ""
    # That of the call, which says it already.
    name: Raw | UnsetType = UNSET


class CommonSettings(Struct, frozen=True, gc=False, forbid_unknown_fields=True, kw_only=True):
    """The commonest settings; absent unless given."""

    model: str = absent  # type: ignore[assignment]
    temperature: int | float = absent  # type: ignore[assignment]
    max_tokens: int = absent  # type: ignore[assignment]
    max_completion_tokens: int = absent  # type: ignore[assignment]
    top_p: int | float = absent  # type: ignore[assignment]
    stream: bool = absent  # type: ignore[assignment]


class _MoreSettings(CommonSettings, frozen=True, gc=False, kw_only=True):
    """Those, and others that only the general reader looks into."""

    tools: Raw = absent  # type: ignore[assignment]
    tool_choice: Raw = absent  # type: ignore[assignment]
    parallel_tool_calls: Raw = absent  # type: ignore[assignment]
    stop: Raw = absent  # type: ignore[assignment]
    seed: Raw = absent  # type: ignore[assignment]
    n: Raw = absent  # type: ignore[assignment]
    presence_penalty: Raw = absent  # type: ignore[assignment]
    frequency_penalty: Raw = absent  # type: ignore[assignment]
    response_format: Raw = absent  # type: ignore[assignment]
    reasoning_effort: Raw = absent  # type: ignore[assignment]
    stream_options: Raw = absent  # type: ignore[assignment]
    metadata: Raw = absent  # type: ignore[assignment]
    user: Raw = absent  # type: ignore[assignment]


_Message = _SlicedUser | _SlicedAssistant | _SlicedTool | _SlicedSystem


class _ShortBody(CommonSettings, frozen=True, gc=False, kw_only=True):
    messages: list[_User | _Assistant | _System]


class _LongBody(_MoreSettings, frozen=True, gc=False, kw_only=True):
    messages: list[_Message]


_NAMES = _MoreSettings.__struct_fields__
_OTHERS = _NAMES[len(CommonSettings.__struct_fields__) :]
_decode_short = msgspec.json.Decoder(_ShortBody).decode
_decode_texts = msgspec.json.Decoder(list[_User | _Assistant | _System]).decode
_decode_long = msgspec.json.Decoder(_LongBody).decode
_decode_fields = msgspec.json.Decoder(dict[str, Raw]).decode
_decode_messages = msgspec.json.Decoder(list[_Message]).decode
_decode_message = msgspec.json.Decoder(_Message).decode
_decode_model = msgspec.json.Decoder(str).decode
# Those of a request whose settings are all read by the general reader.
_UNSET = CommonSettings()
_STRAYS = Strays(
    {
        "system": ("role", "content"),
        "user": ("role", "content"),
        "assistant": ("role", "content", "tool_calls"),
        "tool": ("role", "tool_call_id", "content", "name"),
    },
    # What the general reader takes for more than a field that it does not know.
    telling=frozenset(
        ("reasoning_content", "reasoning", "refusal", "function_call", "audio", "annotations")
    ),
)


def read_slices(body: bytes, notes: Notes) -> Sliced | None:
    """A request of common shape; None for any other."""
    try:
        if len(body) < SHORT:
            try:
                found: Any = _decode_short(body)
                return _texts(body, found, found.messages, None)
            except msgspec.ValidationError:
                sliced = _read_set(body)
                if sliced is not None:
                    return sliced
        return _read_long(body, notes) if is_utf8(body) else None
    except ODD:
        return None


def _read_set(body: bytes) -> Sliced | None:
    """A request of nothing but texts, with any settings; None for any other."""
    fields = _decode_fields(body)
    try:
        messages = _decode_texts(fields.pop("messages", NULL))
    except msgspec.ValidationError:
        return None
    settings = encode_structs({**fields, "messages": ()})
    if not is_utf8(settings):
        return None
    return _texts(body, _UNSET, messages, settings)


def _texts(body: bytes, found: Any, messages: list[Any], settings: bytes | None) -> Sliced | None:
    system, limit = None, found.max_tokens
    if messages and messages[0].speaker is SYSTEM:
        system = messages[0].content
        messages = messages[1:]
        if not system or system.isspace():
            return None
    if found.max_completion_tokens is not absent:
        limit, settings = _limit(found, settings)
    return Sliced(
        messages,
        body,
        system,
        found.model,
        limit,
        found.temperature,
        found.top_p,
        found.stream,
        settings,
    )


def _limit(found: Any, settings: bytes | None) -> tuple[Any, bytes | None]:
    """The limit, and all settings if it is given twice."""
    limit = found.max_completion_tokens
    if limit is absent:
        return found.max_tokens, settings
    if found.max_tokens is not absent and settings is None:
        settings = settings_text(found, _NAMES)
    return limit, settings


def _read_long(body: bytes, notes: Notes) -> Sliced:
    try:
        found: Any = _decode_long(body)
    except msgspec.ValidationError as error:
        return _read_apart(body, notes, has_strays="$.messages[" in str(error))
    system, messages = _split(found.messages)
    has_others = any(getattr(found, name) is not absent for name in _OTHERS)
    limit, settings = _limit(found, settings_text(found, _NAMES) if has_others else None)
    return Sliced(
        messages,
        None,
        system,
        found.model,
        limit,
        found.temperature,
        found.top_p,
        found.stream,
        settings,
        False,
        listed=found.messages,
        find_call=_first_call,
    )


def _read_apart(body: bytes, notes: Notes, *, has_strays: bool) -> Sliced:
    """A request with fields that nobody here knows: its settings for themselves, and so its messages."""
    fields = _decode_fields(body)
    literal = fields.pop("messages", NULL)
    try:
        found: list[Any] = [] if has_strays else _decode_messages(literal)
    except msgspec.ValidationError:
        has_strays = True
    if has_strays:
        found = _STRAYS.read(literal, _decode_message, notes)
    system, messages = _split(found)
    try:
        model: Any = _decode_model(fields["model"])
    except (KeyError, msgspec.ValidationError):
        model = absent
    settings = encode_structs({**fields, "messages": ()})
    commonest = (absent, absent, absent, absent)
    said = (messages, None, system, model, *commonest, settings)
    return Sliced(*said, listed=found, find_call=_first_call)


def _first_call(messages: list[Any]) -> tuple[int, str]:
    """Where the first call of all stands."""
    for index, message in enumerate(messages):
        if message.speaker is MODEL and message.tool_calls is not UNSET:
            return index, ".tool_calls[0]"
    raise UnusualError


def _split(messages: list[Any]) -> tuple[Any, list[Any]]:
    """What the system says, or None, and the messages behind it."""
    if not messages or messages[0].speaker is not SYSTEM:
        return None, messages
    system = spoken(messages[0].content)
    if system is None:
        raise msgspec.ValidationError
    return system, messages[1:]
