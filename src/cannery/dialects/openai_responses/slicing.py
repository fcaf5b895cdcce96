"""Reading Responses bodies on the shortest way.

An item is a message, a call or the output of one. What the model says right before its calls is said in the same turn;
the items of a turn of theirs become one message.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from cannery.messages.absence import absent
from cannery.messages.hidden import Hidden, hidden
from cannery.wire.losses import Notes
from cannery.wire.slices import (
    NULL,
    ODD,
    SAID,
    SHORT,
    CallSlice,
    FunctionSlice,
    ImagePart,
    ImageUrl,
    ModelSlice,
    Sliced,
    TextPart,
    ToolSlice,
    UnusualError,
    UserSlice,
    encode_structs,
    head,
    is_list,
    is_said,
    is_utf8,
    read_image,
    settings_text,
)

Calls = tuple[list[str], set[str]]
_CALL, _OUTPUT = "function_call", "function_call_output"
_EMPTY = Raw(b'""')
_QUOTE = ord('"')
# In a body without calls soon nearly all items are messages.
_SOON = 65_536


class _Item(Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """Any item: a decoder tells items by their type, which messages need not have."""

    type: Literal["message", "function_call", "function_call_output"] = "message"
    role: Literal["user", "assistant"] | UnsetType = UNSET
    content: Raw | UnsetType = UNSET
    call_id: str | UnsetType = UNSET
    name: str | UnsetType = UNSET
    arguments: str | UnsetType = UNSET
    output: Raw | UnsetType = UNSET
    # Only the server that made them knows what these are.
    id: str | UnsetType = UNSET
    status: str | UnsetType = UNSET


class _Text(Struct, frozen=True, gc=False, tag="input_text", forbid_unknown_fields=True):
    text: Raw


class _Image(Struct, frozen=True, gc=False, tag="input_image", forbid_unknown_fields=True):
    image_url: str
    detail: Literal["auto"] = "auto"


class _Said(Struct, frozen=True, gc=False, tag="output_text", forbid_unknown_fields=True):
    text: Raw
    annotations: tuple[()] = ()
    logprobs: tuple[()] = ()


class _NoPart(Struct, frozen=True, gc=False, tag="never"):
    """A decoder insists on a tag only where it has a choice."""


class _Settings(Struct, frozen=True, gc=False, forbid_unknown_fields=True, kw_only=True):
    """The commonest settings, and others that only the general reader looks into; absent unless given."""

    model: str = absent  # type: ignore[assignment]
    max_output_tokens: int = absent  # type: ignore[assignment]
    temperature: int | float = absent  # type: ignore[assignment]
    top_p: int | float = absent  # type: ignore[assignment]
    stream: bool = absent  # type: ignore[assignment]
    tools: Raw = absent  # type: ignore[assignment]
    tool_choice: Raw = absent  # type: ignore[assignment]
    parallel_tool_calls: Raw = absent  # type: ignore[assignment]
    text: Raw = absent  # type: ignore[assignment]
    reasoning: Raw = absent  # type: ignore[assignment]
    metadata: Raw = absent  # type: ignore[assignment]
    user: Raw = absent  # type: ignore[assignment]


_NAMES = _Settings.__struct_fields__


class _Body(_Settings, frozen=True, gc=False, kw_only=True):
    input: list[_Item]
    instructions: Raw = absent  # type: ignore[assignment]


class _TalkUser(UserSlice, frozen=True, gc=False, tag="user", forbid_unknown_fields=True):
    content: Raw


class _TalkModel(
    ModelSlice,
    frozen=True,
    gc=False,
    tag="assistant",
    forbid_unknown_fields=True,
    rename=hidden("tool_calls"),
):
    content: Raw
    tool_calls: Hidden[UnsetType] = UNSET


class _TalkBody(_Settings, frozen=True, gc=False, kw_only=True):
    input: list[_TalkUser | _TalkModel]
    instructions: Raw = absent  # type: ignore[assignment]


class _ShortUser(UserSlice, frozen=True, gc=False, tag="user", forbid_unknown_fields=True):
    content: str


class _ShortModel(
    ModelSlice,
    frozen=True,
    gc=False,
    tag="assistant",
    forbid_unknown_fields=True,
    rename=hidden("tool_calls"),
):
    content: str
    tool_calls: Hidden[UnsetType] = UNSET


class _ShortBody(_Settings, frozen=True, gc=False, kw_only=True):
    input: str | list[_ShortUser | _ShortModel]
    instructions: str = absent  # type: ignore[assignment]


_decode = msgspec.json.Decoder(_Body).decode
_decode_talk = msgspec.json.Decoder(_TalkBody).decode
_decode_short = msgspec.json.Decoder(_ShortBody).decode
_decode_fields = msgspec.json.Decoder(dict[str, Raw]).decode
_decode_items = msgspec.json.Decoder(list[_Item]).decode
_decode_model = msgspec.json.Decoder(str).decode
_decode_heard = msgspec.json.Decoder(list[_Text | _Image]).decode
_decode_said = msgspec.json.Decoder(list[_Said | _NoPart]).decode


def read_slices(body: bytes, _notes: Notes) -> Sliced | None:
    """A request of common shape; None for any other."""
    try:
        if len(body) < SHORT:
            sliced = _read_short(body)
            if sliced is not None:
                return sliced
        return _read_long(body) if is_utf8(body) else None
    except ODD:
        return None


def _read_short(body: bytes) -> Sliced | None:
    """A request of nothing but texts; None for any other."""
    try:
        found: Any = _decode_short(body)
    except msgspec.ValidationError:
        return None
    given = found.input
    messages = [UserSlice(given)] if type(given) is str else given
    if not messages:
        return None
    system = found.instructions
    if system is absent:
        system = None
    elif not system or system.isspace():
        return None
    sliced = _sliced(found, messages, system, body)
    return sliced if sliced.settings is None or is_utf8(sliced.settings) else None


def _read_long(body: bytes) -> Sliced:
    if body.find(b'"function_call"', 0, _SOON) < 0:
        sliced = _read_talk(body)
        if sliced is not None:
            return sliced
    try:
        found: Any = _decode(body)
    except msgspec.ValidationError:
        return _read_apart(body)
    messages, calls = _messages(found.input)
    return _sliced(found, messages, _system(found.instructions), None, calls)


def _read_talk(body: bytes) -> Sliced | None:
    """A request of nothing but texts, which stay where they are; None for any other."""
    try:
        found = _decode_talk(body)
    except msgspec.ValidationError:
        return None
    messages = found.input
    if not messages or {head(message.content)[0][0] for message in messages} != {_QUOTE}:
        return None
    return _sliced(found, messages, _system(found.instructions), None)


def _sliced(
    found: Any,
    messages: list[Any],
    system: Any,
    short: bytes | None,
    calls: Calls | None = None,
) -> Sliced:
    has_others = not (
        found.tools
        is found.tool_choice
        is found.parallel_tool_calls
        is found.text
        is found.reasoning
        is found.metadata
        is found.user
        is absent
    )
    return Sliced(
        messages,
        short,
        system,
        found.model,
        found.max_output_tokens,
        found.temperature,
        found.top_p,
        found.stream,
        settings_text(found, _NAMES, "input") if has_others else None,
        False,
        calls,
        False,
        "input",
        found.input,
        _first_call,
    )


def _read_apart(body: bytes) -> Sliced:
    """A request with settings that nobody here knows: they stay in their order."""
    fields = _decode_fields(body)
    items = _decode_items(fields.pop("input", NULL))
    messages, system = _messages(items)[0], _system(fields.pop("instructions", absent))
    try:
        model: Any = _decode_model(fields["model"])
    except (KeyError, msgspec.ValidationError):
        model = absent
    settings = encode_structs({**fields, "input": ()})
    commonest = (absent, absent, absent, absent)
    said = (messages, None, system, model, *commonest, settings)
    return Sliced(*said, field="input", listed=items, find_call=_first_call)


def _system(literal: Any) -> Any:
    """What the instructions say, or None."""
    if literal is absent:
        return None
    if not is_said(literal):
        raise UnusualError
    return literal


def _messages(items: list[_Item]) -> tuple[list[Any], Calls | None]:
    """The items as the shortest way has them, and their calls if each is made alone and answered behind it."""
    sliced: list[Any] = []
    take = sliced.append
    identifiers: list[str] = []
    names: set[str] = set()
    are_alone = True
    rest = iter(items)
    item = next(rest, None)
    while item is not None:
        kind, said = item.type, NULL
        if kind == "message":
            if item.role == "user":
                take(UserSlice(_heard(item)))
                item = next(rest, None)
                continue
            said = _spoken(item)
            item = next(rest, None)
            if item is None or item.type != _CALL:
                take(ModelSlice(said))
                continue
            # Nothing that is said before calls is something else than nothing.
            if said == _EMPTY:
                raise UnusualError
        elif kind != _CALL:
            raise UnusualError
        call, following = _call(item), next(rest, None)
        identifier = call.id
        if following is None or following.type != _OUTPUT or following.call_id != identifier:
            are_alone = False
            item = _take_calls(said, call, following, rest, take)
            continue
        # What agents do all day: one call and its output.
        identifiers.append(identifier)
        names.add(call.function.name)
        take(ModelSlice(said, [call]))
        take(ToolSlice(identifier, _output(following)))
        item = next(rest, None)
    return sliced, (identifiers, names) if are_alone else None


def _take_calls(
    said: Raw, call: CallSlice, item: _Item | None, rest: Iterator[_Item], take: Any
) -> _Item | None:
    """Take several calls and their outputs, in order; give the item behind them."""
    calls = [call]
    following = item
    while following is not None and following.type == _CALL:
        calls.append(_call(following))
        following = next(rest, None)
    take(ModelSlice(said, calls))
    for each in calls:
        if following is None or following.type != _OUTPUT or following.call_id != each.id:
            raise UnusualError
        take(ToolSlice(each.id, _output(following)))
        following = next(rest, None)
    return following


def _call(item: _Item) -> CallSlice:
    identifier, name, given = item.call_id, item.name, item.arguments
    if (
        type(identifier) is not str
        or type(name) is not str
        or type(given) is not str
        or not item.role is item.content is item.output is UNSET
    ):
        raise UnusualError
    function = FunctionSlice(name, "{}" if not given or given.isspace() else given)
    return CallSlice(identifier, "function", function)


def _output(item: _Item) -> Raw:
    """What a tool answered in words."""
    literal = item.output
    if (
        type(literal) is not Raw
        or not item.role is item.content is item.name is item.arguments is UNSET
    ):
        raise UnusualError
    if head(literal)[0] in SAID:
        return literal
    if is_list(literal):
        parts = _decode_heard(literal)
        if len(parts) != 1 or type(parts[0]) is not _Text:
            raise UnusualError
        literal = parts[0].text
    if not is_said(literal):
        raise UnusualError
    return literal


def _heard(item: _Item) -> Raw:
    """What a user says, as a text or as the parts of a message."""
    literal = item.content
    if (
        type(literal) is not Raw
        or not item.call_id is item.name is item.arguments is item.output is UNSET
    ):
        raise UnusualError
    if not is_list(literal):
        return literal
    parts = _decode_heard(literal)
    if len(parts) == 1 and type(parts[0]) is _Text:
        return parts[0].text
    if not parts:
        raise UnusualError
    return Raw(encode_structs([_part(part) for part in parts]))


def _part(part: Any) -> TextPart | ImagePart:
    if type(part) is _Text:
        if not is_said(part.text):
            raise UnusualError
        return TextPart(part.text)
    image = ImagePart(ImageUrl(part.image_url))
    if read_image(image) is None:
        raise UnusualError
    return image


def _spoken(item: _Item) -> Raw:
    """What the model says in one text."""
    literal = item.content
    if (
        item.role != "assistant"
        or type(literal) is not Raw
        or not item.call_id is item.name is item.arguments is item.output is UNSET
    ):
        raise UnusualError
    if not is_list(literal):
        return literal
    parts = _decode_said(literal)
    if len(parts) != 1 or type(parts[0]) is not _Said:
        raise UnusualError
    return parts[0].text


def _first_call(items: list[_Item]) -> tuple[int, str]:
    """Where the first call of all stands."""
    for index, item in enumerate(items):
        if item.type == _CALL:
            return index, ""
    raise UnusualError
