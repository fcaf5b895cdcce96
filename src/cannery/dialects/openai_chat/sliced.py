"""Reading Chat Completions bodies on the shortest way."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, ClassVar, Literal

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from cannery.dialects.openai_chat.fast import ODD, Settings, make_request
from cannery.messages.absence import absent
from cannery.messages.canisters import new_supervisor
from cannery.wire.slices import (
    MODEL,
    SHORT,
    SYSTEM,
    TOOL,
    USER,
    Sliced,
    is_said,
    is_utf8,
    text_of,
)

# A large body with images soon is read straight into canisters: what is read as text needs no second look.
_SOON = 65_536
_NULL = Raw(b"null")


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
    content: Raw = _NULL
    tool_calls: list[_Call] | UnsetType = UNSET


class _SlicedTool(_Sliced, frozen=True, gc=False, tag="tool"):
    speaker: ClassVar[str] = TOOL
    tool_call_id: str = ""


class _ShortBody(Settings, frozen=True, gc=False, forbid_unknown_fields=True, kw_only=True):
    messages: list[_User | _Assistant | _System]


class _LongBody(Settings, frozen=True, gc=False, forbid_unknown_fields=True, kw_only=True):
    messages: list[_SlicedUser | _SlicedAssistant | _SlicedTool | _SlicedSystem]


_decode_short = msgspec.json.Decoder(_ShortBody).decode
_decode_long = msgspec.json.Decoder(_LongBody).decode


def read_slices(body: bytes) -> Sliced | None:
    """A request of common shape; None for any other."""
    is_short = len(body) < SHORT
    if not is_short and (body.find(b'"image_url"', 0, _SOON) >= 0 or not is_utf8(body)):
        return None
    try:
        found: Any = _decode_short(body) if is_short else _decode_long(body)
    except ODD:
        return None
    messages, system = found.messages, None
    if messages and messages[0].speaker is SYSTEM:
        system = messages[0].content
        messages = messages[1:]
        if not (system and not system.isspace() if is_short else is_said(system)):
            return None
    limit, old_limit = found.max_completion_tokens, found.max_tokens
    if old_limit is not absent:
        if limit is not absent:
            return None
        limit = old_limit
    request = None
    if not (
        found.tools is found.tool_choice is found.parallel_tool_calls is found.seed is found.user
    ):
        leading = () if system is None else (new_supervisor(text_of(system), datetime.now(UTC)),)
        request = make_request(found, leading)
        if request is None:
            return None
    temperature, top_p = found.temperature, found.top_p
    return Sliced(
        messages, is_short, system, found.model, limit, temperature, top_p, found.stream, request
    )
