"""Requests on the shortest way: messages that pass from one wire to another without being taken apart.

A reader decodes them straight into the shapes below; long text stays the JSON text that it was read as (``Raw``), since
nobody has to look at more than its beginning. A writer walks over the messages once: it checks that no repair is
needed and makes its own messages of them. Both give None for anything unusual, and then the request goes through
canisters; the tests hold both ways against each other.
"""

from __future__ import annotations

import struct
from typing import Any, ClassVar

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from cannery.messages.requests import Request
from cannery.wire.bodies import Turns
from cannery.wire.markers import MARKS

# The shorter bodies are decoded to the end: looking into a slice costs more than a few characters.
SHORT = 8_192
USER, MODEL, SYSTEM, TOOL = "user", "model", "system", "tool"

encode_structs = msgspec.json.Encoder().encode
head = struct.Struct("2s").unpack_from
# How a literal begins whose text says something: with a quote and a visible character that needs no escape. A
# bracket may be the beginning of a mark.
SAID = frozenset(b'"' + bytes([code]) for code in range(33, 127) if code not in b'"\\[')
_DOUBTFUL = b'"['
_NOTHING = frozenset((b"nu", b'""'))
_MARKS = tuple(b'"' + mark.encode() for mark in MARKS)
_LONGEST = max(map(len, _MARKS))
_decode_text = msgspec.json.Decoder(str).decode
_ODD = (msgspec.MsgspecError, UnicodeError, RecursionError)


class Sliced(Struct, frozen=True, gc=False):
    """A request: what the system says, the messages behind it, and the settings.

    Each message has a ``speaker`` and ``content``, one of the model ``tool_calls``, one of a tool ``tool_call_id``;
    encoded as they are, they are messages of Chat Completions.
    All messages of a short request are text; all texts of any other are slices. The commonest settings are fields,
    absent unless given; with any others ``request`` has all settings, and the system text as its conversation.
    """

    messages: list[Any]
    is_short: bool
    system: Any
    model: Any
    limit: Any
    temperature: Any
    top_p: Any
    stream: Any
    request: Request | None


class FunctionSlice(Struct, frozen=True, gc=False):
    """What a call calls, and its argument text."""

    name: str
    arguments: str


class CallSlice(Struct, frozen=True, gc=False):
    """A call; its type is ``function``."""

    id: str
    type: str
    function: FunctionSlice


class SystemSlice(Struct, frozen=True, gc=False, tag_field="role", tag="system"):
    """What the system says."""

    speaker: ClassVar[str] = SYSTEM
    content: Any


class UserSlice(Struct, frozen=True, gc=False, tag_field="role", tag="user"):
    """What the user says."""

    speaker: ClassVar[str] = USER
    content: Any


class ModelSlice(Struct, frozen=True, gc=False, tag_field="role", tag="assistant"):
    """What the model says, and its calls."""

    speaker: ClassVar[str] = MODEL
    content: Any
    tool_calls: list[CallSlice] | UnsetType = UNSET


class ToolSlice(Struct, frozen=True, gc=False, tag_field="role", tag="tool"):
    """What a tool answers."""

    speaker: ClassVar[str] = TOOL
    tool_call_id: str
    content: Any


def is_utf8(body: bytes) -> bool:
    """Whether a body may be sliced: what is not decoded must be what it seems."""
    if body.isascii():
        return True
    try:
        body.decode()
    except UnicodeDecodeError:
        return False
    return True


def is_said(text: Raw) -> bool:
    """Whether this is a string with something to say that is nobody's mark."""
    try:
        start = head(text)[0]
        if start in SAID:
            return True
        if start == _DOUBTFUL:
            beginning = bytes(memoryview(text)[:_LONGEST])
            if b"\\" not in beginning:
                return not beginning.startswith(_MARKS)
        said = _decode_text(text)
    except (struct.error, *_ODD):
        return False
    return bool(said) and not said.isspace() and not said.startswith(MARKS)


def is_spoken(messages: list[Any]) -> bool:
    """Whether texts alternate, begin and end with the user and say something."""
    expected, following = USER, MODEL
    for message in messages:
        text = message.content
        if message.speaker is not expected or not text or text.isspace():
            return False
        expected, following = following, expected
    return expected is MODEL


def text_of(text: Any) -> str:
    """The text, decoded if it was not."""
    return text if type(text) is str else _decode_text(text)


def said_before(text: Raw) -> Any:
    """What the model says before its calls: None for nothing, UNSET for what no turn can begin with."""
    start = head(text)[0]
    if start in _NOTHING:
        return None
    return text if start in SAID or is_said(text) else UNSET


def as_turns(messages: list[Any]) -> Turns:
    """Messages of a writer's own, encoded."""
    return Turns([memoryview(encode_structs(messages))[1:-1]])
