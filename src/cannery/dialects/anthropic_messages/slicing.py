"""Reading Messages bodies on the shortest way."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from cannery.dialects.anthropic_messages.fast_reading import OddError, argument_text
from cannery.dialects.anthropic_messages.shapes import Never
from cannery.messages.absence import absent
from cannery.messages.hidden import Hidden, hidden
from cannery.wire.losses import Notes
from cannery.wire.slices import (
    ODD,
    SHORT,
    CallSlice,
    FunctionSlice,
    ImagePart,
    ImageUrl,
    JoinedUserSlice,
    ModelSlice,
    PlacedToolSlice,
    Sliced,
    TextPart,
    ToolSlice,
    UserSlice,
    encode_structs,
    head,
    is_list,
    is_said,
    is_utf8,
    read_image,
    settings_text,
    spoken,
)
from cannery.wire.strays import Strays

# In a body without calls soon nearly all contents are strings, and those are sliced as they are.
_SOON = 65_536
_NULL = Raw(b"null")
_QUOTE = ord('"')
_EMPTY = b'""'


class _Source(Struct, frozen=True, gc=False, tag="base64", forbid_unknown_fields=True):
    media_type: str
    data: str


class _NoSource(Struct, frozen=True, gc=False, tag="never"):
    """A decoder insists on a tag only where it has a choice; nothing can be this one."""

    nothing: Hidden[None]


class _Image(Struct, frozen=True, gc=False, tag="image", forbid_unknown_fields=True):
    source: _Source | _NoSource


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
    content: str | list[TextPart | _Image | _ToolResult]


class _Assistant(
    Struct, frozen=True, gc=False, tag_field="role", tag="assistant", forbid_unknown_fields=True
):
    content: str | list[TextPart | _ToolUse]


class _Settings(Struct, frozen=True, gc=False, forbid_unknown_fields=True, kw_only=True):
    """The commonest settings, and others that only the general reader looks into; absent unless given."""

    model: str = absent  # type: ignore[assignment]
    max_tokens: int = absent  # type: ignore[assignment]
    temperature: int | float = absent  # type: ignore[assignment]
    top_p: int | float = absent  # type: ignore[assignment]
    stream: bool = absent  # type: ignore[assignment]
    tools: Raw = absent  # type: ignore[assignment]
    tool_choice: Raw = absent  # type: ignore[assignment]
    top_k: Raw = absent  # type: ignore[assignment]
    stop_sequences: Raw = absent  # type: ignore[assignment]
    metadata: Raw = absent  # type: ignore[assignment]
    thinking: Raw = absent  # type: ignore[assignment]
    output_config: Raw = absent  # type: ignore[assignment]


_NAMES = _Settings.__struct_fields__


class _Body(_Settings, frozen=True, gc=False, kw_only=True):
    messages: list[_User | _Assistant]
    system: Raw = absent  # type: ignore[assignment]


class _SlicedUser(
    UserSlice, frozen=True, gc=False, tag_field="role", tag="user", forbid_unknown_fields=True
):
    content: Raw


class _SlicedAssistant(
    ModelSlice,
    frozen=True,
    gc=False,
    tag_field="role",
    tag="assistant",
    forbid_unknown_fields=True,
    rename=hidden("tool_calls"),
):
    content: Raw
    tool_calls: Hidden[UnsetType] = UNSET


class _SlicedBody(_Settings, frozen=True, gc=False, kw_only=True):
    messages: list[_SlicedUser | _SlicedAssistant]
    system: Raw = absent  # type: ignore[assignment]


class _ShortUser(_SlicedUser, frozen=True, gc=False, tag="user"):
    content: str  # type: ignore[assignment]


class _ShortAssistant(_SlicedAssistant, frozen=True, gc=False, tag="assistant"):
    content: str  # type: ignore[assignment]


class _ShortBody(_Settings, frozen=True, gc=False, kw_only=True):
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


class _ListedBody(_Settings, frozen=True, gc=False, kw_only=True):
    messages: list[_ListedUser | _ListedAssistant]
    system: str | list[_ListedText | Never] = absent  # type: ignore[assignment]


_Message = _User | _Assistant
Calls = tuple[list[str], set[str]]
_decode = msgspec.json.Decoder(_Body).decode
_decode_sliced = msgspec.json.Decoder(_SlicedBody).decode
_decode_listed = msgspec.json.Decoder(_ListedBody).decode
_decode_short = msgspec.json.Decoder(_ShortBody).decode
_decode_fields = msgspec.json.Decoder(dict[str, Raw]).decode
_decode_message = msgspec.json.Decoder(_Message).decode
_decode_model = msgspec.json.Decoder(str).decode
_decode_user = msgspec.json.Decoder(list[TextPart | _Image | _ToolResult]).decode
_decode_assistant = msgspec.json.Decoder(list[TextPart | _ToolUse]).decode
_decode_result = msgspec.json.Decoder(list[TextPart | _Image]).decode
_STRAYS = Strays(
    {"user": ("role", "content"), "assistant": ("role", "content")},
    blocks={
        "text": ("type", "text"),
        "image": ("type", "source"),
        "tool_use": ("type", "id", "name", "input"),
        "tool_result": ("type", "tool_use_id", "content"),
    },
    # What the general reader takes for more than a field that it does not know.
    telling=frozenset(("is_error", "citations", "caller")),
)


def read_slices(body: bytes, notes: Notes) -> Sliced | None:
    """A request of common shape; None for any other."""
    try:
        if len(body) < SHORT:
            sliced = _read_short(body)
            if sliced is not None:
                return sliced
        return _read_long(body, notes) if is_utf8(body) else None
    except (OddError, *ODD):
        return None


def _read_short(body: bytes) -> Sliced | None:
    """A request of nothing but texts; None for any other."""
    try:
        found: Any = _decode_short(body)
        messages, system = found.messages, found.system
    except msgspec.ValidationError:
        try:
            found = _decode_listed(body)
            messages = [
                (UserSlice if type(message) is _ListedUser else ModelSlice)(_text(message.content))
                for message in found.messages
            ]
            system = found.system if found.system is absent else _text(found.system)
        except (OddError, msgspec.ValidationError):
            return None
    if system is absent:
        system = None
    elif not system or system.isspace():
        return None
    sliced = _sliced(found, messages, system, body)
    return sliced if sliced.settings is None or is_utf8(sliced.settings) else None


def _text(content: Any) -> str:
    """Text that is a string or alone in a list."""
    if type(content) is str:
        return content
    if len(content) != 1:
        raise OddError
    text: str = content[0].text
    return text


def _read_long(body: bytes, notes: Notes) -> Sliced:
    has_calls = body.find(b'"tool_use"', 0, _SOON) >= 0
    try:
        found: Any = _decode(body) if has_calls else _decode_sliced(body)
    except msgspec.ValidationError:
        return _read_apart(body, notes)
    if not has_calls:
        return _sliced(found, _unlisted(found.messages), _system(found.system), None)
    messages, calls = _messages(found.messages)
    return _sliced(found, messages, _system(found.system), None, calls, has_texts=True)


def _sliced(
    found: Any,
    messages: list[Any],
    system: Any,
    short: bytes | None,
    calls: Calls | None = None,
    *,
    has_texts: bool = False,
) -> Sliced:
    settings = None
    if not (
        found.tools
        is found.tool_choice
        is found.top_k
        is found.stop_sequences
        is found.metadata
        is found.thinking
        is found.output_config
    ):
        settings = settings_text(found, _NAMES)
    return Sliced(
        messages,
        short,
        system,
        found.model,
        found.max_tokens,
        found.temperature,
        found.top_p,
        found.stream,
        settings,
        False,
        calls,
        has_texts,
        "messages",
        found.messages,
        _first_call,
    )


def _read_apart(body: bytes, notes: Notes) -> Sliced:
    """A request with fields that nobody here knows: its settings for themselves, and each of its messages."""
    fields = _decode_fields(body)
    found = _STRAYS.read(fields.pop("messages", _NULL), _decode_message, notes)
    system = _system(fields.pop("system", absent))
    try:
        model: Any = _decode_model(fields["model"])
    except (KeyError, msgspec.ValidationError):
        model = absent
    settings = encode_structs({**fields, "messages": ()})
    return Sliced(
        _messages(found)[0],
        None,
        system,
        model,
        absent,
        absent,
        absent,
        absent,
        settings,
        has_texts=True,
        listed=found,
        find_call=_first_call,
    )


def _system(literal: Any) -> Any:
    """What the system says, or None."""
    if literal is absent:
        return None
    system = spoken(literal)
    if system is None:
        raise OddError
    return system


def _unlisted(messages: list[Any]) -> list[Any]:
    """Messages with the blocks of each list as the shortest way has them."""
    if {head(message.content)[0][0] for message in messages} == {_QUOTE}:
        return messages
    sliced: list[Any] = []
    for index, message in enumerate(messages):
        content = message.content
        if head(content)[0][0] == _QUOTE:
            sliced.append(message)
        elif type(message) is _SlicedUser:
            _take_user(_decode_user(content), index, sliced)
        else:
            _take_assistant(_decode_assistant(content), sliced)
    return sliced


def _messages(messages: list[Any]) -> tuple[list[Any], Calls | None]:
    """The messages as the shortest way has them, and their calls if each is made alone and answered behind it.

    Each text and each result is a message for itself.
    """
    sliced: list[Any] = []
    take = sliced.append
    identifiers: list[str] = []
    names: set[str] = set()
    # The call that waits for its answer.
    asked: str | None = None
    are_alone = True
    for index, message in enumerate(messages):
        content = message.content
        if type(content) is str:
            if asked is not None:
                are_alone = False
            take(UserSlice(content) if type(message) is _User else ModelSlice(content))
            continue
        kind = type(content[0]) if len(content) == 1 else None
        if kind is _ToolResult:
            block = content[0]
            literal = block.content
            if block.tool_use_id != asked:
                are_alone = False
            asked = None
            if head(literal)[0][0] == _QUOTE:
                take(ToolSlice(block.tool_use_id, literal))
            else:
                are_alone = False
                take(_answer(block, index, 0))
        elif kind is _ToolUse:
            block = content[0]
            given = str(block.input, "utf-8")
            # Whatever begins like this is an object, and wraps nothing.
            if given[:2] != '{"' or given[2] == "_":
                given = argument_text(block.input)
            if asked is not None:
                are_alone = False
            asked, name = block.id, block.name
            identifiers.append(asked)
            names.add(name)
            take(ModelSlice(_NULL, [CallSlice(asked, "function", FunctionSlice(name, given))]))
        else:
            are_alone = False
            if type(message) is _User:
                _take_user(content, index, sliced)
            else:
                _take_assistant(content, sliced)
    is_open = asked is not None
    return sliced, (identifiers, names) if are_alone and not is_open else None


def _first_call(messages: list[Any]) -> tuple[int, str]:
    """Where the first call of all stands."""
    for index, message in enumerate(messages):
        content = message.content
        if type(message) not in (_Assistant, _SlicedAssistant) or type(content) is str:
            continue
        if type(content) is Raw:
            content = _decode_assistant(content) if is_list(content) else ()
        kinds = [type(block) for block in content]
        if _ToolUse in kinds:
            return index, f".content[{kinds.index(_ToolUse)}]"
    raise OddError


def _answer(block: _ToolResult, index: int, place: int) -> ToolSlice:
    """What a tool answered, if not with a string."""
    content = _content(_decode_result(block.content))
    if not is_list(content):
        return ToolSlice(block.tool_use_id, content)
    return PlacedToolSlice(block.tool_use_id, content, (index, f".content[{place}]"))


def _content(blocks: list[Any]) -> Raw:
    """Texts and images as the parts of a message; a text alone is itself."""
    first = blocks[0] if blocks else None
    if len(blocks) == 1 and type(first) is TextPart:
        if head(first.text)[0][0] != _QUOTE:
            raise OddError
        return first.text
    return Raw(encode_structs([_part(block) for block in blocks]))


def _part(block: Any) -> TextPart | ImagePart:
    if type(block) is TextPart:
        if not is_said(block.text):
            raise OddError
        return block
    source = block.source
    part = ImagePart(ImageUrl(f"data:{source.media_type};base64,{source.data}"))
    if read_image(part) is None:
        raise OddError
    return part


def _call(block: _ToolUse) -> CallSlice:
    function = FunctionSlice(block.name, argument_text(block.input))
    return CallSlice(block.id, "function", function)


def _take_user(content: list[Any], index: int, sliced: list[Any]) -> None:
    count = 0
    for block in content:
        if type(block) is not _ToolResult:
            break
        literal = block.content
        is_text = head(literal)[0][0] == _QUOTE
        sliced.append(
            ToolSlice(block.tool_use_id, literal) if is_text else _answer(block, index, count)
        )
        count += 1
    said = content[count:]
    if not content or _ToolResult in map(type, said):
        raise OddError
    if said:
        text = _content(said)
        sliced.append(JoinedUserSlice(text) if count else UserSlice(text))


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
