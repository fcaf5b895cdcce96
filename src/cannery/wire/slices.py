"""Requests on the shortest way: messages that pass from one wire to another without being taken apart.

A reader decodes them straight into the shapes below; long text stays the JSON text that it was read as (``Raw``), since
nobody has to look at more than its beginning. A writer walks over the messages once: it checks that no repair is
needed and makes its own messages of them. Settings beyond the commonest stay the JSON text that they were, for the
general reader and writer of settings. Both give None for anything unusual, and then the request goes through
canisters; the tests hold both ways against each other.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar, Literal

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType
from orjson import dumps

from cannery.messages.absence import absent
from cannery.messages.payload import Base64
from cannery.wire.losses import Notes
from cannery.wire.markers import MARKS
from cannery.wire.media import WEB_IMAGES, is_standard_base64, sniff

# The shorter bodies are decoded to the end: looking into a slice costs more than a few characters.
SHORT = 8_192
USER, MODEL, SYSTEM, TOOL = "user", "model", "system", "tool"

encode_structs = msgspec.json.Encoder().encode
head = struct.Struct("2s").unpack_from
# How a literal begins whose text says something: with a quote and a visible character that needs no escape, in UTF-8
# also its first byte if no space begins with it. A bracket may be the beginning of a mark.
_VISIBLE = (*range(33, 127), *range(0xC3, 0xE1), *range(0xE4, 0xF5))
SAID = frozenset(b'"' + bytes([code]) for code in _VISIBLE if code not in b'"\\[')
_QUOTE, _BRACKET, _BACKSLASH = b'"[\\'
_NOTHING = frozenset((b"nu", b'""'))
NULL = Raw(b"null")
_decode_text = msgspec.json.Decoder(str).decode
_DETAIL = "'detail' is known only to its own dialect"
# Settings as the fields of a body that are written already.
Around = Mapping[str, Raw]


class UnusualError(ValueError):
    """Something that only the general way can take."""


ODD = (msgspec.MsgspecError, UnicodeError, RecursionError, struct.error, UnusualError)


class Sliced(Struct, frozen=True, gc=False):
    """A request: what the system says, the messages behind it, and the settings.

    Each message has a ``speaker`` and ``content``, one of the model ``tool_calls``, one of a tool ``tool_call_id``;
    encoded as they are, they are messages of Chat Completions.
    All messages of a ``short`` body are text; all texts of any other are slices, or lists of the parts below, but where
    it ``has_texts`` some are text too: whoever looks into texts takes ``sliced_messages``. The commonest settings are
    fields, absent unless given; with any others ``settings`` has them all, as the body of a request without messages,
    in the order of the body if ``is_ordered``. A reader that sees that each call is made alone and answered right
    behind it gives the ids and names of all ``calls``, so that nobody has to look again. The messages stand in a
    ``field`` of the body. Whoever has to tell of the first call finds its place in what was ``listed`` there: the
    number of the message, and the path in it.
    """

    messages: list[Any]
    short: bytes | None
    system: Any
    model: Any
    limit: Any
    temperature: Any
    top_p: Any
    stream: Any
    settings: bytes | None = None
    is_ordered: bool = True
    calls: tuple[list[str], set[str]] | None = None
    has_texts: bool = False
    field: str = "messages"
    listed: Any = ()
    find_call: Callable[[Any], tuple[int, str]] | None = None


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


class JoinedUserSlice(UserSlice, frozen=True, gc=False, tag_field="role", tag="user"):
    """What the user says in the same message as results."""


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


class PlacedToolSlice(ToolSlice, frozen=True, gc=False, tag_field="role", tag="tool"):
    """The same with parts, and where they stand: the number of the message, and the path in it."""

    place: tuple[int, str]


class TextPart(Struct, frozen=True, gc=False, tag="text", forbid_unknown_fields=True):
    """A text among parts."""

    text: Raw


class ImageUrl(Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """Where an image is, or what it is, and how closely it is to be looked at."""

    url: str
    detail: Literal["auto", "low", "high", "original"] | UnsetType = UNSET


class ImagePart(Struct, frozen=True, gc=False, tag="image_url", forbid_unknown_fields=True):
    """An image among parts."""

    image_url: ImageUrl


_decode_parts = msgspec.json.Decoder(list[TextPart | ImagePart]).decode


def is_utf8(body: bytes) -> bool:
    """Whether a body may be sliced: what is not decoded must be what it seems."""
    if body.isascii():
        return True
    try:
        body.decode()
    except UnicodeDecodeError:
        return False
    return True


def sliced_messages(sliced: Sliced) -> list[Any]:
    """The messages of a request that is not short, with slices for all texts."""
    if not sliced.has_texts:
        return sliced.messages
    return [
        type(message)(Raw(dumps(message.content))) if type(message.content) is str else message
        for message in sliced.messages
    ]


def settings_text(found: Any, names: Iterable[str], field: str = "messages") -> bytes:
    """The settings of a body as the body of a request without messages."""
    given = ((name, getattr(found, name, absent)) for name in names)
    fields = {name: value for name, value in given if value is not absent}
    return encode_structs({**fields, field: ()})


def is_said(text: Raw) -> bool:
    """Whether this is a string with something to say that is nobody's mark."""
    try:
        start = head(text)[0]
        if start in SAID:
            return True
        if start[0] != _QUOTE or start[1] == _QUOTE:
            return False
        first = first_of(text)
        if not first.isspace() and first != "[":
            return True
        said = _decode_text(text)
    except ODD:
        return False
    return not said.isspace() and not said.startswith(MARKS)


def first_of(text: Raw) -> str:
    """The first character of a string that has one."""
    start = bytes(memoryview(text)[1:13])
    if start[0] == _BACKSLASH:
        size = 2 if start[1:2] != b"u" else 12 if start[2:4].lower() in _SURROGATES else 6
    else:
        size = 3 if start[0] >= 0xE0 else 2 if start[0] >= 0xC0 else 1
    return _decode_text(b'"%b"' % start[:size])


_SURROGATES = frozenset((b"d8", b"d9", b"da", b"db"))


def spoken(content: Raw) -> Any:
    """What a message says: its text, or its parts unless that is one text; None for what has to be looked at."""
    if not is_list(content):
        return content if is_said(content) else None
    try:
        parts = _decode_parts(content)
    except ODD:
        return None
    for part in parts:
        if type(part) is TextPart and not is_said(part.text):
            return None
    if len(parts) == 1 and type(parts[0]) is TextPart:
        return parts[0].text
    return parts or None


def is_list(content: Raw) -> bool:
    """Whether this is a list of parts."""
    return head(content)[0][0] == _BRACKET  # type: ignore[no-any-return]


def read_image(part: ImagePart) -> tuple[str, str] | None:
    """The type and the base64 text of an image that passes as it is; None for any other."""
    url = part.image_url.url
    at = url.find(";base64,", 5, 64)
    mime_type, data = url[5:at], url[at + 8 :]
    is_plain = mime_type in WEB_IMAGES and url.startswith("data:") and is_standard_base64(data)
    return (mime_type, data) if is_plain and sniff(Base64(data)) == mime_type else None


def is_detailed(parts: list[Any]) -> bool:
    """Whether an image is to be looked at otherwise than by default."""
    return any(map(_is_detailed, parts))


def _is_detailed(part: Any) -> bool:
    return type(part) is ImagePart and part.image_url.detail not in (UNSET, "auto")


def note_details(contents: list[Raw], sliced: Sliced, notes: Notes) -> bool:
    """Note how closely images of messages are to be looked at, since a target cannot say it.

    False if there is more to say of one of the messages: what comes first, the general way knows.
    """
    looked_at = {id(content) for content in contents}
    for index, message in enumerate(sliced.listed):
        if id(message.content) not in looked_at:
            continue
        if any(note[1] == index for note in notes):
            return False
        for place, part in enumerate(_decode_parts(message.content)):
            if _is_detailed(part):
                path = f".content[{place}].image_url.detail"
                notes.append(("FIELD_DROPPED", index, _DETAIL, path))
    return True


def is_spoken(messages: list[Any]) -> bool:
    """Whether texts alternate, begin and end with the user and say something."""
    rest = iter(messages)
    for user in rest:
        if user.speaker is not USER or not user.content.strip():
            return False
        model = next(rest, None)
        if model is None:
            return True
        if model.speaker is not MODEL or not model.content.strip():
            return False
    return False


def is_talk(messages: list[Any]) -> bool:
    """The same for slices, without any calls: such messages are what the commonest wires want, as they are."""
    if not len(messages) % 2:
        return False
    last = messages[-1]
    if last.speaker is not USER or head(last.content)[0] not in SAID:
        return False
    for user, model in zip(messages[::2], messages[1::2], strict=False):
        if (
            user.speaker is not USER
            or model.speaker is not MODEL
            or model.tool_calls is not UNSET
            or head(user.content)[0] not in SAID
            or head(model.content)[0] not in SAID
        ):
            return False
    return True


def text_of(text: Any) -> str:
    """The text, decoded if it was not."""
    return text if type(text) is str else _decode_text(text)


def said_before(text: Raw) -> Any:
    """What the model says before its calls: None for nothing, UNSET for what no turn can begin with."""
    start = head(text)[0]
    if start in _NOTHING:
        return None
    return text if start in SAID or is_said(text) else UNSET
