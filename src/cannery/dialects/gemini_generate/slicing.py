"""Reading generateContent bodies on the shortest way.

Calls and results have ids, or none of them has one: then a call has the id that its place gives it, and results answer
calls in their order. No body names its model, so that the settings are always left to the general reader.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from cannery.messages.absence import absent
from cannery.messages.json_text import write_json
from cannery.wire.arguments import RAW_ARGUMENTS
from cannery.wire.foreign import STAND_INS
from cannery.wire.losses import Note, Notes
from cannery.wire.slices import (
    NULL,
    ODD,
    SAID,
    SHORT,
    CallSlice,
    FunctionSlice,
    ImagePart,
    ImageUrl,
    JoinedUserSlice,
    ModelSlice,
    Sliced,
    TextPart,
    ToolSlice,
    UnusualError,
    UserSlice,
    encode_structs,
    first_of,
    head,
    is_said,
    is_utf8,
    read_image,
)

# What a text begins with that may be data, and how text begins that says something and cannot be.
_DATA = "{["
_WORDS = SAID - {b'"{'}


class _Call(Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    name: str
    args: dict[str, Any]
    id: str | UnsetType = UNSET


class _Output(Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    output: Raw


class _Result(Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    name: str
    response: _Output
    id: str | UnsetType = UNSET


class _Blob(Struct, frozen=True, gc=False, forbid_unknown_fields=True, rename="camel"):
    mime_type: str
    data: str


class _Part(
    Struct,
    frozen=True,
    gc=False,
    forbid_unknown_fields=True,
    rename={
        "call": "functionCall",
        "result": "functionResponse",
        "blob": "inlineData",
        "signature": "thoughtSignature",
    },
):
    text: Raw | UnsetType = UNSET
    call: _Call | UnsetType = UNSET
    result: _Result | UnsetType = UNSET
    blob: _Blob | UnsetType = UNSET
    signature: str | UnsetType = UNSET


class _Content(Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    role: Literal["user", "model"]
    parts: list[_Part]


class _Text(Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    text: Raw


class _System(Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    parts: list[_Text]


class _Body(
    Struct,
    frozen=True,
    gc=False,
    forbid_unknown_fields=True,
    rename={
        "system": "systemInstruction",
        "config": "generationConfig",
        "choice": "toolConfig",
    },
):
    contents: list[_Content]
    system: _System | UnsetType = UNSET
    config: Raw | UnsetType = UNSET
    tools: Raw | UnsetType = UNSET
    choice: Raw | UnsetType = UNSET


class _Words(Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    text: str


class _ShortContent(Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    role: Literal["user", "model"]
    parts: list[_Words]


class _ShortSystem(Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    parts: list[_Words]


class _ShortBody(_Body, frozen=True, gc=False):
    contents: list[_ShortContent]  # type: ignore[assignment]
    system: _ShortSystem | UnsetType = UNSET  # type: ignore[assignment]


_decode = msgspec.json.Decoder(_Body).decode
_decode_short = msgspec.json.Decoder(_ShortBody).decode
_decode_fields = msgspec.json.Decoder(dict[str, Raw]).decode
_decode_contents = msgspec.json.Decoder(list[_Content]).decode
_decode_system = msgspec.json.Decoder(_System).decode


def read_slices(body: bytes, notes: Notes) -> Sliced | None:
    """A request of common shape; None for any other."""
    try:
        if len(body) < SHORT:
            sliced = _read_short(body)
            if sliced is not None:
                return sliced
        return _read_long(body, notes) if is_utf8(body) else None
    except ODD:
        return None


def _read_short(body: bytes) -> Sliced | None:
    """A request of nothing but texts; None for any other."""
    try:
        found: Any = _decode_short(body)
    except msgspec.ValidationError:
        return None
    messages: list[Any] = []
    for content in found.contents:
        parts = content.parts
        if len(parts) != 1:
            return None
        text = parts[0].text
        messages.append(UserSlice(text) if content.role == "user" else ModelSlice(text))
    system = None
    if found.system is not UNSET:
        words = [part.text for part in found.system.parts]
        if len(words) != 1 or not words[0] or words[0].isspace():
            return None
        system = words[0]
    settings = _settings(found)
    return _sliced(messages, body, system, settings) if is_utf8(settings) else None


def _read_long(body: bytes, notes: Notes) -> Sliced:
    try:
        found = _decode(body)
    except msgspec.ValidationError:
        return _read_apart(body, notes)
    messages = _messages(found.contents, notes)
    system = None if found.system is UNSET else _system(found.system)
    return _sliced(messages, None, system, _settings(found))


def _settings(found: Any) -> bytes:
    config, tools, choice = found.config, found.tools, found.choice
    said = b"{" if config is UNSET else b'{"generationConfig":%b,' % bytes(config)
    if tools is not UNSET:
        said += b'"tools":%b,' % bytes(tools)
    if choice is not UNSET:
        said += b'"toolConfig":%b,' % bytes(choice)
    return said + b'"contents":[]}'


def _read_apart(body: bytes, notes: Notes) -> Sliced:
    """A request with settings that nobody here knows: they stay in their order."""
    fields = _decode_fields(body)
    contents = _decode_contents(fields.pop("contents", NULL))
    system = fields.pop("systemInstruction", None)
    if "system_instruction" in fields:
        raise UnusualError
    said = None if system is None else _system(_decode_system(system))
    settings = encode_structs({**fields, "contents": ()})
    return _sliced(_messages(contents, notes), None, said, settings, is_ordered=True)


def _sliced(
    messages: list[Any],
    short: bytes | None,
    system: Any,
    settings: bytes,
    *,
    is_ordered: bool = False,
) -> Sliced:
    if not messages:
        raise UnusualError
    commonest = (absent, absent, absent, absent, absent)
    said = (messages, short, system, *commonest, settings, is_ordered)
    return Sliced(*said, field="contents")


def _system(system: _System) -> Any:
    """What the system says, in one text or in several."""
    parts = [TextPart(part.text) for part in system.parts]
    if not parts or not all(is_said(part.text) for part in parts):
        raise UnusualError
    return parts[0].text if len(parts) == 1 else parts


def _messages(contents: list[_Content], notes: Notes) -> list[Any]:
    """The contents as the shortest way has them; what else there may be is for the general way."""
    sliced: list[Any] = []
    take = sliced.append
    has_ids: bool | None = None
    count = 0
    rest = enumerate(contents)
    for index, content in rest:
        parts = content.parts
        if content.role == "user":
            take(UserSlice(_heard(parts)))
            continue
        said, calls = _turn(parts, index, notes)
        if not calls:
            take(ModelSlice(said))
            continue
        if has_ids is None:
            has_ids = calls[0].id is not UNSET
        made: list[CallSlice] = []
        for call in calls:
            identifier, name, given = call.id, call.name, call.args
            if (identifier is not UNSET) is not has_ids or RAW_ARGUMENTS in given or not name:
                raise UnusualError
            if identifier is UNSET:
                identifier = f"call_{count}"
            made.append(CallSlice(identifier, "function", FunctionSlice(name, write_json(given))))
            count += 1
        take(ModelSlice(said, made))
        _take_answers(made, rest, take, has_ids=has_ids)
    return sliced


def _turn(parts: list[_Part], index: int, notes: Notes) -> tuple[Raw, list[_Call]]:
    """What the model says in one text, and the calls behind it."""
    if len(parts) == 1:
        # What agents do all day: one call, and nothing said.
        part = parts[0]
        if part.call is not UNSET and part.text is part.result is part.blob is UNSET:
            if part.signature:
                notes.append(_unsigned(part.signature, index, 0))
            return NULL, [part.call]
    said = NULL
    calls: list[_Call] = []
    for place, part in enumerate(parts):
        words, call = part.text, part.call
        if not part.result is part.blob is UNSET or (words is UNSET) is (call is UNSET):
            raise UnusualError
        if call is not UNSET:
            calls.append(call)
        elif place:
            raise UnusualError
        else:
            said = words  # type: ignore[assignment]
        if part.signature:
            notes.append(_unsigned(part.signature, index, place))
    if not parts or (calls and said is not NULL and not is_said(said)):
        raise UnusualError
    return said, calls


def _unsigned(signature: str, index: int, place: int) -> Note:
    """What is to say of a signature, which means something to Gemini only."""
    code = "STANDIN_DROPPED" if signature in STAND_INS else "SIGNATURE_DROPPED"
    return code, index, "", f".parts[{place}].thoughtSignature"


def _take_answers(
    calls: list[CallSlice], rest: Iterator[tuple[int, _Content]], take: Any, *, has_ids: bool
) -> None:
    """Take the results of calls, in order, and what the user says behind them."""
    _, content = next(rest, (0, None))
    if content is None or content.role != "user" or len(content.parts) < len(calls):
        raise UnusualError
    for call, part in zip(calls, content.parts, strict=False):
        result, identifier = part.result, call.id
        if (
            result is UNSET
            or not part.text is part.call is part.blob is part.signature is UNSET
            or result.id != (identifier if has_ids else UNSET)
            or result.name != call.function.name
        ):
            raise UnusualError
        words = result.response.output
        if head(words)[0] not in _WORDS and (not is_said(words) or first_of(words) in _DATA):
            raise UnusualError
        take(ToolSlice(identifier, words))
    if len(content.parts) > len(calls):
        take(JoinedUserSlice(_heard(content.parts[len(calls) :])))


def _heard(parts: list[_Part]) -> Raw:
    """What a user says, as a text or as the parts of a message."""
    for part in parts:
        if not part.call is part.result is part.signature is UNSET:
            raise UnusualError
    if len(parts) == 1:
        words = parts[0].text
        if words is not UNSET and parts[0].blob is UNSET:
            return words
    if not parts:
        raise UnusualError
    return Raw(encode_structs([_part(part) for part in parts]))


def _part(part: _Part) -> TextPart | ImagePart:
    words, blob = part.text, part.blob
    if blob is UNSET:
        if type(words) is not Raw or not is_said(words):
            raise UnusualError
        return TextPart(words)
    image = ImagePart(ImageUrl(f"data:{blob.mime_type};base64,{blob.data}"))
    if words is not UNSET or read_image(image) is None:
        raise UnusualError
    return image
