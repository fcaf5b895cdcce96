"""The common shapes of Chat Completions, decoded straight into canisters.

msgspec refuses anything but the plain shapes (unknown keys, odd types, other roles); then ``reading`` takes the body
from the start. What is accepted here needs no residue but the form of a message's content, because writing gives the
rest back by itself. The tests hold both readers against each other.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any, Literal

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType, field

from cannery.dialects.openai_chat.settings import NAME
from cannery.messages.absence import absent
from cannery.messages.canisters import (
    AnyCanister,
    AssistantCanisterClass,
    ResultCanisterClass,
    SupervisorCanisterClass,
    UserCanisterClass,
    new_assistant,
    new_invocation,
    new_user,
)
from cannery.messages.checked import maker, now
from cannery.messages.content import new_image
from cannery.messages.conversation import Conversation
from cannery.messages.payload import Base64, Location
from cannery.messages.requests import DEFAULT_CONTROLS, Controls, Request, Tool, ToolChoice
from cannery.messages.residue import Residue
from cannery.wire.markers import ERROR_PREFIX, read_media_label
from cannery.wire.received import RECEIVED

LIST = Residue(NAME, form="list")
ABSENT = Residue(NAME, form="absent")
STRING = Residue(NAME, form="string")
OLD_LIMIT = Residue(NAME, form="max_tokens")
_SPOKEN = {"held": "content", "timestamp": "\ue000timestamp"}
_new_location = maker(Location)


class TextPart(Struct, frozen=True, gc=False, tag="text", forbid_unknown_fields=True):
    """A text part."""

    text: str


class ImageUrl(Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """Where an image is."""

    url: str


class ImagePart(Struct, frozen=True, gc=False, tag="image_url", forbid_unknown_fields=True):
    """An image part."""

    image_url: ImageUrl


class Function(Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """What a call calls."""

    name: str
    arguments: str


class Call(Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """A function call."""

    id: str
    type: Literal["function"]
    function: Function


class PlainUser(
    UserCanisterClass,
    frozen=True,
    gc=False,
    eq=False,
    forbid_unknown_fields=True,
    tag_field="role",
    tag="user",
    rename=_SPOKEN,
):
    """A user message; a canister already when its content is a string."""

    held: str | list[TextPart | ImagePart]
    timestamp: datetime = field(default_factory=RECEIVED.get)


class PlainSystem(
    SupervisorCanisterClass,
    frozen=True,
    gc=False,
    eq=False,
    forbid_unknown_fields=True,
    tag_field="role",
    tag="system",
    rename={**_SPOKEN, "rank": "\ue000rank"},
):
    """A system message."""

    held: str
    timestamp: datetime = field(default_factory=RECEIVED.get)
    rank: Any = "system"


class PlainDeveloper(
    SupervisorCanisterClass,
    frozen=True,
    gc=False,
    eq=False,
    forbid_unknown_fields=True,
    tag_field="role",
    tag="developer",
    rename={**_SPOKEN, "rank": "\ue000rank"},
):
    """A developer message."""

    held: str
    timestamp: datetime = field(default_factory=RECEIVED.get)
    rank: Any = "developer"


class PlainAssistant(
    AssistantCanisterClass,
    frozen=True,
    gc=False,
    eq=False,
    forbid_unknown_fields=True,
    tag_field="role",
    tag="assistant",
    rename=_SPOKEN,
):
    """An assistant message; a canister already when it is text without calls."""

    held: str | None | UnsetType = UNSET
    timestamp: datetime = field(default_factory=RECEIVED.get)
    tool_calls: list[Call] | UnsetType = UNSET


class PlainTool(
    ResultCanisterClass,
    frozen=True,
    gc=False,
    eq=False,
    forbid_unknown_fields=True,
    tag_field="role",
    tag="tool",
    rename={**_SPOKEN, "invocation_id": "tool_call_id", "_error": "\ue000error"},
):
    """A tool message with text; a canister already."""

    held: str
    timestamp: datetime = field(default_factory=RECEIVED.get)
    invocation_id: str = ""
    _error: Any = absent


class ToolFunction(Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """A function that may be called."""

    name: str
    description: str | UnsetType = UNSET
    parameters: Raw | UnsetType = UNSET
    strict: bool | UnsetType = UNSET


class ToolDefinition(Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """A function tool."""

    type: Literal["function"]
    function: ToolFunction


class Body(Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """A request of common shape."""

    messages: list[PlainUser | PlainAssistant | PlainSystem | PlainDeveloper | PlainTool]
    model: str | UnsetType = UNSET
    temperature: int | float | UnsetType = UNSET
    max_tokens: int | UnsetType = UNSET
    max_completion_tokens: int | UnsetType = UNSET
    top_p: int | float | UnsetType = UNSET
    stream: bool | UnsetType = UNSET
    tools: list[ToolDefinition] | UnsetType = UNSET
    tool_choice: Literal["auto", "none", "required"] | UnsetType = UNSET
    parallel_tool_calls: bool | UnsetType = UNSET
    seed: int | UnsetType = UNSET
    user: str | UnsetType = UNSET


_decode = msgspec.json.Decoder(Body).decode


def read_fast(body: bytes) -> Request | None:
    """The request of a body of common shape; None for any other."""
    RECEIVED.set(now())
    try:
        found = _decode(body)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return None
    canisters: list[AnyCanister] = []
    take = canisters.append
    for message in found.messages:
        kind = type(message)
        if kind is PlainUser:
            if type(message.held) is str:
                take(message)
            elif not _take_parts(message, canisters):
                return None
        elif kind is PlainAssistant:
            if message.tool_calls is UNSET and type(message.held) is str:  # type: ignore[union-attr]
                take(message)
            elif not _take_calls(message, canisters):
                return None
        elif kind is PlainTool:
            if message.held.startswith(ERROR_PREFIX) or not message.invocation_id:  # type: ignore[union-attr]
                return None
            take(message)
        else:
            take(message)
    return _request(found, canisters)


def _take_parts(message: Any, canisters: list[AnyCanister]) -> bool:
    parts = message.held
    when = message.timestamp
    if not parts:
        return False
    joined = False
    for part in parts:
        if type(part) is TextPart:
            if read_media_label(part.text) is not None:
                return False
            residue = LIST if len(parts) == 1 else None
            canisters.append(new_user(part.text, when, joined, residue))
        else:
            image = _image(part.image_url.url)
            if image is None:
                return False
            canisters.append(new_user(image, when, joined))
        joined = True
    return True


def _image(url: str) -> Any:
    if not url.startswith("data:"):
        return new_image(_new_location("url", url), "") if url else None
    at = url.find(";base64,", 5, 64)
    mime_type = url[5:at]
    if at < 0 or not mime_type.islower() or not mime_type.replace("/", "").isalpha():
        return None
    return new_image(Base64(url[at + 8 :]), mime_type)


def _take_calls(message: Any, canisters: list[AnyCanister]) -> bool:
    calls, held, when = message.tool_calls, message.held, message.timestamp
    if not calls or calls is UNSET:
        return False
    if held is None or held is UNSET or held == "":
        residue = None if held is None else ABSENT if held is UNSET else STRING
        canisters.append(new_assistant(absent, when, False, residue))
    else:
        canisters.append(new_assistant(held, when))
    for call in calls:
        function = call.function
        if not call.id or not function.name:
            return False
        canisters.append(
            new_invocation(
                function.arguments, when, True, None, None, call.id, function.name, False
            )
        )
    return True


def _request(found: Body, canisters: list[AnyCanister]) -> Request | None:
    residue = None
    if found.max_tokens is not UNSET:
        if found.max_completion_tokens is not UNSET:
            return None
        residue = OLD_LIMIT
    tools: tuple[Tool, ...] = ()
    if found.tools is not UNSET:
        tools = tuple(_tools(found.tools))  # type: ignore[arg-type]
        if not tools or None in tools:
            return None
    choice = found.tool_choice
    return Request(
        Conversation.trusted(canisters),
        absent if found.model is UNSET else found.model,  # type: ignore[arg-type]
        tools,
        absent if choice is UNSET else ToolChoice(choice),  # type: ignore[arg-type]
        _controls(found),
        absent if found.stream is UNSET else found.stream,  # type: ignore[arg-type]
        residue,
        NAME,
    )


def _controls(found: Body) -> Controls:
    limit = found.max_tokens if found.max_completion_tokens is UNSET else found.max_completion_tokens
    given = {
        name: value
        for name, value in (
            ("max_tokens", limit),
            ("temperature", found.temperature),
            ("top_p", found.top_p),
            ("parallel_calls", found.parallel_tool_calls),
            ("seed", found.seed),
            ("user", found.user),
        )
        if value is not UNSET
    }
    return Controls(**given) if given else DEFAULT_CONTROLS  # type: ignore[arg-type]


def _tools(definitions: list[ToolDefinition]) -> Iterator[Tool | None]:
    for definition in definitions:
        function = definition.function
        schema = function.parameters
        text = absent if schema is UNSET else bytes(schema).decode()  # type: ignore[arg-type]
        if text is not absent and not text.startswith("{"):  # type: ignore[union-attr]
            yield None
            return
        yield Tool(
            function.name,
            absent if function.description is UNSET else function.description,  # type: ignore[arg-type]
            text,
            absent if function.strict is UNSET else function.strict,  # type: ignore[arg-type]
        )
